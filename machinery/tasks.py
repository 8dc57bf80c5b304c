"""Concurrent tasks: how they are ended, and how long loops yield to others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Hashable,
    Iterable,
    Sequence,
)
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from machinery.clock import Clock
from machinery.errors import Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

RECANCEL_SECONDS = 5.0
"""Seconds until a task that has not ended is cancelled again."""
SLICE = 200
"""Items of a loop between two pauses."""


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and return when they have ended, each in its own way.

    A cancelled caller waits all the same, and nothing keeps running.
    """
    cancelled: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.done()]:
        try:
            _, deaf = await asyncio.wait(running, timeout=RECANCEL_SECONDS)
            # A library may swallow a cancellation, and the caller would wait for ever.
            for task in deaf:
                log.warning("did not end when it was told to, and is told again: %r", task)
                task.cancel()
        except asyncio.CancelledError as e:
            cancelled = e
            for task in running:
                task.cancel()
    if cancelled is not None:
        raise cancelled


async def within(seconds: float, request: Coroutine[Any, Any, T], *, clock: Clock) -> T:
    """Return the answer of a request. Raises Unreachable, and cancels it, when none comes in time.

    Returns or raises only when the request has ended, also if the caller is cancelled.
    """
    asking = asyncio.create_task(request)
    alarm = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait([asking, alarm], return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise Unreachable("no answer in time")
        return asking.result()
    finally:
        await end([asking, alarm])


async def patiently(
    missing: Callable[[], Awaitable[str]], *, seconds: float, every: float, clock: Clock
) -> str:
    """Call `missing` until it returns an empty text, and return its last answer.

    Calls it `every` so many seconds, for `seconds`.
    """
    deadline = clock.monotonic() + seconds
    while (what := await missing()) and clock.monotonic() < deadline:
        await clock.sleep(every)
    return what


class Gradually(Generic[T]):
    """Acts on few items at once, and on many in slices."""

    def __init__(self, act: Callable[[T], object]) -> None:
        self._act = act
        self._groups: dict[Hashable, set[T]] = {}
        self._more = asyncio.Event()

    def add(self, group: Hashable, items: Collection[T]) -> None:
        if len(items) <= SLICE:
            for item in items:
                self._act(item)
        else:
            self._groups.setdefault(group, set()).update(items)
            self._more.set()

    @property
    def waiting(self) -> Collection[Hashable]:
        """The groups with items left."""
        return self._groups.keys()

    async def run(self) -> None:
        while True:
            await self._more.wait()
            while self._groups:
                self._turn()
                await asyncio.sleep(0)
            self._more.clear()

    def _turn(self) -> None:
        group = next(iter(self._groups))
        items = self._groups.pop(group)
        for _ in range(min(SLICE, len(items))):
            self._act(items.pop())
        if items:
            self._groups[group] = items  # after the others


class KeyedLocks(Generic[K]):
    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: K) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())


async def in_slices(items: Iterable[T], *, size: int = SLICE) -> AsyncIterator[T]:
    """Yield each item; after every `size` of them whatever else is ready runs first."""
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
