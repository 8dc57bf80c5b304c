"""Huge, hostile and old groups harm nothing else; sets are decided in short steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.framework.status import Status, unschedulable
from controller.scheduling import sets
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import Steps
from crds.workload import ScheduledReason
from machinery.api.resources import WORKLOAD_GROUPS
from tests.controller.crews import Crew
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.make import NOW, info
from tests.controller.memory import Stage
from tests.controller.scheduling.test_gathered import all_say, with_crew
from tests.controller.scheduling.test_long_sets import View

MOST_IN_A_STEP = 50
"""Members that are withheld; of those that are decided it is one."""
DENIED = unschedulable("Crew", "the harbour is shut", reason=ScheduledReason.GROUP_DENIED)


@pytest.fixture
def stage() -> Stage:
    return Stage("a", cpu="4")


def in_steps(steps: Steps[Batch]) -> tuple[Batch, int]:
    """What is decided, and the number of steps."""
    number = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            batch: Batch = end.value
            return batch, number
        number += 1


@pytest.fixture
def gangs(tmp_path: Path) -> Gangs:
    made = Gangs(tmp_path)
    made.cluster("a", cpu="8")
    return made


# --- sets of any plugin ---------------------------------------------------------------------------


@pytest.mark.proves("L7")
@pytest.mark.parametrize(("size", "refusal"), [(100, None), (500, DENIED)])
def test_a_large_set_is_decided_in_short_steps(
    monkeypatch: pytest.MonkeyPatch, size: int, refusal: Status | None
) -> None:
    decided, decide = list[int](), sets.decide

    def counted(*about: Any) -> Any:
        decided[-1] += 1
        return decide(*about)

    def noted(steps: Steps[Batch]) -> Steps[Batch]:
        while True:
            decided.append(0)
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            yield

    monkeypatch.setattr(sets, "decide", counted)
    crew = Crew([f"w{n}" for n in range(size)], least=2 * size, refusal=refusal)
    units = [info(name, replicas=1) for name in crew.names]
    view, profile = View(["4"] * 10, units), with_crew(crew)
    batch, steps = in_steps(noted(decide_set(view, units[0], {"stowage": profile}, NOW)))
    assert len(batch.decisions) == size
    assert max(decided) <= 2
    assert steps >= (size // MOST_IN_A_STEP if refusal else size)


def test_few_decisions_of_a_large_set_are_kept_with_all_that_they_were_decided_on() -> None:
    """Four thousand of them, in a fleet of five thousand, would be more than a process has."""
    crew = Crew([f"w{n}" for n in range(100)], least=1)
    units = [info(name, replicas=1, distribution="Divided") for name in crew.names]
    view, profile = View(["100"] * 10, units), with_crew(crew)
    batch, _ = in_steps(decide_set(view, units[99], {"stowage": profile}, NOW))
    full = [d.workload.name for d in batch.decisions if d.cycle_state.plan is not None]
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


@pytest.mark.long
async def test_members_that_a_fault_leaves_undecided_have_turns_of_their_own(stage: Stage) -> None:
    crew = Crew([f"w{n}" for n in range(20)], least=1, fails_at="judge")
    for name in crew.names:
        stage.workload(name, replicas=1)
    async with stage.leading(with_crew(crew)):
        await all_say(stage, "PluginError", *crew.names)


# --- groups that are huge, hostile or old ---------------------------------------------------------


@pytest.mark.proves("G1", "G12")
@pytest.mark.parametrize("least", [2**31 - 1, 10**30])
async def test_a_quorum_beyond_all_bounds_harms_nobody_else(gangs: Gangs, least: int) -> None:
    gangs.group(least=least)
    gangs.member("worker", replicas=1, cpu="1")
    gangs.workload("other", replicas=1)
    async with gangs.led():
        await gangs.until(lambda: gangs.says("worker")[0] == "False" and gangs.placed("other"))
        await gangs.calm(10)
        assert gangs.says("worker")[1] in ("GroupIncomplete", "InvalidGroup")
        assert gangs.placed("worker") == {}
        assert gangs.phase() in ("Pending", "")
        assert gangs.writes() <= 3


@pytest.mark.proves("G1", "G23")
@pytest.mark.parametrize(
    "amounts",
    [
        {"cpu": "1" + "0" * 400},
        {"cpu": "1e999999999"},
        {"cpu": {"much": True}},
        {f"example.com/r{n}": "1" for n in range(500)},
        {"x" * 100_000: "1"},
        {"cpu\nScheduled: all is well": "-5"},
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
        assert "\n" not in message
        assert len(message) < 2000
        assert gangs.writes() <= 3


@pytest.mark.long
@pytest.mark.proves("G1", "G19")
@pytest.mark.parametrize(
    "status",
    [
        {"phase": 5, "failures": "many", "retryTime": [], "conditions": "none"},
        {"gate": 7, "decisions": "all", "quorumTime": 3},
        {"gate": "Open", "decisions": {"worker": 5}, "observedGeneration": "x"},
        {"gate": "Ajar", "decisions": {"nobody": "0"}, "retryTime": "soon"},
        {"decisions": {f"u{n}": "d" for n in range(30_000)}},
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
        assert gangs.decisions() == {"worker": True}
        assert gangs.writes() <= 4
