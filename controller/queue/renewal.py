"""Refused Workloads whose reason has become untrue though nothing helps them: it is said anew.

One more cluster is cordoned, one joins that does not suit, one goes: that wakes nobody, yet the
condition of whoever waits counts the clusters. So each of them is decided once more, as always:
what it says is what a decision says, and it is placed should it fit. That comes behind everything
else: only while nobody else is to be decided, one at a time, so many a second, and each at most
once in a round. What it waits for, its place and its patience stay as they are, and a reason that
is true still is not written again.
"""

from __future__ import annotations

import asyncio

from controller.queue.scheduling_queue import REST, STEP, SchedulingQueue
from machinery.clock import Clock
from machinery.types.metadata import Key

SETTLE_SECONDS = 0.5
"""What happens to a cluster, or to many, comes in bursts: one look serves them all."""
ROUND_SECONDS = 10.0
"""From the beginning of one round to that of the next, at least."""
PAUSE_SECONDS = 0.05
"""After each one; so many pass too until it is looked again whether nobody else is in line.

One that takes longer, as a large set does, is followed by a rest in proportion.
"""


class MessageRefresher:
    """What is done for reasons in one term of leadership."""

    def __init__(self, queue: SchedulingQueue, *, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._queue.moved.wait()
            begun = self._clock.monotonic()
            await self._clock.sleep(SETTLE_SECONDS)
            self._queue.moved.clear()
            if await self._round():
                await self._clock.sleep(max(begun + ROUND_SECONDS - self._clock.monotonic(), 0.0))

    async def _round(self) -> bool:
        """Have the reason of each said anew that may be untrue; whether there was any."""
        moment, any_was = self._queue.moment, False
        for number, key in enumerate(self._queue.waiting(), start=1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            if self._queue.outdated(key, moment):  # else it was decided meanwhile, as one of a set
                any_was = True
                await self._renew(key, moment)
        return any_was

    async def _renew(self, key: Key, moment: int) -> None:
        """Hand it out when nobody else is in line, wait until it is written, and rest."""
        while not self._queue.idle:
            await self._clock.sleep(PAUSE_SECONDS)
        if not self._queue.outdated(key, moment):
            return
        if self._queue.active.handed_out(key):
            self._queue.moved.set()  # its last decision is being written: the next round
            return
        self._queue.renew(key)
        begun = self._clock.monotonic()
        while self._queue.active.handed_out(key) or self._clock.monotonic() == begun:
            await self._clock.sleep(PAUSE_SECONDS)
        more = self._clock.monotonic() - begun - PAUSE_SECONDS
        await self._clock.sleep(REST * more)
