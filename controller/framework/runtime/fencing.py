"""Fences tasks of an ended term, which must not write even if they ignore cancellation.

A controller runs with its tasks in a context. If it outlives its term, `check` raises in that
context, even if this process leads again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context

from machinery import logs
from machinery.clock import Clock
from machinery.errors import LeaseLost

LOG = logs.get(__name__)
END_SECONDS = 5.0


class Fence:
    """Shut for a controller that did not end in time."""

    shut = False


_FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)


def check() -> None:
    """Raise LeaseLost in a task of an ended term."""
    fence = _FENCE.get()
    if fence is not None and fence.shut:
        raise LeaseLost("the term that this task belongs to is over")


class Tenure:
    """Runs controllers by name. Each ends with its term, or is fenced."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, asyncio.Task[None]] = {}

    async def run(
        self, name: str, begin: Callable[[], Awaitable[None]], forsake: Callable[[], None]
    ) -> None:
        """Run a controller until it ends or this is cancelled. Raises what it raises.

        `forsake` is called if it does not end in time, perhaps in the middle of a write.
        """
        left = self._left.get(name)
        # A run left over from an earlier term must end first: no controller runs twice.
        if left is not None and not left.done():
            LOG.warning("the controller %s has not ended its last term, and is waited for", name)
            await asyncio.wait([left])
        fence, context = Fence(), copy_context()
        context.run(_FENCE.set, fence)
        task = asyncio.create_task(_run(begin), name=name, context=context)
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                await self._end(name, task, fence, forsake)
        if not task.cancelled():
            task.result()

    async def _end(
        self, name: str, task: asyncio.Task[None], fence: Fence, forsake: Callable[[], None]
    ) -> None:
        task.cancel()
        alarm = asyncio.create_task(self._clock.sleep(END_SECONDS))
        try:
            await asyncio.wait([task, alarm], return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            if not task.done():
                LOG.error(
                    "the controller %s did not end in %.0f s: it is left alone, and the lease is "
                    "left to run out",
                    *(name, END_SECONDS),
                )
                fence.shut = True
                self._left[name] = task
                task.add_done_callback(_mourn)
                forsake()


async def _run(begin: Callable[[], Awaitable[None]]) -> None:
    await begin()


def _mourn(task: asyncio.Task[None]) -> None:
    fault = None if task.cancelled() else task.exception()
    LOG.info("the controller %s has ended: %s", task.get_name(), fault or "without a fault")
