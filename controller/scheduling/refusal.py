"""The decision that leaves a Workload's shares as they are, and says why."""

from __future__ import annotations

from datetime import datetime

from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision, Refusal
from controller.scheduling.outcome import without_units
from controller.snapshot.snapshot import Snapshot
from crds.workload import WorkloadState


def untouched(unit: WorkloadInfo, fleet: Snapshot, now: datetime, status: Status) -> Decision:
    """Return a decision that keeps every share; reason and message are those of the status."""
    text = "; ".join(status.reasons)
    return Decision(
        unit=unit,
        fleet=fleet,
        time=now,
        placements=unit.present,
        desired=max(unit.replicas, sum(unit.present.values())),
        reason=status.reason,
        state=WorkloadState.SCHEDULED if unit.present else without_units(status.reason),
        message=text,
        refusals=[Refusal(status.plugin, text)] if status.plugin else [],
    )
