"""How tests of the propagator wait: until something holds, or until nothing more can come.

`until` is `tests.patience.until` for conditions that ask a server. A look at a hub costs two processes several milliseconds. Asked fifty times a second, it would be
most of what these tests compute; so it looks ever more seldom, the longer it takes. A condition
that asks no server is looked at as often as ever. `handled` is the barrier before a look that shall
show that nothing happened.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from machinery.api.client import ApiClient
from machinery.clock import SystemClock
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from tests import patience

GROWTH = 1.25
MOST = 0.25
"""Seconds between two looks. What lasts no longer than that may be missed."""


async def until(
    holds: Callable[[], Awaitable[Any] | Any],
    *,
    seconds: float = 30.0,
    every: float = 0.02,
    what: Callable[[], object] | None = None,
) -> float:
    """As `tests.patience.until`; from `every` on, the pause between two looks grows up to MOST."""
    pause = every

    async def asked() -> Any:
        nonlocal pause
        answer = holds()
        if not isinstance(answer, Awaitable):
            return answer
        answer = await answer
        if not answer:
            await asyncio.sleep(pause - every)
            pause = max(every, min(MOST, pause * GROWTH))
        return answer

    return await patience.until(asked, seconds=seconds, every=every, what=what)


async def handled(
    following: Callable[[], Iterable[tuple[ApiClient, Iterable[Informer[Any]]]]],
    queues: Callable[[], Iterable[WorkQueue[Any]]],
    *,
    also: Callable[[], bool] = lambda: True,
) -> None:
    """Return once all that the servers hold was heard of, and all that it called for is done.

    What a test did before has had its effect then, or has none: on a busy machine as on a quiet
    one, where a pause of some length would pass before anybody has looked. `following` are the
    informers of each server, which that client asks; `queues` are those of the keys that they add.
    Informers that their server refuses are left out: they hear of nothing.
    """

    def idle() -> bool:
        return not any(queue or queue._in_work for queue in queues()) and also()

    def heard() -> float:
        return max(informer._spoke for _, informers in following() for informer in informers)

    async def quiet() -> bool:
        if not idle():
            return False
        before = heard()
        for client, informers in following():
            asked = [each for each in informers if each.synced and not each.refused]
            if any(not each.synced and each.last_error is None for each in informers):
                return False
            LOOKS.setdefault(client, Counter()).update(
                ("LIST", each.resource.plural) for each in asked
            )
            if not await caught_up(client, asked, clock=SystemClock(), within=LAG_SECONDS):
                return False
        return idle() and heard() == before

    await until(quiet, seconds=150)


LAG_SECONDS = 10.0
LOOKS: WeakKeyDictionary[ApiClient, Counter[tuple[str, str]]] = WeakKeyDictionary()
"""What `handled` has asked by each client, (verb, resource), for whoever counts what others ask."""
