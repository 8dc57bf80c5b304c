"""Decisions are made in the order of the queue, also where one of them takes many steps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller import scheduler
from controller.model.unit import WorkloadInfo
from controller.scheduling import steps
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import LONGEST_SECONDS, CycleLock, Steps
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.fakeclock import FakeClock, settle

MANY = 60


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    return Gangs(tmp_path)


@pytest.mark.proves("G7", "G8")
async def test_a_later_one_takes_no_room_while_a_gang_is_decided(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for the gang of many Workloads, for the later gang, or for the stranger."""
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    many = [f"m{n:02}" for n in range(MANY)]
    stage.cluster("a", cpu=f"{MANY}")
    stage.group("first", MANY)
    for name in many:
        stage.member(name, of="first", replicas=1, cpu="1")
    await stage.clock.advance(30)
    stage.group("second", MANY)
    stage.member("one", of="second", replicas=MANY, cpu="1", created=30)
    stage.workload("stranger", replicas=MANY, created=30, distribution="Divided")
    async with stage.led():
        await stage.until(lambda: stage.says("one")[0] and stage.says("stranger")[0])
        await stage.until(lambda: all(map(stage.placed, many)))
        assert not stage.placed("one")
        assert not stage.placed("stranger")


async def test_a_decision_that_takes_long_lets_the_others_have_their_turn(
    stage: Gangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    moments = dict[str, float]()
    stage.cluster("a")

    def slowly(view: Any, info: WorkloadInfo, *about: Any, **more: Any) -> Steps[Batch]:
        moments.setdefault(info.name, stage.clock.monotonic())
        while info.name == "first" and not stage.placed("second"):
            yield
        return (yield from decide_set(view, info, *about, **more))

    monkeypatch.setattr(scheduler, "decide_set", slowly)
    stage.workload("first")
    stage.workload("second", created=30)
    async with stage.led():
        await stage.until(lambda: stage.placed("first"), seconds=5)
    waited = moments["second"] - moments["first"]
    assert LONGEST_SECONDS <= waited < LONGEST_SECONDS + 0.5


async def test_turns_are_had_in_the_order_of_coming_and_one_at_a_time() -> None:
    cycles, at_work, came = CycleLock(clock=FakeClock()), list[str](), list[str]()

    async def decide(name: str, rounds: int) -> None:
        async with cycles.turn() as cycle:
            at_work.append(name)
            for _ in range(rounds):
                cycle.release_if_long()
                await asyncio.sleep(0)
            assert at_work == [name]
            at_work.remove(name)
            came.append(name)

    await asyncio.gather(*(decide(f"{n}", 5 - n) for n in range(5)))
    assert came == [f"{n}" for n in range(5)]


async def test_whoever_has_given_its_turn_away_ends_nobody_elses() -> None:
    clock, log = FakeClock(), list[str]()
    cycles = CycleLock(clock=clock)

    async def decide(name: str, seconds: float) -> None:
        async with cycles.turn() as cycle:
            log.append(f"{name} begins")
            await clock.sleep(seconds)
            cycle.release_if_long()
            await clock.sleep(0.1)
        log.append(f"{name} ends")

    tasks = [asyncio.create_task(decide(name, s)) for name, s in (("a", 1), ("b", 0.3), ("c", 0))]
    await settle()
    await clock.advance(0.9)
    assert log == ["a begins"]
    await clock.advance(0.25)
    assert log == ["a begins", "b begins", "a ends"]
    await clock.advance(2)
    assert log[3:] == ["b ends", "c begins", "c ends"]
    await asyncio.gather(*tasks)


async def test_one_that_fails_or_is_cancelled_keeps_nobody_waiting() -> None:
    cycles, log = CycleLock(clock=FakeClock()), list[str]()

    async def decide(name: str) -> None:
        async with cycles.turn():
            await asyncio.sleep(0)
            log.append(name)
            if name == "fails":
                raise ValueError(name)

    names = ("fails", "cancelled", "last")
    tasks = [asyncio.create_task(decide(name)) for name in names]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in outcome] == [ValueError, asyncio.CancelledError, type(None)]
    assert log == ["fails", "last"]
