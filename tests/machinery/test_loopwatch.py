"""Each step of the loop is measured, and one that holds it is named."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Iterator

import pytest

from machinery import loopwatch, metrics
from machinery.loopwatch import LONG_SECONDS, WINDOW_SECONDS, watching

pytestmark = pytest.mark.proves("L7")


class Counter:
    """A stopwatch that a test moves by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Counter:
    return Counter()


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "machinery.loopwatch"):
        yield caplog


def exported(name: str) -> float:
    lines = metrics.exposition().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


async def busy(now: Counter, seconds: float) -> None:
    """One step that takes so long, and a wait."""
    await asyncio.sleep(0)
    now.seconds += seconds
    await asyncio.sleep(0)


async def test_the_longest_step_is_a_metric_until_two_windows_are_over(now: Counter) -> None:
    with watching(now=now):
        for seconds in (0.02, 0.07, 0.03):
            await asyncio.create_task(busy(now, seconds))
        assert exported("stowage_loop_longest_step_seconds") == pytest.approx(0.07)
        now.seconds += WINDOW_SECONDS
        assert exported("stowage_loop_longest_step_seconds") == pytest.approx(0.07)
        await asyncio.create_task(busy(now, 0.01))
        now.seconds += 2 * WINDOW_SECONDS
        assert exported("stowage_loop_longest_step_seconds") == 0
    assert exported("stowage_loop_longest_step_seconds") == 0


async def test_steps_are_counted_by_length_and_those_below_a_millisecond_are_not(
    now: Counter,
) -> None:
    before = exported("stowage_loop_step_seconds_count")
    with watching(now=now):
        for seconds in (0.0009, 0.002, 0.3):
            await asyncio.create_task(busy(now, seconds))
    assert exported("stowage_loop_step_seconds_count") == before + 2
    await asyncio.create_task(busy(now, 0.4))  # nobody watches any more
    assert exported("stowage_loop_step_seconds_count") == before + 2


async def test_a_long_step_is_told_with_its_coroutine_its_task_and_its_line(
    now: Counter, heard: pytest.LogCaptureFixture
) -> None:
    with watching(now=now):
        await asyncio.create_task(busy(now, LONG_SECONDS), name="short")
        await asyncio.create_task(busy(now, 0.412), name="reconcile-3")
    (line,) = heard.messages
    assert line.startswith("the event loop was held for 0.412 s by busy (reconcile-3, now at ")
    assert __name__.split(".")[-1] in line


async def test_what_ended_and_what_is_no_task_is_named_as_well(
    now: Counter, heard: pytest.LogCaptureFixture
) -> None:
    async def last() -> None:
        now.seconds += 1

    def callback(seconds: float) -> None:
        now.seconds += seconds

    with watching(now=now):
        await asyncio.create_task(last(), name="one")
        asyncio.get_running_loop().call_soon(functools.partial(callback, 2))
        await asyncio.sleep(0)
    assert len(heard.messages) == 2
    assert heard.messages[0].endswith("<locals>.last (one)")
    assert heard.messages[1].endswith("<locals>.callback")


async def test_a_step_that_fails_is_told_and_its_failure_stays_asyncios(
    now: Counter, heard: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    told: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def callback() -> None:
        now.seconds += 2
        raise ValueError("ours")

    with watching(now=now):
        loop.call_soon(callback)
        await asyncio.sleep(0)
    assert [str(each) for each in told] == ["ours"]
    assert len(heard.messages) == 1


async def test_several_watch_and_end_in_any_order(now: Counter) -> None:
    told: dict[str, list[float]] = {"first": [], "second": []}

    def watcher(name: str):
        return loopwatch.steps(lambda _, seconds: told[name].append(seconds), now=now)

    first, second = watcher("first"), watcher("second")
    first.__enter__()
    second.__enter__()
    await asyncio.create_task(busy(now, 1))
    first.__exit__(None, None, None)
    await asyncio.create_task(busy(now, 2))
    second.__exit__(None, None, None)
    await asyncio.create_task(busy(now, 3))
    assert told == {"first": [1], "second": [1, 2]}


async def test_the_loop_of_another_thread_is_not_ours(now: Counter) -> None:
    told: list[float] = []
    with loopwatch.steps(lambda _, seconds: told.append(seconds), now=now):
        other = threading.Thread(target=lambda: asyncio.run(busy(now, 1)))
        other.start()
        other.join()
    assert told == []
