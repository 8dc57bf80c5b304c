"""From a decision to the one write that it needs: a merge patch of the controller's own fields.

The patch carries the resourceVersion that was read, so it lands on that version or not at all; that
is also what makes it safe to send the other writer's conditions back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from controller.decision import Decision
from controller.limits import stored, told
from controller.model import Workload
from crds.base import NAME
from crds.names import API_VERSION
from crds.workload import WorkloadCondition, WorkloadState
from machinery.clock import timestamp
from machinery.errors import ApiError, Invalid, TransportError

SUMMARY_LIMIT = 4096
MESSAGE_LIMIT = 4096
SELECTOR_LIMIT = 4096
HASH_LIMIT = 128
UNITS_LIMIT = 2**31 - 1
CONDITIONS_LIMIT = 32
_NAME = re.compile(rf"{NAME}(\.{NAME})*")
_NAME_LIMIT = 253
_TOO_LARGE = 413
_OURS = frozenset({WorkloadCondition.SCHEDULED.value, WorkloadCondition.FAILED.value})
_KNOWN = frozenset(condition.value for condition in WorkloadCondition)


def for_good(error: TransportError) -> bool:
    """Whether the same write would be refused again: it breaks the schema, or is too large.

    What is too large for etcd comes back as a fault of the server, told apart by its words alone.
    """
    return isinstance(error, Invalid) or (
        isinstance(error, ApiError)
        and (error.code == _TOO_LARGE or "request is too large" in str(error))
    )


def patch_of(decision: Decision, workload: Workload) -> dict[str, Any] | None:
    """The merge patch of the status subresource, or None when it would change nothing."""
    status = _fields(decision, workload)
    if _told(status, workload):
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def short_patch(decision: Decision, workload: Workload) -> dict[str, Any] | None:
    """No more than the verdict, where the hub refuses the rest; None when it stands there already.

    The shares stay as they are.
    """
    status: dict[str, Any] = {
        "observedGeneration": workload.metadata.generation,
        "conditions": _conditions(decision, workload),
    }
    old = workload.status
    if not workload.placements:
        status["state"] = decision.state.value
    if (
        status["observedGeneration"] == old.observed_generation
        and status["conditions"] == old.conditions
        and status.get("state", old.state) == old.state
    ):
        return None
    return {"metadata": {"resourceVersion": workload.metadata.resource_version}, "status": status}


def is_news(patch: Mapping[str, Any], workload: Workload) -> bool:
    """Whether the patch says anything new to people: other shares, or another verdict."""
    before = {c["type"]: c for c in workload.status.conditions}
    after = patch["status"]["conditions"]
    said = ("status", "reason", "message")
    moved = "placements" in patch["status"] and _shares(patch["status"]) != workload.placements
    return moved or any(
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
    placements, policy = decision.placements, decision.unit.policy
    status: dict[str, Any] = {
        "observedGeneration": workload.metadata.generation,
        **_numbers(decision),
        "selector": _selector(decision),
        "placements": [{"cluster": c, "replicas": n} for c, n in placements.items()],
        "clusterSummary": summary(placements),
        "clusterRef": _reference(placements),
        "policyRef": {"name": policy[1]} if policy and _is_name(policy[1]) else None,
        "decision": {"hash": _hash(decision, workload), "time": timestamp(decision.time)},
        "conditions": _conditions(decision, workload),
    }
    if decision.unit.limits or workload.status.limits:
        status["limits"] = told(decision.unit.limits)
    if not placements or not workload.placements:
        # From the first placement on the state belongs to the propagator.
        status["state"] = decision.state.value
    return status


def _numbers(decision: Decision) -> dict[str, int]:
    """How many units are wanted, placed and not; the sum holds, and so does that some are not."""
    desired, pending = (min(n, UNITS_LIMIT) for n in (decision.desired, decision.pending))
    return {"desired": desired, "assigned": desired - pending, "pending": pending}


def _selector(decision: Decision) -> str:
    """The pods' selector; none rather than a cut one, which would select others."""
    text = decision.unit.pod_selector
    return text if len(text) <= SELECTOR_LIMIT else ""


def _message(decision: Decision) -> str:
    """What was decided, and what the status cannot tell of it."""
    long = len(decision.unit.pod_selector)
    note = (
        f"; status.selector is left out: the labels of the units make {long} characters, "
        f"{SELECTOR_LIMIT} at most, so a HorizontalPodAutoscaler cannot find its pods"
        if long > SELECTOR_LIMIT
        else ""
    )
    return decision.message[: MESSAGE_LIMIT - len(note)] + note


def _is_name(text: str) -> bool:
    """Whether an object can have that name; a label says any."""
    return len(text) <= _NAME_LIMIT and _NAME.fullmatch(text) is not None


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
        # Whose limits are written beside it.
        return "-".join((*unit.decided[:-1], unit.shape))[-HASH_LIMIT:]
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
    strangers = [kind for kind in after if kind not in _KNOWN]
    for kind in strangers[CONDITIONS_LIMIT - len(_KNOWN) :]:
        del after[kind]
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
        "message": _message(decision),
        "lastTransitionTime": since or timestamp(decision.time),
    }
