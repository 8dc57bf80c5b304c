"""Marks: subsets that take no new replica for a while, because some found no node there.

A mark is a condition in the spread's status, so a restart forgets none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from controller.features.workloadspread.compiled import CompiledSpread
from controller.features.workloadspread.entries import TOLERATED, stamp
from controller.framework.statuswriter import MESSAGE_LIMIT, StatusEvent
from crds.workloadspread import (
    SchedulableReason,
    SpreadEventReason,
    SubsetCondition,
)
from machinery.clock import stored_time, timestamp
from machinery.types import conditions

NAMED_CLUSTERS = 10
"""Clusters with waiting replicas that a message names."""
CHANCE = timedelta(seconds=1)
"""Seconds between two marks of a subset at least."""
_TYPE = SubsetCondition.SCHEDULABLE.value


@dataclass(frozen=True, slots=True)
class UnschedulableUnits:
    cluster: str
    replicas: int
    since: datetime


@dataclass(frozen=True, slots=True)
class SchedulableCondition:
    condition: dict[str, Any]
    events: tuple[StatusEvent, ...] = ()
    next_look: datetime | None = None


def judged(
    spread: CompiledSpread,
    place: int,
    before: Sequence[Any],
    waiting: Sequence[UnschedulableUnits],
    now: datetime,
    *,
    mark_seconds: int,
) -> SchedulableCondition:
    """Whether a subset takes new replicas now, by its stored conditions."""
    name, marks = spread.subsets[place].name, spread.adaptive and place + 1 < len(spread.subsets)
    critical, mark = (timedelta(seconds=n) for n in (spread.critical_seconds, mark_seconds))
    condition = partial(_condition, spread.generation)
    old = conditions.among(before, _TYPE)
    since = _since(old, now)
    events: tuple[StatusEvent, ...] = ()
    if old.get("status") == "False":
        if marks and now < since + mark:
            message = str(old.get("message", ""))
            return SchedulableCondition(condition(since, message), (), since + mark)
        since, events = stamp(now), (_recovered(name),)
    if not marks or not waiting:
        return SchedulableCondition(condition(since), events)
    # Replicas that have waited since before `since` wait anew.
    first = min(each.since for each in waiting)
    due = max(first + critical, since + max(critical, CHANCE))
    if now < due:
        return SchedulableCondition(condition(since), events, due)
    ends = stamp(now) + mark
    return SchedulableCondition(condition(stamp(now), _words(waiting, ends)), events, ends)


def rescheduled(
    spread: CompiledSpread, before: Sequence[int], after: Sequence[int]
) -> StatusEvent | None:
    marked = [each.name in spread.marked for each in spread.subsets]
    fell = [m and b > a for m, b, a in zip(marked, before, after, strict=True)]
    if True not in fell:
        return None
    first = fell.index(True)
    rose = [at > first and a > b for at, (b, a) in enumerate(zip(before, after, strict=True))]
    gone, come = (
        sum(abs(b - a) for b, a, here in zip(before, after, which, strict=True) if here)
        for which in (fell, rose)
    )
    if not come:
        return None
    names = [each.name for each in spread.subsets]
    source, aim = (
        ", ".join(name for name, here in zip(names, which, strict=True) if here)
        for which in (fell, rose)
    )
    note = f"replicas without a node went from subset {source} to {aim}: {min(gone, come)}"
    return StatusEvent(SpreadEventReason.RESCHEDULED, note)


def _since(old: conditions.Condition, now: datetime) -> datetime:
    """Return the last transition; an unreadable or future one is now."""
    said = str(old.get("lastTransitionTime"))
    return stored_time(said, not_after=now + TOLERATED) or stamp(now)


def _condition(generation: int, since: datetime, mark: str | None = None) -> dict[str, Any]:
    reason = SchedulableReason.SUFFICIENT if mark is None else SchedulableReason.POD_UNSCHEDULABLE
    return conditions.renewed(
        {},
        type_=_TYPE,
        true=mark is None,
        reason=reason.value,
        message=("it takes new replicas" if mark is None else mark)[:MESSAGE_LIMIT],
        now=since,
        generation=generation,
    )


def _words(waiting: Sequence[UnschedulableUnits], ends: datetime) -> str:
    some = ", ".join(f"{each.replicas} on {each.cluster}" for each in waiting[:NAMED_CLUSTERS])
    more = len(waiting) - NAMED_CLUSTERS
    rest = f" and on {more} more clusters" if more > 0 else ""
    return f"replicas have no node: {some}{rest}; it takes no new one until {timestamp(ends)}"


def _recovered(name: str) -> StatusEvent:
    note = f"subset {name} takes new replicas again"
    return StatusEvent(SpreadEventReason.RECOVER_SCHEDULABLE, note)
