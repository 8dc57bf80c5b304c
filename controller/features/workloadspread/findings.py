"""The findings of `stowage status` on WorkloadSpreads that are not followed, and on subsets.

Nothing is computed that the controller has not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controller.framework.findings import (
    UNKNOWN,
    Finding,
    KindFindings,
    Report,
    Summary,
    condition,
    unready,
)
from controller.model.objects import Condition

ADVICE: Mapping[str, str] = {
    "InvalidSpread": "mend the field that is named",
    "InvalidPatch": "mend the patch that is named, or the Workload's template",
    "TargetNotFound": "apply the Workload that it names, or delete it",
    "TargetTaken": "delete it, or the older one that is named",
}
"""By the reason of Ready on a WorkloadSpread."""


class SubsetSummary(msgspec.Struct):
    name: str = ""
    replicas: int = 0
    conditions: list[Condition] = []


class SpreadSummaryStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    subset_statuses: list[SubsetSummary] = []


class SpreadSummary(Summary):
    status: SpreadSummaryStatus = msgspec.field(default_factory=SpreadSummaryStatus)


def take(report: Report, spreads: Iterable[SpreadSummary], _now: datetime) -> None:
    """List spreads that are not followed, which needs a person, and subsets that take no unit."""
    found = report.findings.setdefault(FINDINGS.name, [])
    for each in spreads:
        if each.metadata.deleting:
            continue
        said = _false(each.status.conditions, "Ready")
        if said is not None:
            found.append(unready(each.name, said, ADVICE.get(said.reason, UNKNOWN)))
        for subset in each.status.subset_statuses:
            mark = _false(subset.conditions, "Schedulable")
            if mark is not None:
                found.append(_marked(each, subset, mark))


def _false(conditions: Iterable[Condition], kind: str) -> Condition | None:
    found = condition(conditions, kind)
    return found if found is not None and found.status == "False" else None


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


FINDINGS = KindFindings(
    type_=SpreadSummary,
    take=take,
    name="spreads",
    title="Spreads that are not followed, and subsets that take no unit",
)
