"""Ending what runs beside us, in time and for good."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from machinery.clock import Clock
from machinery.errors import Unreachable

T = TypeVar("T")


async def end(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and return when they have ended, each in its own way."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def within(seconds: float, request: Coroutine[Any, Any, T], *, clock: Clock) -> T:
    """The answer of a request. Raises Unreachable, and cancels it, when there is none in time."""
    asking = asyncio.create_task(request)
    alarm = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait([asking, alarm], return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise Unreachable("no answer in time")
        return asking.result()
    finally:
        await end([asking, alarm])
