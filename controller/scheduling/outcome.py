"""The condition Scheduled: the reason, state and message of a pass.

FailedToSchedule with the state Failed means that no cluster takes any replica; if only room or
quota is short, the state is Pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from controller.framework.interface import Assignment
from controller.framework.status import Refusal, Status
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import FITS, Decision
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason, WorkloadState

_FAILING = frozenset({ScheduledReason.FAILED_TO_SCHEDULE, ScheduledReason.INVALID_WORKLOAD})


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    reason: ScheduledReason
    state: WorkloadState
    message: str


def of_refusal(clusters: int, status: Status, *, holding: bool) -> ScheduledCondition:
    """Return the condition for a refusal of the Workload, which may be `holding` replicas."""
    state = without_units(status.reason)
    text = "; ".join(status.reasons)
    return ScheduledCondition(
        status.reason,
        WorkloadState.SCHEDULED if holding else state,
        f"0/{clusters} clusters: {text}",
    )


def of_assignment(
    assignment: Assignment,
    verdicts: NDArray[np.int16],
    refusals: Sequence[Refusal],
    said: Sequence[str],
    *,
    holds: bool,
    ended: int,
) -> ScheduledCondition:
    """Return the condition after Filter and Assign.

    `said` are further obstacles, `ended` replicas have ended. `holds` means that there were shares
    before.
    """
    assigned, desired = sum(assignment.shares.values()) + ended, assignment.desired + ended
    feasible = int((verdicts == FITS).sum())
    if assigned == desired and (assignment.shares or holds or ended or (feasible and not desired)):
        message = f"{assigned} of {desired} replicas have a cluster"
        return ScheduledCondition(ScheduledReason.SCHEDULED, WorkloadState.SCHEDULED, message)
    counted = tally(verdicts, refusals)
    if not (counted or said):
        counted = "no room for more" if feasible else "none registered"
    reasons = "; ".join((counted, *said) if counted else said)
    message = f"{feasible}/{len(verdicts)} clusters: {reasons}"
    room = [code for code, r in enumerate(refusals, start=1) if r.short]
    full = [code for code, r in enumerate(refusals, start=1) if r.reached]
    reason = ScheduledReason.FAILED_TO_SCHEDULE
    if feasible or np.isin(verdicts, room).any():
        reason = assignment.short
    elif np.isin(verdicts, full).any():
        reason = ScheduledReason.REPLICAS_REACHED
    if not assigned:
        return ScheduledCondition(reason, without_units(reason), message)
    message = f"{assigned} of {desired} replicas have a cluster; {message}"
    return ScheduledCondition(reason, WorkloadState.SCHEDULED, message)


def untouched(info: WorkloadInfo, snapshot: Snapshot, now: datetime, status: Status) -> Decision:
    return Decision(
        workload=info,
        snapshot=snapshot,
        time=now,
        placements=info.present,
        desired=max(info.replicas, sum(info.present.values())),
        reason=status.reason,
        state=WorkloadState.SCHEDULED if info.present else without_units(status.reason),
        message=status.refusal.text,
        refusals=[status.refusal] if status.plugin else [],
    )


def ended(info: WorkloadInfo, snapshot: Snapshot, now: datetime) -> Decision:
    units = sum(info.ended.values())
    return Decision(
        workload=info,
        snapshot=snapshot,
        time=now,
        placements={},
        desired=0,
        reason=ScheduledReason.SCHEDULED,
        state=WorkloadState.SCHEDULED,
        message=f"{units} of {units} replicas have a cluster",
    )


def without_units(reason: ScheduledReason) -> WorkloadState:
    return WorkloadState.FAILED if reason in _FAILING else WorkloadState.PENDING


def tally(verdicts: NDArray[np.int16], refusals: Sequence[Refusal]) -> str:
    """Return `2 didn't match clusterSelector, 1 not ready`: by count, then by text."""
    counts: Counter[str] = Counter()
    numbers = np.bincount(verdicts, minlength=len(refusals) + 1)[1:]
    for refusal, number in zip(refusals, numbers, strict=True):
        counts[refusal.text] += int(number)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {text}" for text, number in ordered if number)
