"""A watch over the event loop of each test: the product may hold it for ALLOWED_SECONDS in a step.

What counts is the processor time of the loop's own thread: without that of the collector, which is
set otherwise than in the product and has the whole test session to go through, and without steps
that import a module, which happens once in a process and takes longest where nothing is compiled
yet. Who shares caches and cores with others also needs more processor time for the same: so a long
step is judged beside a piece of work of known length that is done right after it. A virtual machine
counts as processor time also what its host took from it: that is taken off. A test fails for what a
step does, on whatever busy machine it runs. Steps of the tests' own coroutines, with what those
call and await directly, do not count, nor do those of the command line; a test that wants them
watched as well asks `held` itself.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from machinery import loopwatch

ALLOWED_SECONDS = 0.25
YARDSTICK_SECONDS = 0.007
"""What `_yardstick` takes on a quiet machine of the kind that the 250 ms are meant for."""
YARDSTICK_TURNS = 300
READING_SECONDS = 0.1
"""How often it is read what the host has taken; a step that is long begins and ends with a reading."""
ACCURACY_SECONDS = 0.02
"""How often processor time is read, a call of the kernel: in between it is taken to pass as time
does. So a long step ends with a reading, and may be told shorter by that much, never longer."""
ROOT = Path(__file__).resolve().parents[1]
_STATISTICS = Path("/proc/stat")
ASIDE = frozenset({"tests", "e2e", "benchmarks", "stowage"})
"""Folders whose own steps do not count: the tests, and the command line, whose loop serves one."""


@dataclass(frozen=True)
class Step:
    """One step of a loop that was long."""

    name: str
    seconds: float
    aside: bool
    """Whether it is of a coroutine or function of neither process."""


class _Stopwatch:
    """This thread's processor time, standing still while the collector runs or a module is imported.

    It is looked at before and after each step; modules that are new since the last look were
    imported in between.
    """

    def __init__(self, taken: Callable[[], float]) -> None:
        self._thread = threading.get_ident()
        self._taken = taken
        self._read = self._exact = time.monotonic()
        self._used = time.thread_time()
        self._takings = (0.0, taken())
        self._aside = 0.0
        self._began = 0.0
        self._last = 0.0
        self._modules = len(sys.modules)

    def __call__(self) -> float:
        if threading.get_ident() != self._thread:
            return 0.0
        if (moment := time.monotonic()) - self._read >= READING_SECONDS:
            self._read, self._takings = moment, (self._takings[1], self._taken())
        if moment - self._exact >= ACCURACY_SECONDS:
            self._exact, self._used = moment, time.thread_time()
        now, modules = self._used + moment - self._exact - self._aside, len(sys.modules)
        if modules != self._modules:
            self._modules = modules
            self._aside += now - self._last
            now = self._last
        self._last = now
        return now

    @property
    def taken(self) -> float:
        """The seconds that the host took during the last step, if that was a long one, or more."""
        before, after = self._takings
        return after - before

    def collects(self, phase: str, _: Mapping[str, int]) -> None:
        """Set a collection aside, of whichever generation."""
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._aside += time.thread_time() - self._began


def slowness(now: Callable[[], float] = time.thread_time) -> float:
    """How many times longer than on a quiet machine this thread's work takes now; at least 1."""
    return max(1.0, max(_yardstick(now) for _ in range(5)) / YARDSTICK_SECONDS)


def _yardstick(now: Callable[[], float]) -> float:
    """The processor time that a fixed piece of work takes: objects are made, read and dropped."""
    began = now()
    for number in range(YARDSTICK_TURNS):
        found = {f"key-{each}": [each, str(number)] for each in range(100)}
        sum(len(key) + value[0] for key, value in found.items())
    return now() - began


def taken_by_host() -> float:
    """The processor time that the host of this virtual machine has kept from it, in seconds."""
    if not _STATISTICS.exists():
        return 0.0
    _, *ticks = _STATISTICS.read_text().partition("\n")[0].split()
    return int(ticks[7]) / os.sysconf("SC_CLK_TCK")


@contextmanager
def held(
    least: float = ALLOWED_SECONDS,
    *,
    slow: Callable[[Callable[[], float]], float] = slowness,
    taken: Callable[[], float] = taken_by_host,
) -> Iterator[list[Step]]:
    """The steps of this thread's loop that take `least` seconds of its processor time or more.

    `slow` says, by the stopwatch it gets, how many times longer than usual work takes now, and
    `taken` how many seconds the host took since the machine began.
    """
    found: list[Step] = []

    def told(handle: asyncio.Handle, seconds: float) -> None:
        own = seconds - stopwatch.taken
        as_if_quiet = own / slow(stopwatch) if own >= least else 0.0
        if as_if_quiet >= least:
            found.append(Step(loopwatch.name(handle), as_if_quiet, _aside(handle)))

    stopwatch = _Stopwatch(taken)
    gc.callbacks.append(stopwatch.collects)
    try:
        with loopwatch.steps(told, least=least, now=stopwatch):
            yield found
    finally:
        gc.callbacks.remove(stopwatch.collects)


async def long_each_time(
    scenario: Callable[[int], Awaitable[None]], least: float, *, times: int = 3, **how: Any
) -> list[Step]:
    """The product's steps of `least` seconds or more in the last of at most `times` runs, by `held`.

    It ends with the first run that has none: what the host keeps from this machine, or memory that
    it hands out anew, makes some step long once; what the code does, in each run. The scenario gets
    the number of its run, from 0.
    """
    blamed: list[Step] = []
    for run in range(times):
        with held(least, **how) as found:
            await scenario(run)
        blamed = [step for step in found if not step.aside]
        if not blamed:
            break
    return blamed


def _aside(handle: asyncio.Handle) -> bool:
    task = loopwatch.task_of(handle)
    file = Path(_file(task.get_coro() if task else handle))
    if file.is_relative_to(ROOT):
        return file.relative_to(ROOT).parts[0] in ASIDE
    return "pytest_asyncio" in file.parts


def _file(what: Any) -> str:
    if isinstance(what, asyncio.Handle):
        what = what._callback
        while isinstance(what, functools.partial):
            what = what.func
    code = getattr(what, "cr_code", None) or getattr(what, "__code__", None)
    return code.co_filename if code else ""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose loop was held by the product."""
    with held() as found:
        outcome: Any = yield
    blamed = [step for step in found if not step.aside]
    if blamed and outcome.excinfo is None:
        worst = max(blamed, key=lambda step: step.seconds)
        message = (
            f"{worst.name} held the loop for {worst.seconds:.3f} s of processor time in one step"
        )
        outcome.force_exception(pytest.fail.Exception(message, pytrace=False))
