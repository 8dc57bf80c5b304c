"""The scheduling queue: which Workload is decided next, and what an unschedulable one waits for.

The active half is a `machinery.runtime.workqueue.WorkQueue`: a fair share of the work for each
namespace, and within a namespace the order of the QueueSort plugin. Between namespaces
`spec.priority` decides among Workloads that become ready together (`machinery.runtime.fair_queue`).

The other half holds the unschedulable Workloads, each with the events that could help it
(`controller.queue.hints`); no timer rescans them. An event wakes all Workloads that await it,
together, so that freed room goes to the most important of them. A Workload that is woken again and
again in vain backs off for longer each time, up to `LONGEST_DELAY_SECONDS`. No Workload backs off
for longer than one of a lower priority that is woken with it: else it would lose its room to it.
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
from controller.queue.hints import EVERYTHING, NOBODY, Awaits
from controller.queue.parking import Happened, News, UnschedulableWorkloads
from machinery.clock import Clock
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key

WORKERS = 32
"""How many status writes may be in flight at once; decisions are made one after the other."""

SETTLE_SECONDS = 0.02
"""Changes come in bursts (a probe writes labels, readiness and room): one look serves them all."""
REST = 10
"""Each look is followed by a rest of this many times its work, however many Workloads wait."""
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
class _Refusal:
    """An unschedulable Workload, and how many decisions in a row were in vain."""

    rank: Rank
    attempts: int
    at: float
    due: float | None = None
    """When the Workload is decided again; None while no event has woken it."""
    ready_at: float = 0.0
    """The end of its back-off."""
    told: int | None = None
    """The moment (see `UnschedulableWorkloads`) when its message was true; None if not known."""
    renewing: bool = False
    """The Workload was handed out only to refresh its message."""
    renewed: bool = False
    """The last decision only refreshed its message."""

    def __post_init__(self) -> None:
        doublings = min(self.attempts - 1, 10)  # past the longest delay anyway, and no huge number
        wait = min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)
        self.ready_at = self.at + wait


class SchedulingQueue:
    """Keys of Workloads: those to decide, and those that wait for an event."""

    def __init__(self, *, clock: Clock) -> None:
        self.active: WorkQueue[Key] = WorkQueue(
            name="scheduling", clock=clock, flow=namespace_of, seats=WORKERS
        )
        self._clock = clock
        self._refusals: dict[Key, _Refusal] = {}
        self._parking = UnschedulableWorkloads()
        self._news = News()
        self._offered: list[Iterator[Rank]] = []  # the rest of each offer in steps
        self._happened = asyncio.Event()
        self._looking = False
        self.moved = asyncio.Event()
        """Set when a message may have become untrue; the MessageRefresher clears it."""
        self.parked = 0
        """How many Workloads wait for an event and none has woken them."""

    def offer(self, ranks: Iterable[Rank]) -> None:
        """Decide these as soon as their turn comes, whatever they waited for."""
        for rank in ranks:
            self.settle(rank.key)
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)

    def offer_in_steps(self, ranks: Iterator[Rank]) -> None:
        """As `offer`, for very many: the first `STEP` at once, the others by `run`, in steps."""
        self.offer(islice(ranks, STEP))
        if (following := next(ranks, None)) is not None:
            self._offered.append(chain((following,), ranks))
            self._happened.set()

    def offer_patiently(self, ranks: Iterable[Rank]) -> None:
        """As `offer`, but a Workload whose write failed keeps its back-off: no edit woke it."""
        for rank in ranks:
            self.active.add_patiently(rank.key, priority=rank.priority, rank=rank.order)

    def park(
        self, rank: Rank, unit: WorkloadInfo, awaits: Awaits = EVERYTHING, *, in_vain: bool = True
    ) -> None:
        """Keep an unschedulable Workload until an event that it awaits is announced.

        Call it without an await after the decision: an event during the write must find the
        Workload waiting. `in_vain=False` says that the decision only refreshed its message: the
        back-off stays as it is.
        """
        now = self._clock.monotonic()
        before = self._refusals.get(rank.key)
        # A Workload that came back right after the longest back-off has not been quiet.
        recent = before is not None and now - before.at < 2 * LONGEST_DELAY_SECONDS
        attempts = before.attempts + 1 if before is not None and recent else 1
        if before is not None and not in_vain:
            attempts, now = before.attempts, before.at
        self.parked += before is None or before.due is not None
        self._refusals[rank.key] = _Refusal(rank, attempts, now, renewed=not in_vain)
        self._parking.put(rank.key, unit, awaits)

    def explained(self, key: Key) -> None:
        """Note that the message of a waiting Workload is true as of now."""
        refusal = self._refusals.get(key)
        if refusal is not None:
            refusal.told = self._parking.moment

    def waiting(self) -> list[Key]:
        """Return the Workloads that wait for an event, or that an event has woken."""
        return list(self._refusals)

    @property
    def moment(self) -> int:
        """The number of events so far, for `outdated`."""
        return self._parking.moment

    def outdated(self, key: Key, at: int) -> bool:
        """Whether the Workload's message dates from `at` or before, and may be untrue by now.

        False for a Workload that an event has woken: it is decided soon anyway.
        """
        refusal = self._refusals.get(key)
        if refusal is None or refusal.due is not None:
            return False
        told = refusal.told
        return told is not None and told <= at and self._parking.moved(key, told)

    @property
    def idle(self) -> bool:
        """Whether no Workload is to be decided, and none is being woken."""
        return not (self.active or self._offered or self._looking)

    def renew(self, key: Key) -> None:
        """Decide a waiting Workload only to refresh its message; what it awaits stays as it is."""
        refusal = self._refusals.get(key)
        # A pending event may wake it: the order of those that the event wakes must hold.
        if refusal is not None and not self._parking.helps(key, self._news.pending()):
            refusal.renewing = True
            self.active.add(key, priority=refusal.rank.priority, rank=refusal.rank.order)

    def renewing(self, key: Key) -> bool:
        """Whether the Workload is decided only to refresh its message; no event has woken it."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.renewing and refusal.due is None

    def renewed(self, key: Key) -> bool:
        """Whether the Workload waits, and its last decision only refreshed its message."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.renewed

    def rest(self, rank: Rank, unit: WorkloadInfo) -> None:
        """Keep the Workload until it is edited, or until the next resync."""
        self.park(rank, unit, NOBODY)

    def again(self, rank: Rank) -> None:
        """Decide the Workload again without an event; a back-off stays as it is."""
        refusal = self._refusals.get(rank.key)
        if refusal is None:
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)
        else:
            self._wake(refusal, refusal.ready_at)

    def add_after(self, rank: Rank, seconds: float) -> None:
        """Decide the Workload again after that time, whatever happens meanwhile."""
        self.active.add_after(rank.key, seconds, priority=rank.priority, rank=rank.order)

    def retry(self, rank: Rank) -> None:
        """Decide the Workload again after a back-off: its write failed."""
        # The worker that has the key retries it itself.
        if not self.active.handed_out(rank.key):
            self.active.retry(rank.key, priority=rank.priority, rank=rank.order)

    def settle(self, key: Key) -> None:
        """Let the Workload wait for nothing. Failed writes count until one succeeds (`forget`)."""
        refusal = self._refusals.pop(key, None)
        if refusal is not None:
            self.parked -= refusal.due is None
            self._parking.drop(key)

    def forget(self, key: Key) -> None:
        """Forget the Workload and its failures: it is written, gone, or not ours."""
        self.settle(key)
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
        """Note an event; `run` wakes the Workloads that await it shortly, together.

        Where `old` and `new` are both None, no hint is asked. `by` is the Workload that caused the
        event: the event does not wake it.
        """
        if action and self._parking.move(resource, key):
            self.moved.set()
        if helping := action & Action.every():
            blurred = old is None and new is None
            self._news.add(Happened(resource, key, helping, old, new, blurred, by))
            self._happened.set()

    async def run(self) -> None:
        pause = SETTLE_SECONDS
        while True:
            await self._happened.wait()
            await self._clock.sleep(pause)
            pause = max(SETTLE_SECONDS, REST * await self._look())

    async def _look(self) -> float:
        """Wake the Workloads that the events help, with breaks; return the seconds of work."""
        took, started = 0.0, self._clock.monotonic()
        self._looking = True
        for number, _ in enumerate(self._waking(), start=1):
            if number % STEP == 0:
                took += self._clock.monotonic() - started
                await asyncio.sleep(0)
                started = self._clock.monotonic()
        self._looking = False
        return took + self._clock.monotonic() - started

    def flush(self) -> None:
        """Wake the Workloads that await one of the events so far, without breaks."""
        for _ in self._waking():
            pass

    def _waking(self) -> Iterator[None]:
        events = self._news.take()
        self._happened.clear()
        offered, self._offered = self._offered, []
        for rank in chain.from_iterable(offered):
            self.offer((rank,))
            yield
        woken: list[_Refusal] = []
        for key in self._parking.helped(events):
            if key is not None and (refusal := self._refusals.get(key)) is not None:
                woken.append(refusal)
            yield
        due, now = _due(woken), self._clock.monotonic()
        line: list[tuple[tuple[Any, ...], Key, _Refusal, float]] = []
        for refusal in woken:
            at = min(due[refusal.rank.priority], refusal.ready_at)
            if refusal.due is None or not now < refusal.due <= at:  # else its turn comes anyway
                heapq.heappush(line, (refusal.rank.order, refusal.rank.key, refusal, at))
            yield
        while line:
            _, key, refusal, at = heapq.heappop(line)
            if self._refusals.get(key) is refusal:  # not decided meanwhile
                self._wake(refusal, at)
            yield

    def _wake(self, refusal: _Refusal, at: float) -> None:
        self.parked -= refusal.due is None
        refusal.due = at
        self.add_after(refusal.rank, at - self._clock.monotonic())


def _due(woken: Iterable[_Refusal]) -> dict[int, float]:
    """For each priority, the earliest end of a back-off among all lower ones.

    Workloads that were woken before and still back off count too: their back-off must not cost them
    their room.
    """
    own: dict[int, float] = {}
    for refusal in woken:
        priority = refusal.rank.priority
        own[priority] = min(own.get(priority, math.inf), refusal.ready_at)
    latest, due = math.inf, {}
    for priority in sorted(own):
        due[priority] = latest
        latest = min(latest, own[priority])
    return due
