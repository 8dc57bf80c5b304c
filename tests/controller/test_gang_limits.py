"""Sets that are decided as one, and groups: huge ones, hostile ones, and storms over many."""

from __future__ import annotations

import time

import pytest

from controller.framework.status import Status, unschedulable
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import Steps
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason

from .crews import Crew
from .make import NOW, unit
from .memory import Stage
from .test_gathered import all_say, with_crew
from .test_long_sets import View, no_collection

STEP_SECONDS = 0.05
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
