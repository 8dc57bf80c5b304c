"""What the agent of a member in mode Pull tells of a share, as an entry of status.clusters. Pure.

An agent may lie about its own member. So no share counts more replicas ready than are asked for,
and only its own member's entry is made of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from crds.assignment import AssignmentOrder
from crds.fields.shares import ShareState
from machinery.types.bounds import WORD
from propagator.members.pulled import PullSession
from propagator.members.sanitize import load_balancer
from propagator.types.assignment import Assignment
from propagator.types.workload import Workload

_COUNTS = ("scheduled", "current", "ready", "unschedulable", "updated", "finished")
_OTHERS = ("completed", "succeeded", "failed", "available", "refused", "outdated")
_GONE = ("Kept", "Removed")
"""States of a removal; nothing of the share counts any more."""


def entry_of(session: PullSession, workload: Workload) -> dict[str, Any] | None:
    """Return the entry as far as the agent tells it; None without an Assignment.

    Its state, reason and message are those of the order that was carried out last, which need not
    be the present one (`Assignment.carried_out`).
    """
    found = session.assignment(workload.uid)
    if found is None:
        return None
    entry = told_in(found, session.name, workload.shares.get(session.name, 0))
    counted = session.counted_by(found.status.reported) if "asked" in entry else None
    return entry | ({"capacityVersion": counted} if counted is not None else {})


def told_in(found: Assignment, name: str, replicas: int) -> dict[str, Any]:
    """Return the entry of a share of so many replicas that the status of an Assignment tells."""
    status, counts = found.status, found.status.counts
    entry: dict[str, Any] = {
        "name": name,
        "replicas": replicas,
        **dict.fromkeys(_COUNTS, 0),
        "state": status.state if status.state not in ("", *_GONE) else ShareState.PENDING.value,
        "message": status.message,
    }
    if counts is not None:
        entry |= {name: getattr(counts, name) for name in _COUNTS}
        told = ((name, getattr(counts, name)) for name in _OTHERS)
        entry |= {name: value for name, value in told if value is not None}
        entry["ready"] = min(entry["ready"], counts.asked)
        entry["asked"] = counts.asked
        if counts.unschedulable_since:
            entry["unschedulableSince"] = counts.unschedulable_since
    plain = {name: getattr(status, name) for name in ("reason", "health", "holds", "start")}
    fields = {n: value for n, value in (status.fields or {}).items() if len(n) <= WORD}
    plain |= {"fields": fields or None, "loadBalancer": load_balancer(status.load_balancer)}
    entry |= {name: value for name, value in plain.items() if value not in (None, "")}
    if status.ended is not None:
        entry["ended"] = msgspec.to_builtins(status.ended)
    if status.blocked is not None:
        entry["blocked"] = {"message": "", **msgspec.to_builtins(status.blocked)}
    if _written(found):
        entry["observedGeneration"] = found.spec.workload.generation
        if found.spec.share_rules.revision:
            entry["revision"] = found.spec.share_rules.revision
    return entry


def _written(found: Assignment) -> bool:
    """Whether the objects of the present order stand there."""
    applied = found.spec.order == AssignmentOrder.APPLY
    return applied and found.carried_out and not found.status.reason
