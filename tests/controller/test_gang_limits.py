"""Sets that are decided as one, and groups: huge ones, hostile ones, and storms over many."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.features.reservation.plugin import Reservation
from controller.features.workloadgroup.plugin import Coscheduling
from controller.framework.status import Status, unschedulable
from controller.model.unit import Unit
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import Steps
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.names import LABEL_GROUP
from crds.workload import ScheduledReason
from machinery.api.resources import MEMBER_CLUSTERS, RESERVATIONS, WORKLOAD_GROUPS, WORKLOADS
from tests.loopsteps import held

from .crews import Crew
from .grouping import Gangs, group
from .live import condition, deployment
from .make import NOW, REQUIRED, beside, unit
from .memory import Stage
from .reserving import reservation
from .test_gathered import all_say, with_crew
from .test_long_sets import View, no_collection

STEP_SECONDS = 0.05
GROUPS, OF_EACH, MEMBERS = 40, 5, 100
SLOW = 2
"""For slow machines."""
DENIED = unschedulable("Crew", "the harbour is shut", reason=ScheduledReason.GROUP_DENIED)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.cluster("a", cpu="4")
    return made


def in_steps(steps: Steps[Batch]) -> tuple[Batch, float]:
    """What is decided, and the processor time of the longest step."""
    longest = 0.0
    while True:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            batch: Batch = end.value
            return batch, max(longest, time.thread_time() - began)
        longest = max(longest, time.thread_time() - began)


@pytest.fixture
def gangs(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.cluster("a", cpu="8")
    return made


# --- sets of any plugin ---------------------------------------------------------------------------


@pytest.mark.proves("L7")
@pytest.mark.parametrize(("size", "refusal"), [(400, None), (MOST_WORKLOADS, DENIED)])
def test_a_large_set_is_decided_in_short_steps(size: int, refusal: Status | None) -> None:
    crew = Crew([f"w{n}" for n in range(size)], least=2 * size, refusal=refusal)
    units = [unit(name, replicas=1) for name in crew.names]
    view, profile = View(["4"] * 10, units), with_crew(crew)
    with no_collection():
        batch, longest = in_steps(decide_set(view, units[0], {"stowage": profile}, NOW))
    assert len(batch.decisions) == size
    assert longest < SLOW * STEP_SECONDS


def test_few_decisions_of_a_large_set_are_kept_with_all_that_they_were_decided_on() -> None:
    """Four thousand of them, in a fleet of five thousand, would be more than a process has."""
    crew = Crew([f"w{n}" for n in range(100)], least=1)
    units = [unit(name, replicas=1, distribution="Divided") for name in crew.names]
    view, profile = View(["100"] * 10, units), with_crew(crew)
    batch, _ = in_steps(decide_set(view, units[99], {"stowage": profile}, NOW))
    full = [d.unit.name for d in batch.decisions if d.cycle_state.plan is not None]
    assert len(full) < 70
    assert "w99" in full, "it is the one that somebody asks about"


async def test_members_that_are_woken_together_make_one_pass(stage: Stage) -> None:
    crew = Crew([f"w{n}" for n in range(20)], least=10**6)
    for name in crew.names:
        stage.workload(name, replicas=1, cpu="8")
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "GroupDenied", *crew.names)
        await stage.calm(30)
        assert len(crew.judged) <= 2
        before = len(crew.judged)
        stage.cluster("b", cpu="1")
        await stage.calm(30)
        assert 1 <= len(crew.judged) - before <= 2


async def test_members_that_a_fault_leaves_undecided_have_turns_of_their_own(stage: Stage) -> None:
    crew = Crew([f"w{n}" for n in range(20)], least=1, fails_at="judge")
    for name in crew.names:
        stage.workload(name, replicas=1)
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "PluginError", *crew.names)


# --- groups that are huge, hostile or old ---------------------------------------------------------


@pytest.mark.proves("G1", "G12")
@pytest.mark.parametrize("least", [2**31 - 1, 2**63 - 1, 10**30])
async def test_a_quorum_beyond_all_bounds_harms_nobody_else(gangs: Gangs, least: int) -> None:
    gangs.group(least=least)
    gangs.member("worker", replicas=1, cpu="1")
    gangs.workload("other", replicas=1)
    async with gangs.led():
        await gangs.until(lambda: gangs.says("worker")[0] == "False" and gangs.placed("other"))
        await gangs.calm(10)
        assert gangs.says("worker")[1] in ("WaitingForGroup", "InvalidGroup")
        assert gangs.placed("worker") == {}
        assert gangs.phase() in ("Pending", "")
        assert gangs.writes() <= 3


@pytest.mark.proves("G1", "G23")
@pytest.mark.parametrize(
    "amounts",
    [
        {"cpu": "1" + "0" * 400},
        {"cpu": "1e999999999"},
        {"cpu": "999999999999999E"},
        {"cpu": "-5"},
        {"cpu": ["1"]},
        {"cpu": {"much": True}},
        {f"example.com/r{n}": "1" for n in range(500)},
        {"x" * 100_000: "1"},
        "all",
    ],
    ids=lambda amounts: str(amounts)[:24],
)
async def test_amounts_that_make_no_sense_are_told_and_harm_nobody_else(
    gangs: Gangs, amounts: Any
) -> None:
    gangs.group(least=1, minResources=amounts)
    gangs.member("worker", replicas=1, cpu="1")
    gangs.workload("other", replicas=1)
    async with gangs.led():
        await gangs.until(lambda: gangs.says("worker")[0] == "False" and gangs.placed("other"))
        await gangs.calm(10)
        _, reason, message = gangs.says("worker")
        assert reason in ("InvalidGroup", "GroupDenied")
        assert "minResources" in message
        assert len(message) < 2000
        assert gangs.writes() <= 3


@pytest.mark.proves("G1", "G19")
@pytest.mark.parametrize(
    "status",
    [
        {"phase": 5, "failures": "many", "retryTime": [], "conditions": "none"},
        {"gate": 7, "released": "all", "quorumTime": 3},
        {"gate": "Open", "released": ["worker", None, {"uid": 5}], "observedGeneration": "x"},
        {"gate": "Ajar", "released": [{"uid": "nobody", "decision": "0"}], "retryTime": "soon"},
        {"released": [{"name": f"w{n}", "uid": f"u{n}", "decision": "d"} for n in range(30_000)]},
        {"conditions": [{"type": 7}, {}, {"type": "Scheduled", "status": 5, "reason": []}]},
    ],
    ids=["types", "gate", "entries", "strangers", "30000", "conditions"],
)
async def test_whatever_a_status_says_the_gang_is_placed_and_released(
    gangs: Gangs, status: Any
) -> None:
    gangs.group(least=2)
    gangs.hub.edit(WORKLOAD_GROUPS, "batch", {"status": status}, status=True)
    gangs.member("worker", replicas=2, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.gate() == "Open" and gangs.released() == {"worker"})
        await gangs.calm(5)
        assert gangs.phase() == "Scheduled"
        assert gangs.tells()[0] == "True"
        assert [each["name"] for each in gangs.status()["released"]] == ["worker"]
        assert gangs.writes() <= 4


@pytest.mark.proves("G1")
@pytest.mark.parametrize("spec", [7, [], "x", {"minMember": "4"}, {"minMember": None}, {}])
async def test_whatever_a_spec_says_its_members_are_told(gangs: Gangs, spec: Any) -> None:
    stored = group()
    gangs.hub.put(WORKLOAD_GROUPS, {**stored, "spec": spec})
    gangs.member("worker", replicas=1, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.says("worker")[1] == "InvalidGroup")
        assert "spec" in gangs.says("worker")[2]
        assert gangs.placed("worker") == {}


@pytest.mark.proves("G2", "G25")
async def test_a_label_reaches_no_group_of_another_namespace(gangs: Gangs) -> None:
    gangs.group(least=4)
    gangs.member("worker", replicas=2, cpu="1")
    mine = gangs.hub.read(WORKLOADS, "worker")
    meta = {"name": "worker", "namespace": "other", "labels": mine["metadata"]["labels"]}
    gangs.hub.put(WORKLOADS, {**mine, "metadata": meta})
    async with gangs.led():
        await gangs.until(lambda: gangs.says("worker")[0] == "False")
        await gangs.calm(5)
        elsewhere = gangs.hub.read(WORKLOADS, "worker", "other")["status"]
        assert condition(elsewhere, "Scheduled")["reason"] == "GroupNotFound"
        assert "has 2 units in all its Workloads, minMember is 4" in gangs.says("worker")[2]
        assert gangs.status()["desired"] == 2


# --- gangs beside everything else -----------------------------------------------------------------


def requires(name: str) -> dict[str, Any]:
    return {REQUIRED: [beside(name)]}


@pytest.mark.proves("G3", "G26")
async def test_members_that_require_each_other_are_placed_beside_each_other(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="20")
    gangs.group(least=10)
    gangs.member(
        "one", replicas=5, cpu="1", distribution="Single", workloadAffinity=requires("two")
    )
    gangs.member(
        "two", replicas=5, cpu="1", distribution="Single", workloadAffinity=requires("one")
    )
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"one", "two"})
        assert gangs.placed("one") == gangs.placed("two") == {"b": 5}


@pytest.mark.proves("G4", "G26")
async def test_members_that_require_each_other_and_have_no_room_hold_nothing(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="8")
    gangs.group(least=10)
    gangs.member(
        "one", replicas=5, cpu="1", distribution="Single", workloadAffinity=requires("two")
    )
    gangs.member(
        "two", replicas=5, cpu="1", distribution="Single", workloadAffinity=requires("one")
    )
    async with gangs.led():
        await all_say(gangs, "GroupDenied", "one", "two")
        await gangs.calm(10)
        assert (gangs.placed("one"), gangs.placed("two"), gangs.gate()) == ({}, {}, "")
        gangs.workload("other", replicas=8)
        await gangs.until(lambda: gangs.placed("other"))
        gangs.cluster("c", cpu="10")
        await gangs.until(lambda: gangs.released() == {"one", "two"})


@pytest.mark.proves("G5", "G12", "G26")
async def test_members_that_run_everywhere_count_on_each_cluster(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="8")
    gangs.group(least=6)
    gangs.member("copies", replicas=1, cpu="1", distribution="Duplicated")
    daemon = {**deployment("daemon", "1"), "kind": "DaemonSet"}
    daemon["spec"].pop("replicas", None)
    labels = {LABEL_GROUP: "batch"}
    gangs.workload("daemon", labels=labels, distribution="Duplicated", targetDeployment=daemon)
    gangs.member("worker", replicas=2, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"copies", "daemon", "worker"})
        assert gangs.placed("copies") == {"a": 1, "b": 1}
        assert sorted(gangs.placed("daemon")) == ["a", "b"]
        assert sum(gangs.placed("worker").values()) == 2


@pytest.mark.proves("G3")
async def test_a_hook_may_change_the_units_of_a_member(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubles(_hook: Any, _state: Any, unit: Unit, _fleet: Any, _bound: Any) -> tuple[Unit, bool]:
        return replace(unit, replicas=2 * unit.replicas), True

    monkeypatch.setattr(Reservation, "before_pre_filter", doubles)
    gangs.group(least=4)
    gangs.member("one", replicas=2, cpu="1")
    gangs.member("two", replicas=2, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released() == {"one", "two"})
        assert gangs.placed("one") == gangs.placed("two") == {"a": 4}


@pytest.mark.proves("G3", "G13", "E28")
async def test_room_that_is_held_for_its_members_lets_a_gang_in(gangs: Gangs) -> None:
    owners = [{"labelSelector": {"matchLabels": {LABEL_GROUP: "batch"}}}]
    room = reservation(replicas=6, requests={"cpu": "1"}, owners=owners, allocateOnce=False)
    gangs.hub.put(RESERVATIONS, room)
    async with gangs.led():
        await gangs.until(
            lambda: (
                gangs.hub.read(RESERVATIONS, "room").get("status", {}).get("phase") == "Available"
            )
        )
        gangs.workload("stranger", replicas=3, cpu="1")
        await gangs.until(lambda: gangs.says("stranger")[0] == "False")
        gangs.group(least=8)
        gangs.member("one", replicas=4, cpu="1")
        gangs.member("two", replicas=4, cpu="1")
        await gangs.until(lambda: gangs.released() == {"one", "two"})


POINTS = ["gathering", "attempts", "judge", "concluded"]


@pytest.mark.proves("L4")
@pytest.mark.parametrize("point", POINTS)
async def test_a_fault_over_one_gang_is_told_on_its_members_alone(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    sound = getattr(Coscheduling, point)

    def fails(plugin: Any, about: Any, *more: Any) -> Any:
        if "bad" in (about.groups if isinstance(about, Unit) else about.key):
            raise RuntimeError("out of order")
        return sound(plugin, about, *more)

    monkeypatch.setattr(Coscheduling, point, fails)
    for name in ("bad", "good"):
        gangs.group(name, least=2)
        for number in range(2):
            gangs.member(f"{name}-{number}", of=name, replicas=1, cpu="1")
    async with gangs.led():
        await gangs.until(lambda: gangs.released("good") == {"good-0", "good-1"})
        if point == "concluded":  # it is decided, and that it was noted nowhere is in the log
            await gangs.until(lambda: gangs.released("bad") == {"bad-0", "bad-1"})
            return
        await all_say(gangs, "PluginError", "bad-0", "bad-1")
        assert "out of order" in gangs.says("bad-0")[2]
        assert gangs.placed("bad-0") == {}


# --- storms ---------------------------------------------------------------------------------------


@pytest.mark.proves("L7", "G11", "G14")
@pytest.mark.parametrize(
    ("what", "most"), [("memory", 1), ("cpu", 9)], ids=["says-nothing-new", "says-another-gap"]
)
async def test_a_storm_over_denied_gangs_costs_few_looks_and_no_more_writes(
    gangs: Gangs, monkeypatch: pytest.MonkeyPatch, what: str, most: int
) -> None:
    """A hundred times in twenty seconds some cluster has more room, and it is never enough."""
    count, lacks = Counter[str](), Coscheduling._lacks

    def counted(plugin: Any, about: Any, *more: Any) -> Any:
        count[about.name] += 1
        return lacks(plugin, about, *more)

    monkeypatch.setattr(Coscheduling, "_lacks", counted)
    for number in range(GROUPS):
        gangs.group(f"g{number}", least=2 * OF_EACH)
        for one in range(OF_EACH):
            gangs.member(f"g{number}-{one}", of=f"g{number}", replicas=2, cpu="20")
    async with gangs.led():
        await gangs.calm(30)
        before, looks = len(gangs.hub.writes("/status")), count.total()
        assert looks <= 3 * GROUPS
        with held(STEP_SECONDS) as steps:
            for number in range(100):
                free = {"cpu": "8", "memory": "32Gi", "pods": "110"}
                free[what] = {"memory": "33Gi", "cpu": "9"}[what] if number % 2 else free[what]
                gangs.hub.edit(MEMBER_CLUSTERS, "a", {"status": room_of(free)}, status=True)
                await gangs.calm(0.2)
        paths = [path for _, path, _ in gangs.hub.writes("/status")[before:]]
        assert max(Counter(paths).values(), default=0) <= most
        assert 0 < count.total() - looks <= 10 * GROUPS, "each waits longer and longer"
        assert [each for each in steps if not each.aside] == []


def room_of(free: dict[str, str]) -> dict[str, Any]:
    """The status of a cluster of one node."""
    groups = [{"count": 1, "free": dict(free)}]
    return {"nodeGroups": groups, "capacity": {"nodes": 1, "allocatable": free, "requested": {}}}


@pytest.mark.proves("L7", "G12")
async def test_one_after_the_other_the_members_of_a_large_gang_cost_a_few_writes_each(
    gangs: Gangs,
) -> None:
    gangs.cluster("b", cpu="999", pods="999")
    gangs.group(least=MEMBERS)
    async with gangs.led():
        for number in range(MEMBERS):
            gangs.member(f"w{number}", replicas=1, cpu="1")
            await gangs.calm(0.3)
        await gangs.until(lambda: len(gangs.released()) == MEMBERS, seconds=60)
        assert len(gangs.hub.writes("/workloads/")) <= 6 * MEMBERS
        assert gangs.writes() <= 2 * MEMBERS


@pytest.mark.proves("L7", "G19")
async def test_a_restart_over_many_gangs_takes_short_steps_and_writes_nothing(gangs: Gangs) -> None:
    gangs.cluster("b", cpu="999", pods="999")
    for number in range(GROUPS):
        gangs.group(f"g{number}", least=OF_EACH)
        for one in range(OF_EACH):
            gangs.member(f"g{number}-{one}", of=f"g{number}", replicas=1, cpu="1")
    last = f"g{GROUPS - 1}"
    async with gangs.led():
        done = [f"g{number}" for number in range(GROUPS)]
        await gangs.until(lambda: all(len(gangs.released(g)) == OF_EACH for g in done), seconds=60)
        await gangs.calm(5)
        assert gangs.writes() <= 4 * GROUPS
    before, asked = len(gangs.hub.writes("/")), gangs.status(last)
    with held(STEP_SECONDS) as steps:
        async with gangs.led("two"):
            await gangs.calm(30)
    news = [path for _, path, _ in gangs.hub.writes("/")[before:] if "/leases" not in path]
    assert news == []
    assert gangs.status(last) == asked
    assert [each for each in steps if not each.aside] == []
