"""How many requests may be in flight at one server: lanes, and a fair queue for each.

A namespace gets another connection of the lane of work only while it holds fewer than are free: of
32, the first may hold 16, the second 8, and one stays free for the next.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from machinery.types import bounds
from machinery.types.metadata import Key

K = TypeVar("K", bound=Hashable)

NO_WORKLOAD: Key = ("", "")
"""The key of requests for no Workload."""

_worker_for: ContextVar[Key] = ContextVar("worker_for", default=NO_WORKLOAD)


class PriorityLevel(Enum):
    LEADER_ELECTION = "leader-election"
    WORK = "work"
    PROBE = "probe"
    DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class RequestClass:
    lane: PriorityLevel
    most: int
    """The most bytes of the answer."""


LEASE = RequestClass(PriorityLevel.LEADER_ELECTION, bounds.OBJECT_BYTES)
OBJECT = RequestClass(PriorityLevel.WORK, bounds.OBJECT_BYTES)
LIST = RequestClass(PriorityLevel.WORK, bounds.PAGE_BYTES)
FACT = RequestClass(PriorityLevel.PROBE, bounds.FACT_BYTES)
DISCOVERY = RequestClass(PriorityLevel.DISCOVERY, bounds.DISCOVERY_BYTES)
ALL_KINDS = RequestClass(PriorityLevel.DISCOVERY, bounds.PAGE_BYTES)


@contextmanager
def working_for(key: Key) -> Iterator[None]:
    """Count all requests within for that Workload, including those of tasks that begin within."""
    before = _worker_for.set(key)
    try:
        yield
    finally:
        _worker_for.reset(before)


def works_for(key: Key) -> bool:
    return _worker_for.get() == key


class FairQueue:
    """The fair queue of one lane: `most` at once, `each` of them for one Workload."""

    def __init__(self, most: int, *, each: int = bounds.FOR_ONE_WORKLOAD) -> None:
        self._most = most
        self._each = each
        self._held: Counter[Key] = Counter()
        self._by_namespace: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[Key, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        who = _worker_for.get()
        await self._enter(who)
        try:
            yield
        finally:
            self._release(who)

    async def _enter(self, who: Key) -> None:
        if who not in self._waiting and self._may(who):
            self._take(who)
            return
        ticket = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(who, deque())
        queue.append(ticket)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._release(who)  # admitted and cancelled at once: return the place
            elif ticket in queue:  # a cancelled one may have been passed over already
                queue.remove(ticket)
                if not queue and self._waiting.get(who) is queue:
                    del self._waiting[who]
            raise

    def _may(self, who: Key) -> bool:
        free = self._most - self._total
        if who == NO_WORKLOAD:
            return free > 0
        return self._by_namespace[who[0]] < free and self._held[who] < self._each

    def _take(self, who: Key) -> None:
        self._total += 1
        self._held[who] += 1
        self._by_namespace[who[0]] += 1

    def _release(self, who: Key) -> None:
        self._total -= 1
        _less(self._held, who)
        _less(self._by_namespace, who[0])
        self._admit()

    def _admit(self) -> None:
        going = True
        while going and self._total < self._most:
            going = False
            for who in list(self._waiting):
                going |= self._call(who)

    def _call(self, who: Key) -> bool:
        if not self._may(who):
            return False
        queue = self._waiting.pop(who)
        ticket = queue.popleft()
        if queue:
            self._waiting[who] = queue  # after the others
        if ticket.done():
            return True
        self._take(who)
        ticket.set_result(None)
        return True


def _less(counts: Counter[K], key: K) -> None:
    if counts[key] > 1:
        counts[key] -= 1
    else:
        del counts[key]
