"""The scheduling queue: which Workload is decided next, and what an unschedulable one waits for.

The active half is a `machinery.runtime.workqueue.WorkQueue`: a fair share of the work for each
namespace, and within a namespace the order of the QueueSort plugin. Between namespaces
`spec.priority` decides among Workloads that become ready together (`machinery.runtime.fair_queue`).

The other half holds the unschedulable Workloads, each with the events that could help it
(`controller.queue.hints`); no timer rescans them. An event requeues all Workloads that await it,
together, so that freed room goes to the most important of them. A Workload that is requeued again
and again and finds no more room backs off for longer each time, up to `LONGEST_DELAY_SECONDS`. No
Workload backs off for longer than one of a lower priority that is requeued with it: else it would
lose its room to it.
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
from controller.queue.hints import ANY_EVENT, Awaits
from controller.queue.unschedulable import PendingEvents, QueuedEvent, UnschedulableWorkloads
from machinery.clock import Clock
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key

WORKERS = 32
"""How many status writes may be in flight at once; decisions are made one after the other."""

BATCH_SECONDS = 0.02
"""Changes come in bursts (a probe writes labels, readiness and room): one pass serves them all."""
PAUSE_FACTOR = 10
"""Each pass is followed by a pause of this many times its work, however many Workloads wait."""
STEP = 500
"""How many Workloads are looked at before the event loop has its turn."""

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The place of a Workload in the order of the profile's QueueSort plugin: smaller goes first.

    `priority` counts between namespaces, where `order` does not.
    """

    order: tuple[Any, ...]
    key: Key
    priority: int


@dataclass(slots=True)
class _UnschedulableWorkload:
    """An unschedulable Workload, and how many decisions in a row have placed no more of it."""

    rank: Rank
    attempts: int
    at: float
    due: float | None = None
    """When the Workload is decided again; None while no event has requeued it."""
    ready_at: float = 0.0
    """The end of its back-off."""
    message_seq: int | None = None
    """The `event_seq` as of which its message was true; None if not known."""
    refreshing: bool = False
    """The Workload was handed out only to refresh its message."""
    refreshed: bool = False
    """The last decision only refreshed its message."""

    def __post_init__(self) -> None:
        doublings = min(self.attempts - 1, 10)  # past the longest delay anyway, and no huge number
        wait = min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)
        self.ready_at = self.at + wait


class InFlightKeys:
    """Keys whose decisions are being made or written, and the keys that came for them meanwhile.

    A Workload may be in flight without having been handed out by the queue: as one of a set that
    was decided for another key. A key that comes meanwhile is noted, and activated when the write
    is done.
    """

    def __init__(self) -> None:
        self._busy: set[Key] = set()
        self._deciding: set[Key] = set()
        self._missed: dict[Key, set[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._busy

    def begin(self, keys: Iterable[Key]) -> None:
        """Note that decisions on these are being written."""
        self._busy.update(keys)

    def decide(self, keys: Iterable[Key]) -> None:
        """Note that decisions on these are being made, in steps."""
        self._busy.update(keys)
        self._deciding.update(keys)

    def deciding(self, key: Key) -> bool:
        """Whether a decision on the Workload is being made: the result is known in a moment."""
        return key in self._deciding

    def missed(self, key: Key, by: Key) -> None:
        """Note that `by` needs `key`, which is in flight."""
        self._missed.setdefault(key, set()).add(by)

    def end(self, keys: Iterable[Key]) -> set[Key]:
        """Release these keys; return those that came for them meanwhile."""
        came: set[Key] = set()
        for key in keys:
            self._busy.discard(key)
            self._deciding.discard(key)
            came |= self._missed.pop(key, set())
        return came


class SchedulingQueue:
    """Keys of Workloads: those to decide, those in flight, and those that wait for an event."""

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
        """Set when a message may have become untrue; the MessageRefresher clears it."""
        self.unschedulable = 0
        """How many Workloads wait for an event and none has requeued them."""

    def activate(self, ranks: Iterable[Rank]) -> None:
        """Decide these as soon as their turn comes, whatever they waited for."""
        for rank in ranks:
            self.remove_unschedulable(rank.key)
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)

    def activate_in_steps(self, ranks: Iterator[Rank]) -> None:
        """As `activate`, for very many: the first `STEP` at once, the others by `run`, in steps."""
        self.activate(islice(ranks, STEP))
        if (following := next(ranks, None)) is not None:
            self._activating.append(chain((following,), ranks))
            self._has_events.set()

    def activate_after_backoff(self, ranks: Iterable[Rank]) -> None:
        """As `activate`, but one whose write failed keeps its back-off: it was not edited."""
        for rank in ranks:
            self.active.add_patiently(rank.key, priority=rank.priority, rank=rank.order)

    def add_unschedulable(
        self, rank: Rank, info: WorkloadInfo, awaits: Awaits = ANY_EVENT, *, attempt: bool = True
    ) -> None:
        """Keep an unschedulable Workload until an event that it awaits is announced.

        Call it without an await after the decision: an event during the write must find the
        Workload waiting. `attempt=False` says that the decision only refreshed its message: the
        back-off stays as it is.
        """
        now = self._clock.monotonic()
        before = self._unschedulable.get(rank.key)
        # A Workload that came back right after the longest back-off has not been quiet.
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
        """Note that the message of a waiting Workload is true as of now."""
        entry = self._unschedulable.get(key)
        if entry is not None:
            entry.message_seq = self._awaited.event_seq

    def attempt(self, key: Key) -> int:
        """Return which attempt in a row the next decision is, counted from 1."""
        entry = self._unschedulable.get(key)
        return 1 + self.active.failures(key) + (entry.attempts if entry is not None else 0)

    def unschedulable_keys(self) -> list[Key]:
        """Return the Workloads that wait for an event, or that an event has requeued."""
        return list(self._unschedulable)

    @property
    def event_seq(self) -> int:
        """The number of events so far, for `message_outdated`."""
        return self._awaited.event_seq

    def message_outdated(self, key: Key, at: int) -> bool:
        """Whether the Workload's message dates from `at` or before, and may be untrue by now.

        False for a Workload that an event has requeued: it is decided soon anyway.
        """
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
        """Whether no Workload is to be decided, and none is being requeued."""
        return not (self.active or self._activating or self._requeueing)

    def refresh(self, key: Key) -> None:
        """Decide a waiting Workload only to refresh its message; what it awaits stays as it is."""
        entry = self._unschedulable.get(key)
        # A pending event may requeue it: the order of those that the event requeues must hold.
        if entry is not None and not self._awaited.helps(key, self._events.pending()):
            entry.refreshing = True
            self.active.add(key, priority=entry.rank.priority, rank=entry.rank.order)

    def refreshing(self, key: Key) -> bool:
        """Whether the Workload is decided only to refresh its message; no event has requeued it."""
        entry = self._unschedulable.get(key)
        return entry is not None and entry.refreshing and entry.due is None

    def refreshed(self, key: Key) -> bool:
        """Whether the Workload waits, and its last decision only refreshed its message."""
        entry = self._unschedulable.get(key)
        return entry is not None and entry.refreshed

    def requeue(self, rank: Rank) -> None:
        """Decide the Workload again without an event; a back-off stays as it is."""
        entry = self._unschedulable.get(rank.key)
        if entry is None:
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)
        else:
            self._requeue_at(entry, entry.ready_at)

    def add_after(self, rank: Rank, seconds: float) -> None:
        """Decide the Workload again after that time, whatever happens meanwhile."""
        self.active.add_after(rank.key, seconds, priority=rank.priority, rank=rank.order)

    def retry(self, rank: Rank) -> None:
        """Decide the Workload again after a back-off: its write failed."""
        # The worker that has the key retries it itself.
        if not self.active.handed_out(rank.key):
            self.active.retry(rank.key, priority=rank.priority, rank=rank.order)

    def remove_unschedulable(self, key: Key) -> None:
        """Let the Workload wait for nothing. Failed writes count until one succeeds (`forget`)."""
        entry = self._unschedulable.pop(key, None)
        if entry is not None:
            self.unschedulable -= entry.due is None
            self._awaited.remove(key)

    def forget(self, key: Key) -> None:
        """Forget the Workload and its failures: it is written, gone, or not ours."""
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
        """Note an event; `run` requeues the Workloads that await it shortly, together.

        Where `old` and `new` are both None, no hint is asked. `by` is the Workload that caused the
        event: the event does not requeue it.
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
        """Requeue the Workloads that the events help, with breaks; return the seconds of work."""
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
            if self._unschedulable.get(key) is entry:  # not decided meanwhile
                self._requeue_at(entry, at)
            yield

    def _requeue_at(self, entry: _UnschedulableWorkload, at: float) -> None:
        self.unschedulable -= entry.due is None
        entry.due = at
        self.add_after(entry.rank, at - self._clock.monotonic())


def _due(helped: Iterable[_UnschedulableWorkload]) -> dict[int, float]:
    """For each priority, the earliest end of a back-off among all lower ones.

    Workloads that were requeued before and still back off count too: their back-off must not cost
    them their room.
    """
    own: dict[int, float] = {}
    for entry in helped:
        priority = entry.rank.priority
        own[priority] = min(own.get(priority, math.inf), entry.ready_at)
    latest, due = math.inf, {}
    for priority in sorted(own):
        due[priority] = latest
        latest = min(latest, own[priority])
    return due
