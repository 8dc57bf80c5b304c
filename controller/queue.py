"""The scheduling queue: who is decided next, and what a refused Workload waits for.

Two halves. The active half is a `machinery.queue.WorkQueue`: higher `spec.priority` first. The
parked half holds the Workloads that the last decision refused, each with the kinds of change that
could help it; nothing is rescanned by the clock. A change wakes those that wait for its kind, once,
together, and in the order of the QueueSort plugin, so that freed room goes to the most important of
them. A Workload that is woken again and again in vain waits longer each time (up to ten seconds);
one that has been quiet for that long is looked at at once. Nobody waits longer than one of a lower
priority that is woken with it: it must not lose its room to its own patience.

`park` is called in the same breath as the decision, before its write is awaited: a change that
arrives while the write is under way must find the Workload waiting.
"""

from __future__ import annotations

import asyncio
import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from machinery.clock import Clock
from machinery.objects import Key
from machinery.queue import WorkQueue

SETTLE_SECONDS = 0.02
"""Changes arrive in bursts (a probe writes labels, readiness and room).

One look serves them all.
"""

FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 10.0


Topic: TypeAlias = str | Key
"""What a change is about, if not about the whole fleet: a namespace, or the key of a policy."""


class Change(enum.Flag):
    """What can happen in the world that could turn a refusal into a placement."""

    NOTHING = 0
    CLUSTER_ADDED = enum.auto()
    CLUSTER_LABELS = enum.auto()
    CLUSTER_RULES = enum.auto()
    """Taints, the cordon, the namespaces it allows."""
    CLUSTER_READY = enum.auto()
    CLUSTER_ROOM = enum.auto()
    POLICIES = enum.auto()
    """A WorkloadPolicy came, went or was edited, or what it counts changed."""
    WORKLOADS = enum.auto()
    """A share of another Workload came or went, or its labels changed."""

    @classmethod
    def any(cls) -> Change:
        """Every kind: what a refusal waits for when nothing narrower is known."""
        return ~cls.NOTHING


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """The place of a Workload in the order of the profile's QueueSort plugin: smaller goes first.

    The order holds among Workloads that are offered or woken together; of those that came at
    different times the higher `priority` goes first, then the one that came first.
    """

    order: tuple[Any, ...]
    key: Key
    priority: int


@dataclass(slots=True)
class _Refusal:
    """A Workload that the last decision refused.

    What it waits for, and how often it was in vain.
    """

    rank: Rank
    awaits: Change
    topics: tuple[Topic, ...]
    attempts: int
    at: float
    parked: bool = True

    def wait(self, now: float) -> float:
        """Seconds until it may be looked at again; zero or less means now."""
        doublings = min(self.attempts - 1, 10)  # past the longest delay anyway, and no huge number
        return self.at + min(FIRST_DELAY_SECONDS * 2.0**doublings, LONGEST_DELAY_SECONDS) - now


class SchedulingQueue:
    """Keys of Workloads, those to decide and those that wait for a change."""

    def __init__(self, *, clock: Clock) -> None:
        self.active: WorkQueue[Key] = WorkQueue(name="scheduling", clock=clock)
        self._clock = clock
        self._refusals: dict[Key, _Refusal] = {}
        self._changes: dict[Topic | None, Change] = {}
        self._changed = asyncio.Event()

    @property
    def parked(self) -> int:
        """How many Workloads wait for a change."""
        return sum(refusal.parked for refusal in self._refusals.values())

    def offer(self, ranks: Iterable[Rank]) -> None:
        """Decide these as soon as their turn comes; whatever they waited for no longer matters."""
        for rank in sorted(ranks):
            self._refusals.pop(rank.key, None)
            self.active.add(rank.key, priority=rank.priority)

    def park(self, rank: Rank, awaits: Change, topics: tuple[Topic, ...]) -> None:
        """Keep a refused Workload until one of the changes it awaits is announced.

        One that is about something only counts where that is one of the `topics`.
        """
        now = self._clock.monotonic()
        before = self._refusals.get(rank.key)
        # One that came back right after the longest delay has not been quiet.
        recent = before is not None and now - before.at < 2 * LONGEST_DELAY_SECONDS
        attempts = before.attempts + 1 if before is not None and recent else 1
        self._refusals[rank.key] = _Refusal(rank, awaits, topics, attempts, now)

    def settle(self, key: Key) -> None:
        """It is decided and waits for nothing; what failed about it counts until it is written."""
        self._refusals.pop(key, None)

    def forget(self, key: Key) -> None:
        """It is written, gone, or none of ours.

        Nothing to wait for, and its failures are forgiven.
        """
        self.settle(key)
        self.active.forget(key)

    def announce(self, change: Change, about: Iterable[Topic] | None = None) -> None:
        """Something changed; those that wait for it are woken shortly, together.

        `about` says what it is about; None for what everybody can feel. To be woken in vain costs
        patience, which others' affairs must not.
        """
        for topic in (None,) if about is None else about:
            self._changes[topic] = self._changes.get(topic, Change.NOTHING) | change
        self._changed.set()

    async def run(self) -> None:
        """Wake the waiting, until cancelled."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(SETTLE_SECONDS)
            self.flush()

    def flush(self) -> None:
        """Wake whoever waits for one of the changes announced since the last time."""
        changes, self._changes = self._changes, {}
        self._changed.clear()
        now = self._clock.monotonic()
        # Who was woken before and still waits its turn counts too, or its patience costs its room.
        woken = [
            refusal
            for refusal in self._refusals.values()
            if any(refusal.awaits & changes.get(t, Change.NOTHING) for t in (None, *refusal.topics))
        ]
        waits = _waits(woken, now)
        for refusal in sorted(woken, key=lambda refusal: refusal.rank):
            refusal.parked = False
            key, priority = refusal.rank.key, refusal.rank.priority
            self.active.add_after(key, waits[key], priority=priority)


def _waits(woken: Iterable[_Refusal], now: float) -> dict[Key, float]:
    """Seconds that each still waits: its own, or as long as any of a lower priority."""
    waits: dict[Key, float] = {}
    shortest = math.inf
    for _, equals in groupby(sorted(woken, key=_priority), key=_priority):
        own = {refusal.rank.key: min(refusal.wait(now), shortest) for refusal in equals}
        shortest = min(own.values())
        waits |= own
    return waits


def _priority(refusal: _Refusal) -> int:
    return refusal.rank.priority
