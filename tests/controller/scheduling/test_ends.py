"""What has ended is made nowhere again: it stays where it was, and counts for nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from crds.names import TAINT_DRAIN
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from tests.controller.memory import Stage

END = {"result": "Succeeded", "time": "2026-01-01T00:00:00Z", "object": "Job shop/bill"}
DRAIN = {"key": TAINT_DRAIN, "effect": "NoExecute"}


def job(name: str = "bill", **spec: Any) -> dict[str, Any]:
    asks = {"requests": {"cpu": "1"}}
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "resources": asks}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pods}, **spec},
    }


def put(stage: Stage, **spec: Any) -> None:
    spec = {"template": job(), "replicas": 1, **spec}
    stage.workload("bill", **spec, targetDeployment=None)


def change(stage: Stage, **spec: Any) -> None:
    stage.hub.edit(WORKLOADS, "bill", {"spec": spec})


def report(stage: Stage, **ends: dict[str, Any] | None) -> None:
    """What the propagator tells of the shares."""
    shares = []
    for each in stage.hub.read(WORKLOADS, "bill")["status"]["placements"]:
        share = {"name": each["cluster"], "replicas": each["replicas"], "state": "Running"}
        if (end := ends.get(each["cluster"])) is not None:
            n = each["replicas"]
            share |= {"ended": end, "finished": n, "succeeded": n, "ready": n, "state": "Complete"}
        shares.append(share)
    status = {"clusters": shares, "state": "Complete"}
    stage.hub.edit(WORKLOADS, "bill", {"status": status}, status=True)


def taint(stage: Stage, name: str, *taints: dict[str, str]) -> None:
    stage.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"taints": list(taints)}})


@pytest.mark.proves("A1", "KD29")
async def test_what_has_ended_moves_nowhere() -> None:
    stage = Stage()
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    put(stage, clusterSelector={"zone": "m1"})
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        report(stage, m1=END)
        change(stage, clusterSelector={"zone": "m2"})
        await stage.calm(30)
        assert stage.placed("bill") == {"m1": 1}
        change(stage, clusterSelector={})
        taint(stage, "m1", DRAIN)
        await stage.calm(30)
        taint(stage, "m1", {"key": "stowage.dev/out-of-service", "effect": "NoExecute"})
        await stage.calm(30)
        change(stage, movement={"rebalanceAfter": "2026-01-01T00:00:00Z"})
        await stage.calm(30)
        stage.hub.remove(MEMBER_CLUSTERS, "m1")
        await stage.calm(900)
        assert stage.placed("bill") == {"m1": 1}
        found = stage.hub.read(WORKLOADS, "bill")["status"]
        assert (found["desired"], found["assigned"], found["pending"]) == (1, 1, 0)
        assert found["state"] == "Complete"
        assert stage.says("bill")[0] == "True"


@pytest.mark.proves("A1", "KD32")
async def test_an_object_of_another_name_runs() -> None:
    stage = Stage()
    for name in ("m1", "m2"):
        stage.cluster(name, zone=name)
    put(stage, clusterSelector={"zone": "m1"})
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        report(stage, m1=END)
        change(stage, template=job(activeDeadlineSeconds=60), clusterSelector={"zone": "m2"})
        await stage.calm(30)
        assert stage.placed("bill") == {"m1": 1}
        change(stage, template=job("bill-2"))
        await stage.until(lambda: stage.placed("bill") == {"m2": 1})


@pytest.mark.proves("KD31")
async def test_what_has_ended_leaves_room_and_quota() -> None:
    stage = Stage()
    stage.cluster("m1", cpu="1")
    put(stage)
    async with stage.leading():
        await stage.until(lambda: stage.placed("bill") == {"m1": 1})
        stage.workload("next", replicas=1)
        await stage.calm(10)
        assert stage.placed("next") == {}
        report(stage, m1=END)
        await stage.until(lambda: stage.placed("next") == {"m1": 1})


@pytest.mark.proves("KD29")
async def test_shares_beside_one_that_has_ended_move_on() -> None:
    stage = Stage()
    for name in ("m1", "m2", "m3"):
        stage.cluster(name)
    put(stage, distribution="Divided", replicas=2, spreadConstraints=[])
    async with stage.leading():
        await stage.until(lambda: sum(stage.placed("bill").values()) == 2)
        first, *others = sorted(stage.placed("bill"))
        report(stage, **{first: END})
        if not others:
            return
        taint(stage, others[0], DRAIN)
        free = {"m1", "m2", "m3"} - {first, others[0]}
        await stage.until(lambda: set(stage.placed("bill")) == {first, *free})
