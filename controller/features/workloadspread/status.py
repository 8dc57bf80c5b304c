"""What the subsets of a WorkloadSpread hold, as its status says it. Pure.

See `controller.features.workloadspread.counted` for what counts. Here it becomes the fields of the
status, the events, and the moment of the next look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.features.workloadspread import adaptive
from controller.features.workloadspread.adaptive import Event, Rules
from controller.features.workloadspread.books import most_entries, named
from controller.features.workloadspread.classes import Classes
from controller.features.workloadspread.compiled import MARK_SECONDS, Spread
from controller.features.workloadspread.counted import (
    CREATE,
    CREATE_SECONDS,
    DELETE,
    DELETE_SECONDS,
    Counted,
    Target,
    counted,
)
from controller.features.workloadspread.objects import SubsetStatus
from controller.planner.problem import UNBOUNDED
from crds.workloadspread import SpreadEventReason
from machinery.types.bounds import MOST_UNITS

NAMED_SPANS = 10
"""Ranges of units that an event names."""
COST_STEP = 100
"""The deletion costs of neighbours lie that far apart."""


@dataclass(frozen=True, slots=True)
class Look:
    """The statuses of the subsets, what is new, and when it may be another one without a report."""

    statuses: list[dict[str, Any]]
    events: list[Event]
    next_look: datetime | None


def subset_statuses(
    spread: Spread,
    classes: Classes,
    target: Target,
    before: Sequence[SubsetStatus],
    now: datetime,
    *,
    mark_seconds: int = MARK_SECONDS,
) -> Look:
    """What the subsets hold at that moment, with what `before` says of times."""
    counts = counted(spread, classes, target, before, now)
    most = most_entries(len(spread.subsets))
    looks: list[datetime | None] = []
    statuses, events = [], []
    stored = {each.name: each for each in before}
    for place, subset in enumerate(spread.subsets):
        units, cap = counts[place], classes.cap(place)
        last = place + 1 == len(spread.subsets)
        rules = Rules(
            timedelta(seconds=spread.critical_seconds) if spread.adaptive and not last else None,
            timedelta(seconds=mark_seconds),
            spread.generation,
        )
        conditions = stored[subset.name].conditions if subset.name in stored else []
        verdict = adaptive.judged(subset.name, conditions, units.waiting, rules, now)
        statuses.append(
            {
                "name": subset.name,
                "replicas": min(units.active, MOST_UNITS),
                "missingReplicas": -1 if cap >= UNBOUNDED else max(cap - units.active, 0),
                "creatingPods": units.creating.to_dict(most),
                "deletingPods": units.deleting.to_dict(most),
                "stuckPods": units.stuck.to_dict(most),
                "deletionCost": COST_STEP * (len(spread.subsets) - place),
                "conditions": [verdict.condition],
            }
        )
        events += [*_failures(subset.name, units), *verdict.events]
        looks += [verdict.next_look, units.creating.first(CREATE), units.deleting.first(DELETE)]
    return Look(statuses, events, min((each for each in looks if each), default=None))


def _failures(name: str, units: Counted) -> Iterator[Event]:
    """What is told of units that did not come, or did not go, in time."""
    for late, reason, text in (
        (units.not_created, SpreadEventReason.CREATE_FAILED, f"not created in {CREATE_SECONDS} s"),
        (units.not_deleted, SpreadEventReason.DELETE_FAILED, f"not deleted in {DELETE_SECONDS} s"),
    ):
        if number := len(late):
            where = named(late.spans, NAMED_SPANS)
            more = f"{' and ' if where else ''}{late.others} more" if late.others else ""
            yield Event(reason, f"subset {name}, units {number}: {text}: {where}{more}", True)
