"""One entry of status.clusters of a member in mode Pull: what its agent tells, and what holds here.

Pure.

The hub side knows why a share is not ordered, or not as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crds.fields.shares import ShareHealth, ShareState
from crds.workload import PropagatedReason
from machinery.kinds.readiness import Readiness
from propagator.members.health import Contact
from propagator.members.pulled import PullSession
from propagator.members.views import entry_of
from propagator.outcome import DesiredShare, Outcome
from propagator.status.cluster_share import (
    MESSAGE_LIMIT,
    share_of,
    unless_only_mark_changed,
    why_there,
    without,
)
from propagator.status.failover import Patience, of_seen, over_in
from propagator.status.observed_share import ObservedShare
from propagator.types.assignment import Assignment
from propagator.types.workload import Workload

_BEGUN = (ShareState.CREATING.value, ShareState.RUNNING.value)


class ToldShare(NamedTuple):
    """What another shard, or an agent, reports of one cluster."""

    stored: Mapping[str, Any]
    """As it stays in the status; of a share that nobody has reported, the first entry."""
    told: Mapping[str, Any]
    """As it counts for the Workload: an entry of an earlier decision is of a share on its way."""
    look_in: float | None = None
    """Seconds until time alone changes it; None for never."""


def told_by_agent(
    session: PullSession,
    workload: Workload,
    outcome: Outcome | None,
    before: Mapping[str, Any],
    said: int,
    patience: Patience | None = None,
) -> ToldShare | None:
    """Return the entry; None of a share that is neither placed nor there any more.

    `outcome` is that of this process, `before` the stored entry, `said` that of `share_of`.
    `patience` is that of the share.
    """
    if _left(session, workload):
        return None
    name = session.name
    desired = DesiredShare.of(workload, name)
    if session.contact is not Contact.SERVING:
        return _of_silent(session, workload, desired, before, said, patience)
    leaving, entry = name not in workload.placements, entry_of(session, workload)
    ended = workload.end_of(name, session.former) is not None
    if not leaving and ended and "ended" not in (entry or {}):
        return ToldShare(before, before)  # an agent that has begun does not know its end yet
    entry = entry or {"name": name, "replicas": desired.replicas, **_NOTHING}
    found = session.assignment(workload.uid)
    outcome = outcome if outcome is not None and outcome.desired == desired else None
    current = outcome is not None and found is not None and found.carried_out
    _keep(entry, before, desired, outcome, current=current)
    if "ended" not in entry and leaving:
        _leave(entry, workload, outcome)
    elif outcome is None and _stands(found, entry, before, desired):
        _hold_as_before(entry, before)
    elif "ended" not in entry:
        _place(entry, outcome, before, current=current)
    entry["message"] = str(entry["message"])[:MESSAGE_LIMIT]
    look_in = None if leaving else _keep_clock(entry, before, patience, written=current)
    if entry.get("asked") == desired.replicas:
        entry.pop("asked")
    # What its agent has not looked at yet is of no decision: other shards take it for unknown.
    if workload.leaves and not (leaving and not session.tells(workload)):
        entry["decision"] = workload.decided_by
    return ToldShare(unless_only_mark_changed(entry, before), entry, look_in)


def _keep_clock(
    entry: dict[str, Any], before: Mapping[str, Any], patience: Patience | None, *, written: bool
) -> float | None:
    """Add `failover`, and return the seconds until time alone changes it.

    `written`: the present order is carried out.
    """
    if patience is None or "ended" in entry:
        return None
    health = ShareHealth(entry.get("health", ShareHealth.PROGRESSING))
    outdated = entry.get("outdated", 0)
    failover = of_seen(
        patience,
        before.get("failover"),
        Readiness(entry["ready"], entry["updated"], outdated=outdated, health=health),
        asked=entry["replicas"],
        available=entry.get("available"),
        state=ShareState(entry["state"]),
        written=written and "reason" not in entry,
    )
    if failover is not None:
        entry["failover"] = failover
    return over_in(patience, failover)


def _left(session: PullSession, workload: Workload) -> bool:
    """Whether the share is gone from there; what a rule keeps is no share."""
    found, serves = session.assignment(workload.uid), session.contact is Contact.SERVING
    gone = serves and workload.uid not in session.unassigned if found is None else found.removed
    gone = gone or session.keeps_alone(workload)
    return gone and session.name not in workload.placements


_NOTHING = {
    **dict.fromkeys(("scheduled", "current", "ready", "unschedulable", "updated", "finished"), 0),
    "state": ShareState.PENDING.value,
    "message": "",
}


def _of_silent(
    session: PullSession,
    workload: Workload,
    desired: DesiredShare,
    before: Mapping[str, Any],
    said: int,
    patience: Patience | None,
) -> ToldShare:
    seen = ObservedShare(
        name=session.name,
        desired=desired,
        leaving=session.name not in workload.placements,
        contact=session.contact,
        end=workload.ends.get(session.name),
        trouble=session.message if session.contact is Contact.AWAY else "",
        ready_seconds=workload.spec.movement.ready_seconds,
        patience=patience,
    )
    share = share_of(seen, workload.profile, before, said=said)
    stands = session.contact is Contact.CONNECTING and before
    return ToldShare(before if stands else share.entry, share.told)


def _stands(
    found: Assignment | None, entry: Mapping[str, Any], before: Mapping[str, Any], of: DesiredShare
) -> bool:
    """Whether the stored entry is of the present order, which this process has not given itself."""
    if found is None or not found.carried_out or "ended" in entry:
        return False
    if "reason" in entry:  # refused there, and so of no generation
        of_it = found.spec.workload.generation, before.get("replicas"), before.get("reason")
        return of_it == (of.generation, of.replicas, entry["reason"])
    numbers = before.get("replicas"), before.get("observedGeneration")
    return numbers == (of.replicas, entry.get("observedGeneration")) == (of.replicas, of.generation)


def _hold_as_before(entry: dict[str, Any], before: Mapping[str, Any]) -> None:
    if "reason" in before and "reason" not in entry:
        entry |= {name: before[name] for name in ("state", "message", "reason")}


def _leave(entry: dict[str, Any], workload: Workload, outcome: Outcome | None) -> None:
    entry["state"] = ShareState.LEAVING.value
    entry["message"] = why_there(outcome, elsewhere=bool(workload.placements))
    entry.pop("reason", None)
    if outcome is not None and outcome.reason is not None and not outcome.moves:
        entry["reason"] = outcome.reason.value


def _place(
    entry: dict[str, Any], outcome: Outcome | None, before: Mapping[str, Any], *, current: bool
) -> None:
    """`current`: the agent has carried the present order out, and the entry tells of that."""
    if outcome is not None and outcome.reason is not None:
        _hold(entry, outcome, outcome.reason)
    elif not current:
        stood = before.get("state") in _BEGUN
        entry["state"] = (ShareState.CREATING if stood else ShareState.PENDING).value
        entry |= {"message": "", "reason": PropagatedReason.PROPAGATING.value}


def _hold(entry: dict[str, Any], outcome: Outcome, reason: PropagatedReason) -> None:
    entry["state"] = (_begun(entry) if outcome.moves else without(reason)).value
    entry |= {"message": outcome.message, "reason": reason.value}
    if outcome.blocked is not None:
        blocked = outcome.blocked
        entry["blocked"] = {"reason": blocked.reason.value, "message": blocked.message}


def _keep(
    entry: dict[str, Any],
    before: Mapping[str, Any],
    desired: DesiredShare,
    outcome: Outcome | None,
    *,
    current: bool,
) -> None:
    """Add what the present order does not tell: the last revision that is whole there stays."""
    if outcome is not None and outcome.found:
        entry.setdefault("revision", outcome.found)
    names = [] if current else ["observedGeneration"]
    names += ["revision"] if desired.revision or not current else []
    for name in names:
        if name in before:
            entry.setdefault(name, before[name])


def _begun(entry: Mapping[str, Any]) -> ShareState:
    whole = "observedGeneration" in entry and entry["ready"] >= entry["replicas"]
    return ShareState.RUNNING if whole else ShareState.CREATING
