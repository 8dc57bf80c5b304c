"""Cooperative work: a generator yields where the event loop may run.

So cycles hold a lock in queue order, for up to `LONGEST_SECONDS`. A longer cycle releases it and
checks its result against the newest state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

from controller.model.unit import WorkloadInfo
from controller.snapshot.forms import Forms
from controller.snapshot.snapshot import Snapshot
from machinery import tracing
from machinery.clock import Clock, stopwatch

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

SLICE_SECONDS = 0.01
"""Seconds of work between turns of the event loop."""
LONGEST_SECONDS = 0.5
"""Seconds that a cycle may block others."""


def laid_over(infos: Iterable[WorkloadInfo], snapshot: Snapshot) -> Steps[None]:
    for info in infos:
        if info.overridden is not None:
            for _ in Forms(info.overridden, snapshot).evaluated():
                yield


def at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer


async def in_slices(
    steps: Steps[T],
    *,
    between: Callable[[], None] = lambda: None,
    now: Callable[[], float] = stopwatch,
) -> T:
    """Take all steps in slices of time. Return the answer.

    `between` is called before each turn of the event loop.
    """
    began = now()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if now() - began >= SLICE_SECONDS:
            between()
            await asyncio.sleep(0)
            began = now()


class Cycle:
    """The turn of a cycle. It releases the lock once, by `release_if_long` or `end`."""

    def __init__(self, lock: asyncio.Lock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._began = clock.monotonic()
        self._holds = True

    def release_if_long(self) -> None:
        """Release the lock after `LONGEST_SECONDS`. Called between two steps."""
        if self._clock.monotonic() - self._began >= LONGEST_SECONDS:
            self.end()

    def end(self) -> None:
        if self._holds:
            self._holds = False
            self._lock.release()


class CycleLock:
    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # fair: first come, first served

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Cycle]:
        with tracing.span("turn"):
            await self._lock.acquire()
        cycle = Cycle(self._lock, self._clock)
        try:
            yield cycle
        finally:
            cycle.end()
