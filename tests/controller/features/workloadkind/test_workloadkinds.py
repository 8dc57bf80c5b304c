"""A WorkloadKind in the controller: in use when it is written, and told whether it can be."""

from __future__ import annotations

from typing import Any

import pytest

from machinery.api.resources import WORKLOAD_KINDS
from tests.controller.memory import Stage

POD = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
GADGET = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}


def gadgets(**spec: Any) -> dict[str, Any]:
    about = {"group": "example.com", "kind": "Gadget", "versions": ["v1"]}
    shape = {"replicas": {"path": "spec.size"}, "pods": [{"template": "spec.pods"}]}
    return {"metadata": {"name": "gadget.example.com"}, "spec": {**about, **shape, **spec}}


def gadget(stage: Stage, name: str = "g", *, size: int = 3, **more: Any) -> None:
    template = {**GADGET, "spec": {"size": size, "pods": POD}}
    stage.workload(name, targetDeployment=None, template=template, **{"replicas": None, **more})


def told(stage: Stage) -> tuple[Any, str, str]:
    """(workloads, reason, message) of the status."""
    status = stage.hub.read(WORKLOAD_KINDS, "gadget.example.com", "").get("status", {})
    valid = next((c for c in status.get("conditions", ()) if c["type"] == "Valid"), {})
    return status.get("workloads"), valid.get("reason", ""), valid.get("message", "")


@pytest.mark.proves("KD4")
async def test_a_kind_counts_from_when_it_is_written_and_moves_nothing() -> None:
    stage = Stage("m1", "m2", cpu="8")
    async with stage.leading():
        gadget(stage)
        await stage.until(lambda: stage.placed("g"))
        assert sum(stage.placed("g").values()) == 1, "an unknown kind is whole, and counts no room"
        (home,) = stage.placed("g")
        stage.hub.put(WORKLOAD_KINDS, gadgets())
        await stage.until(lambda: stage.placed("g") == {home: 3}, seconds=10)
        await stage.until(lambda: told(stage)[:2] == (1, "Valid"), seconds=10)

        gadget(stage, "big", size=3, created=1)
        await stage.until(lambda: sum(stage.placed("big").values()) == 3, seconds=10)
        assert home not in stage.placed("big"), "the room of the first is counted: 6 of 8 cpu"
        await stage.until(lambda: told(stage)[0] == 2)

        # Four times the room for each: neither moves.
        edited = gadgets(pods=[{"template": "spec.pods", "count": "4"}])
        stage.hub.edit(WORKLOAD_KINDS, "gadget.example.com", {"spec": edited["spec"]})
        before = stage.placed("g"), stage.placed("big")
        await stage.calm(10)
        assert (stage.placed("g"), stage.placed("big")) == before


@pytest.mark.proves("KD1")
async def test_its_deletion_brings_the_former_profile_back() -> None:
    stage = Stage("m1")
    stage.hub.put(WORKLOAD_KINDS, gadgets())
    async with stage.leading() as controller:
        gadget(stage)
        await stage.until(lambda: stage.placed("g") == {"m1": 3})
        stage.hub.remove(WORKLOAD_KINDS, "gadget.example.com")
        held = lambda: controller.workloads.get(("shop", "g"))  # noqa: E731 - asked again
        await stage.until(lambda: not held().info.profile.known, seconds=10)


@pytest.mark.proves("KD3")
async def test_what_does_not_compile_is_told_and_what_runs_stays() -> None:
    stage = Stage("m1")
    stage.hub.put(WORKLOAD_KINDS, gadgets())
    async with stage.leading():
        gadget(stage)
        await stage.until(lambda: stage.placed("g") == {"m1": 3})
        wrong = gadgets(ready={"when": ["status.ok ==="]})
        stage.hub.edit(WORKLOAD_KINDS, "gadget.example.com", {"spec": wrong["spec"]})
        await stage.until(lambda: told(stage)[1] == "InvalidExpression", seconds=10)
        workloads, _, message = told(stage)
        assert message.startswith("spec.ready.when[0]: 1:13: Syntax error")
        assert workloads == 1
        await stage.calm(10)
        assert stage.placed("g") == {"m1": 3}
        assert "WorkloadKind gadget.example.com" in stage.says("g")[2]

        mended = gadgets(ready={"when": ["status.ok == 'yes'"]})
        stage.hub.edit(WORKLOAD_KINDS, "gadget.example.com", {"spec": mended["spec"]})
        await stage.until(lambda: told(stage)[1] == "Valid", seconds=10)
        await stage.until(lambda: stage.says("g")[0] == "True", seconds=10)
        assert stage.placed("g") == {"m1": 3}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"degraded": "phase.bad"}, "spec.degraded: "),
        ({"group": "apps"}, "spec.group: the kinds of apps, batch, stowage.dev are built in"),
        ({"replicas": {"path": "size"}}, "spec.replicas.path: "),
    ],
)
async def test_a_hub_without_admission_gets_the_same_words(spec: Any, words: str) -> None:
    stage = Stage()
    found = gadgets(**spec)
    if "group" in spec:
        found["metadata"]["name"] = "gadget.apps"
    stage.hub.put(WORKLOAD_KINDS, found)
    async with stage.leading():
        name = found["metadata"]["name"]

        def condition() -> dict[str, Any]:
            status = stage.hub.read(WORKLOAD_KINDS, name, "").get("status", {})
            return (status.get("conditions") or [{}])[0]

        await stage.until(lambda: condition().get("reason") == "InvalidPath", seconds=10)
        assert condition()["message"].startswith(words)


@pytest.mark.proves("KD5")
async def test_another_version_is_another_kind() -> None:
    stage = Stage("m1")
    stage.hub.put(WORKLOAD_KINDS, gadgets(versions=["v2"]))
    async with stage.leading():
        gadget(stage)
        await stage.until(lambda: stage.placed("g"))
        assert stage.placed("g") == {"m1": 1}


@pytest.mark.proves("KD68")
async def test_a_name_is_no_longer_than_its_kind_says() -> None:
    stage = Stage("m1")
    stage.hub.put(WORKLOAD_KINDS, gadgets(names={"max": 5}))
    async with stage.leading():
        gadget(stage, "short")
        named = {**GADGET, "metadata": {"name": "longer"}, "spec": {"size": 1, "pods": POD}}
        stage.workload("w", targetDeployment=None, template=named, replicas=None, created=1)
        await stage.until(lambda: stage.says("w")[1] == "InvalidWorkload")
        assert "has 6 characters; a Gadget has 5 at most" in stage.says("w")[2]
        await stage.until(lambda: stage.placed("short") == {"m1": 3})
