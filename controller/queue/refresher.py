"""Refreshes outdated messages of unschedulable Workloads.

A cluster that is cordoned, deleted, or joins without fitting requeues no Workload, but messages
count it. The refresher has each Workload decided once more while the queue is idle, once per round.
"""

from __future__ import annotations

import asyncio

from controller.queue.scheduling_queue import PAUSE_FACTOR, STEP, SchedulingQueue
from machinery.clock import Clock
from machinery.types.metadata import Key

BATCH_SECONDS = 0.5
"""Seconds to collect a burst of changes."""
ROUND_SECONDS = 10.0
"""Seconds between the beginnings of two rounds."""
PAUSE_SECONDS = 0.05
"""Seconds of pause after each Workload at least, and between two checks for an idle queue."""


class MessageRefresher:
    def __init__(self, queue: SchedulingQueue, *, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._queue.messages_outdated.wait()
            begun = self._clock.monotonic()
            await self._clock.sleep(BATCH_SECONDS)
            self._queue.messages_outdated.clear()
            if await self._round():
                await self._clock.sleep(max(begun + ROUND_SECONDS - self._clock.monotonic(), 0.0))

    async def _round(self) -> bool:
        event_seq, any_was = self._queue.event_seq, False
        for number, key in enumerate(self._queue.unschedulable_keys(), start=1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            if self._queue.message_outdated(key, event_seq):  # else decided already, in a set
                any_was = True
                await self._refresh(key, event_seq)
        return any_was

    async def _refresh(self, key: Key, event_seq: int) -> None:
        while not self._queue.idle:
            await self._clock.sleep(PAUSE_SECONDS)
        if not self._queue.message_outdated(key, event_seq):
            return
        if self._queue.active.handed_out(key):
            # Its last decision is in flight. The next round handles it.
            self._queue.messages_outdated.set()
            return
        self._queue.refresh(key)
        begun = self._clock.monotonic()
        # A worker has to run before the key is handed out, so at least one pause passes.
        while self._queue.active.handed_out(key) or self._clock.monotonic() == begun:
            await self._clock.sleep(PAUSE_SECONDS)
        more = self._clock.monotonic() - begun - PAUSE_SECONDS
        await self._clock.sleep(PAUSE_FACTOR * more)
