"""What an agent tells of a share and of its member, as the statuses of Assignment and MemberReport.

Pure: `carrier` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crds.assignment import AssignmentOrder, AssignmentState
from crds.fields.shares import ShareState
from crds.workload import PropagatedReason
from propagator.agent.assigned import Assigned
from propagator.orders import ShareReport
from propagator.status.cluster_share import MESSAGE_LIMIT, ReportedShare
from propagator.types.assignment import Assignment

_COUNTS = (
    "scheduled",
    "current",
    "finished",
    "completed",
    "succeeded",
    "failed",
    "available",
    "unschedulable",
    "unschedulableSince",
    "refused",
    "updated",
    "outdated",
)
_SAME = ("health", "ended", "blocked", "holds", "start", "fields", "loadBalancer")


def status_of(
    assigned: Assigned,
    share: ReportedShare,
    report: ShareReport,
    *,
    kept: Sequence[Mapping[str, Any]],
    drift: Sequence[Mapping[str, Any]],
    reported: int | None,
) -> dict[str, Any]:
    """Return the status without its time.

    `report` is that of the present order, and `reported` the version of the MemberReport that
    counts the pods.
    """
    spec, entry = assigned.found.spec, share.entry
    asked = int(share.shared({}, None).get("asked", spec.replicas))
    counts = {name: entry[name] for name in _COUNTS if entry.get(name) is not None}
    counts |= {"asked": asked, "ready": min(int(entry["ready"]), asked)}
    if "available" in counts:
        counts["available"] = min(counts["available"], counts["ready"])
    status: dict[str, Any] = {
        "digest": spec.digest,
        "decided": spec.decided,
        "state": entry["state"],
        "reason": entry.get("reason"),
        "message": entry["message"],
        "counts": counts,
        "kept": list(kept),
        "drift": list(drift),
        "reported": str(reported) if reported is not None else None,
    }
    status |= {name: entry.get(name) for name in _SAME}
    if assigned.order is AssignmentOrder.REMOVE:
        status |= _removal(report, kept)
    elif assigned.order is AssignmentOrder.LOWER:
        said = report.outcome
        status |= {"state": ShareState.LEAVING.value, "message": said.message, "reason": None}
        if said.blocked is not None:
            blocked = said.blocked
            status["blocked"] = {"reason": blocked.reason.value, "message": blocked.message}
    return {name: value for name, value in status.items() if value not in (None, [], "")}


def unreadable(found: Assignment, why: str) -> dict[str, Any]:
    """Return the status of an Assignment that is not carried out, as this agent cannot read it."""
    return {
        "digest": found.spec.digest,
        "decided": found.spec.decided,
        "state": ShareState.PENDING.value,
        "reason": PropagatedReason.PROPAGATING.value,
        "message": f"its agent cannot read the order: {why}"[:MESSAGE_LIMIT],
    }


def _removal(report: ShareReport, kept: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    why = report.obstacle
    if why is None:
        state = AssignmentState.KEPT if report.stays and kept else AssignmentState.REMOVED
        return {"state": state.value, "reason": None, "message": ""}
    if why.reason is PropagatedReason.PROPAGATING:
        return {"state": AssignmentState.LEAVING.value, "reason": None, "message": str(why)}
    return {
        "state": AssignmentState.KEPT.value,
        "reason": why.reason.value,
        "message": str(why),
    }
