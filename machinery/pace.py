"""Bounds how much of the event loop's time the answers of one server may take.

One that sends much is read in slices, one at a time on the loop, server by server.
"""

from __future__ import annotations

import asyncio
import math
from weakref import WeakKeyDictionary

from machinery.clock import Clock

SLICE_SECONDS = 0.001
CONNECT_SECONDS = 0.003
"""Seconds between the starts of two connections to any members."""
CRUMB_BYTES = 4096
CRUMB_SECONDS = 0.002
"""The cost of each piece smaller than CRUMB_BYTES of a long answer."""
QUIET_SHARE = 0.02
"""Up to this part of the time a server is read without waiting."""
BURST_SECONDS = 5.0
"""Seconds of the loop that a server may use at full speed."""
LASTING_SHARE = 0.2
"""The part of the loop for all servers without a burst left."""


class _LoopLocks:
    """One slice at a time, of any server; one for each loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.connecting = asyncio.Lock()
        self.flooding: set[ServerBudget] = set()


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopLocks] = WeakKeyDictionary()


class ServerBudget:
    """One server's account. Every reader of its answers takes a `TimeSlice` of it.

    `burst` is the time at full speed, in seconds of the loop; infinite for the hub.
    """

    def __init__(self, clock: Clock, *, burst: float = math.inf) -> None:
        self.clock = clock
        self._most = burst
        self._turn = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._free = SLICE_SECONDS
        self._burst = burst
        self._at = clock.monotonic()

    def charge(self, seconds: float) -> bool:
        """Account for that many seconds; return whether the server has to wait for its turn now."""
        now = self.clock.monotonic()
        since, self._at = now - self._at, now
        self._free = min(SLICE_SECONDS, self._free + since * QUIET_SHARE) - seconds
        lasting = LASTING_SHARE / max(1, len(_locks_of().flooding))
        self._burst = min(self._most, self._burst + since * lasting) - seconds
        return self._free <= 0

    @property
    def paces_connections(self) -> bool:
        """Whether connections to this server begin one at a time: not to the hub."""
        return self._most != math.inf

    async def connect(self) -> None:
        if not self.paces_connections:
            return
        async with self._connecting, _locks_of().connecting:
            await self.clock.sleep(CONNECT_SECONDS)

    async def wait(self) -> None:
        locks = _locks_of()
        async with self._turn:
            if self._burst < 0:
                await self._slow_down(locks)
            async with locks.lock:
                await asyncio.sleep(0)
            self._free = SLICE_SECONDS

    async def _slow_down(self, locks: _LoopLocks) -> None:
        locks.flooding.add(self)
        try:
            await self.clock.sleep(-self._burst * len(locks.flooding) / LASTING_SHARE)
        finally:
            locks.flooding.discard(self)


class TimeSlice:
    def __init__(self, pace: ServerBudget) -> None:
        self._pace = pace
        self._began = pace.clock.monotonic()

    def begin(self) -> None:
        self._began = self._pace.clock.monotonic()

    def due(self) -> bool:
        """Whether the work has lasted a slice: time for a `pause`."""
        return self._pace.clock.monotonic() - self._began >= SLICE_SECONDS

    async def pause(self, *, besides: float = 0.0) -> None:
        """Account for the work, and wait if the server has used much.

        `besides` are seconds of work that could not be measured.
        """
        if self._pace.charge(self._pace.clock.monotonic() - self._began + besides):
            await self._pace.wait()
        self.begin()


def _locks_of() -> _LoopLocks:
    return _locks.setdefault(asyncio.get_running_loop(), _LoopLocks())
