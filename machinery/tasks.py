"""Ending what runs beside us, in time and for good."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from machinery.clock import Clock
from machinery.errors import Unreachable

T = TypeVar("T")


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and return when they have ended, each in its own way.

    Whoever is cancelled here waits all the same, and leaves nothing behind that still runs; the
    tasks are then told once more, so that one that takes its time over its farewell cuts it short.
    """
    told: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(running)
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
