"""The only module that reads a clock.

`now()` is a timestamp for people and objects, and may jump. `monotonic()` measures durations. Other
code takes a `Clock` as a keyword argument, which lets a test stop time.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

# CLOCK_MONOTONIC stops while the machine sleeps: a leader that slept would take an expired lease
# for its own. Only Linux has a clock that continues.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)

stopwatch = time.perf_counter
"""Seconds by the machine's finest counter; tests do not replace it."""
worktime = time.thread_time
"""Seconds of processor time of this thread."""


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - slow, and commands write timestamps without it

        await asyncio.sleep(seconds)


def timestamp(moment: datetime) -> str:
    """Return `2026-01-02T03:04:05Z`, as Kubernetes writes metav1.Time (whole seconds, UTC)."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def microtime(moment: datetime) -> str:
    """Return `2026-01-02T03:04:05.000006Z`, as Kubernetes writes metav1.MicroTime."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def parse_timestamp(text: str) -> datetime:
    """Return the moment of a metav1.Time or MicroTime. Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a timestamp needs a time zone: {text!r}")
    return moment.astimezone(UTC)


def stored_time(text: str, *, not_after: datetime | None = None) -> datetime | None:
    """Return the moment of a timestamp; None if malformed or later than `not_after`."""
    try:
        moment = parse_timestamp(text)
    except (ValueError, OverflowError):
        return None
    return None if not_after is not None and moment > not_after else moment
