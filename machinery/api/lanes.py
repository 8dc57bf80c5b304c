"""How many requests may be in flight at one server: lanes, and a fair line before each.

A request has a class: its lane, and how large the answer may be. Leases, probes and discovery have
lanes of their own, so that whatever else hangs or waits in line, a leader stays one, the server is
seen to be there, and kinds are found. Within the lane of work no namespace takes everything: it
gets another connection only while it holds fewer than are free. A namespace alone so reaches half
of them, a second one half of the rest, and one is left for the next. A single Workload has a fixed
limit besides, however many objects it brings.

The Workload of a request is not passed through every call: a caller that begins to work for a
Workload declares that once (`working_for`), and all that is sent on the way counts for it.
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
"""The key of requests for no Workload, such as lists."""

_worker_for: ContextVar[Key] = ContextVar("worker_for", default=NO_WORKLOAD)


class PriorityLevel(Enum):
    """Connections of one purpose."""

    LEADER_ELECTION = "leader-election"
    WORK = "work"
    PROBE = "probe"
    DISCOVERY = "discovery"


@dataclass(frozen=True, slots=True)
class RequestClass:
    """The purpose of a request, as far as that decides how it is treated."""

    lane: PriorityLevel
    most: int
    """The most bytes of the answer."""


LEASE = RequestClass(PriorityLevel.LEADER_ELECTION, bounds.OBJECT_BYTES)
OBJECT = RequestClass(PriorityLevel.WORK, bounds.OBJECT_BYTES)
LIST = RequestClass(PriorityLevel.WORK, bounds.PAGE_BYTES)
FACT = RequestClass(PriorityLevel.PROBE, bounds.FACT_BYTES)
DISCOVERY = RequestClass(PriorityLevel.DISCOVERY, bounds.DISCOVERY_BYTES)


@contextmanager
def working_for(key: Key) -> Iterator[None]:
    """Count all requests within for that Workload, in tasks that begin within too."""
    before = _worker_for.set(key)
    try:
        yield
    finally:
        _worker_for.reset(before)


def works_for(key: Key) -> bool:
    """Whether the caller runs within `working_for` of that key."""
    return _worker_for.get() == key


class FairQueue:
    """The fair line of one lane: `most` at once, `each` of them for one Workload."""

    def __init__(self, most: int, *, each: int = bounds.FOR_ONE_WORKLOAD) -> None:
        self._most = most
        self._each = each
        self._held: Counter[Key] = Counter()
        self._by_namespace: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[Key, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold one place in the lane, for the caller's Workload."""
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
                self._release(who)  # let in and cancelled at once: the place has to be given back
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
        """Admit waiting requests, in turns: after one of a Workload the next Workload's."""
        going = True
        while going and self._total < self._most:
            going = False
            for who in list(self._waiting):
                going |= self._call(who)

    def _call(self, who: Key) -> bool:
        """Admit the first in line of a Workload, if it may go."""
        if not self._may(who):
            return False
        queue = self._waiting.pop(who)
        ticket = queue.popleft()
        if queue:
            self._waiting[who] = queue  # behind the others
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
