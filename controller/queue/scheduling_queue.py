"""The scheduling queue: the next Workload to decide, and those that wait for an event.

The active half is a `machinery.runtime.workqueue.WorkQueue`: fair between namespaces, and in a
namespace in the order of the QueueSort plugin.

The other half holds unschedulable Workloads; no timer rescans them. An event requeues all that
await it (`controller.queue.unschedulable`) together, so freed room goes to the most important one.
Failures back off up to `LONGEST_DELAY_SECONDS`, but no longer than a lower priority requeued with
it, which would take the room.

A cluster that is cordoned, deleted, or joins without fitting requeues no Workload, but messages
count it: `MessageRefresher` has each Workload decided once more while the queue is idle, once per
round.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from controller.framework.events import Action
from controller.model.unit import WorkloadInfo
from controller.queue.unschedulable import (
    ANY_EVENT,
    Awaits,
    PendingEvents,
    QueuedEvent,
    UnschedulableWorkloads,
)
from machinery.clock import Clock
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key

WORKERS = 32
"""Concurrent status writes; decisions are sequential."""

BATCH_SECONDS = 0.02
"""Seconds to collect a burst, such as the changes of one probe."""
PAUSE_FACTOR = 10
"""The pause after each pass, in multiples of its duration."""
STEP = 500
"""Workloads per turn of the event loop."""

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The place in the order of the QueueSort plugin; smallest first.

    `priority` counts between namespaces, where `order` does not.
    """

    order: tuple[Any, ...]
    key: Key
    priority: int


@dataclass(slots=True)
class _UnschedulableWorkload:
    """`attempts` are decisions in a row that placed no more of it."""

    rank: Rank
    attempts: int
    at: float
    due: float | None = None
    """When it is decided again; None until an event requeues it."""
    ready_at: float = 0.0
    """The end of its back-off."""
    message_seq: int | None = None
    """The `event_seq` at which its message was true; None if unknown."""
    refreshing: bool = False
    """Handed out only to refresh its message."""
    refreshed: bool = False
    """The last decision only refreshed its message."""

    def __post_init__(self) -> None:
        doublings = min(self.attempts - 1, 10)  # past the longest delay, and no huge number
        wait = min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)
        self.ready_at = self.at + wait


class InFlightKeys:
    """Keys whose decisions are being made or written, and keys that wait for them.

    Keys that wait are activated after the write.
    """

    def __init__(self) -> None:
        self._busy: set[Key] = set()
        self._deciding: set[Key] = set()
        self._missed: dict[Key, set[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._busy

    def begin(self, keys: Iterable[Key]) -> None:
        self._busy.update(keys)

    def decide(self, keys: Iterable[Key]) -> None:
        """Mark decisions on these as being made, in steps."""
        self._busy.update(keys)
        self._deciding.update(keys)

    def deciding(self, key: Key) -> bool:
        return key in self._deciding

    def missed(self, key: Key, by: Key) -> None:
        self._missed.setdefault(key, set()).add(by)

    def end(self, keys: Iterable[Key]) -> set[Key]:
        """Return those that wait for them."""
        came: set[Key] = set()
        for key in keys:
            self._busy.discard(key)
            self._deciding.discard(key)
            came |= self._missed.pop(key, set())
        return came


class SchedulingQueue:
    def __init__(self, *, clock: Clock) -> None:
        self.active: WorkQueue[Key] = WorkQueue(
            name="scheduling", clock=clock, flow=namespace_of, seats=WORKERS
        )
        self.in_flight = InFlightKeys()
        self._clock = clock
        self._unschedulable: dict[Key, _UnschedulableWorkload] = {}
        self._awaited = UnschedulableWorkloads()
        self._events = PendingEvents()
        self._activating: list[Iterator[Rank]] = []  # the rest of each `activate_in_steps`
        self._has_events = asyncio.Event()
        self._requeueing = False
        self.messages_outdated = asyncio.Event()
        """The MessageRefresher clears it."""
        self.unschedulable = 0

    def activate(self, ranks: Iterable[Rank]) -> None:
        """Decide these in their turn, whatever they waited for."""
        for rank in ranks:
            self.remove_unschedulable(rank.key)
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)

    def activate_in_steps(self, ranks: Iterator[Rank]) -> None:
        """For very many, in steps of `run` after the first."""
        self.activate(islice(ranks, STEP))
        if (following := next(ranks, None)) is not None:
            self._activating.append(chain((following,), ranks))
            self._has_events.set()

    def activate_after_backoff(self, ranks: Iterable[Rank]) -> None:
        """A failed write keeps its back-off."""
        for rank in ranks:
            self.active.add_patiently(rank.key, priority=rank.priority, rank=rank.order)

    def add_unschedulable(
        self, rank: Rank, info: WorkloadInfo, awaits: Awaits = ANY_EVENT, *, attempt: bool = True
    ) -> None:
        """Keep an unschedulable Workload until an event that it awaits.

        Call it without an await after the decision: an event during the write must find it.
        `attempt=False` keeps the back-off, after a refresh of the message.
        """
        now = self._clock.monotonic()
        before = self._unschedulable.get(rank.key)
        # A Workload that returns right after the longest back-off has not been quiet.
        recent = before is not None and now - before.at < 2 * LONGEST_DELAY_SECONDS
        attempts = before.attempts + 1 if before is not None and recent else 1
        if before is not None and not attempt:
            attempts, now = before.attempts, before.at
        self.unschedulable += before is None or before.due is not None
        self._unschedulable[rank.key] = _UnschedulableWorkload(
            rank, attempts, now, refreshed=not attempt
        )
        self._awaited.add(rank.key, info, awaits)

    def message_written(self, key: Key) -> None:
        entry = self._unschedulable.get(key)
        if entry is not None:
            entry.message_seq = self._awaited.event_seq

    def attempt(self, key: Key) -> int:
        entry = self._unschedulable.get(key)
        return 1 + self.active.failures(key) + (entry.attempts if entry is not None else 0)

    def unschedulable_keys(self) -> list[Key]:
        return list(self._unschedulable)

    @property
    def event_seq(self) -> int:
        return self._awaited.event_seq

    def message_outdated(self, key: Key, at: int) -> bool:
        entry = self._unschedulable.get(key)
        if entry is None or entry.due is not None:
            return False
        message_seq = entry.message_seq
        return (
            message_seq is not None
            and message_seq <= at
            and self._awaited.reached_since(key, message_seq)
        )

    @property
    def idle(self) -> bool:
        return not (self.active or self._activating or self._requeueing)

    def refresh(self, key: Key) -> None:
        entry = self._unschedulable.get(key)
        # A pending event may requeue it, in an order that this must not change.
        if entry is not None and not self._awaited.helps(key, self._events.pending()):
            entry.refreshing = True
            self.active.add(key, priority=entry.rank.priority, rank=entry.rank.order)

    def refreshing(self, key: Key) -> bool:
        entry = self._unschedulable.get(key)
        return entry is not None and entry.refreshing and entry.due is None

    def refreshed(self, key: Key) -> bool:
        entry = self._unschedulable.get(key)
        return entry is not None and entry.refreshed

    def requeue(self, rank: Rank) -> None:
        """Decide the Workload again without an event, after any back-off."""
        entry = self._unschedulable.get(rank.key)
        if entry is None:
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)
        else:
            self._requeue_at(entry, entry.ready_at)

    def add_after(self, rank: Rank, seconds: float) -> None:
        """Decide the Workload again after that time, regardless of events."""
        self.active.add_after(rank.key, seconds, priority=rank.priority, rank=rank.order)

    def retry(self, rank: Rank) -> None:
        """Decide the Workload again after a back-off: its write failed."""
        # The worker that has the key retries it itself.
        if not self.active.handed_out(rank.key):
            self.active.retry(rank.key, priority=rank.priority, rank=rank.order)

    def remove_unschedulable(self, key: Key) -> None:
        """Stop waiting for events. Failed writes count until `forget`."""
        entry = self._unschedulable.pop(key, None)
        if entry is not None:
            self.unschedulable -= entry.due is None
            self._awaited.remove(key)

    def forget(self, key: Key) -> None:
        """Drop the Workload and its failures: it is written, gone, or not ours."""
        self.remove_unschedulable(key)
        self.active.forget(key)

    def announce(
        self,
        resource: str,
        key: Key,
        action: Action,
        old: Any = None,
        new: Any = None,
        *,
        by: Key | None = None,
    ) -> None:
        """Queue an event for `run`, which requeues all that await it together.

        Without versions no hint is called. `by`, the cause of the event, is not requeued.
        """
        if action and self._awaited.note_event(resource, key):
            self.messages_outdated.set()
        if helping := action & Action.every():
            blurred = old is None and new is None
            self._events.add(QueuedEvent(resource, key, helping, old, new, blurred, by))
            self._has_events.set()

    async def run(self) -> None:
        pause = BATCH_SECONDS
        while True:
            await self._has_events.wait()
            await self._clock.sleep(pause)
            pause = max(BATCH_SECONDS, PAUSE_FACTOR * await self._requeue_helped())

    async def _requeue_helped(self) -> float:
        """Requeue what the events help, with breaks. Return the seconds of work."""
        took, started = 0.0, self._clock.monotonic()
        self._requeueing = True
        for number, _ in enumerate(self._requeueing_steps(), start=1):
            if number % STEP == 0:
                took += self._clock.monotonic() - started
                await asyncio.sleep(0)
                started = self._clock.monotonic()
        self._requeueing = False
        return took + self._clock.monotonic() - started

    def _requeueing_steps(self) -> Iterator[None]:
        events = self._events.take()
        self._has_events.clear()
        activating, self._activating = self._activating, []
        for rank in chain.from_iterable(activating):
            self.activate((rank,))
            yield
        helped: list[_UnschedulableWorkload] = []
        for key in self._awaited.helped(events):
            if key is not None and (entry := self._unschedulable.get(key)) is not None:
                helped.append(entry)
            yield
        due, now = _due(helped), self._clock.monotonic()
        due_order: list[tuple[tuple[Any, ...], Key, _UnschedulableWorkload, float]] = []
        for entry in helped:
            at = min(due[entry.rank.priority], entry.ready_at)
            if entry.due is None or not now < entry.due <= at:  # else its turn comes anyway
                heapq.heappush(due_order, (entry.rank.order, entry.rank.key, entry, at))
            yield
        while due_order:
            _, key, entry, at = heapq.heappop(due_order)
            if self._unschedulable.get(key) is entry:  # not decided in between
                self._requeue_at(entry, at)
            yield

    def _requeue_at(self, entry: _UnschedulableWorkload, at: float) -> None:
        self.unschedulable -= entry.due is None
        entry.due = at
        self.add_after(entry.rank, at - self._clock.monotonic())


def _due(helped: Iterable[_UnschedulableWorkload]) -> dict[int, float]:
    own: dict[int, float] = {}
    for entry in helped:
        priority = entry.rank.priority
        own[priority] = min(own.get(priority, math.inf), entry.ready_at)
    latest, due = math.inf, {}
    for priority in sorted(own):
        due[priority] = latest
        latest = min(latest, own[priority])
    return due


BURST_SECONDS = 0.5
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
            await self._clock.sleep(BURST_SECONDS)
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
