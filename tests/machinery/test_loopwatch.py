"""Each step of the loop is measured, and one that holds it is named."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from machinery import loopwatch, metrics
from machinery.loopwatch import LONG_SECONDS, WINDOW_SECONDS, watching
from tests import loopsteps
from tests.loopsteps import held

ROOT = Path(__file__).resolve().parent.parent.parent
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


# --- the watch over the tests themselves


def test_processor_time_counts_and_waiting_does_not() -> None:
    async def waits() -> None:
        time.sleep(0.15)  # noqa: ASYNC251 - as a busy machine makes a step wait

    async def busy() -> None:
        works(0.15)

    with held(least=0.1) as found:
        asyncio.run(waits())
    assert found == []
    with held(least=0.1, slow=lambda _: 1.0, taken=lambda: 0.0) as found:
        asyncio.run(busy())
    least = 0.15 - loopsteps.ACCURACY_SECONDS
    assert [step.seconds >= least and "busy" in step.name for step in found] == [True]


@pytest.mark.parametrize("generation", range(3))
def test_a_collection_of_any_generation_does_not_count(generation: int) -> None:
    class Node:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            works(0.15)

    async def busy() -> None:
        Node()
        gc.collect(generation)

    with held(least=0.1, slow=lambda _: 1.0, taken=lambda: 0.0) as found:
        asyncio.run(busy())
    assert found == []


def works(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_a_step_that_imports_a_module_does_not_count_and_the_next_does() -> None:
    async def imports() -> None:
        works(0.15)
        sys.modules["a-module-that-was-read-first-here"] = sys

    with held(least=0.1, slow=lambda _: 1.0, taken=lambda: 0.0) as found:
        await asyncio.create_task(imports(), name="one")
        await asyncio.create_task(asyncio.to_thread(works, 0.15), name="elsewhere")
        asyncio.get_running_loop().call_soon(works, 0.15)
        await asyncio.sleep(0)
    del sys.modules["a-module-that-was-read-first-here"]
    assert [step.name for step in found] == ["works"]


@pytest.mark.parametrize(("slow", "blamed"), [(1.0, 1), (1000.0, 0)])
async def test_what_takes_long_where_all_takes_long_is_nobodys_fault(
    slow: float, blamed: int
) -> None:
    with held(least=0.1, slow=lambda _: slow, taken=lambda: 0.0) as found:
        asyncio.get_running_loop().call_soon(works, 0.15)
        await asyncio.sleep(0)
    assert len(found) == blamed
    assert loopsteps.slowness() >= 1


@pytest.mark.parametrize(("robbed", "blamed"), [(0.0, 1), (500.0, 0)])
async def test_what_the_host_took_is_nobodys_fault(robbed: float, blamed: int) -> None:
    host = Counter()

    def step() -> None:
        works(0.15)
        host.seconds += robbed

    with held(least=0.1, slow=lambda _: 1.0, taken=host) as found:
        asyncio.get_running_loop().call_soon(step)
        await asyncio.sleep(0)
    assert len(found) == blamed


@pytest.mark.parametrize(
    ("long", "blamed", "runs"), [({0}, 0, 2), ({0, 1, 2}, 1, 3), (set(), 0, 1)]
)
async def test_a_step_that_is_long_once_is_the_machines_and_one_that_is_long_each_time_the_codes(
    monkeypatch: pytest.MonkeyPatch, long: set[int], blamed: int, runs: int
) -> None:
    monkeypatch.setattr(loopsteps, "_aside", lambda _: False)
    ran = []

    async def scenario(run: int) -> None:
        ran.append(run)
        asyncio.get_running_loop().call_soon(works, 0.15 if run in long else 0.0)
        await asyncio.sleep(0)

    exactly = {"slow": lambda _: 1.0, "taken": lambda: 0.0}
    assert len(await loopsteps.long_each_time(scenario, 0.1, **exactly)) == blamed
    assert ran == list(range(runs))


def test_what_the_host_took_is_read_from_the_system() -> None:
    first = loopsteps.taken_by_host()
    assert 0 <= first <= loopsteps.taken_by_host()


CULPRIT = """
import asyncio, time

async def work(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
"""
VERDICTS = """
import asyncio
import sys
sys.path.insert(0, {where!r})
import culprit

async def test_runs_a_short_task_of_the_product():
    await asyncio.create_task(culprit.work(0.02))

async def test_runs_a_long_task_of_the_product():
    await asyncio.create_task(culprit.work(1.0))
"""


def test_a_test_fails_when_the_product_held_its_loop(tmp_path: Path) -> None:
    product, tests = tmp_path / "product", tmp_path / "tests"
    product.mkdir()
    tests.mkdir()
    (product / "culprit.py").write_text(CULPRIT)
    (tests / "test_it.py").write_text(VERDICTS.format(where=str(product)))
    options = ["-q", "-p", "tests.loopsteps", "-o", "asyncio_mode=auto", "--rootdir", str(tests)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tests / "test_it.py")],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout
    assert "1 failed, 1 passed" in ran.stdout
    assert "held the loop" in ran.stdout
    assert "test_runs_a_long_task_of_the_product" in ran.stdout
    assert "test_runs_a_short_task_of_the_product" not in ran.stdout
