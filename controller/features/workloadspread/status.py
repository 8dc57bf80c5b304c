"""The status of a WorkloadSpread: its subsets, events, and the moment of the next check. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.features.workloadspread import adaptive, patches
from controller.features.workloadspread.compiled import MARK_SECONDS, CompiledSpread, WorkloadSpread
from controller.features.workloadspread.counted import (
    CREATE,
    CREATE_SECONDS,
    DELETE,
    DELETE_SECONDS,
    Classes,
    Counted,
    SpreadTarget,
    counted,
)
from controller.features.workloadspread.entries import (
    first_due,
    most_entries,
    named,
    to_dict,
    units,
)
from controller.features.workloadspread.patches import fault_of
from controller.framework.statuswriter import MESSAGE_LIMIT, StatusEvent, ready_conditions
from controller.model.objects import Workload
from controller.planner.problem import UNBOUNDED
from crds.workloadspread import (
    WAITING,
    SpreadEventReason,
    SpreadReadyReason,
)
from machinery.types import conditions
from machinery.types.api import SubsetStatus
from machinery.types.bounds import MOST_UNITS

NAMED_SPANS = 10
"""Ranges of replicas that an event names."""
SUMMARY_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class SpreadResult:
    """`stranded`: replicas wait for a node in a subset that takes no new one."""

    statuses: list[dict[str, Any]]
    events: list[StatusEvent]
    next_look: datetime | None
    summary: str = ""
    stranded: bool = False


NOTHING = SpreadResult([], [], None)


@dataclass(frozen=True, slots=True)
class SpreadState:
    """`counts`: its subsets are counted."""

    reason: SpreadReadyReason = SpreadReadyReason.VALID
    message: str = ""
    counts: bool = True

    @property
    def event(self) -> StatusEvent | None:
        if self.reason in (SpreadReadyReason.VALID, SpreadReadyReason.TARGET_NOT_FOUND):
            return None
        return StatusEvent(self.reason, self.message, warning=True)


def verdict_of(
    spread: CompiledSpread, holder: CompiledSpread | None, target: Workload | None
) -> SpreadState:
    """`holder` is the spread that divides its target."""
    if spread.fault:
        return SpreadState(SpreadReadyReason.INVALID_SPREAD, spread.fault, counts=False)
    if holder is not None and holder.key != spread.key:
        text = f"workload-spread {holder.name} is older and has the same target; delete one of them"
        return SpreadState(SpreadReadyReason.TARGET_TAKEN, text, counts=False)
    if target is None:
        text = f"there is no Workload {spread.target[1]} in namespace {spread.target[0]}"
        return SpreadState(SpreadReadyReason.TARGET_NOT_FOUND, text)
    if wrong := patches.fault(spread, target.info):
        return SpreadState(SpreadReadyReason.INVALID_PATCH, wrong)
    if wrong := fault_of(spread, target.info):
        return SpreadState(SpreadReadyReason.INVALID_SPREAD, wrong, counts=False)
    return SpreadState()


def status_of(
    stored: WorkloadSpread, look: SpreadResult, verdict: SpreadState, now: datetime
) -> dict[str, Any]:
    return {
        "observedGeneration": stored.metadata.generation,
        "conditions": ready_conditions(
            stored,
            true=verdict.reason is SpreadReadyReason.VALID,
            reason=verdict.reason.value,
            message=verdict.message,
            now=now,
            waits=WAITING,
        ),
        "subsetStatuses": look.statuses,
        "summary": look.summary,
    }


def turned(stored: WorkloadSpread, verdict: SpreadState) -> StatusEvent | None:
    before = conditions.among(stored.status.conditions, conditions.READY)
    said = (before.get("status"), before.get("reason"), before.get("message"))
    now = ("False", verdict.reason.value, verdict.message[:MESSAGE_LIMIT])
    return None if said == now else verdict.event


def subset_statuses(
    spread: CompiledSpread,
    classes: Classes,
    target: SpreadTarget,
    before: Sequence[SubsetStatus],
    now: datetime,
    *,
    mark_seconds: int = MARK_SECONDS,
) -> SpreadResult:
    counts = counted(spread, classes, target, before, now)
    most = most_entries(len(spread.subsets))
    costs = classes.subsets.cost()[0].tolist()
    looks: list[datetime | None] = []
    statuses, events, stranded = [], [], False
    stored = {each.name: each for each in before}
    for place, subset in enumerate(spread.subsets):
        replicas, cap = counts[place], classes.cap(place)
        said = stored[subset.name].conditions if subset.name in stored else []
        verdict = adaptive.judged(
            spread, place, said, replicas.waiting, now, mark_seconds=mark_seconds
        )
        statuses.append(
            {
                "name": subset.name,
                "replicas": min(replicas.active, MOST_UNITS),
                "missingReplicas": -1 if cap >= UNBOUNDED else max(cap - replicas.active, 0),
                "creatingPods": to_dict(replicas.creating, most),
                "deletingPods": to_dict(replicas.deleting, most),
                "stuckPods": to_dict(replicas.stuck, most),
                "deletionCost": costs[place],
                "conditions": [verdict.condition],
            }
        )
        stranded = stranded or (verdict.condition["status"] == "False" and bool(replicas.waiting))
        events += [*_failures(subset.name, replicas), *verdict.events]
        looks += [
            verdict.next_look,
            first_due(replicas.creating, CREATE),
            first_due(replicas.deleting, DELETE),
        ]
    next_look = min((each for each in looks if each), default=None)
    return SpreadResult(statuses, events, next_look, _summary(statuses, classes), stranded)


def _summary(statuses: Sequence[Mapping[str, Any]], classes: Classes) -> str:
    """Return the SUBSETS column: `normal=80/100,elastic=0`, cut if too long."""
    caps = [classes.cap(place) for place in range(len(statuses))]
    text = ",".join(
        f"{each['name']}={each['replicas']}{f'/{cap}' if cap < UNBOUNDED else ''}"
        for each, cap in zip(statuses, caps, strict=True)
    )
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def _failures(name: str, replicas: Counted) -> Iterator[StatusEvent]:
    for late, reason, text in (
        (
            replicas.not_created,
            SpreadEventReason.CREATE_FAILED,
            f"not created in {CREATE_SECONDS} s",
        ),
        (
            replicas.not_deleted,
            SpreadEventReason.DELETE_FAILED,
            f"not deleted in {DELETE_SECONDS} s",
        ),
    ):
        if late:
            where = named(late, NAMED_SPANS)
            yield StatusEvent(
                reason, f"subset {name}, replicas {units(late)}: {text}: {where}", True
            )
