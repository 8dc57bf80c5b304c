"""Tasks that end, requests that end in time, and callers that are cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from machinery import tasks
from machinery.errors import NotFound, Unreachable
from machinery.tasks import end, patiently, within
from tests.fakeclock import FakeClock, settle


class Work:
    """Runs until it is cancelled, then takes leave for as long as it is not told to go."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.leaving = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = False
        self.cancelled = 0

    async def __call__(self) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            self.leaving.set()
            await self._farewell()
            raise
        finally:
            self.ended = True
        return "never"

    async def _farewell(self) -> None:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def failing(fault: Exception) -> None:
    raise fault


async def fails_in_leaving() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise LookupError("in leaving")


def started(*runs: Coroutine[Any, Any, Any]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(run) for run in runs]


# --- end


async def test_tasks_have_ended_when_it_returns_and_not_before() -> None:
    works = [Work(), Work()]
    tasks = started(*(work() for work in works))
    await settle()
    ending = asyncio.create_task(end(tasks))
    await settle()
    works[0].go.set()
    await settle()
    assert works[0].ended
    assert not ending.done(), "the other one takes its time"
    works[1].go.set()
    await ending
    assert all(task.cancelled() for task in tasks)
    assert [work.cancelled for work in works] == [1, 1]


async def test_one_that_fails_in_leaving_ends_as_the_others_do_and_keeps_its_fault() -> None:
    work = Work()
    work.go.set()
    good, bad = started(work(), fails_in_leaving())
    await settle()
    await end([bad, good])
    assert good.cancelled()
    assert isinstance(bad.exception(), LookupError)


async def test_what_had_ended_keeps_its_result() -> None:
    async def answer() -> int:
        return 42

    done, failed = started(answer(), failing(LookupError()))
    await settle()
    await end([done, failed])
    assert done.result() == 42
    assert isinstance(failed.exception(), LookupError)


async def test_one_that_never_began_ends_too() -> None:
    work = Work()
    (task,) = started(work())
    await end([task])
    assert task.cancelled()
    assert not work.started.is_set()


async def test_one_that_goes_on_is_told_again_and_the_log_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tasks, "RECANCEL_SECONDS", 0.01)
    told = 0

    async def deaf() -> None:
        nonlocal told
        while told < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told += 1

    (task,) = started(deaf())
    await settle()
    async with asyncio.timeout(60):
        await end([task])
    assert told == 3
    assert "is told again" in caplog.text


async def test_nothing_to_end_is_nothing() -> None:
    await end([])


async def test_who_is_cancelled_in_ending_others_waits_and_hurries_them() -> None:
    patient, quick = Work(), Work()
    tasks = started(patient(), quick())
    await settle()
    ending = asyncio.create_task(end(tasks))
    await settle()
    quick.go.set()
    await settle()
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert patient.ended
    assert patient.cancelled == 2
    assert quick.cancelled == 1
    assert all(task.done() for task in tasks)


async def test_who_is_cancelled_waits_for_one_that_will_not_be_hurried() -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    (task,) = started(stubborn())
    await settle()
    ending = asyncio.create_task(end([task]))
    await settle()
    for _ in range(2):
        ending.cancel()
        await settle()
        assert not ending.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert task.done()


# --- within


async def test_an_answer_in_time_is_returned_and_no_alarm_is_left() -> None:
    clock = FakeClock()

    async def request() -> str:
        await clock.sleep(1)
        return "answer"

    asked = asyncio.create_task(within(2, request(), clock=clock))
    await clock.advance(1)
    assert await asked == "answer"
    assert clock.sleeping == 0


async def test_a_fault_in_time_comes_out_as_it_is_and_ends_the_alarm() -> None:
    clock = FakeClock()
    fault = NotFound(code=404, reason="NotFound", message="no such lease")
    with pytest.raises(NotFound) as caught:
        await within(2, failing(fault), clock=clock)
    assert caught.value is fault
    assert clock.sleeping == 0


async def test_no_answer_in_time_is_unreachable_and_the_request_has_ended() -> None:
    clock, work = FakeClock(), Work()
    asked = asyncio.create_task(within(2, work(), clock=clock))
    await clock.advance(1.9)
    assert not asked.done()
    assert not work.leaving.is_set()
    await clock.advance(0.1)
    assert work.leaving.is_set()
    assert not asked.done(), "the request takes leave yet"
    work.go.set()
    with pytest.raises(Unreachable, match="no answer in time"):
        await asked
    assert work.ended


async def test_an_answer_at_the_very_moment_of_the_alarm_counts() -> None:
    moment = asyncio.Event()

    class Alarm(FakeClock):
        async def sleep(self, seconds: float) -> None:
            await moment.wait()

    async def request() -> str:
        await moment.wait()
        return "answer"

    asked = asyncio.create_task(within(2, request(), clock=Alarm()))
    await settle()
    moment.set()
    assert await asked == "answer"


async def test_a_caller_that_is_cancelled_leaves_no_request_running() -> None:
    clock, work = FakeClock(), Work()
    asked = asyncio.create_task(within(2, work(), clock=clock))
    await settle()
    asked.cancel()
    await settle()
    assert work.leaving.is_set()
    assert not asked.done(), "the request takes leave yet"
    work.go.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert work.ended
    assert clock.sleeping == 0


async def test_a_caller_that_is_cancelled_twice_leaves_none_either() -> None:
    clock, work = FakeClock(), Work()
    asked = asyncio.create_task(within(2, work(), clock=clock))
    await settle()
    asked.cancel()
    await settle()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert work.ended
    assert work.cancelled == 2


# --- waiting for what is missing


async def test_waits_until_nothing_is_missing() -> None:
    clock, answers = FakeClock(), ["a", "b", ""]

    async def missing() -> str:
        return answers.pop(0)

    waiting = asyncio.create_task(patiently(missing, seconds=10, every=2, clock=clock))
    await clock.advance(3.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert waiting.result() == ""


async def test_what_is_missing_last_is_the_answer_when_time_is_up() -> None:
    clock = FakeClock()

    async def missing() -> str:
        return f"since {clock.monotonic():.0f}"

    waiting = asyncio.create_task(patiently(missing, seconds=10, every=3, clock=clock))
    await clock.advance(11.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert waiting.result() == "since 12"
