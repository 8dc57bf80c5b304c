"""A clock that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_TURNS = 30  # of the event loop: enough for whatever the code under test does between two waits


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class FakeClock:
    """Time stands still but for `advance`; sleepers wake in the order of their deadlines."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def now(self) -> datetime:
        """The wall clock."""
        return _BEGINNING + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Return once `advance` has come that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._numbers), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let that much time pass; whatever wakes meanwhile runs at its own moment."""
        end = self._elapsed + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
                await settle()
        self._elapsed = end
        await settle()

    @property
    def sleeping(self) -> int:
        """How many wait for this clock."""
        return sum(not woken.done() for _, _, woken in self._sleepers)


class EagerClock(FakeClock):
    """Time passes as soon as somebody waits for it; `waits` are the seconds, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.advance(seconds)
