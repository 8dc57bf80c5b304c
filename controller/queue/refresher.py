"""Refreshes the messages of unschedulable Workloads that have become untrue.

A cluster that is cordoned, joins without suiting, or goes, requeues no Workload, yet the condition
of each unschedulable Workload counts the clusters. The refresher has each of them decided once
more, as always: its message is what a decision says, and the Workload is placed should it fit. The
refresher comes behind everything else: only while the queue is idle, one Workload at a time, and
each at most once in a round. What the Workload awaits, its place and its back-off stay as they are,
and a message that is still true is not written again.
"""

from __future__ import annotations

import asyncio

from controller.queue.scheduling_queue import PAUSE_FACTOR, STEP, SchedulingQueue
from machinery.clock import Clock
from machinery.types.metadata import Key

BATCH_SECONDS = 0.5
"""Changes of a cluster, or of many, come in bursts: one round serves them all."""
ROUND_SECONDS = 10.0
"""The least time between the beginnings of two rounds."""
PAUSE_SECONDS = 0.05
"""The pause after each Workload, and between two checks whether the queue is idle. A decision that
takes longer, as that of a large set does, is followed by a pause in proportion."""


class MessageRefresher:
    """The refresher of one term of leadership."""

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
        """Refresh each message that may be untrue; return whether there was any."""
        event_seq, any_was = self._queue.event_seq, False
        for number, key in enumerate(self._queue.unschedulable_keys(), start=1):
            if number % STEP == 0:
                await asyncio.sleep(0)
            if self._queue.message_outdated(
                key, event_seq
            ):  # else decided meanwhile, as one of a set
                any_was = True
                await self._refresh(key, event_seq)
        return any_was

    async def _refresh(self, key: Key, event_seq: int) -> None:
        while not self._queue.idle:
            await self._clock.sleep(PAUSE_SECONDS)
        if not self._queue.message_outdated(key, event_seq):
            return
        if self._queue.active.handed_out(key):
            # Its last decision is in flight: left to the next round.
            self._queue.messages_outdated.set()
            return
        self._queue.refresh(key)
        begun = self._clock.monotonic()
        # A worker has to run before the key is handed out, so at least one pause passes.
        while self._queue.active.handed_out(key) or self._clock.monotonic() == begun:
            await self._clock.sleep(PAUSE_SECONDS)
        more = self._clock.monotonic() - begun - PAUSE_SECONDS
        await self._clock.sleep(PAUSE_FACTOR * more)
