"""From a decision to the one write that it needs: a merge patch of the controller's own fields.

The patch carries the resourceVersion that was read, so it lands on that version or not at all; that
is also what makes it safe to send the other writer's conditions back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.decision import Decision
from controller.model import Workload
from crds.names import API_VERSION
from crds.workload import ScheduledReason, WorkloadCondition, WorkloadState
from machinery.clock import timestamp

SUMMARY_LIMIT = 4096
MESSAGE_LIMIT = 4096
OURS = frozenset({WorkloadCondition.SCHEDULED.value, WorkloadCondition.FAILED.value})


def patch_of(decision: Decision, workload: Workload) -> dict[str, Any] | None:
    """The merge patch of the status subresource, or None when it would change nothing."""
    old = workload.status
    status = _fields(decision, workload)
    same = all(
        (
            status["desired"] == old.desired,
            status["pending"] == old.pending,
            status["decision"]["hash"] == old.decision.hash,
            status["observedGeneration"] == old.observed_generation,
            dict(decision.placements) == workload.placements,
            status["clusterSummary"] == old.cluster_summary,
            status["conditions"] == old.conditions,
            status.get("state", old.state) == old.state,
        )
    )
    if same:
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def summary(placements: Mapping[str, int]) -> str:
    """The CLUSTERS column: `member-a=1,host=3`, cut where it gets too long."""
    text = ",".join(f"{cluster}={units}" for cluster, units in placements.items())
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def _fields(decision: Decision, workload: Workload) -> dict[str, Any]:
    placements = decision.placements
    status: dict[str, Any] = {
        "observedGeneration": workload.metadata.generation,
        "desired": decision.desired,
        "assigned": decision.assigned,
        "pending": decision.pending,
        "selector": decision.unit.pod_selector,
        "placements": [{"cluster": c, "replicas": n} for c, n in placements.items()],
        "clusterSummary": summary(placements),
        "clusterRef": _reference(placements),
        "decision": {"hash": decision.unit.hash, "time": timestamp(decision.time)},
        "conditions": _conditions(decision, workload),
    }
    if not placements or not workload.placements:
        # From the first placement on the state belongs to the propagator.
        status["state"] = decision.state.value
    return status


def _reference(placements: Mapping[str, int]) -> dict[str, Any] | None:
    if len(placements) != 1:
        return None
    (cluster,) = placements
    return {"apiVersion": API_VERSION, "kind": "MemberCluster", "name": cluster}


def _conditions(decision: Decision, workload: Workload) -> list[dict[str, Any]]:
    """Ours renewed, the propagator's as they are, each where it stood."""
    failed = decision.state is WorkloadState.FAILED
    verdicts = {
        WorkloadCondition.SCHEDULED: (decision.scheduled, decision.reason, decision.message),
        WorkloadCondition.FAILED: (
            failed,
            decision.reason if failed else ScheduledReason.SCHEDULED,
            decision.message if failed else "",
        ),
    }
    before = {condition["type"]: condition for condition in workload.status.conditions}
    after = dict(before)
    for kind, (status, reason, message) in verdicts.items():
        if kind is WorkloadCondition.FAILED and not status and kind.value not in before:
            continue
        old = before.get(kind.value, {})
        text = "True" if status else "False"
        moved = old.get("status") != text
        after[kind.value] = {
            "type": kind.value,
            "status": text,
            "reason": reason.value,
            "message": message[:MESSAGE_LIMIT],
            "lastTransitionTime": timestamp(decision.time)
            if moved
            else old.get("lastTransitionTime", timestamp(decision.time)),
            "observedGeneration": workload.metadata.generation,
        }
    return list(after.values())
