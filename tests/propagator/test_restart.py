"""A process that ends and begins again: what stands is left alone, what was changed is not."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crds.names import LABEL_CLUSTER, LABEL_MANAGED
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS, Resource
from propagator.members.health import LATENCY_ANSWERS, HealthProbe
from stowage.playground.controlplanes import Cluster
from tests.patience import PATIENCE

from .conftest import CALM
from .stage import (
    CONFIGMAPS,
    DEPLOYMENTS,
    KINDS,
    SERVICES,
    MakeStage,
    Stage,
    changes,
    configmap,
    deployment,
    settled,
)
from .waits import until

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "front"},
    "spec": {
        "selector": {"app": "web"},
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}],
    },
}
RICH = {
    "replicas": 2,
    "strategy": {"rollingUpdate": {"maxSurge": "50%"}},
    "template": {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "1"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "pause",
                    "args": ["--one", "--two"],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                    "resources": {"requests": {"cpu": "0.5", "memory": "0.5Gi"}, "limits": {}},
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                    "securityContext": {"capabilities": {"drop": ["ALL"]}},
                },
                {"name": "side", "image": "pause"},
            ],
            "tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Exists"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "nodeSelector": {},
            "affinity": None,
            "hostname": None,
            "terminationGracePeriodSeconds": 5,
        },
    },
}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
BURDENED = 60
"""The first answers to a process, which it hears late."""
Rigs = Callable[..., Any]


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> defaultdict[HealthProbe, int]:
    """A process that connects to many members at once: they seem slow, but for an answer each round.

    The answers so far, by member and process.
    """
    record, numbers = HealthProbe.record, defaultdict[HealthProbe, int](int)

    def burdened(self: HealthProbe, *, answered: bool, seconds: float, cold: bool = False) -> None:
        number = numbers[self]
        numbers[self] += answered
        free = number > BURDENED or number % LATENCY_ANSWERS == 5
        seen = 0.005 if free else 0.5
        record(self, answered=answered, seconds=seen if answered else seconds, cold=cold)

    monkeypatch.setattr(HealthProbe, "record", burdened)
    return numbers


async def all_changes(stage: Stage) -> dict[str, Any]:
    """The requests that changed something so far."""
    return {
        name: dict(await changes(client))
        for name, client in {"hub": stage.hub, **stage.members}.items()
    }


async def stored(
    hub: ApiClient, kinds: Sequence[Resource] = (WORKLOADS, MEMBER_CLUSTERS)
) -> dict[str, Any]:
    """The versions of all that a propagator writes on a hub."""
    found = [each for kind in kinds for each in (await hub.list(kind))["items"]]
    return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found}


async def measured(hub: ApiClient) -> bool:
    """Whether all that is known of a member was told of every one."""
    clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
    return all(
        {"capacity", "version", "latencyMilliseconds"} <= c.get("status", {}).keys()
        for c in clusters
    )


async def a_workload_of_every_kind(stage: Stage) -> None:
    """Workloads of several forms on both members, ready as far as a kubelet would say so."""
    creds = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}}
    await stage.hub.create(SECRETS, creds | {"data": {"k": "dg=="}}, namespace=stage.namespace)
    await stage.create(
        "rich",
        targetDeployment=deployment(**RICH),
        targetService=SERVICE,
        manifests=[configmap("conf", a="1", b="2")],
        resources=[{"name": "creds"}],
    )
    sets = {**deployment("it", serviceName="it"), "kind": "StatefulSet"}
    await stage.create("sets", template=sets)
    pods = deployment("job")["spec"]["template"]
    pods["spec"]["restartPolicy"] = "Never"
    await stage.create("job", template=JOB | {"spec": {"template": pods}})
    for name in ("rich", "sets", "job"):
        await stage.place(name, m1=1, m2=2)
    for name in ("rich", "sets", "job"):
        await stage.propagated(name)
    for member in ("m1", "m2"):
        await stage.make_ready(member)

    async def ready() -> bool:
        return (await stage.condition("rich", "Ready")).get("status") == "True"

    await until(ready)


@pytest.mark.long
@pytest.mark.proves("R5", "R11")
@pytest.mark.usefixtures("steady")
async def test_a_restart_in_which_nothing_changed_writes_nothing(stage: Stage):
    await a_workload_of_every_kind(stage)
    await until(lambda: measured(stage.hub))
    await settled(stage, told=True)
    await stage.stop()
    asked, there = await all_changes(stage), await stored(stage.hub)
    for _ in range(2):
        stage.start()
        await stage.ready()
        await settled(stage, told=True)
        await stage.stop()
    assert await all_changes(stage) == asked
    assert await stored(stage.hub) == there
    stage.start()


@pytest.mark.long
@pytest.mark.proves("R11")
@pytest.mark.usefixtures("unknown_members")
async def test_a_process_that_is_held_up_at_its_beginning_takes_no_member_for_slower(
    rig_on: Rigs, m1: Cluster, held_up: defaultdict[HealthProbe, int]
):
    names, settings = ("a", "b", "c"), replace(CALM, probe_period=0.02)

    def answered() -> bool:
        return len(held_up) == len(names) and min(held_up.values()) > 2 * BURDENED

    async with rig_on(settings=settings) as rig:

        async def told() -> bool:
            found = [(await rig.cluster(name))["status"]["latencyMilliseconds"] for name in names]
            return max(found) < 16

        for name in names:
            await rig.register(name, {"kubeconfig": m1.admin_kubeconfig})
        for name in names:
            await rig.becomes(name, "Connected")
        await until(answered)
        await until(told)
        before, there = await changes(rig.hub), await stored(rig.hub)
    held_up.clear()
    async with rig_on(settings=settings) as rig:
        await until(answered)
        assert await changes(rig.hub) == before
        assert await stored(rig.hub) == there


@pytest.mark.long
@pytest.mark.proves("C32", "R11")
async def test_what_was_changed_on_a_member_while_nobody_looked_is_put_right(stage: Stage):
    await a_workload_of_every_kind(stage)
    await settled(stage, told=True)
    await stage.stop()
    member = stage.members["m1"]
    before = await stage.on("m1")
    where = {"namespace": stage.namespace}
    scale = {"spec": {"replicas": 7}}
    await member.merge_patch(DEPLOYMENTS, "web", scale, **where, subresource="scale")
    await member.merge_patch(CONFIGMAPS, "conf", {"data": {"a": "2", "b": None}}, **where)
    await member.merge_patch(
        SERVICES, "front", {"spec": {"ports": [{"name": "a", "port": 80}]}}, **where
    )
    await member.merge_patch(KINDS["Secret"], "creds", {"data": {"k": "eA=="}}, **where)
    pods = {"spec": {"template": {"metadata": {"annotations": {"note": None}}}}}
    await member.merge_patch(KINDS["StatefulSet"], "it", {"metadata": {"labels": None}}, **where)
    await member.merge_patch(DEPLOYMENTS, "web", pods, **where)
    stage.start()

    async def wrong() -> list[str]:
        web, conf = await stage.on("m1"), await stage.on("m1", "conf", kind=CONFIGMAPS)
        front = await stage.on("m1", "front", kind=SERVICES)
        creds = await stage.on("m1", "creds", kind=KINDS["Secret"])
        it = await stage.on("m1", "it", kind=KINDS["StatefulSet"])
        right = {
            "web": web["spec"] == before["spec"],
            "conf": conf["data"] == {"a": "1", "b": "2"},
            "front": [port["port"] for port in front["spec"]["ports"]] == [80, 81],
            "creds": creds["data"] == {"k": "dg=="},
            "it": LABEL_MANAGED in it["metadata"].get("labels", {}),
        }
        return [name for name, holds in right.items() if not holds]

    async def as_before() -> bool:
        return not await wrong()

    await until(as_before)


@pytest.mark.proves("O10")
async def test_no_state_of_an_object_lacks_its_overrides_while_they_change_and_the_process_ends(
    stage_on: MakeStage,
):
    """A watch on the member sees each state."""

    def edit(number: int) -> dict[str, Any]:
        container = {"name": "main", "args": [str(number)]}
        override = {
            "name": "one",
            "clusterSelector": {"matchLabels": {LABEL_CLUSTER: "m1"}},
            "patch": {"spec": {"template": {"spec": {"containers": [container]}}}},
        }
        body = deployment()
        body["metadata"]["labels"] = {"edit": str(number)}
        return {"overrides": [override], "targetDeployment": body}

    def args(found: Any) -> list[str]:
        [container] = found["spec"]["template"]["spec"]["containers"]
        return list(container.get("args", []))

    async with stage_on() as stage:
        await stage.run("demo", {"m1": 1}, **edit(0))
        found = await stage.appears("m1")
        seen = [args(found)]
        watching = stage.members["m1"].watch(
            DEPLOYMENTS,
            resource_version=found["metadata"]["resourceVersion"],
            namespace=stage.namespace,
        )
        async with asyncio.timeout(60 * PATIENCE), watching as lines:
            for number in (1, 2, 3):
                await stage.patch("demo", {"spec": edit(number)})
                await stage.restart()
            while seen[-1] != ["3"]:
                seen.append(args(json.loads(await anext(lines))["object"]))
    assert all(seen), "an object without its override"
