"""What is said of a Workload on the hub: how each cluster is doing, and what that makes in sum.

Pure: from placements, what the members show and what came of the writes, to the fields of the
status that the propagator owns. `propagator.reporter` does the writing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crds.workload import (
    PropagatedReason,
    ShareState,
    WorkloadCondition,
    WorkloadReadyReason,
    WorkloadState,
)
from machinery.clock import timestamp
from propagator.managed import ManagedObject
from propagator.model import Workload
from propagator.observe import UnitCounts

MESSAGE_LIMIT = 4096
LASTING = frozenset(
    {
        PropagatedReason.ALREADY_EXISTS,
        PropagatedReason.NAMESPACE_NOT_ALLOWED,
        PropagatedReason.REJECTED,
    }
)
"""Reasons that make a share, and its Workload, Failed; the others are waited out."""

_KEPT = ("ready", "scheduled", "unschedulable", "unschedulableSince")
"""Numbers of a cluster that does not answer: what it said last."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the last sync of one share; no reason means that all is written."""

    reason: PropagatedReason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster as it is seen now. `main` is the object that runs the units.

    `reason` is the whole sentence about a cluster that cannot be looked at.
    """

    name: str
    asked: int
    leaving: bool
    reachable: bool
    reason: str
    outcome: Outcome | None
    main: ManagedObject | None
    units: UnitCounts | None
    load_balancer: Mapping[str, Any] | None


def share_of(seen: Seen, kind: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of status.clusters; an unreachable cluster keeps its last numbers."""
    if not seen.reachable:
        kept = {count: before[count] for count in _KEPT if count in before}
        return _entry(seen, ShareState.UNREACHABLE, seen.reason, kept)
    ready, updated = readiness(kind, seen.main, seen.asked)
    counts: dict[str, Any] = {"ready": ready, "updated": updated}
    if seen.units is not None:
        counts |= _held(seen.units)
    elif "scheduled" in before:
        counts["scheduled"] = before["scheduled"]
    state, message = _state(seen, ready)
    return _entry(seen, state, message, counts)


def readiness(kind: str, main: ManagedObject | None, asked: int) -> tuple[int, int]:
    """(ready units, units of the newest template). What a kind without numbers counts is one."""
    if main is None:
        return 0, 0
    status = main.status
    if main.metadata.generation > int(status.get("observedGeneration", main.metadata.generation)):
        return min(int(status.get("readyReplicas") or 0), asked), 0
    if kind == "DaemonSet":
        wanted = int(status.get("desiredNumberScheduled") or 0)
        seen = "observedGeneration" in status
        whole = int(seen and int(status.get("numberReady") or 0) >= wanted)
        return whole, whole
    if kind == "CronJob":
        return 1, 1
    if kind == "Job":
        done = int(status.get("ready") or 0) + int(status.get("succeeded") or 0)
        complete = any(
            c.get("type") == "Complete" and c.get("status") == "True"
            for c in status.get("conditions") or []
        )
        ready = asked if complete else min(done, asked)
        return ready, ready
    if kind in ("Deployment", "StatefulSet", "ReplicaSet") or "readyReplicas" in status:
        ready = int(status.get("readyReplicas") or 0)
        return ready, int(status.get("updatedReplicas", ready) or 0)
    return asked, asked  # a custom kind that tells nothing: it is there


def compose(
    workload: Workload, shares: Sequence[Mapping[str, Any]], seen: Sequence[Seen], now: datetime
) -> dict[str, Any]:
    """The propagator's fields of the status."""
    placed = [share for share in shares if share["state"] != ShareState.LEAVING.value]
    ready = sum(min(share.get("ready", 0), share["replicas"]) for share in placed)
    if workload.template_kind in ("DaemonSet", "CronJob"):
        ready = sum(share.get("ready", 0) for share in placed)
    desired = workload.status.desired
    if desired is None:
        desired = sum(workload.placements.values())
    status: dict[str, Any] = {
        "clusters": list(shares),
        "ready": ready,
        "readySummary": f"{ready}/{desired}",
        "serviceExternalIP": _addresses(shares) or None,
        "conditions": _conditions(workload, placed, seen, now),
    }
    if workload.placements:
        status["state"] = _overall(placed).value
        if workload.status.cluster_summary != _summary(workload.placements):
            status["clusterSummary"] = _summary(workload.placements)
    return status


def propagated(
    placed: Sequence[Mapping[str, Any]], seen: Sequence[Seen]
) -> tuple[PropagatedReason, str]:
    """The reason of the condition Propagated, and its message: the worst that is known."""
    problems = [
        (s.outcome.reason, s.outcome.message)
        for s in seen
        if s.reachable and not s.leaving and s.outcome is not None and s.outcome.reason is not None
    ]
    away = [s for s in seen if not s.reachable]
    if problems:
        reason = min((r for r, _ in problems), key=list(PropagatedReason).index)
        return reason, "; ".join(sorted({m for r, m in problems if r is reason}))
    if away:
        return PropagatedReason.CLUSTER_UNREACHABLE, "; ".join(s.reason for s in away)
    if any(s.outcome is None or s.main is None for s in seen if not s.leaving):
        return PropagatedReason.PROPAGATING, "objects are on their way"
    names = ", ".join(share["name"] for share in placed)
    return PropagatedReason.PROPAGATED, f"all objects are on {names}" if names else "nothing to do"


def _entry(
    seen: Seen, state: ShareState, message: str, counts: Mapping[str, Any]
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": seen.name,
        "replicas": seen.asked,
        "scheduled": 0,
        "ready": 0,
        "unschedulable": 0,
        "updated": 0,
        **counts,
        "state": state.value,
        "message": message[:MESSAGE_LIMIT],
    }
    if seen.load_balancer:
        entry["loadBalancer"] = dict(seen.load_balancer)
    return entry


def _held(units: UnitCounts) -> dict[str, Any]:
    """The pods that have a node, those that have none, and since when."""
    held: dict[str, Any] = {"scheduled": units.scheduled, "unschedulable": units.unschedulable}
    if units.oldest_unschedulable is not None:
        held["unschedulableSince"] = timestamp(units.oldest_unschedulable)
    return held


def _state(seen: Seen, ready: int) -> tuple[ShareState, str]:
    if seen.leaving:
        return ShareState.LEAVING, "kept until the other clusters are ready"
    outcome = seen.outcome
    if outcome is not None and outcome.reason is not None:
        lasting = outcome.reason in LASTING
        return (ShareState.FAILED if lasting else ShareState.PENDING), outcome.message
    if seen.main is None:
        return ShareState.PENDING, ""
    return (ShareState.RUNNING if ready >= seen.asked else ShareState.CREATING), ""


def _overall(placed: Sequence[Mapping[str, Any]]) -> WorkloadState:
    """The Workload's state while it has placements: the least of its shares, failures first."""
    states = {share["state"] for share in placed}
    if ShareState.FAILED.value in states:
        return WorkloadState.FAILED
    reachable = [s for s in placed if s["state"] != ShareState.UNREACHABLE.value]
    if placed and all(_runs(share) for share in placed):
        return WorkloadState.RUNNING
    begun = any(s["state"] in (ShareState.CREATING.value, ShareState.RUNNING.value) for s in placed)
    return WorkloadState.CREATING if begun or not reachable else WorkloadState.SCHEDULED


def _runs(share: Mapping[str, Any]) -> bool:
    """A cluster that does not answer counts by its last numbers."""
    if share["state"] == ShareState.UNREACHABLE.value:
        return bool(share.get("ready", 0) >= share["replicas"] > 0)
    return bool(share["state"] == ShareState.RUNNING.value)


def _addresses(shares: Sequence[Mapping[str, Any]]) -> str:
    found = [
        str(ingress.get("ip") or ingress.get("hostname"))
        for share in shares
        for ingress in (share.get("loadBalancer") or {}).get("ingress") or []
    ]
    return ",".join(found)[:MESSAGE_LIMIT]


def _summary(placements: Mapping[str, int]) -> str:
    text = ",".join(f"{cluster}={units}" for cluster, units in placements.items())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def _conditions(
    workload: Workload,
    placed: Sequence[Mapping[str, Any]],
    seen: Sequence[Seen],
    now: datetime,
) -> list[dict[str, Any]]:
    """Ours renewed, the controller's as they are."""
    reason, message = propagated(placed, seen)
    good = reason is PropagatedReason.PROPAGATED
    ready = bool(placed) and _overall(placed) is WorkloadState.RUNNING
    why = WorkloadReadyReason.ALL_READY if ready else WorkloadReadyReason.REPLICAS_NOT_READY
    after = {condition["type"]: condition for condition in workload.status.conditions}
    verdicts = {
        WorkloadCondition.PROPAGATED: (good, reason.value, message),
        WorkloadCondition.READY: (ready, why.value, ""),
    }
    for kind, (status, because, text) in verdicts.items():
        old = after.get(kind.value, {})
        value = "True" if status else "False"
        since = old.get("lastTransitionTime") if old.get("status") == value else None
        after[kind.value] = {
            "type": kind.value,
            "status": value,
            "reason": because,
            "message": text[:MESSAGE_LIMIT],
            "lastTransitionTime": since or timestamp(now),
            "observedGeneration": workload.metadata.generation,
        }
    return list(after.values())
