"""What the controller writes on a real hub, and what wakes and moves nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS

from .live import World, condition, configured, deciding
from .make import REQUIRED, beside
from .memory import Stage


@pytest.mark.proves("C4", "C25")
async def test_without_clusters_it_fails_and_heals_when_one_registers(world: World) -> None:
    async with deciding(world):
        await world.workload("demo", replicas=3)
        scheduled = await world.refused("demo", "FailedToSchedule")
        found = await world.get("demo")
        failed = condition(found["status"], "Failed")

        assert found["status"]["state"] == "Failed"
        assert scheduled["status"] == "False"
        assert scheduled["message"].startswith("0/0 clusters")
        assert (failed["status"], failed["reason"]) == ("True", "FailedToSchedule")

        await world.cluster("member-1")

        assert await world.placed("demo") == {"member-1": 3}
        status = (await world.get("demo"))["status"]
        assert status["state"] == "Scheduled"
        assert [c["type"] for c in status["conditions"]] == ["Scheduled"]


@pytest.mark.proves("C26", "C35", "D3", "W3")
async def test_the_status_in_full(world: World) -> None:
    await world.cluster("member-1")
    async with deciding(world):
        await world.workload("demo", replicas=6)
        assert await world.placed("demo") == {"member-1": 6}
        found = await world.get("demo")
    status = found["status"]
    decision = status.pop("decision")
    (scheduled,) = status.pop("conditions")
    (change,), (share,) = status.pop("history"), status.pop("reasons")
    whole = [{"rule": "Whole", "numbers": {"number": 6}}]
    assert change.pop("time") == share["steps"][0].pop("time")
    assert change.pop("id") == decision["id"]
    assert change == {
        "cause": "Placed",
        "desired": 6,
        "assigned": 6,
        "moves": [{"cluster": "member-1", "to": 6, "because": whole}],
    }
    assert share == {
        "cluster": "member-1",
        "steps": [{"cause": "Placed", "units": 6, "because": whole}],
    }

    assert decision["hash"]
    assert (scheduled["status"], scheduled["reason"]) == ("True", "Scheduled")
    assert scheduled["observedGeneration"] == 1
    assert status == {
        "observedGeneration": -1,
        "observed": {"controller": 1},
        "state": "Scheduled",
        "desired": 6,
        "assigned": 6,
        "pending": 0,
        "selector": "app=demo",
        "placements": [{"cluster": "member-1", "replicas": 6}],
        "clusterSummary": "member-1=6",
        "clusterRef": {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "MemberCluster",
            "name": "member-1",
        },
        "footprint": {"clusters": "member-1"},
    }
    columns = await asyncio.to_thread(world.hub.kubectl, "-n", "shop", "get", "wl", "demo")
    assert columns.split()[:5] == ["NAME", "STATE", "CLUSTERS", "DESIRED", "ASSIGNED"]
    assert columns.splitlines()[1].split()[:5] == ["demo", "Scheduled", "member-1=6", "6", "6"]


async def test_other_writers_conditions_and_fields_survive(world: World) -> None:
    await world.cluster("member-1")
    theirs = {"type": "Propagated", "status": "True", "reason": "Propagated", "message": ""}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    async with deciding(world):
        await world.workload("demo", replicas=2)
        found = await world.until("demo", lambda status: status["placements"])
        told = {
            "conditions": [*found["status"]["conditions"], theirs],
            "ready": 1,
            "readySummary": "1/2",
            "state": "Running",
            "clusters": [{"name": "member-1", "replicas": 2, "ready": 1, "state": "Running"}],
        }
        await world.edit("demo", {"status": told}, status=True)
        await world.edit("demo", {"spec": {"replicas": 3}})
        found = await world.until("demo", lambda status: status["assigned"] == 3)

    status = found["status"]
    assert condition(status, "Propagated") == theirs
    assert (status["state"], status["ready"], status["readySummary"]) == ("Running", 1, "1/2")
    assert [share["ready"] for share in status["clusters"]] == [1]


@pytest.mark.proves("K22")
async def test_events_say_what_happened_once(world: World) -> None:
    async with deciding(world):
        await world.workload("demo")
        await world.refused("demo", "FailedToSchedule")
        await world.cluster("member-1")
        await world.placed("demo")
        events = await world.events("demo", least=2)
    assert len(events) == 2
    found = {each["reason"]: each for each in events}
    assert found["Scheduled"]["type"] == "Normal"
    assert found["Scheduled"]["note"] == "assigned member-1=1"
    assert found["FailedScheduling"]["type"] == "Warning"
    assert found["FailedScheduling"]["note"].startswith("0/0 clusters")


@pytest.mark.proves("C6", "C20", "C33", "E15")
async def test_the_best_is_taken_and_the_log_has_the_table(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    stage = Stage()
    for name, cost in (("dear", "5"), ("cheap", "1"), ("middling", "3")):
        stage.cluster(name)
        stage.hub.edit(
            MEMBER_CLUSTERS, name, {"metadata": {"annotations": {"stowage.dev/cost": cost}}}
        )
    caplog.set_level("INFO", logger="controller")
    file = configured(tmp_path, {"score": {"enabled": [{"name": "ClusterCost", "weight": 3}]}})
    async with stage.configured(file, debug_scores=2) as controller:
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo") == {"cheap": 2})
        diagnosis = await controller.diagnosis(("shop", "demo"))
    rows = [line.split("|") for line in caplog.text.splitlines() if line.endswith("|")]
    assert [row[3].strip() for row in rows] == ["Node", "---", "cheap", "middling"]
    assert "ClusterCost" in [cell.strip() for cell in rows[0]]
    assert diagnosis is not None
    assert [each["name"] for each in diagnosis["clusters"]] == ["cheap", "middling", "dear"]


@pytest.mark.proves("C22", "K31")
async def test_other_schedulers_workloads_are_left_alone_but_counted() -> None:
    stage = Stage()
    stage.cluster("member-1", cpu="2")
    stage.cluster("member-2", cpu="1")
    stage.workload("theirs", schedulerName="my-customer-scheduler")
    async with stage.leading():
        stage.workload(
            "friend", cpu="2", replicas=1, workloadAffinity={REQUIRED: [beside("theirs")]}
        )
        await stage.until(lambda: stage.says("friend")[1] == "FailedToSchedule")
        chosen = [{"cluster": "member-1", "replicas": 2}]
        placed = stage.hub.edit(
            WORKLOADS, "theirs", {"status": {"placements": chosen}}, status=True
        )
        # member-1 is full of units on their way there; so affinity leads there, room does not.
        await stage.until(lambda: stage.says("friend")[1] == "InsufficientCapacity")
        stage.workload("ours", replicas=1)
        await stage.until(lambda: stage.placed("ours") == {"member-2": 1})
        assert stage.hub.read(WORKLOADS, "theirs") == placed


@pytest.mark.proves("C12")
async def test_room_readiness_rules_and_labels_wake_those_they_help() -> None:
    stage = Stage()
    for name in ("small", "down", "closed", "plain"):
        stage.cluster(name, cpu="1", **{"is": name})
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    stage.hub.edit(MEMBER_CLUSTERS, "down", {"status": unready}, status=True)
    stage.hub.edit(MEMBER_CLUSTERS, "closed", {"spec": {"unschedulable": True}})
    async with stage.leading():
        stage.workload("large", replicas=4, clusterSelector={"is": "small"})
        for name in ("down", "closed", "new"):
            stage.workload(name, replicas=1, clusterSelector={"is": name})
        names = ("large", "down", "closed", "new")
        await stage.until(lambda: all(stage.says(name)[0] == "False" for name in names))
        free = {"cpu": "4", "memory": "32Gi", "pods": "110"}
        room = {"nodeGroups": [{"count": 1, "free": free}]}
        stage.hub.edit(MEMBER_CLUSTERS, "small", {"status": room}, status=True)
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        stage.hub.edit(MEMBER_CLUSTERS, "down", {"status": ready}, status=True)
        stage.hub.edit(MEMBER_CLUSTERS, "closed", {"spec": {"unschedulable": False}})
        stage.hub.edit(MEMBER_CLUSTERS, "plain", {"metadata": {"labels": {"is": "new"}}})
        await stage.until(lambda: all(map(stage.placed, names)))


async def test_an_edit_that_placement_does_not_read_is_observed_and_moves_nothing() -> None:
    stage = Stage("a")
    async with stage.leading():
        stage.workload("demo")
        await stage.until(lambda: stage.placed("demo"))
        first = stage.hub.read(WORKLOADS, "demo")["status"]
        template = {"metadata": {"annotations": {"note": "new"}}}
        spec = {"targetDeployment": {"spec": {"template": template}}}
        stage.hub.edit(WORKLOADS, "demo", {"spec": spec})
        status = lambda: stage.hub.read(WORKLOADS, "demo")["status"]  # noqa: E731 - asked again
        await stage.until(lambda: status()["observed"]["controller"] == 2)
        assert status()["placements"] == first["placements"]
        assert status()["decision"] == first["decision"]
        stage.hub.edit(WORKLOADS, "demo", {"status": {"placements": []}}, status=True)
        await stage.until(lambda: stage.placed("demo") == {"a": 2})
