"""The status of a Workload that another tool delivers. Pure.

Ready means that the decision is made. All pods of the named object are counted. Otherwise the
controller would count their room twice: as used on the member, and as units still to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from crds.fields.shares import ShareState
from crds.workload import WorkloadCondition, WorkloadReadyReason, WorkloadState
from machinery.clock import timestamp
from machinery.types import conditions
from propagator.members.pod_index import PodCounts
from propagator.status import progress
from propagator.types.workload import Workload

WAITING = "another tool brings it, as spec.delivery is None"
_DELIVERY = (
    WorkloadCondition.PROPAGATED.value,
    WorkloadCondition.DRIFTED.value,
)


class OthersShare(NamedTuple):
    """`pods` is None while they are not observed; `trouble` says why."""

    name: str
    replicas: int
    pods: PodCounts | None
    trouble: str = ""


def undelivered_status(
    workload: Workload, seen: Sequence[OthersShare], now: datetime
) -> dict[str, Any]:
    before = {share["name"]: share for share in workload.status.clusters}
    entries = [_entry(each, before.get(each.name, {})) for each in seen]
    ready = sum(min(each["ready"], each["replicas"]) for each in entries)
    desired = workload.status.desired
    status: dict[str, Any] = {
        **progress.generations(workload),
        "clusters": entries,
        "kept": [],
        "ready": ready,
        "readySummary": f"{ready}/{sum(workload.decided.values()) if desired is None else desired}",
        "serviceExternalIP": None,
        "conditions": _conditions(workload, now),
    }
    if workload.status.drift:
        status["drift"] = []
    if workload.status.dependencies:
        status["dependencies"] = []
    if entries:
        runs = all(each["state"] == ShareState.RUNNING for each in entries)
        status["state"] = (WorkloadState.RUNNING if runs else WorkloadState.SCHEDULED).value
    return status


def _entry(seen: OthersShare, before: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are not observed keep their last report."""
    if seen.pods is None:
        away = {"state": ShareState.UNREACHABLE.value, "message": seen.trouble}
        return {
            **dict.fromkeys(_COUNTS, 0),
            "state": ShareState.PENDING.value,
            "message": WAITING,
            **{name: before[name] for name in _KEPT if name in before},
            "name": seen.name,
            "replicas": seen.replicas,
            **(away if seen.trouble else {}),
        }
    pods = seen.pods
    runs = pods.ready >= seen.replicas
    begun = ShareState.CREATING if pods.current else ShareState.PENDING
    since = pods.oldest_unschedulable
    entry = {
        **dict.fromkeys(_COUNTS, 0),
        "name": seen.name,
        "replicas": seen.replicas,
        "ready": pods.ready,
        "unschedulable": pods.unschedulable,
        "unschedulableSince": timestamp(since) if since else None,
        # 0 if the other counts add up to it.
        "current": pods.current if pods.current > (pods.scheduled or 0) + pods.unschedulable else 0,
        "scheduled": pods.scheduled if pods.scheduled is not None else before.get("scheduled", 0),
        "capacityVersion": pods.capacity_version,
        "state": (ShareState.RUNNING if runs else begun).value,
        "message": "" if pods.current else WAITING,
    }
    return {name: value for name, value in entry.items() if value is not None}


_COUNTS = ("scheduled", "current", "ready", "unschedulable", "updated", "finished")
_KEPT = (*_COUNTS, "capacityVersion", "unschedulableSince", "state", "message")


def _conditions(workload: Workload, now: datetime) -> list[conditions.Condition]:
    after = {each["type"]: each for each in workload.conditions if each["type"] not in _DELIVERY}
    decided = progress.placed(workload)
    why = WorkloadReadyReason.DECIDED if decided else WorkloadReadyReason.NOT_DECIDED
    ready = WorkloadCondition.READY.value
    after[ready] = conditions.renewed(
        after.get(ready, {}),
        type_=ready,
        true=decided,
        reason=why.value,
        message="",
        now=now,
        generation=workload.metadata.generation,
    )
    return progress.told(workload, after, now)
