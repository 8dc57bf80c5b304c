"""The geometry of pictures in SVG, made on the server: in percents, so that they fit any width.

A picture says nothing that the table below it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stowage.console.words import time

LEFT, RIGHT = 8.0, 98.0
"""Where the plot begins and ends, in percents of the width."""
TOP, BOTTOM = 10.0, 130.0
"""Where it ends and begins, in pixels from above."""
MOST_TICKS = 5
THIN = 0.4
"""Percents: a level that held for a moment is seen all the same."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (
    *(_MINUTE * n for n in (1, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)
"""Seconds between two ticks."""


@dataclass(frozen=True, slots=True)
class Level:
    """Numbers that held from one change to the next.

    `x` and `width` are in percents, the others, heights, in pixels.
    """

    x: float
    width: float
    desired: float
    assigned: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: its place, in percents or pixels, and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The replicas desired and assigned over the time until now."""

    levels: Sequence[Level]
    times: Sequence[Tick]
    numbers: Sequence[Tick]


def timeline(history: Sequence[Mapping[str, Any]], now: datetime) -> Timeline | None:
    """Return the picture of a Workload's history; None where no change has a time."""
    changes = [(at, each) for each in history if (at := time(str(each.get("time") or "")))]
    if not changes:
        return None
    begin = changes[0][0]
    end = max(now, changes[-1][0], begin + timedelta(seconds=_MINUTE))
    whole = (end - begin).total_seconds()
    most = max(1, *(max(_number(c, "desired"), _number(c, "assigned")) for _, c in changes))

    def x(at: datetime) -> float:
        part = min(max((at - begin).total_seconds() / whole, 0.0), 1.0)
        return round(LEFT + part * (RIGHT - LEFT), 2)

    def height(number: int) -> float:
        return round((BOTTOM - TOP) * number / most, 1)

    ends = [at for at, _ in changes[1:]] + [end]
    levels = [
        Level(
            x(at),
            max(round(x(until) - x(at), 2), THIN),
            height(_number(change, "desired")),
            height(_number(change, "assigned")),
        )
        for (at, change), until in zip(changes, ends, strict=True)
    ]
    numbers = sorted({0, most // 2, most})
    return Timeline(
        levels,
        [Tick(x(at), text) for at, text in _times(begin, end)],
        [Tick(BOTTOM - height(number), str(number)) for number in numbers],
    )


def _number(change: Mapping[str, Any], key: str) -> int:
    found = change.get(key)
    return found if isinstance(found, int) else 0


def _times(begin: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """Return round local times between the two, and their texts: that of midnight is the day."""
    whole = (end - begin).total_seconds()
    step = next((each for each in _STEPS if whole / each <= MOST_TICKS), whole / MOST_TICKS)
    first = begin.astimezone()
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    skipped = int((first - midnight).total_seconds() // step) + 1
    found = []
    for number in range(skipped, skipped + MOST_TICKS + 1):
        at = midnight + timedelta(seconds=step * number)
        if at <= end:
            found.append((at, at.strftime("%H:%M" if at.hour or at.minute else "%m-%d")))
    return found
