"""What `stowage plan` says of moves: the controller's settings hold, and so do the fleet's budgets."""

from __future__ import annotations

from typing import Any

import pytest

from controller.config import default_profile
from controller.eventhandlers import known
from controller.model.unit import workload_info
from stowage.simulation.rehearsal import Rehearsal
from tests.controller import make

from .test_plan import Write, cluster, placed, plan, shares, workload, write

__all__ = ["write"]

SINCE = "2026-01-01T00:00:00Z"


def evacuated(body: dict[str, Any], taint: str, reason: str) -> dict[str, Any]:
    """That cluster, as the controller says that Workloads leave it."""
    said = {"type": "Evacuating", "status": "True", "reason": reason, "message": ""}
    body["status"]["conditions"].append(said)
    causes = [{"name": f"stowage.dev/{taint}:NoExecute", "since": SINCE}]
    body["status"]["evacuation"] = {"causes": causes}
    return body


def drained(name: str) -> dict[str, Any]:
    taint = {"key": "stowage.dev/drain", "effect": "NoExecute"}
    body = cluster(name, unschedulable=True, taints=[taint])
    return evacuated(body, "drain", "Draining")


def running(name: str, on: str, replicas: int, **spec: Any) -> dict[str, Any]:
    share = {"name": on, "replicas": replicas, "scheduled": replicas, "ready": replicas}
    status = {**placed(**{on: replicas}), "clusters": [share]}
    return workload(name, replicas=replicas, status=status, **spec)


def configuration(write: Write, movement: str) -> str:
    head = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    return write("config.yaml", text=f"{head}movement: {{{movement}}}\n")


def test_the_movement_of_the_configuration_holds(write: Write) -> None:
    lost = evacuated(cluster("a", ready=False), "not-ready", "Lost")
    lost["status"]["conditions"][0]["reason"] = "Unreachable"
    fleet = write("fleet.yaml", lost, cluster("b"), running("demo", "a", 2))
    files = write("w.yaml", workload("demo"))
    assert shares(plan(files, fleet)["demo"]) == {"b": 2}
    never = configuration(write, "notReadyTolerationSeconds: -1")
    assert shares(plan(files, fleet, "--config", never)["demo"]) == {"a": 2}


@pytest.mark.parametrize(("most", "moved"), [("1", 1), ("2", 2), ("100%", 4)])
def test_no_more_moves_than_the_fleet_may_move_at_once(write: Write, most: str, moved: int) -> None:
    """Those that a plan has moved are not ready, so the others wait for them."""
    there = [running(f"w{number}", "a", 1) for number in range(4)]
    fleet = write("fleet.yaml", drained("a"), cluster("b"), *there)
    files = write("w.yaml", *(workload(f"w{number}", replicas=1) for number in range(4)))
    budget = configuration(write, f"maxMoving: {most}")
    found = [*plan(files, fleet, "--config", budget).values()]
    assert [shares(each) for each in found] == [{"b": 1}] * moved + [{"a": 1}] * (4 - moved)
    assert [each.get("moveLater", 0) for each in found] == [0] * moved + [1] * (4 - moved)


def test_what_cannot_follow_an_edit_yet_is_still_edited_for_the_next_look() -> None:
    """As its status says: the rest leaves once it can, and gets nothing new where it is."""
    room = [{"count": 1, "free": {"cpu": "1", "memory": "9Gi", "pods": "9"}}]
    clusters = [make.cluster("a", {"zone": "x"}, groups=room), make.cluster("b")]
    before = workload_info(make.workload(replicas=5, distribution="Divided")).hash
    edited: dict[str, Any] = {"clusterSelector": {"zone": "x"}, "movement": {"maxSurge": "100%"}}
    there: dict[str, Any] = {"present": {"b": 5}, "decided": before}
    demo = known(make.workload(replicas=5, distribution="Divided", **there, **edited))
    profiles = {"stowage": default_profile()}
    rehearsal = Rehearsal(profiles, clusters=clusters, workloads=[demo], objects=(), now=make.NOW)
    rehearsal.run([demo.metadata.key])
    info = rehearsal.info(demo.metadata.key)
    assert info is not None
    assert (dict(info.present), info.edited) == ({"a": 2, "b": 3}, True)
