"""Work in steps: a pass over many Workloads that lets the event loop go on in between.

A generator yields wherever it may be interrupted. A caller that wants the answer at once takes all
steps in one go; a server takes them in slices of time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from machinery.clock import stopwatch

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

SLICE_SECONDS = 0.01
"""How long steps are taken before the event loop has its turn."""


def at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer


async def in_slices(
    steps: Steps[T],
    *,
    between: Callable[[], None] = lambda: None,
    now: Callable[[], float] = stopwatch,
) -> T:
    """Take all steps, with a turn of the event loop after each slice; return the answer.

    `between` is called before each such turn.
    """
    began = now()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer
        if now() - began >= SLICE_SECONDS:
            between()
            await asyncio.sleep(0)
            began = now()
