"""A process that has not listed the pods of a member yet takes none of them for gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import WORKLOADS
from tests.propagator import memory
from tests.propagator.memory import SPACE, World
from tests.propagator.pulling import PullWorld
from tests.propagator.test_in_memory import on
from tests.propagator.test_one_shard import ready, statefulset

pytestmark = pytest.mark.usefixtures("steady")
Json = dict[str, Any]


def ending(world: World, name: str, member: str = "m1") -> None:
    """A pod of the StatefulSet db on that member, within its grace period."""
    uid = world.hub.read(WORKLOADS, "db")["metadata"]["uid"]
    by = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s"}
    meta: Json = {"name": name, "namespace": SPACE, "ownerReferences": [{**by, "controller": True}]}
    meta |= {"labels": {LABEL_WORKLOAD_UID: uid}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"nodeName": "n1", "containers": [{"name": "main"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {}, "spec": spec}
    world.members[member].apply("pods", (SPACE, name), body)


def told(world: World) -> set[str]:
    return {each["name"] for each in world.status("db").get("clusters", [])}


def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have m1 list no pods until what is returned is called."""
    answer, slow = memory._of_member, [True]

    def of_member(name: str, member: Any, method: str, path: str, body: Any, **how: Any) -> Any:
        if slow and (name, path) == ("m1", "/api/v1/pods"):
            return 503, {"kind": "Status", "code": 503, "reason": "ServiceUnavailable"}
        return answer(name, member, method, path, body, **how)

    monkeypatch.setattr(memory, "_of_member", of_member)
    return slow.clear


async def runs(world: World, member: str = "m1") -> None:
    """The StatefulSet db on that member, with one pod."""
    await ready(world)
    world.put(WORKLOADS, statefulset("db"))
    status: Json = {"placements": [{"cluster": member, "replicas": 1}]}
    status |= {"ordinals": [{"cluster": member, "start": 0}, {"cluster": "m2", "start": 1000}]}
    world.hub.edit(WORKLOADS, "db", {"status": status}, status=True)
    await world.until(lambda: on(world, member, "statefulsets"))
    ending(world, "db-0", member)
    await world.calm(3)


@pytest.mark.proves("A32", "KD43")
async def test_a_share_is_not_gone_before_the_pods_there_have_been_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a restart beside a member that is slow to list its pods."""
    world = World("m1", "m2")
    left = {"cluster": "m1", "replicas": 1, "cause": "Drained", "since": "2026-01-01T00:00:00Z"}
    async with world.propagating():
        await runs(world)
        status = {"placements": [{"cluster": "m2", "replicas": 1}], "leaving": [left]}
        world.hub.edit(WORKLOADS, "db", {"status": status}, status=True)
        await world.until(lambda: not on(world, "m1", "statefulsets"))
        await world.calm(5)
        assert told(world) == {"m1", "m2"}
    lists = slowly(monkeypatch)
    async with world.propagating("two"):
        for _ in range(2):
            await world.calm(40)
            assert told(world) == {"m1", "m2"}
            assert not on(world, "m2", "statefulsets")
            lists()
        world.members["m1"].delete("pods", (SPACE, "db-0"))
        await world.until(lambda: told(world) == {"m2"})


@pytest.mark.proves("A32", "KD45")
async def test_no_new_name_starts_before_the_pods_of_the_former_one_have_been_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World("m1")
    async with world.propagating():
        await runs(world)
        world.hub.edit(WORKLOADS, "db", {"spec": {"template": {"metadata": {"name": "db-2"}}}})
        await world.until(lambda: on(world, "m1", "statefulsets")["db"]["spec"]["replicas"] == 0)
    world.members["m1"].delete("statefulsets", (SPACE, "db"))
    lists = slowly(monkeypatch)
    async with world.propagating("two"):
        for _ in range(2):
            await world.calm(40)
            assert not on(world, "m1", "statefulsets")
            lists()
        world.members["m1"].delete("pods", (SPACE, "db-0"))
        await world.until(lambda: on(world, "m1", "statefulsets"))


@pytest.mark.proves("A32", "KD43", "PL2")
@pytest.mark.parametrize("member", ["m1", "paris"])
async def test_what_ends_under_a_former_name_counts_on_the_cluster_that_is_left(
    member: str,
) -> None:
    """Another name and other rules in one edit, in both modes."""
    world = PullWorld("m1", "m2")
    async with world.propagating(), world.agent():
        await runs(world, member)
        world.hub.edit(WORKLOADS, "db", {"spec": {"template": {"metadata": {"name": "db-2"}}}})
        left = {"cluster": member, "replicas": 1, "cause": "Edited"}
        left |= {"since": "2026-01-01T00:00:00Z"}
        status = {"placements": [{"cluster": "m2", "replicas": 1}], "leaving": [left]}
        world.hub.edit(WORKLOADS, "db", {"status": status}, status=True)
        await world.until(lambda: not on(world, member, "statefulsets"))
        await world.calm(20)
        assert told(world) == {member, "m2"}
        assert not on(world, "m2", "statefulsets")
        world.members[member].delete("pods", (SPACE, "db-0"))
        await world.until(lambda: on(world, "m2", "statefulsets"))
        await world.until(lambda: told(world) == {"m2"})
