"""Another name of an object in spec.manifests that runs pods: the one that runs stays meanwhile."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from benchmarks import simulated_members
from crds.names import LABEL_WORKLOAD_UID
from machinery.api.resources import WORKLOADS
from tests.propagator.memory import SPACE, World
from tests.propagator.stage import configmap, deployment
from tests.propagator.test_in_memory import edit, on
from tests.propagator.test_one_shard import propagated, ready, runs, workload

RUNNING = simulated_members.running
pytestmark = pytest.mark.usefixtures("steady")
Json = dict[str, Any]


def asked(world: World) -> dict[str, int]:
    return {name: body["spec"]["replicas"] for name, body in on(world, "m1").items()}


def started(ready: int, replicas: int, generation: int) -> Json:
    """The status of a Deployment; of a new one only so many replicas are ready."""
    status = RUNNING(replicas, generation)
    return {**status, "readyReplicas": ready} if generation == 1 else status


@pytest.mark.proves("A5", "KD44")
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside a template"])
@pytest.mark.parametrize(
    "change",
    [
        {"manifests": [deployment("cache-2", replicas=5), configmap("conf", a="1")]},
        {"targetNamespace": "other"},
    ],
    ids=["name", "namespace"],
)
async def test_what_runs_beside_a_template_stays_until_its_successor_is_ready(
    change: Json, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World("m1")
    async with world.propagating():
        await ready(world)
        body = workload("web")
        if alone:
            del body["spec"]["targetDeployment"]
        body["spec"]["manifests"] = [deployment("cache", replicas=5), configmap("conf", a="1")]
        world.put(WORKLOADS, body)
        shares = {"m1": 1 if alone else 2}
        world.place("web", **shares)
        await world.until(lambda: runs(world, "web", **shares))
        await world.calm(3)
        monkeypatch.setattr(simulated_members, "running", functools.partial(started, 0))
        edit(world, **change)
        new = "other" if "targetNamespace" in change else SPACE, deployment_of(change)
        at = world.members["m1"].objects["deployments"]
        await world.until(lambda: new in at)
        await world.calm(10)
        assert asked(world)["cache"] == 5
        assert propagated(world, "web") == "Propagating"
        world.members["m1"].report("deployments", new, readyReplicas=3)
        await world.until(lambda: asked(world)["cache"] == 2)
        await world.calm(40)
        assert asked(world)["cache"] == 2
        for key in [*at]:
            world.members["m1"].report(
                "deployments", key, **RUNNING(at[key]["spec"]["replicas"], 9)
            )
        await world.until(lambda: "cache" not in on(world, "m1"))
        await world.until(lambda: runs(world, "web", **shares))


def deployment_of(change: Json) -> str:
    return "cache-2" if "manifests" in change else "cache"


@pytest.mark.proves("A5", "KD44")
async def test_a_main_object_that_was_taken_over_stays_under_its_former_name_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pods have no label of ours: a new one would restart them."""
    world = World("m1")
    async with world.propagating():
        await ready(world)
        body = workload("web")
        theirs = deployment("web", replicas=2)
        theirs["metadata"] |= {"namespace": SPACE}
        world.members["m1"].apply("deployments", (SPACE, "web"), theirs)
        body["spec"] |= {"adoption": "IfUnowned", "manifests": []}
        world.put(WORKLOADS, body)
        world.place("web", m1=2)
        await world.until(lambda: runs(world, "web", m1=2))
        await world.calm(3)
        monkeypatch.setattr(simulated_members, "running", functools.partial(started, 0))
        edit(world, targetDeployment=deployment("web-2"))
        await world.until(lambda: "web-2" in on(world, "m1"))
        await world.calm(10)
        assert asked(world) == {"web": 2, "web-2": 2}
        labels = on(world, "m1")["web"]["spec"]["template"]["metadata"]["labels"]
        assert LABEL_WORKLOAD_UID not in labels
