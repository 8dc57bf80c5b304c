"""The scheduling queue: who is decided next, and what a refused Workload waits for.

Two halves. The active half is a `machinery.runtime.workqueue.WorkQueue`: a fair share of the work
for each namespace, and within it the order of the QueueSort plugin, whenever a Workload came;
between namespaces `spec.priority` decides among those that come together, as those do that wait for
the same room (`machinery.runtime.fair_queue`). The parked half holds the Workloads that the last
decision refused, each with the events that could help it (`controller.queue.hints`); nothing is
rescanned by the clock. An event wakes those that await it, once, together, so that freed room goes
to the most important of them. A Workload that is woken again and again in vain waits longer each
time (up to ten seconds); one that has been quiet for that long is looked at at once. Nobody waits
longer than one of a lower priority that is woken with it: it must not lose its room to its own
patience.

`park` is called in the same breath as the decision, before its write is awaited: an event during
the write must find the Workload waiting.
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
"""Status writes under way at once; decisions themselves are made one after the other."""

SETTLE_SECONDS = 0.02
"""Changes arrive in bursts (a probe writes labels, readiness and room).

One look serves them all.
"""
REST = 10
"""Looking who is woken takes at most this part of the time, however many wait."""
STEP = 500
"""Workloads that are looked at in one go."""

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
    """A Workload that the last decision refused, and how often it was in vain.

    `due` is when it is looked at again; None while it is parked.
    """

    rank: Rank
    attempts: int
    at: float
    due: float | None = None
    ready_at: float = 0.0
    """From then on it may be looked at again."""
    told: int | None = None
    """The moment of the parking of which its reason was true; None where it is not said anew."""
    renewing: bool = False
    """It was handed out for its reason alone."""
    renewed: bool = False
    """So it was when it came to be parked."""

    def __post_init__(self) -> None:
        doublings = min(self.attempts - 1, 10)  # past the longest delay anyway, and no huge number
        wait = min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS)
        self.ready_at = self.at + wait


class SchedulingQueue:
    """Keys of Workloads, those to decide and those that wait for an event."""

    def __init__(self, *, clock: Clock) -> None:
        self.active: WorkQueue[Key] = WorkQueue(
            name="scheduling", clock=clock, flow=namespace_of, seats=WORKERS
        )
        self._clock = clock
        self._refusals: dict[Key, _Refusal] = {}
        self._parking = UnschedulableWorkloads()
        self._news = News()
        self._offered: list[Iterator[Rank]] = []  # what is left of them
        self._happened = asyncio.Event()
        self._looking = False
        self.moved = asyncio.Event()
        """What those who wait are told may be untrue for some; whoever looks after it clears it."""
        self.parked = 0
        """How many Workloads wait for an event."""

    def offer(self, ranks: Iterable[Rank]) -> None:
        """Decide these as soon as their turn comes; whatever they waited for no longer matters."""
        for rank in ranks:
            self.settle(rank.key)
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)

    def offer_in_steps(self, ranks: Iterator[Rank]) -> None:
        """As `offer`, of very many: a step of them at once, the others by `run`, step by step."""
        self.offer(islice(ranks, STEP))
        if (following := next(ranks, None)) is not None:
            self._offered.append(chain((following,), ranks))
            self._happened.set()

    def offer_patiently(self, ranks: Iterable[Rank]) -> None:
        """As `offer`, without an edit of theirs: those whose write failed keep their back-off."""
        for rank in ranks:
            self.active.add_patiently(rank.key, priority=rank.priority, rank=rank.order)

    def park(
        self, rank: Rank, unit: WorkloadInfo, awaits: Awaits = EVERYTHING, *, in_vain: bool = True
    ) -> None:
        """Keep a refused Workload until an event that it awaits is announced.

        Where it was not looked at `in_vain` but for its reason alone, its patience stays as it is.
        """
        now = self._clock.monotonic()
        before = self._refusals.get(rank.key)
        # One that came back right after the longest delay has not been quiet.
        recent = before is not None and now - before.at < 2 * LONGEST_DELAY_SECONDS
        attempts = before.attempts + 1 if before is not None and recent else 1
        if before is not None and not in_vain:
            attempts, now = before.attempts, before.at
        self.parked += before is None or before.due is not None
        self._refusals[rank.key] = _Refusal(rank, attempts, now, renewed=not in_vain)
        self._parking.put(rank.key, unit, awaits)

    def explained(self, key: Key) -> None:
        """Why it waits, if it does, is said as of now: from now on it may become untrue."""
        refusal = self._refusals.get(key)
        if refusal is not None:
            refusal.told = self._parking.moment

    def waiting(self) -> list[Key]:
        """Those that wait for an event, or were woken by one."""
        return list(self._refusals)

    @property
    def moment(self) -> int:
        """How many things have happened."""
        return self._parking.moment

    def outdated(self, key: Key, at: int) -> bool:
        """Whether it waits for a reason of that moment or before that may be true no longer.

        Nothing has woken it: else it is decided soon anyway.
        """
        refusal = self._refusals.get(key)
        if refusal is None or refusal.due is not None:
            return False
        told = refusal.told
        return told is not None and told <= at and self._parking.moved(key, told)

    @property
    def idle(self) -> bool:
        """Whether nobody is to be decided, and nobody is being woken."""
        return not (self.active or self._offered or self._looking)

    def renew(self, key: Key) -> None:
        """Decide it for its reason alone; it goes on waiting for what it waits for.

        Not where the last news will wake it: it must not be ahead of those woken with it.
        """
        refusal = self._refusals.get(key)
        if refusal is not None and not self._parking.helps(key, self._news.pending()):
            refusal.renewing = True
            self.active.add(key, priority=refusal.rank.priority, rank=refusal.rank.order)

    def renewing(self, key: Key) -> bool:
        """Whether it is decided for its reason alone, as no event has woken it since."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.renewing and refusal.due is None

    def renewed(self, key: Key) -> bool:
        """Whether it waits and was decided last for its reason alone."""
        refusal = self._refusals.get(key)
        return refusal is not None and refusal.renewed

    def rest(self, rank: Rank, unit: WorkloadInfo) -> None:
        """Keep it until it is edited, or offered with everybody else."""
        self.park(rank, unit, NOBODY)

    def again(self, rank: Rank) -> None:
        """Look at it again without a reason; how often that was in vain stays known."""
        refusal = self._refusals.get(rank.key)
        if refusal is None:
            self.active.add(rank.key, priority=rank.priority, rank=rank.order)
        else:
            self._wake(refusal, refusal.ready_at)

    def add_after(self, rank: Rank, seconds: float) -> None:
        """Look at it again after that time, whatever happens meanwhile."""
        self.active.add_after(rank.key, seconds, priority=rank.priority, rank=rank.order)

    def retry(self, rank: Rank) -> None:
        """Its write failed: again after a back-off. Who is in work is retried by its worker."""
        if not self.active.handed_out(rank.key):
            self.active.retry(rank.key, priority=rank.priority, rank=rank.order)

    def settle(self, key: Key) -> None:
        """It is decided and waits for nothing; what failed about it counts until it is written."""
        refusal = self._refusals.pop(key, None)
        if refusal is not None:
            self.parked -= refusal.due is None
            self._parking.drop(key)

    def forget(self, key: Key) -> None:
        """It is written, gone, or none of ours.

        Nothing to wait for, and its failures are forgiven.
        """
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
        """Something happened to an object: those that await it are woken shortly, together.

        Where `old` and `new` are both None, nobody is asked whether it helps him. `by` is the
        Workload whose doing it is: it is not woken by itself.
        """
        if action and self._parking.move(resource, key):
            self.moved.set()
        if helping := action & Action.every():
            blurred = old is None and new is None
            self._news.add(Happened(resource, key, helping, old, new, blurred, by))
            self._happened.set()

    async def run(self) -> None:
        """Wake the waiting, until cancelled."""
        pause = SETTLE_SECONDS
        while True:
            await self._happened.wait()
            await self._clock.sleep(pause)
            pause = max(SETTLE_SECONDS, REST * await self._look())

    async def _look(self) -> float:
        """Wake whom the news helps, with breaks; the seconds of work that it took."""
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
        """Wake whoever awaits one of the events announced since the last time, in one go."""
        for _ in self._waking():
            pass

    def _waking(self) -> Iterator[None]:
        """Find those who are woken and wake them, the first in order first; a step at a time."""
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
    """By priority, the moment at which the first of a lower one is looked at.

    Who was woken before and still waits its turn counts too, or its patience costs its room.
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
