"""Work in steps: a pass over many Workloads that lets the event loop go on in between.

A generator yields wherever it may be interrupted. A caller that wants the answer at once takes all
steps in one go; a server takes them in slices of time.

A cycle that returned to the event loop in between could find its room taken by another cycle. So
the cycles hold a lock, in the order in which the queue hands Workloads out, but only for up to
`LONGEST_SECONDS`: a cycle that takes longer releases the lock, and checks its result against the
newer state at its end. Writes belong to no cycle; many of them are in flight at once.
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
"""How long steps are taken before the event loop has its turn."""
LONGEST_SECONDS = 0.5
"""How long a cycle may keep the other cycles waiting."""


def laid_over(infos: Iterable[WorkloadInfo], snapshot: Snapshot) -> Steps[None]:
    """Evaluate the forms that overrides give these Workloads, so that their decisions find them."""
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
    """Take all steps, with a turn of the event loop after each slice; return the answer.

    `between` is called before each such turn.
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
    """The turn of one cycle. The lock is released once, by `release_if_long` or by `end`."""

    def __init__(self, lock: asyncio.Lock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._began = clock.monotonic()
        self._holds = True

    def release_if_long(self) -> None:
        """Release the lock if the cycle has run for too long. Called between two steps."""
        if self._clock.monotonic() - self._began >= LONGEST_SECONDS:
            self.end()

    def end(self) -> None:
        if self._holds:
            self._holds = False
            self._lock.release()


class CycleLock:
    """The lock of the scheduling cycles of one term of leadership."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # fair: the first to ask is the first to get it

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Cycle]:
        """Wait until the cycles that came before have ended or have taken too long."""
        with tracing.span("turn"):
            await self._lock.acquire()
        cycle = Cycle(self._lock, self._clock)
        try:
            yield cycle
        finally:
            cycle.end()
