"""A watch over the event loop of each test: the product may hold it for ALLOWED_SECONDS in a step.

What counts is the processor time of the loop's own thread: without that of the collector, which has
the whole test session to go through, and without steps that import a module, which happens once in
a process and takes longest where nothing is compiled yet. Who shares caches and cores with others
also needs more processor time for the same: so a long step is judged beside a piece of work of
known length that is done right after it. A test fails for what a step does, on whatever busy
machine it runs. Steps of the tests' own coroutines, with what those call and await directly, do not count,
nor do those of the command line; a test that wants them watched as well asks `held` itself.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
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
ROOT = Path(__file__).resolve().parents[1]
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

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._aside = 0.0
        self._began = 0.0
        self._last = 0.0
        self._modules = len(sys.modules)

    def __call__(self) -> float:
        if threading.get_ident() != self._thread:
            return 0.0
        now, modules = time.thread_time() - self._aside, len(sys.modules)
        if modules != self._modules:
            self._modules = modules
            self._aside += now - self._last
            now = self._last
        self._last = now
        return now

    def collects(self, phase: str, _info: object) -> None:
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


@contextmanager
def held(
    least: float = ALLOWED_SECONDS,
    *,
    slow: Callable[[Callable[[], float]], float] = slowness,
) -> Iterator[list[Step]]:
    """The steps of this thread's loop that take `least` seconds of its processor time or more.

    `slow` says, by the stopwatch it gets, how many times longer than usual work takes now.
    """
    found: list[Step] = []

    def told(handle: asyncio.Handle, seconds: float) -> None:
        as_if_quiet = seconds / slow(stopwatch)
        if as_if_quiet >= least:
            found.append(Step(loopwatch.name(handle), as_if_quiet, _aside(handle)))

    stopwatch = _Stopwatch()
    gc.callbacks.append(stopwatch.collects)
    try:
        with loopwatch.steps(told, least=least, now=stopwatch):
            yield found
    finally:
        gc.callbacks.remove(stopwatch.collects)


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
