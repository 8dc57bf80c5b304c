"""Measures the steps of the event loop, and names the long ones."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from machinery import logs, metrics
from machinery.clock import stopwatch

LOG = logs.get(__name__)

LONG_SECONDS = 0.25
"""A longer step is logged."""
LEAST_SECONDS = 0.001
"""Shorter steps are in no metric."""
WINDOW_SECONDS = 60.0
BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

STEPS = metrics.histogram(
    "stowage_loop_step_seconds",
    "Steps of the event loop that took a millisecond or longer",
    buckets=BUCKETS,
)
LONGEST = metrics.gauge(
    "stowage_loop_longest_step_seconds", "The longest step of the event loop in the last minutes"
)

Report = Callable[[asyncio.Handle, float], None]
"""Called with the callback that ran, and its seconds."""
_Run = Callable[[asyncio.Handle], None]

_RUN: _Run = asyncio.Handle._run  # noqa: SLF001 - there is no public way to see each step
_watchers: list[Callable[[_Run], _Run]] = []


@contextmanager
def steps(
    report: Report, *, least: float = LEAST_SECONDS, now: Callable[[], float] = stopwatch
) -> Iterator[None]:
    """Report each step of this thread's loop that takes `least` seconds or longer by `now`.

    Several watchers may be active, and end in any order.
    """
    watcher = functools.partial(_measured, report=report, least=least, now=now)
    _watchers.append(watcher)
    _wrap()
    try:
        yield
    finally:
        _watchers.remove(watcher)
        _wrap()


def _measured(run: _Run, *, report: Report, least: float, now: Callable[[], float]) -> _Run:
    thread, current = threading.get_ident(), threading.get_ident

    def measured(handle: asyncio.Handle) -> None:
        began = now()
        run(handle)
        took = now() - began
        if took >= least and current() == thread:
            report(handle, took)

    return measured


def _wrap() -> None:
    run = _RUN
    for watcher in _watchers:
        run = watcher(run)
    asyncio.Handle._run = run  # type: ignore[method-assign,assignment]  # noqa: SLF001 - as above


class _Longest:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since = now()
        self._present = self._before = 0.0

    def add(self, seconds: float) -> None:
        self._turn()
        self._present = max(self._present, seconds)

    def seconds(self) -> float:
        self._turn()
        return max(self._present, self._before)

    def _turn(self) -> None:
        passed = self._now() - self._since
        if passed >= WINDOW_SECONDS:
            self._before = self._present if passed < 2 * WINDOW_SECONDS else 0.0
            self._present = 0.0
            self._since += passed


@contextmanager
def watching(*, now: Callable[[], float] = stopwatch) -> Iterator[None]:
    """Keep the metrics of this thread's loop, and log each step above LONG_SECONDS by its name."""
    longest = _Longest(now)

    def report(handle: asyncio.Handle, seconds: float) -> None:
        STEPS.observe(seconds)
        longest.add(seconds)
        if seconds > LONG_SECONDS:
            LOG.warning("the event loop was held for %.3f s by %s", seconds, name(handle))

    LONGEST.set_function(longest.seconds)
    try:
        with steps(report, now=now):
            yield
    finally:
        LONGEST.set_function(lambda: 0.0)


def task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    owner = getattr(_callback(handle), "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def name(handle: asyncio.Handle) -> str:
    """Return the name of a step: of its task (coroutine, name, line where it waits) or function."""
    task = task_of(handle)
    if task is None:
        callback = _callback(handle)
        while isinstance(callback, functools.partial):
            callback = callback.func
        return getattr(callback, "__qualname__", None) or type(callback).__name__
    coroutine = task.get_coro()
    return f"{_qualified(coroutine)} ({task.get_name()}{_place(coroutine)})"


def _callback(handle: asyncio.Handle) -> Any:
    return handle._callback  # type: ignore[attr-defined]  # noqa: SLF001 - as above


def _qualified(coroutine: Any) -> str:
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__name__


def _place(coroutine: Any) -> str:
    """Return the innermost line outside of asyncio where a task waits; empty once it has ended."""
    place = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith("asyncio."):
            place = f", now at {module}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    return place
