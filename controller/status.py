"""From a decision to the one write that it needs: a merge patch of the controller's own fields.

The patch carries the resourceVersion that was read, so it lands on that version or not at all; that
is also what makes it safe to send the other writer's conditions back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.decision import Decision
from controller.limits import stored, told
from controller.model import Workload
from crds.names import API_VERSION
from crds.workload import WorkloadCondition, WorkloadState
from machinery.clock import timestamp

SUMMARY_LIMIT = 4096
MESSAGE_LIMIT = 4096
_OURS = frozenset({WorkloadCondition.SCHEDULED.value, WorkloadCondition.FAILED.value})


def patch_of(decision: Decision, workload: Workload) -> dict[str, Any] | None:
    """The merge patch of the status subresource, or None when it would change nothing."""
    status = _fields(decision, workload)
    if _told(status, workload):
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def is_news(patch: Mapping[str, Any], workload: Workload) -> bool:
    """Whether the patch says anything new to people: other shares, or another verdict."""
    before = {c["type"]: c for c in workload.status.conditions}
    after = patch["status"]["conditions"]
    said = ("status", "reason", "message")
    return _shares(patch["status"]) != workload.placements or any(
        before.get(c["type"], {}).get(part) != c[part]
        for c in after
        if c["type"] in _OURS
        for part in said
    )


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
        "policyRef": {"name": decision.unit.policy[1]} if decision.unit.policy else None,
        "decision": {"hash": _hash(decision, workload), "time": timestamp(decision.time)},
        "conditions": _conditions(decision, workload),
    }
    if decision.unit.limits or workload.status.limits:
        status["limits"] = told(decision.unit.limits)
    if not placements or not workload.placements:
        # From the first placement on the state belongs to the propagator.
        status["state"] = decision.state.value
    return status


def _told(status: Mapping[str, Any], workload: Workload) -> bool:
    """Whether the Workload says all of it already; the time alone is no news."""
    old = workload.status
    return (
        status["observedGeneration"] == old.observed_generation
        and (status["desired"], status["assigned"], status["pending"])
        == (old.desired, old.assigned, old.pending)
        and status["selector"] == old.selector
        and _shares(status) == workload.placements
        and status["clusterSummary"] == old.cluster_summary
        and (status["policyRef"] or {}).get("name") == (old.policy_ref and old.policy_ref.name)
        and status.get("limits", []) == told(stored(old))
        and status["decision"]["hash"] == old.decision.hash
        and status["conditions"] == old.conditions
        and status.get("state", old.state) == old.state
    )


def _shares(status: Mapping[str, Any]) -> dict[str, int]:
    return {share["cluster"]: share["replicas"] for share in status["placements"]}


def _hash(decision: Decision, workload: Workload) -> str:
    """What the placements were decided on.

    Shares that a refusal left in place are still the old decision's: so the edit that was refused
    goes on being one.
    """
    kept = bool(decision.placements) and dict(decision.placements) == workload.placements
    unit = decision.unit
    if kept and not decision.scheduled and workload.status.decision.hash:
        return "-".join((*unit.decided[:-1], unit.shape))  # whose limits are written beside it
    return unit.hash


def _reference(placements: Mapping[str, int]) -> dict[str, Any] | None:
    if len(placements) != 1:
        return None
    (cluster,) = placements
    return {"apiVersion": API_VERSION, "kind": "MemberCluster", "name": cluster}


def _conditions(decision: Decision, workload: Workload) -> list[dict[str, Any]]:
    """Ours renewed, the propagator's as they are, each where it stood.

    Failed stands there only while it is true: most Workloads never have it.
    """
    after = {condition["type"]: condition for condition in workload.status.conditions}
    failed = after.pop(WorkloadCondition.FAILED.value, {})
    scheduled = after.get(WorkloadCondition.SCHEDULED.value, {})
    ours = [_condition(WorkloadCondition.SCHEDULED, decision.scheduled, scheduled, decision)]
    if decision.state is WorkloadState.FAILED:
        ours.append(_condition(WorkloadCondition.FAILED, True, failed, decision))
    for condition in ours:
        condition["observedGeneration"] = workload.metadata.generation
        after[condition["type"]] = condition
    return list(after.values())


def _condition(
    kind: WorkloadCondition, holds: bool, old: Mapping[str, Any], decision: Decision
) -> dict[str, Any]:
    status = "True" if holds else "False"
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": kind.value,
        "status": status,
        "reason": decision.reason.value,
        "message": decision.message[:MESSAGE_LIMIT],
        "lastTransitionTime": since or timestamp(decision.time),
    }
