"""`tests.patience.until` for conditions that ask a server: ever more seldom, the longer it takes.

A look at a hub costs two processes several milliseconds. Asked fifty times a second, it would be
most of what these tests compute; a condition that asks no server is looked at as often as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

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
