"""Running beside others: ending what runs beside us for good, and giving way in long loops."""

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

from machinery.clock import Clock
from machinery.errors import Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

AGAIN_SECONDS = 5.0
"""For so long a task may take over its end before it is told once more."""
SLICE = 200
"""Items of a loop between two pauses; some tens of microseconds each make a few milliseconds."""


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and return when they have ended, each in its own way.

    Whoever is cancelled here waits all the same, and leaves nothing behind that still runs; the
    tasks are then told once more, so that one that takes its time over its farewell cuts it short.
    A task that goes on all the same is told again and again, and the log tells of it: on its way
    through libraries below us a cancellation can be taken for something else, and whoever waited
    for that task would wait for ever.
    """
    told: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.done()]:
        try:
            _, deaf = await asyncio.wait(running, timeout=AGAIN_SECONDS)
            for task in deaf:
                log.warning("did not end when it was told to, and is told again: %r", task)
                task.cancel()
        except asyncio.CancelledError as e:
            told = e
            for task in running:
                task.cancel()
    if told is not None:
        raise told


async def within(seconds: float, request: Coroutine[Any, Any, T], *, clock: Clock) -> T:
    """The answer of a request. Raises Unreachable, and cancels it, when there is none in time.

    Returns or raises only when the request has ended, also where the caller is cancelled.
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
    """Ask what is missing until nothing is, and answer with an empty text; or with the last answer.

    Asks again `every` so many seconds, and no more once `seconds` have passed.
    """
    deadline = clock.monotonic() + seconds
    while (what := await missing()) and clock.monotonic() < deadline:
        await clock.sleep(every)
    return what


class Gradually(Generic[T]):
    """Does something to many items without keeping others waiting: few at once, many by and by.

    Items wait in groups (a Workload on ten thousand clusters), of which each in turn has a slice
    done: so a group of few is through at once, whatever else waits. An item that is added to its
    group again before its turn is done once.
    """

    def __init__(self, act: Callable[[T], object]) -> None:
        self._act = act
        self._groups: dict[Hashable, set[T]] = {}
        self._more = asyncio.Event()

    def add(self, group: Hashable, items: Collection[T]) -> None:
        """Act on each of these, at once where they are few."""
        if len(items) <= SLICE:
            for item in items:
                self._act(item)
        else:
            self._groups.setdefault(group, set()).update(items)
            self._more.set()

    @property
    def waiting(self) -> bool:
        """Whether some items have not been acted on yet."""
        return bool(self._groups)

    async def run(self) -> None:
        """Act on what waits, until cancelled."""
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
            self._groups[group] = items  # behind the others


async def in_slices(items: Iterable[T], *, size: int = SLICE) -> AsyncIterator[T]:
    """Each item in turn; after every `size` of them whatever else is ready runs first."""
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
