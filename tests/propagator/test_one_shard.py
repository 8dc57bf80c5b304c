"""What a fleet of one shard sends is what it sent before there were shards, byte for byte.

The record is renewed with `STOWAGE_RECORD=1`, which needs a reason in the commit.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from crds.names import FINALIZER
from machinery.api.resources import WORKLOADS
from machinery.types import conditions
from tests.propagator.memory import SPACE, World, written
from tests.propagator.stage import configmap, deployment

RECORD = Path(__file__).resolve().parents[1] / "data" / "one_shard.json"


def runs(world: World, name: str, **shares: int) -> bool:
    """Whether exactly these clusters are told to have so many ready replicas."""
    status = world.status(name)
    told = {each["name"]: each["ready"] for each in status.get("clusters", [])}
    return told == shares and conditions.holds(status, "Ready")


def workload(name: str) -> dict[str, Any]:
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": SPACE, "finalizers": [FINALIZER]},
        "spec": {
            "schedulerName": "the-test",
            "targetDeployment": deployment(name),
            "manifests": [configmap(f"{name}-conf", a="1")],
        },
    }


def statefulset(name: str, image: str = "pause") -> dict[str, Any]:
    """As `workload`, of a StatefulSet."""
    body = workload(name)
    del body["spec"]["targetDeployment"]
    template = deployment(name, image=image, serviceName=name)
    body["spec"]["template"] = template | {"kind": "StatefulSet"}
    return body


def starts(world: World, name: str) -> dict[str, tuple[int, str]]:
    """By member, the first ordinal of the StatefulSet there, and its image."""
    found = {}
    for member, server in world.members.items():
        if body := server.objects["statefulsets"].get((SPACE, name)):
            (container,) = body["spec"]["template"]["spec"]["containers"]
            ordinals = body["spec"].get("ordinals", {})
            found[member] = ordinals.get("start", 0), container["image"]
    return found


def propagated(world: World, name: str) -> str:
    """The reason."""
    return str(conditions.find(world.status(name), "Propagated")["reason"])


async def ready(world: World) -> None:
    for name in world.members:
        await world.until(lambda name=name: conditions.holds(world.cluster(name), "Ready"))
    await world.calm(3)


async def start(world: World, name: str = "web", /, **shares: int) -> None:
    """A Workload comes, and is ready there."""
    world.put(WORKLOADS, workload(name))
    world.place(name, **shares)
    await world.until(lambda: runs(world, name, **shares))


async def play(world: World) -> None:
    """A Workload comes, is scaled, moved and edited; one is refused; a member is lost."""
    await ready(world)
    world.put(WORKLOADS, workload("web"))
    for shares in ({"m1": 1}, {"m1": 2}, {"m1": 2, "m2": 1}, {"m2": 3}):
        world.place("web", **shares)
        await world.until(lambda shares=shares: runs(world, "web", **shares))
        await world.calm(3)
    edit = {"spec": {"targetDeployment": deployment("web", image="other")}}
    world.hub.edit(WORKLOADS, "web", edit)
    await world.until(lambda: world.status("web").get("observedGeneration") == 2)
    world.members["m1"].objects["configmaps"][SPACE, "taken-conf"] = anothers("taken-conf")
    world.put(WORKLOADS, workload("taken"))
    world.place("taken", m1=1, m2=1)
    await world.until(lambda: propagated(world, "taken") == "AlreadyExists")
    await world.calm(3)
    world.away.add("m2")
    await world.until(lambda: propagated(world, "web") == "ClusterUnreachable")
    await world.calm(3)
    world.away.discard("m2")
    await world.until(lambda: propagated(world, "web") == "Propagated")
    await world.calm(3)


def anothers(name: str) -> dict[str, Any]:
    """A ConfigMap that somebody made on a member."""
    found = configmap(name)
    found["metadata"] |= {"namespace": SPACE, "uid": "another", "resourceVersion": "5"}
    return found


async def end(world: World) -> None:
    """By another process than the one that made them."""
    await ready(world)
    for name in ("web", "taken"):
        world.delete(name)
    await world.until(lambda: not world.hub.all(WORKLOADS))
    await world.calm(3)


@pytest.mark.proves("SC1")
async def test_one_shard_sends_what_was_sent_before_there_were_shards(steady: None) -> None:
    world = World("m1", "m2")
    async with world.propagating():
        await play(world)
    async with world.propagating():
        await end(world)
    now = written(world.record())
    if os.environ.get("STOWAGE_RECORD"):
        RECORD.write_text(now)
    differs = unified_diff(RECORD.read_text().splitlines(), now.splitlines(), lineterm="")
    assert not (found := "\n".join(differs)), found
