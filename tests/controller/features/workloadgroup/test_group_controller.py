"""The status of WorkloadGroups, written by a whole controller to a hub in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controller.eventhandlers import SchedulerCache
from controller.features.workloadgroup.gate import controller as books
from crds.names import LABEL_GROUP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import ApiError, Unreachable
from tests.controller.features.workloadgroup.grouping import CONFIGURATION, Gangs
from tests.controller.make import CLUSTER, REQUIRED


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    """Two clusters with room for two units of 3 cpu each."""
    made = Gangs(tmp_path)
    made.cluster("m1", cpu="7")
    made.cluster("m2", cpu="7")
    return made


@pytest.fixture
def controllers(monkeypatch: pytest.MonkeyPatch) -> list[books.GroupController]:
    """Those of all terms, the first one first."""
    made, begin = list[books.GroupController](), books.GroupController.__init__

    def begun(controller: books.GroupController, *args: Any, **more: Any) -> None:
        made.append(controller)
        begin(controller, *args, **more)

    monkeypatch.setattr(books.GroupController, "__init__", begun)
    return made


def gang(stage: Gangs, **spec: Any) -> None:
    """A driver of one unit and a worker of five, of which four must run."""
    stage.group(**spec)
    stage.member("driver", replicas=1)
    stage.member("worker", replicas=5)


async def opened(stage: Gangs) -> None:
    gang(stage)
    await stage.until(lambda: stage.released() == {"driver", "worker"})


async def run(stage: Gangs) -> None:
    await opened(stage)
    for name in ("driver", "worker"):
        stage.reports(name)
    await stage.until(lambda: stage.phase() == "Running")


def opens(stage: Gangs, gate: str = "Open") -> list[Any]:
    """The writes that say that the gate is open."""
    writes = stage.hub.writes("/workloadgroups/")
    return [body["status"] for _, _, body in writes if body["status"].get("gate") == gate]


def wrote(stage: Gangs) -> Counter[str]:
    """How often the status of each Workload was written."""
    return Counter(path.split("/")[-2] for _, path, _ in stage.hub.writes("/workloads/"))


def closes(stage: Gangs) -> list[Any]:
    """Those that say that it is closed: what is ours is emptied in a moment, and it is over."""
    return opens(stage, "Closed")


def clears(stage: Gangs) -> None:
    """Members have nothing any more of what has no placements."""

    async def emptied(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and body.get("status", {}).get("placements") == []:
            name = path.split("/")[-2]
            stage.hub.edit(WORKLOADS, name, {"status": {"clusters": []}}, status=True)

    stage.hub.after.append(emptied)


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.proves("G3", "G19")
async def test_with_room_for_the_quorum_one_write_releases_all_of_it(stage: Gangs):
    async with stage.led():
        await opened(stage)
        await stage.calm(5)
        first = opens(stage)[0]
        both = {stage.hub.read(WORKLOADS, name)["metadata"]["uid"] for name in ("driver", "worker")}
        assert set(first["decisions"]) == both
        status = stage.status()
        assert (status["scheduled"], status["desired"], status["waiting"]) == (4, 6, 0)
        assert stage.phase() == "Scheduled"
        assert stage.tells()[:2] == ("True", "Scheduled")
        assert sum(stage.placed("worker").values()) == 3
        assert len(opens(stage)) == 1


@pytest.mark.proves("G3")
@pytest.mark.parametrize("ends", [True, False], ids=["slow", "hangs"])
async def test_the_gate_waits_for_decisions_that_are_being_written(stage: Gangs, ends: bool):
    """Seven units are permitted at once, of which four would do; it does not wait for ever."""
    stage.cluster("m3", cpu="100")
    slow = True

    async def waits(method: str, path: str, _body: Any) -> None:
        while slow and method == "PATCH" and path.endswith("/workloads/zero/status"):
            await stage.clock.sleep(0.1)

    stage.hub.faults.append(waits)
    stage.group()
    for name in ("first", "next", "zero"):
        stage.member(name, replicas=3)
    async with stage.led():
        await stage.until(lambda: stage.placed("first") and stage.placed("next"))
        await stage.calm(5)
        assert not stage.gate()
        if ends:
            slow = False
            await stage.until(lambda: stage.released() == {"first", "next", "zero"}, seconds=5)
            assert len(opens(stage)) == 1
            return
        await stage.until(
            lambda: stage.released() == {"first", "next"}, seconds=books.WRITING_SECONDS + 5
        )


@pytest.mark.proves("G3", "G12")
async def test_who_comes_later_and_who_moves_is_released_at_once(stage: Gangs):
    async with stage.led():
        await opened(stage)
        stage.cluster("m3", cpu="100")
        await stage.until(lambda: sum(stage.placed("worker").values()) == 5)
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=2)
        stage.member("late", replicas=1)
        await stage.until(lambda: "late" in stage.released(), seconds=3)
        stage.hub.remove(WORKLOADS, "late")
        await stage.until(lambda: len(stage.decisions()) == 2, seconds=3)


@pytest.mark.proves("G12", "G18")
async def test_a_missing_sibling_and_a_missing_group_are_told_and_mended_at_once(stage: Gangs):
    async with stage.led():
        stage.member("worker", replicas=3)
        await stage.until(lambda: stage.says("worker")[1] == "GroupNotFound")
        stage.group()
        await stage.until(lambda: stage.says("worker")[1] == "GroupIncomplete", seconds=3)
        text = "WorkloadGroup shop/batch has 3 replicas in all its Workloads, minMember is 4"
        await stage.until(lambda: stage.tells() == ("False", "GroupIncomplete", text), seconds=3)
        assert stage.phase() == "Pending"
        assert not stage.told("FailedScheduling"), "it is not complete, and nothing was tried"
        stage.member("driver", replicas=1)
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=3)


async def test_its_workloads_are_not_decided_again_because_they_are_released(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
):
    looked: list[Any] = []
    offer = SchedulerCache.activate_in_steps

    def offered(world: SchedulerCache, keys: Iterable[Any]) -> None:
        found = list(keys)
        looked.extend(found)
        offer(world, found)

    async with stage.led():
        gang(stage)
        await stage.until(lambda: sum(stage.placed("worker").values()) == 3)
        monkeypatch.setattr(SchedulerCache, "activate_in_steps", offered)
        await stage.until(lambda: stage.released() == {"driver", "worker"})
        stage.reports("driver")
        stage.reports("worker")
        await stage.until(lambda: stage.phase() == "Running")
        await stage.calm(5)
        assert not looked
        stage.hub.edit(WORKLOAD_GROUPS, "batch", {"spec": {"minMember": 3}})
        await stage.until(lambda: len(looked) == 2, seconds=2)


# --- not enough -----------------------------------------------------------------------------------


@pytest.mark.proves("G4", "G13", "G19")
async def test_without_room_for_the_quorum_nothing_is_placed_and_few_writes_say_so(stage: Gangs):
    stage.hub.edit(
        MEMBER_CLUSTERS,
        "m2",
        {"status": {"nodeGroups": [{"count": 1, "free": {"cpu": "4", "memory": "1Gi"}}]}},
        status=True,
    )
    async with stage.led():
        gang(stage)
        await stage.until(lambda: stage.tells()[1] == "GroupDenied")
        assert "resource gap: cpu" in stage.tells()[2]
        assert "0 of 6 replicas have a cluster, minMember is 4" in stage.tells()[2]
        assert stage.phase() == "Scheduling"
        await stage.calm(15)
        before = stage.writes()
        for _ in range(30):  # each looks as if it could help, and none does
            for pods in ("50", "60"):
                free = {"cpu": "4", "memory": "1Gi", "pods": pods}
                status = {"nodeGroups": [{"count": 1, "free": free}]}
                stage.hub.edit(MEMBER_CLUSTERS, "m2", {"status": status}, status=True)
                await stage.calm(1)
        assert stage.writes() - before <= 1, "no write for each try"
        assert not stage.placed("driver")
        assert not stage.placed("worker")
        assert not stage.gate()
        assert len(stage.told("FailedScheduling")) == 1
        assert "series" not in stage.told("FailedScheduling")[0]
        assert max(wrote(stage).values()) <= 2


@pytest.mark.proves("G11", "G17")
async def test_a_gang_that_is_rejected_is_told_once_whatever_comes_and_goes(stage: Gangs):
    apart = {"labelSelector": {"matchLabels": {"app": "driver"}}, "topologyKey": CLUSTER}
    for name in ("m1", "m2"):
        stage.hub.remove(MEMBER_CLUSTERS, name)
    stage.cluster("m3", cpu="90")
    async with stage.led():
        stage.group()
        stage.member("driver", replicas=1)
        stage.member("worker", replicas=3, workloadAntiAffinity={REQUIRED: [apart]})
        await stage.calm(5)
        assert {stage.says(name)[1] for name in ("driver", "worker")} == {"GroupDenied"}
        for i in range(8):
            stage.workload(f"stranger{i}", replicas=1)
            await stage.calm(0.5)
            stage.hub.remove(WORKLOADS, f"stranger{i}")
            await stage.calm(0.5)
        await stage.calm(10)
        told = wrote(stage)
        assert (told["driver"], told["worker"]) == (1, 1)
        stage.cluster("m4", cpu="90")
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=5)


@pytest.mark.proves("G16")
async def test_what_is_held_is_released_in_one_write_when_the_last_unit_fits(stage: Gangs):
    stage.cluster("m3", cpu="16")
    async with stage.led():
        stage.group(least=10)
        stage.member("driver", replicas=2)
        stage.member("worker", replicas=8)
        await stage.until(lambda: stage.status().get("waiting") == 9)
        stage.cluster("m4", cpu="7")
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=10)
        assert len(opens(stage)) == 1
        await stage.until(lambda: stage.status()["waiting"] == 0)


@pytest.mark.proves("G5", "G16")
async def test_what_the_next_leader_holds_again_is_told(stage: Gangs):
    """Its Workloads say already that they wait, so no change of theirs tells of it."""
    stage.cluster("m3", cpu="16")
    stage.group(least=10)
    stage.member("driver", replicas=2)
    stage.member("worker", replicas=8)
    async with stage.led():
        await stage.until(lambda: stage.status().get("waiting") == 9)
    async with stage.led("two"):
        await stage.calm(5)
        assert (stage.status()["waiting"], stage.phase()) == (9, "Scheduling")


@pytest.mark.proves("G5", "G16")
async def test_what_is_held_again_after_a_check_that_found_nothing_held_is_told(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch, controllers: list[books.GroupController]
):
    """Its Workloads say the same before and after, so no change of theirs tells of it."""
    stage.cluster("m3", cpu="16")
    async with stage.led():
        stage.group(least=10)
        stage.member("driver", replicas=2)
        stage.member("worker", replicas=8)
        await stage.until(lambda: stage.status().get("waiting") == 9)
        (kept,) = controllers
        with monkeypatch.context() as released:
            released.setattr(kept, "_on_their_way", lambda *_: {})
            early = {"waiting": 0, "phase": "Pending"}
            stage.hub.edit(WORKLOAD_GROUPS, "batch", {"status": early}, status=True)
            await stage.calm(30)
            assert stage.status()["waiting"] == 0
        kept._memory.hold_on(("shop", "batch"))
        await stage.calm(3)
        assert (stage.status()["waiting"], stage.phase()) == (9, "Scheduling")


# --- closing --------------------------------------------------------------------------------------


@pytest.mark.proves("G24")
async def test_a_failure_before_the_quorum_takes_all_of_it_away_and_tries_anew(stage: Gangs):
    stage.cluster("m3", cpu="7")
    clears(stage)
    async with stage.led():
        await opened(stage)
        stage.reports("driver")
        stage.reports("worker", "Failed")
        await stage.until(lambda: closes(stage), seconds=2)
        assert not stage.released()
        assert stage.tells()[1] == "PropagationFailed"
        assert "Workload worker is Failed" in stage.tells()[2]
        await stage.until(lambda: not stage.placed("driver") and not stage.placed("worker"))
        await stage.until(lambda: not stage.gate(), seconds=3)
        assert stage.status()["failures"] == 1
        await stage.calm(5)
        assert stage.tells()[1] == "PropagationFailed"
        assert not stage.placed("worker"), "not before the time that it says"
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=15)
        for name in ("driver", "worker"):
            stage.reports(name)
        await stage.until(lambda: stage.phase() == "Running")
        assert stage.status()["failures"] == 0
        assert len(stage.told("PropagationFailed")) == 1


@pytest.mark.proves("G18")
async def test_a_group_that_goes_and_comes_again_takes_nothing_away(stage: Gangs):
    async with stage.led():
        await run(stage)
        before = {name: stage.placed(name) for name in ("driver", "worker")}
        stage.hub.remove(WORKLOAD_GROUPS, "batch")
        await stage.calm(5)
        assert {name: stage.placed(name) for name in before} == before
        stage.group()
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=3)
        assert {name: stage.placed(name) for name in before} == before
        assert stage.phase() == "Running"
        assert not closes(stage)


# --- who leads ------------------------------------------------------------------------------------


@pytest.mark.proves("G19")
async def test_a_restart_in_which_nothing_happened_writes_nothing(stage: Gangs):
    async with stage.led():
        await run(stage)
        await stage.calm(5)
    before, writes = stage.status(), stage.writes()
    async with stage.led("two"):
        await stage.calm(20)
        assert stage.status() == before
        assert stage.writes() == writes


@pytest.mark.proves("G20", "G24")
async def test_a_write_of_a_leader_that_leads_no_more_opens_nothing(stage: Gangs):
    """It hangs for a minute, in which another one has opened the gate and closed it."""
    gates: list[str] = []
    arrived: list[str] = []
    hung = cut_off = False

    async def hangs(method: str, path: str, body: Any) -> None:
        nonlocal hung, cut_off
        if cut_off and "/leases/" in path and method != "GET":
            holder = body.get("spec", {}).get("holderIdentity")
            if holder == "one":
                raise Unreachable("no route")
        ours = method == "PATCH" and path.endswith("/batch/status")
        if ours and not hung and body["status"].get("gate") == "Open":
            hung = cut_off = True
            until = stage.clock.monotonic() + 60
            while stage.clock.monotonic() < until:  # it has left the process and is on its way
                with suppress(asyncio.CancelledError):
                    await stage.clock.sleep(1)
            arrived.append(stage.gate())

    async def follow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/batch/status"):
            gates.append(stage.gate())

    stage.hub.faults.append(hangs)
    stage.hub.after.append(follow)
    clears(stage)
    async with stage.led(), stage.led("two", standby=True):
        gang(stage)
        await stage.until(lambda: hung)
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=40)
        for name in ("m1", "m2"):
            stage.hub.edit(MEMBER_CLUSTERS, name, {"spec": {"unschedulable": True}})
        stage.reports("worker", "Failed")
        await stage.until(lambda: closes(stage), seconds=5)
        await stage.until(lambda: arrived, seconds=60)
        await stage.calm(5)
    turns = [gate for gate, before in zip(gates, ["", *gates], strict=False) if gate != before]
    assert turns == ["Open", "Closed", ""]
    assert arrived == [""], "it came to the hub, and was too late"


@pytest.mark.proves("G20")
async def test_who_scribbles_in_the_status_is_put_right_once_a_second(stage: Gangs):
    right = {"driver": True, "worker": True}
    scribble = {"scheduled": 77, "phase": "Failed", "decisions": {"y": "z"}}
    async with stage.led():
        await run(stage)
        before = stage.writes()
        for _ in range(100):
            stage.hub.edit(WORKLOAD_GROUPS, "batch", {"status": scribble}, status=True)
            await stage.calm(0.1)
        await stage.until(lambda: stage.decisions() == right, seconds=2)
        assert stage.writes() - before <= 14
        assert (stage.status()["scheduled"], stage.phase()) == (4, "Running")


@pytest.mark.proves("G20")
async def test_two_that_lead_at_once_write_one_status_together(stage: Gangs, tmp_path: Path):
    """As where a leader does not know yet that it leads no more."""
    alone = tmp_path / "alone.yaml"
    alone.write_text(f"{CONFIGURATION}leaderElection:\n  leaderElect: false\n")
    seen: list[dict[str, Any]] = []

    async def follow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/batch/status"):
            seen.append(stage.status())

    stage.hub.after.append(follow)
    clears(stage)
    async with stage.configured(alone), stage.configured(alone, identity="two"):
        gang(stage)
        await stage.until(lambda: stage.released() == {"driver", "worker"})
        for name in ("driver", "worker"):
            stage.reports(name)
        await stage.until(lambda: stage.phase() == "Running")
        await stage.calm(10)
    gates = [each.get("gate") for each in seen]
    assert gates == sorted(gates, key=lambda gate: gate == "Open"), "once open it stays so"
    assert stage.tells()[:2] == ("True", "Scheduled")
    assert stage.status()["scheduled"] == 4
    assert len(seen) <= 12


@pytest.mark.proves("G24")
async def test_a_controller_of_another_scheduler_leaves_its_gangs_alone(
    stage: Gangs, tmp_path: Path
):
    """Both keep the books of all groups; only one knows what is held."""
    other = tmp_path / "other.yaml"
    other.write_text(f"{CONFIGURATION}profiles:\n- schedulerName: other\n")
    stage.cluster("m3", cpu="16")
    async with stage.led(), stage.configured(other, identity="two"):
        stage.group(least=10, scheduleTimeoutSeconds=600)
        stage.member("driver", replicas=2)
        stage.member("worker", replicas=8)
        await stage.until(lambda: stage.status().get("waiting") == 9)
        await stage.calm(5)
        before = stage.writes()
        await stage.calm(30)
        assert stage.writes() - before < 3
        assert stage.status()["waiting"] == 9


@pytest.mark.proves("G24")
async def test_a_gang_that_another_controller_sees_closed_is_emptied_all_the_same(
    stage: Gangs, tmp_path: Path
):
    other = tmp_path / "other.yaml"
    other.write_text(f"{CONFIGURATION}profiles:\n- schedulerName: other\n")
    async with stage.led(), stage.configured(other, identity="two"):
        await opened(stage)
        said = {"type": "Propagated", "status": "False", "observedGeneration": 1}
        refused = {**said, "reason": "SecretNotFound", "message": "there is none"}
        status = {"conditions": [refused]}
        stage.hub.edit(WORKLOADS, "worker", {"status": status}, status=True)
        await stage.until(lambda: not stage.placed("driver") and not stage.placed("worker"))
        assert stage.status()["failures"] == 1


async def test_nothing_is_kept_of_names_that_no_group_has(
    stage: Gangs, controllers: list[books.GroupController]
):
    async with stage.led():
        (kept,) = controllers
        stage.member("driver", of="none")
        for number in range(20):
            labels = {LABEL_GROUP: f"none-{number}"}
            stage.hub.edit(WORKLOADS, "driver", {"metadata": {"labels": labels}})
            await stage.calm(0.1)
        await stage.calm(12)
        assert not kept._watched


async def test_nothing_is_kept_of_a_group_that_goes_while_its_status_is_written(
    stage: Gangs, controllers: list[books.GroupController]
):
    async def goes(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and "/workloadgroups/batch/" in path:
            stage.hub.after.remove(goes)
            stage.hub.remove(WORKLOAD_GROUPS, "batch")
            await stage.clock.sleep(1)  # its news is here before the answer

    async with stage.led():
        (kept,) = controllers
        stage.hub.after.append(goes)
        stage.group()
        await stage.until(lambda: goes not in stage.hub.after)
        await stage.calm(12)
        assert not kept._watched


# --- phases, neighbours, choices -------------------------------------------------------------------


@pytest.mark.proves("G2")
async def test_of_too_many_workloads_the_first_stay_released(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
):
    for module in (
        "controller.features.workloadgroup.gate.controller",
        "controller.features.workloadgroup.gate.status",
        "controller.features.workloadgroup.plugin",
    ):
        monkeypatch.setattr(f"{module}.MOST_WORKLOADS", 3)
    stage.cluster("m3", cpu="100")
    async with stage.led():
        stage.group(least=2)
        for name in ("a", "b", "c"):
            stage.member(name, replicas=1)
        await stage.until(lambda: stage.released() == {"a", "b", "c"})
        stage.member("0", replicas=1)
        await stage.until(lambda: stage.tells()[1] == "TooManyWorkloads")
        assert "has 4 Workloads, 3 at most" in stage.tells()[2]
        assert stage.released() == {"a", "b", "c"}
    async with stage.led("two"):
        await stage.calm(10)
        assert stage.released() == {"a", "b", "c"}, "whatever came first to this one"


@pytest.mark.proves("E14")
async def test_without_its_controller_members_say_why_nothing_is_released(stage: Gangs):
    async with stage.led(controller_plugins="*,-Coscheduling"):
        gang(stage)
        await stage.until(lambda: "is switched off" in stage.says("worker")[2])
        assert "--controller-plugins" in stage.says("driver")[2]
        assert not stage.placed("worker")
        assert stage.writes() == 0


async def test_a_group_whose_status_the_hub_does_not_take_for_now_is_brought_up_to_date(
    stage: Gangs,
):
    away = True

    async def fails(method: str, path: str, _body: Any) -> None:
        if away and method == "PATCH" and "/workloadgroups/" in path:
            raise Unreachable("no route")

    stage.hub.faults.append(fails)
    async with stage.led():
        gang(stage)
        await stage.until(lambda: sum(stage.placed("worker").values()) == 3)
        await stage.calm(5)
        assert not stage.status()
        away = False
        await stage.until(lambda: stage.released() == {"driver", "worker"}, seconds=70)


# --- how large it may be --------------------------------------------------------------------------


@pytest.mark.proves("N9")
async def test_what_the_hub_takes_for_too_large_is_told_in_a_short_status(stage: Gangs):
    """It tries no larger one again, and opens once the group is small enough."""
    tried: list[int] = []

    async def small(method: str, path: str, body: Any) -> None:
        noted = (body or {}).get("status", {}).get("decisions") or {}
        if method == "PATCH" and "/workloadgroups/" in path and len(noted) > 2:
            tried.append(len(noted))
            raise ApiError.of(code=500, reason="", message="etcdserver: request is too large")

    stage.hub.faults.append(small)
    stage.cluster("m3", cpu="100")
    stage.group(least=6)
    for name in ("one", "two", "three"):
        stage.member(name)
    async with stage.led():
        await stage.until(lambda: stage.tells()[1] == "TooLarge")
        assert "make several groups of it" in stage.tells()[2]
        assert not stage.gate()
        assert not stage.decisions()
        before = len(tried)
        await stage.calm(20)
        assert before == len(tried) == 1
        assert len(stage.told("TooLarge")) == 1
        stage.hub.edit(WORKLOAD_GROUPS, "batch", {"spec": {"minMember": 4}})
        stage.hub.remove(WORKLOADS, "three")
        await stage.until(lambda: stage.released() == {"one", "two"})
        assert stage.tells()[:2] == ("True", "Scheduled")


# --- what ran before it -----------------------------------------------------------------------------


@pytest.mark.proves("N8")
@pytest.mark.parametrize("dies", ["opened", "closed", ""], ids=["open", "closed", "emptied"])
async def test_what_ran_before_keeps_its_placements_whoever_leads_when_it_closes(
    stage: Gangs, dies: str
):
    """Three units ran alone; a fourth and a sibling come with the group, and go back with it."""
    stage.cluster("m3", cpu="100")
    clears(stage)
    async with stage.led():
        about = {"replicas": 3, "cpu": "3", "distribution": "Divided"}
        stage.workload("old", **about, clusterSelector={"stowage.dev/cluster": "m3"})
        await stage.until(lambda: stage.placed("old") == {"m3": 3})
        stage.reports("old", scheduled=3)
        stage.group(least=6)
        label = {"metadata": {"labels": {LABEL_GROUP: "batch"}}, "spec": {"replicas": 4}}
        stage.hub.edit(WORKLOADS, "old", label)
        stage.member("new", clusterSelector={"stowage.dev/cluster": "m2"})
        await stage.until(lambda: stage.released() == {"old", "new"})
        if dies != "opened":
            stage.reports("new", "Failed")
            await stage.until(lambda: closes(stage) if dies else not stage.placed("new"))
    if dies == "opened":
        stage.reports("new", "Failed")
    async with stage.led("two"):
        await stage.until(lambda: not stage.placed("new") and stage.placed("old") == {"m3": 3})
        assert stage.status()["failures"] == 1
        assert stage.tells()[1] == "PropagationFailed"
        uid = stage.hub.read(WORKLOADS, "old")["metadata"]["uid"]
        assert stage.status()["retained"] == {uid: {"m3": 3}}
        await stage.until(lambda: not stage.gate())
        assert stage.placed("old") == {"m3": 3}
        await stage.until(lambda: stage.released() == {"old", "new"}, seconds=40)
        assert stage.placed("old") == {"m3": 4}
        assert stage.status()["retained"] == {uid: {"m3": 3}}
        for name in ("old", "new"):
            stage.reports(name)
        await stage.until(lambda: stage.phase() == "Running")
        assert not stage.status().get("retained")


@pytest.mark.proves("N8", "A8")
async def test_what_ran_before_keeps_its_placements_on_a_cluster_that_was_renamed(stage: Gangs):
    """Noted by the former name, as the gate was open when the cluster was renamed."""
    stage.cluster("m3", cpu="100", zone="x")
    clears(stage)
    async with stage.led():
        about = {"replicas": 3, "cpu": "3", "distribution": "Divided"}
        stage.workload("old", **about, clusterSelector={"zone": "x"})
        await stage.until(lambda: stage.placed("old") == {"m3": 3})
        stage.reports("old", scheduled=3)
        stage.group(least=6)
        label = {"metadata": {"labels": {LABEL_GROUP: "batch"}}, "spec": {"replicas": 4}}
        stage.hub.edit(WORKLOADS, "old", label)
        stage.member("new", clusterSelector={"stowage.dev/cluster": "m2"})
        await stage.until(lambda: stage.released() == {"old", "new"})
        stage.cluster("rome", cpu="100", zone="x")
        stage.hub.edit(MEMBER_CLUSTERS, "rome", {"spec": {"formerNames": ["m3"]}})
        stage.hub.remove(MEMBER_CLUSTERS, "m3")
        await stage.until(lambda: stage.placed("old") == {"rome": 4})
        stage.reports("new", "Failed")
        await stage.until(lambda: not stage.placed("new"))
        assert stage.placed("old") == {"rome": 3}
        uid = stage.hub.read(WORKLOADS, "old")["metadata"]["uid"]
        assert stage.status()["retained"] == {uid: {"rome": 3}}
