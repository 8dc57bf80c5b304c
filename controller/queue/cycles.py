"""Scheduling cycles one after the other, in the order in which the queue hands Workloads out.

A cycle over a set of Workloads returns to the event loop between its steps. Another cycle that ran
meanwhile would take the room that the set is about to take. So the other cycles wait, but only up
to `LONGEST_SECONDS`: a cycle that takes longer releases the lock, and checks its result against the
newer state at its end. Writes belong to no cycle; many of them are in flight at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from machinery.clock import Clock

LONGEST_SECONDS = 0.5
"""How long a cycle may keep the other cycles waiting."""


class Cycle:
    """The turn of one cycle. The cycle lock is released once, by `linger` or by `end`."""

    def __init__(self, lock: asyncio.Lock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._began = clock.monotonic()
        self._mine = True

    def linger(self) -> None:
        """Release the lock if the cycle has run for too long. Called between two steps."""
        if self._clock.monotonic() - self._began >= LONGEST_SECONDS:
            self.end()

    def end(self) -> None:
        if self._mine:
            self._mine = False
            self._lock.release()


class Cycles:
    """The cycles of one term of leadership."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # fair: the first to ask is the first to get it

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Cycle]:
        """Wait until the cycles that came before have ended or have taken too long."""
        await self._lock.acquire()
        cycle = Cycle(self._lock, self._clock)
        try:
            yield cycle
        finally:
            cycle.end()
