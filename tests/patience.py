"""How long a test waits for what has to come: as long as a busy machine may need.

A wait ends as soon as its condition holds, so that patience costs time in a failing test alone.
What has to come soon is held by a count (of requests, turns, decisions) or by a clock of the
test's own, never by the seconds that pass on a machine that others use as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 4
"""Waits take up to so many times what they need on a quiet machine."""


async def until(
    holds: Callable[[], Awaitable[Any] | Any],
    *,
    seconds: float = 30.0,
    every: float = 0.02,
    what: Callable[[], object] | None = None,
) -> float:
    """Return, as soon as `holds()` is true, the seconds that it took.

    AssertionError after PATIENCE times `seconds`, with what `what()` then says.
    """
    started = time.monotonic()
    while True:
        answer = holds()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return time.monotonic() - started
        if time.monotonic() - started > PATIENCE * seconds:
            raise _overdue(seconds, what)
        await asyncio.sleep(every)


def hold_on(
    holds: Callable[[], Any],
    *,
    seconds: float = 30.0,
    every: float = 0.1,
    what: Callable[[], object] | None = None,
) -> Any:
    """As `until`, for tests that block: the first true answer of `holds()`."""
    started = time.monotonic()
    while not (answer := holds()):
        if time.monotonic() - started > PATIENCE * seconds:
            raise _overdue(seconds, what)
        time.sleep(every)
    return answer


def _overdue(seconds: float, what: Callable[[], object] | None) -> AssertionError:
    said = f": {what()}" if what else ""
    return AssertionError(f"did not hold within {PATIENCE * seconds:g} s{said}")
