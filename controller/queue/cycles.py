"""Scheduling cycles one after the other, in the order in which the queue hands Workloads out.

A cycle over many Workloads lets the loop go on between its steps. Were others decided meanwhile,
they would take the room that those before them are about to take. So they wait for their turn, but
not for long: a cycle that takes many seconds lets the others have theirs, and holds what it found
against what they did. Writes belong to no cycle; many of them are under way at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from machinery.clock import Clock

LONGEST_SECONDS = 0.5
"""For so long nobody else is decided while a cycle goes on."""


class Cycle:
    """The turn of one cycle."""

    def __init__(self, lock: asyncio.Lock, clock: Clock) -> None:
        self._lock = lock
        self._clock = clock
        self._began = clock.monotonic()
        self._mine = True

    def linger(self) -> None:
        """Between two steps: the next one has its turn where this one has taken too long."""
        if self._clock.monotonic() - self._began >= LONGEST_SECONDS:
            self.end()

    def end(self) -> None:
        """The next one has its turn."""
        if self._mine:
            self._mine = False
            self._lock.release()


class Cycles:
    """The cycles of one term of leadership."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()  # who asks for it first has it first

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Cycle]:
        """Wait until those that came before are decided, or take long."""
        await self._lock.acquire()
        cycle = Cycle(self._lock, self._clock)
        try:
            yield cycle
        finally:
            cycle.end()
