"""What pods name goes along to a member in mode Pull as to one in mode Push; in memory."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import CONFIG_MAPS, WORKLOADS
from tests.propagator.memory import SPACE
from tests.propagator.pulling import PullWorld
from tests.propagator.test_one_shard import runs, workload
from tests.propagator.test_pull import serving, uid_of

Json = dict[str, Any]
BOTH = ("m1", "paris")


def configmap(world: PullWorld, name: str = "settings", labels: Json | None = None) -> None:
    meta = {"name": name, "namespace": SPACE, "labels": labels or {}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}
    world.put(CONFIG_MAPS, body)


def mounting(*names: str) -> Json:
    return {"volumes": [{"name": f"v-{name}", "configMap": {"name": name}} for name in names]}


def follow(world: PullWorld, *names: str, name: str = "web", **shares: int) -> None:
    body = workload(name)
    body["spec"]["dependencies"] = "Follow"
    body["spec"]["targetDeployment"]["spec"]["template"]["spec"] |= mounting(*names)
    world.put(WORKLOADS, body)
    world.place(name, **shares)


def has(world: PullWorld, name: str = "settings") -> list[str]:
    """The members that have it."""
    return [each for each in BOTH if (SPACE, name) in world.members[each].objects["configmaps"]]


def states(world: PullWorld) -> Json:
    told = world.status("web").get("dependencies", [])
    return {each["name"]: each["state"] for each in told}


def pod(world: PullWorld, member: str, *names: str) -> None:
    meta = {
        "name": "web-1",
        "namespace": SPACE,
        "uid": "uid-pod",
        "resourceVersion": "7",
        "labels": {LABEL_WORKLOAD_UID: uid_of(world, "web")},
    }
    body = {"kind": "Pod", "metadata": meta, "spec": mounting(*names)}
    held = world.members[member]
    held.objects["pods"][SPACE, "web-1"] = {**body, "status": {"phase": "Running"}}
    held.tell("pods", "ADDED", held.objects["pods"][SPACE, "web-1"])


@pytest.mark.proves("DP5")
async def test_the_status_tells_what_went_along() -> None:
    async with serving("m1") as world:
        configmap(world)
        follow(world, "settings", "none", paris=2)
        await world.until(lambda: runs(world, "web", paris=2))
        assert has(world) == ["paris"]
        await world.until(lambda: states(world) == {"settings": "Synced", "none": "Missing"})
        world.away.add("paris")
        world.hub.edit(CONFIG_MAPS, "settings", {"data": {"a": "2"}})
        await world.until(
            lambda: states(world) == {"none": "Missing"}
        )  # it may have the former one
        world.away.clear()
        await world.until(lambda: states(world) == {"settings": "Synced", "none": "Missing"})
        there = world.members["paris"].objects["configmaps"][SPACE, "settings"]
        assert there["data"] == {"a": "2"}


@pytest.mark.proves("DP10")
async def test_a_withdrawn_copy_goes_from_both() -> None:
    async with serving("m1") as world:
        configmap(world)
        follow(world, "settings", m1=1, paris=1)
        await world.until(lambda: runs(world, "web", m1=1, paris=1) and has(world) == [*BOTH])
        for each in BOTH:
            pod(world, each, "settings")
        label = {"metadata": {"labels": {"stowage.dev/follow": "false"}}}
        world.hub.edit(CONFIG_MAPS, "settings", label)
        await world.until(lambda: not has(world))
        world.hub.edit(
            CONFIG_MAPS, "settings", {"metadata": {"labels": {"stowage.dev/follow": None}}}
        )
        await world.until(lambda: has(world) == [*BOTH])


@pytest.mark.proves("DP5")
async def test_a_copy_that_the_hub_lacks_stays_without_a_pod() -> None:
    async with serving("m1") as world:
        configmap(world)
        follow(world, "settings", m1=1, paris=1)
        await world.until(lambda: runs(world, "web", m1=1, paris=1) and has(world) == [*BOTH])
        world.hub.remove(CONFIG_MAPS, "settings", SPACE)
        await world.calm(30)
        assert has(world) == [*BOTH]


@pytest.mark.proves("DP9")
async def test_copies_leave_a_cluster_after_the_last_pod() -> None:
    async with serving("m1", "m2") as world:
        configmap(world)
        follow(world, "settings", m1=1, paris=1)
        await world.until(lambda: runs(world, "web", m1=1, paris=1) and has(world) == [*BOTH])
        for each in BOTH:
            pod(world, each, "settings")
        world.place("web", m2=1)
        await world.until(lambda: not any(map(world.deployments, BOTH)))
        await world.calm(10)
        assert has(world) == [*BOTH]
        for each in BOTH:
            world.members[each].delete("pods", (SPACE, "web-1"))
        await world.until(lambda: not has(world))
