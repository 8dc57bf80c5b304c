"""Members that run pods: what a WorkloadSpread asks of them, patches and deletion costs, and whose
pods count as whose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crds.names import ANNOTATION_DELETION_COST, LABEL_WORKLOAD_UID, POD_DELETION_COST
from machinery.api.resources import PODS
from propagator.members.connection import Link
from propagator.members.pods import Main
from stowage.playground.controlplanes import Cluster
from tests.propagator.stage import Stage, counted, deployment, settled, staged, swept
from tests.propagator.waits import until

pytestmark = pytest.mark.long

Costs = dict[int, int]
PATCH_OF_PODS = {"verb": "PATCH", "resource": "pods", "subresource": ""}


@pytest.fixture(scope="session")
def running(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member whose pods run."""
    return make_cluster("spread", controller_manager=True, scheduler=True, kwok=True, nodes=1)


@asynccontextmanager
async def stage_with(hub: Cluster, **members: Cluster) -> AsyncIterator[Stage]:
    with swept(hub):
        async with staged(hub, members) as stage:
            yield stage


def override(name: str, patch: Any = None, **costs: Costs) -> dict[str, Any]:
    """An entry of status.overrides: the costs by cluster."""
    clusters = [
        {"name": each, "deletionCosts": [{"cost": c, "replicas": n} for c, n in of.items()]}
        for each, of in costs.items()
    ]
    return {"name": name, "clusters": clusters, **({"patch": patch} if patch is not None else {})}


async def say(stage: Stage, name: str, shares: dict[str, int], *overrides: Any) -> None:
    placements = [{"cluster": each, "replicas": units} for each, units in shares.items()]
    status = {"placements": placements, "overrides": list(overrides)}
    await stage.patch(name, {"status": status}, subresource="status")


async def pods_of(stage: Stage, member: str, name: str = "web") -> list[dict[str, Any]]:
    """Those that have not been told to end."""
    listed = await stage.members[member].list(PODS, namespace=stage.namespace)
    return [
        each
        for each in listed["items"]
        if each["metadata"]["labels"].get("app") == name
        and "deletionTimestamp" not in each["metadata"]
    ]


def cost_of(pod: dict[str, Any]) -> int | None:
    """What the member reads."""
    text = annotation(pod, POD_DELETION_COST)
    return None if text is None else int(text)


def annotation(pod: dict[str, Any], key: str) -> str | None:
    value: str | None = pod["metadata"].get("annotations", {}).get(key)
    return value


async def cost(stage: Stage, member: str, wanted: Costs) -> set[str]:
    """Wait until that many pods have each cost, and are ready; the names of those."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = await pods_of(stage, member)
        have = Counter(map(cost_of, found))
        return have == Counter(wanted) and all(map(is_ready, found))

    await until(there, seconds=180, what=lambda: Counter(map(cost_of, found)))
    for each in found:
        assert annotation(each, POD_DELETION_COST) == annotation(each, ANNOTATION_DELETION_COST)
    return {each["metadata"]["name"] for each in found}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def costs_settled(stage: Stage) -> None:
    """Wait until nothing is left to do, the pods' costs included."""
    term = stage.process.term
    assert term is not None
    queues = term.workloads._costs._queues

    def idle() -> bool:
        return not any(each or each._in_work or each._later for each in queues.values())

    await settled(stage, also=idle)


async def patched_pods(stage: Stage, member: str) -> int:
    """How many times somebody patched a pod itself, and not its status, as the server counted."""
    text = (await stage.members[member].request("GET", "/metrics", timeout=60)).decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    found = [
        line
        for line in lines
        if all(f'{key}="{value}"' in line for key, value in PATCH_OF_PODS.items())
    ]
    return sum(int(line.rpartition(" ")[2]) for line in found)


def limits(**amounts: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": amounts}}]}}


TWO = [{"name": "main", "image": "pause"}, {"name": "side", "image": "pause:2"}]


@pytest.mark.proves("W11")
async def test_each_subset_has_its_patch(hub: Cluster, m1: Cluster, m2: Cluster) -> None:
    template = deployment()
    template["spec"]["template"]["spec"]["containers"] = TWO
    x86 = {"metadata": {"labels": {"arch": "x86"}}, **limits(cpu="500m", memory="800Mi")}
    arm = {"metadata": {"labels": {"arch": "arm"}}, **limits(cpu="300m", memory="600Mi")}
    async with stage_with(hub, m1=m1, m2=m2) as stage:
        await stage.create("demo", targetDeployment=template)
        shares = {"m1": 2, "m2": 1}
        await say(stage, "demo", shares, override("x86", x86, m1={}), override("arm", arm, m2={}))
        await stage.propagated("demo")
        for member, arch, cpu, memory in (
            ("m1", "x86", "500m", "800Mi"),
            ("m2", "arm", "300m", "600Mi"),
        ):
            found = (await stage.appears(member))["spec"]["template"]
            assert found["metadata"]["labels"]["arch"] == arch
            main, side = found["spec"]["containers"]
            assert main["resources"] == {"limits": {"cpu": cpu, "memory": memory}}
            assert (side["name"], side["image"], side["resources"]) == ("side", "pause:2", {})

        await settled(stage)
        writes = await counted(stage.members["m1"])
        await say(stage, "demo", shares, override("x86", x86, m1={}), override("arm", x86, m2={}))

        async def anew() -> bool:
            found = (await stage.appears("m2"))["spec"]["template"]
            return bool(found["metadata"]["labels"]["arch"] == "x86")

        await until(anew)
        await settled(stage)
        assert not (await counted(stage.members["m1"]) - writes)["APPLY", "deployments"]

        both = [await counted(stage.members[each]) for each in ("m1", "m2")]
        await stage.restarted()
        await settled(stage)
        for member, before in zip(("m1", "m2"), both, strict=True):
            wrote = await counted(stage.members[member]) - before
            assert not wrote["APPLY", "deployments"], "a new process writes nothing"

        await say(stage, "demo", shares)

        async def plain() -> bool:
            found = (await stage.appears("m2"))["spec"]["template"]
            return "arch" not in found["metadata"]["labels"]

        await until(plain)


@pytest.mark.proves("W13", "W14")
async def test_the_pods_of_the_lowest_cost_go_first(hub: Cluster, running: Cluster) -> None:
    async with stage_with(hub, m=running) as stage:
        await stage.create("demo")
        await say(stage, "demo", {"m": 5}, override("normal", m={200: 3, -100: 2}))
        await cost(stage, "m", {200: 3, -100: 2})
        dear = {p["metadata"]["name"] for p in await pods_of(stage, "m") if cost_of(p) == 200}
        await costs_settled(stage)
        patches = await patched_pods(stage, "m")

        await say(stage, "demo", {"m": 3}, override("normal", m={200: 3}))
        assert await cost(stage, "m", {200: 3}) == dear
        await costs_settled(stage)
        assert await patched_pods(stage, "m") == patches, "none of these costs had to change"

        await stage.restarted()
        await costs_settled(stage)
        assert await patched_pods(stage, "m") == patches, "a new process writes nothing"

        await say(stage, "demo", {"m": 4}, override("normal", m={200: 3, 100: 1}))
        assert await cost(stage, "m", {200: 3, 100: 1}) > dear
        await costs_settled(stage)
        assert await patched_pods(stage, "m") == patches + 1

        await say(stage, "demo", {"m": 4})
        await cost(stage, "m", {None: 4})  # type: ignore[dict-item] # none
        await stage.fares("demo", "m", "Running")


@pytest.mark.proves("W14")
async def test_somebody_elses_cost_is_left_alone_without_an_override(
    hub: Cluster, running: Cluster
) -> None:
    template = deployment()
    template["spec"]["template"]["metadata"]["annotations"] = {POD_DELETION_COST: "7"}
    async with stage_with(hub, m=running) as stage:
        await stage.create("demo", targetDeployment=template)
        await say(stage, "demo", {"m": 1})
        await until(lambda: _ready(stage), seconds=120)
        await costs_settled(stage)
        (pod,) = await pods_of(stage, "m")
        assert pod["metadata"]["annotations"] == {POD_DELETION_COST: "7"}
        await say(stage, "demo", {"m": 1}, override("a", m={200: 1}))
        await cost(stage, "m", {200: 1})


async def _ready(stage: Stage) -> bool:
    there = await pods_of(stage, "m")
    return bool(there) and all(map(is_ready, there))


def impostor(uid: str, namespace: str) -> dict[str, Any]:
    """A pod that says it is the victim's, as far as anybody may say so.

    On a node that there is: the collector of orphans takes away what lies on any other.
    """
    meta = {"name": "impostor", "namespace": namespace, "labels": {LABEL_WORKLOAD_UID: uid}}
    container = {"name": "main", "image": "pause"}
    spec = {"containers": [container], "nodeName": "node-0", "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def link_of(stage: Stage) -> Link | None:
    """The member's present link; another one after each new term or credential."""
    session = stage.process.term.registry.get("m1") if stage.process.term else None
    return session.link if session else None


@pytest.mark.proves("S4")
async def test_pods_of_others_are_not_a_victims(hub: Cluster, running: Cluster) -> None:
    with swept(hub):
        async with staged(hub, {"m1": running}) as stage:
            member = stage.members["m1"]
            await stage.run("victim", {"m1": 2})

            async def told(*counts: int) -> bool:
                share = await stage.share("victim", "m1")
                return (share.get("ready"), share.get("scheduled")) == counts

            def placed() -> int:
                link = link_of(stage)
                claims = link.pod_index.placed() if link is not None else {}
                return sum(pods for claim, pods in claims.items() if claim.uid == uid)

            uid = (await stage.workload("victim"))["metadata"]["uid"]
            await until(lambda: told(2, 2), seconds=60)
            for namespace in (stage.namespace, "default"):
                await member.create(PODS, impostor(uid, namespace))
            await until(lambda: placed() == 4, seconds=60, what=placed)
            await stage.place("victim", m1=3)
            await until(lambda: told(3, 3), seconds=60)
            assert placed() == 5
            main = Main(uid, stage.namespace, "apps", "Deployment", "web")
            assert link_of(stage).pod_index.counts(main).scheduled == 3
            for namespace in (stage.namespace, "default"):
                await member.delete(PODS, "impostor", namespace=namespace)
