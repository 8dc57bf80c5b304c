"""The findings of `stowage status` on WorkloadSpreads that are not followed, and on subsets.

Nothing is computed that the controller has not written.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from machinery.types.metadata import Meta
from stowage.reading.advice import SPREADS, UNKNOWN
from stowage.reading.fleet import Condition, Finding, Report, condition


class SubsetSummary(msgspec.Struct):
    name: str = ""
    replicas: int = 0
    conditions: list[Condition] = []


class _SpreadStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    subset_statuses: list[SubsetSummary] = []


class SpreadSummary(msgspec.Struct):
    metadata: Meta
    status: _SpreadStatus = msgspec.field(default_factory=_SpreadStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


def take_spreads(report: Report, spreads: Iterable[SpreadSummary]) -> None:
    """List spreads that are not followed, which needs a person, and subsets that take no unit."""
    for each in spreads:
        if each.metadata.deleting:
            continue
        unready = _false(each.status.conditions, "Ready")
        if unready is not None:
            report.spreads.append(_unready(each, unready))
        for subset in each.status.subset_statuses:
            mark = _false(subset.conditions, "Schedulable")
            if mark is not None:
                report.spreads.append(_marked(each, subset, mark))


def _false(conditions: Iterable[Condition], kind: str) -> Condition | None:
    found = condition(conditions, kind)
    return found if found is not None and found.status == "False" else None


def _unready(spread: SpreadSummary, said: Condition) -> Finding:
    return Finding(
        spread.name,
        said.reason,
        since=said.last_transition_time,
        message=said.message,
        help=SPREADS.get(said.reason, UNKNOWN),
        urgent=True,
    )


def _marked(spread: SpreadSummary, subset: SubsetSummary, said: Condition) -> Finding:
    # not urgent: the controller tries the subset again after a while
    what = f"subset {subset.name} takes no unit for now"
    return Finding(
        spread.name,
        said.reason,
        since=said.last_transition_time,
        units=str(subset.replicas),
        message=f"{what}: {said.message}" if said.message else what,
    )
