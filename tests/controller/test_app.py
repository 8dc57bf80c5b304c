"""The controller on a real hub: which cluster each kind of wish leads to, and what is written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from machinery.api.client import ApiClient

from .live import World, condition, configured, deciding, placements

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CLUSTER = "stowage.dev/cluster"


def beside(app: str, key: str = CLUSTER) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


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


@pytest.mark.proves("C6", "C20", "C33")
async def test_of_many_the_best_is_taken_and_the_table_says_so(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for name, cost in (("dear", "5"), ("cheap", "1"), ("middling", "3")):
        await world.cluster(name, annotations={"stowage.dev/cost": cost})
    caplog.set_level("INFO", logger="controller")
    file = configured(tmp_path, {"score": {"enabled": [{"name": "ClusterCost", "weight": 3}]}})
    async with deciding(world, config_file=file, debug_scores=2) as controller:
        await world.workload("demo")

        assert await world.placed("demo") == {"cheap": 1}
        rows = table(caplog.text)
        assert [row["Node"] for row in rows] == ["cheap", "middling"]
        for row in rows:
            assert "ClusterCost" in row
            assert int(row["Score"]) == sum(int(n) for n in list(row.values())[4:])
        diagnosis = await controller.diagnosis((world.namespace, "demo"))
        assert diagnosis is not None
        ranked = [each["name"] for each in diagnosis["clusters"]]
        assert ranked == ["cheap", "middling", "dear"]
        assert all(1 <= each["score"] <= 10 for each in diagnosis["clusters"])


def table(log: str) -> list[dict[str, str]]:
    """The rows of the markdown table in a log, by the heads of its columns."""
    lines = [line[line.index("|") :] for line in log.splitlines() if line.rstrip().endswith("|")]
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:] if row[0] != "#"]


@pytest.mark.proves("C15")
async def test_what_is_placed_stays_whatever_happens_to_the_cluster(world: World) -> None:
    await world.cluster("member-1", labels={"tier": "gold"})
    async with deciding(world):
        await world.workload("demo", replicas=2, clusterSelector={"tier": "gold"})
        assert await world.placed("demo") == {"member-1": 2}
        before = await world.get("demo")
        await world.cluster("member-2", labels={"tier": "gold"})

        await world.label("member-1", tier=None)
        taint = {"key": "maintenance", "effect": "NoSchedule"}
        spec = {"unschedulable": True, "taints": [taint]}
        await world.edit_cluster("member-1", {"spec": spec})
        await world.report("member-1", ready=False)
        await world.workload("later", clusterSelector={"tier": "gold"})
        assert await world.placed("later") == {"member-2": 1}

        await world.settle()
        after = await world.get("demo")
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.proves("C16")
async def test_a_front_end_follows_its_back_end(world: World) -> None:
    await world.cluster("member-1")
    await world.cluster("member-2", labels={"disk": "fast"})
    async with deciding(world):
        await world.workload("front-end", workloadAffinity={REQUIRED: [beside("back-end")]})
        refused = await world.refused("front-end", "FailedToSchedule")
        assert refused["message"].startswith("0/2 clusters: 2 ")

        await world.workload("back-end", clusterSelector={"disk": "fast"})
        assert await world.placed("back-end") == {"member-2": 1}
        assert await world.placed("front-end") == {"member-2": 1}


@pytest.mark.proves("C18")
async def test_required_anti_affinity_keeps_newcomers_away_too(world: World) -> None:
    await world.cluster("member-1")
    async with deciding(world):
        await world.workload("hermit", workloadAntiAffinity={REQUIRED: [beside("guest")]})
        assert await world.placed("hermit") == {"member-1": 1}
        await world.workload("guest")
        await world.refused("guest", "FailedToSchedule")

        await world.delete("hermit")
        assert await world.placed("guest") == {"member-1": 1}


@pytest.mark.long
@pytest.mark.proves("C18")
async def test_one_that_comes_while_its_partner_is_being_refused_is_not_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal of the first is still being written when the second one is decided."""
    await world.cluster("member-1")
    gate, held, real = asyncio.Event(), asyncio.Event(), ApiClient.request

    async def slow(self: ApiClient, method: str, path: str, **how: Any) -> bytes:
        if method == "PATCH" and path.endswith("/ping/status"):
            held.set()
            await gate.wait()
        return await real(self, method, path, **how)

    monkeypatch.setattr(ApiClient, "request", slow)
    async with deciding(world):
        await world.workload("ping", workloadAffinity={REQUIRED: [beside("pong")]})
        await held.wait()
        await world.workload("pong", workloadAffinity={REQUIRED: [beside("ping")]})
        await world.refused("pong", "FailedToSchedule")
        gate.set()
        assert await world.placed("ping") == {"member-1": 1}
        assert await world.placed("pong") == {"member-1": 1}


@pytest.mark.proves("C22", "K31")
async def test_other_schedulers_workloads_are_left_alone_but_counted(world: World) -> None:
    await world.cluster("member-1", cpu="2")
    await world.cluster("member-2", cpu="1")
    async with deciding(world):
        theirs = await world.workload(
            "theirs", replicas=2, cpu="1", schedulerName="my-customer-scheduler"
        )
        await world.workload("friend", workloadAffinity={REQUIRED: [beside("theirs")]})
        await world.refused("friend", "FailedToSchedule")
        untouched = await world.get("theirs")
        assert untouched["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]

        chosen = [{"cluster": "member-1", "replicas": 2}]
        await world.edit("theirs", {"status": {"placements": chosen}}, status=True)
        placed = await world.get("theirs")

        # member-1 is full of units on their way there; so affinity leads there, room does not.
        await world.refused("friend", "InsufficientCapacity")
        await world.workload("ours", cpu="1")
        assert await world.placed("ours") == {"member-2": 1}
        await world.settle()
        after = await world.get("theirs")
        assert after["metadata"]["resourceVersion"] == placed["metadata"]["resourceVersion"]


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


@pytest.mark.long
@pytest.mark.proves("C15")
async def test_an_edit_that_fits_nowhere_takes_nothing_away(world: World) -> None:
    await world.cluster("member-1", labels={"tier": "gold"})
    async with deciding(world):
        await world.workload("demo", replicas=3, clusterSelector={"tier": "gold"})
        assert await world.placed("demo") == {"member-1": 3}

        await world.edit("demo", {"spec": {"clusterSelector": {"tier": "lead"}}})
        refused = await world.refused("demo", "FailedToSchedule")
        assert refused["observedGeneration"] == 2
        assert placements(await world.get("demo")) == {"member-1": 3}

    async with deciding(world, identity="two"):  # a restart forgets nothing of it
        await world.settle()
        assert placements(await world.get("demo")) == {"member-1": 3}
        await world.cluster("member-2", labels={"tier": "lead"})
        found = await world.until("demo", lambda s: s["placements"][0]["cluster"] == "member-2")
        assert placements(found) == {"member-2": 3}


@pytest.mark.long
@pytest.mark.proves("C12")
async def test_room_readiness_and_rules_wake_those_they_help(world: World) -> None:
    await world.cluster("small", cpu="1")
    await world.cluster("down", ready=False, labels={"is": "down"})
    await world.cluster("closed", unschedulable=True, labels={"is": "closed"})
    async with deciding(world):
        await world.workload("large", replicas=4, cpu="1", clusterSelector={"clusterName": "small"})
        await world.workload("late", clusterSelector={"is": "down"})
        await world.workload("patient", clusterSelector={"is": "closed"})
        await world.refused("large", "InsufficientCapacity")
        assert (await world.get("large"))["status"]["state"] == "Pending"
        await world.refused("late", "FailedToSchedule")
        await world.refused("patient", "FailedToSchedule")

        await world.report("small", cpu="4")
        await world.report("down")
        await world.edit_cluster("closed", {"spec": {"unschedulable": False}})
        assert await world.placed("large") == {"small": 4}
        assert await world.placed("late") == {"down": 1}
        assert await world.placed("patient") == {"closed": 1}


async def test_an_edit_that_placement_does_not_read_is_observed_and_moves_nothing(
    world: World,
) -> None:
    await world.cluster("member-1")
    async with deciding(world):
        await world.workload("demo")
        first = await world.until("demo", lambda status: status["placements"])
        template = {"metadata": {"annotations": {"note": "new"}}}
        spec = {"targetDeployment": {"spec": {"template": template}}}
        await world.edit("demo", {"spec": spec})
        found = await world.until("demo", lambda status: status["observed"]["controller"] == 2)

    assert found["status"]["placements"] == first["status"]["placements"]
    assert found["status"]["decision"]["hash"] == first["status"]["decision"]["hash"]


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


async def test_placements_that_someone_emptied_come_back(world: World) -> None:
    await world.cluster("member-1")
    async with deciding(world):
        await world.workload("demo", replicas=2)
        assert await world.placed("demo") == {"member-1": 2}
        await world.edit("demo", {"status": {"placements": []}}, status=True)
        assert await world.placed("demo") == {"member-1": 2}


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
