"""Moves in the status: the condition Moving, causes, and displaced replicas. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from controller.cache.renames import renamed, with_names
from controller.model.moving import ready_by_cluster
from controller.model.objects import Workload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision
from controller.scheduling.moving import Moves, due
from crds.fields.movement import MovedData, MovingReason
from crds.fields.why import ChangeCause
from crds.workload import EventReason, WorkloadCondition
from machinery import metrics
from machinery.clock import stored_time, timestamp
from machinery.types import conditions
from machinery.types.workload_api import DisplacedShare, LeavingShare

MOST_DISPLACED = 64
NOT_READY_SECONDS = 10.0
"""Seconds that successors may take before Moving reports them as not ready."""
DONE, CANCELLED = "Moved", "Cancelled"
MOVES = metrics.counter(
    "stowage_moves",
    "Replicas that have left a cluster, or are its again, by what set the move off",
    ("cause", "outcome"),
    zero=[
        (cause.value, outcome)
        for cause in (
            ChangeCause.CLUSTER_LOST,
            ChangeCause.DRAINED,
            ChangeCause.TAINTED,
            ChangeCause.OUT_OF_SERVICE,
            ChangeCause.NO_NODE,
            ChangeCause.UNHEALTHY,
            ChangeCause.REBALANCED,
            ChangeCause.RETURNED,
            ChangeCause.EDITED,
        )
        for outcome in (DONE, CANCELLED)
    ],
)
NAMED = 3
"""Clusters that a message names."""
_RETURNING = frozenset(
    each.value
    for each in (
        ChangeCause.CLUSTER_LOST,
        ChangeCause.DRAINED,
        ChangeCause.TAINTED,
        ChangeCause.OUT_OF_SERVICE,
    )
)
_WORDS: Mapping[str, str] = {
    ChangeCause.CLUSTER_LOST.value: "lost",
    ChangeCause.DRAINED.value: "drain",
    ChangeCause.TAINTED.value: "taint",
    ChangeCause.OUT_OF_SERVICE.value: "out of service",
    ChangeCause.NO_NODE.value: "no node",
    ChangeCause.UNHEALTHY.value: "unhealthy",
    ChangeCause.REBALANCED.value: "rebalance",
    ChangeCause.RETURNED.value: "return",
    ChangeCause.EDITED.value: "edit",
}


@dataclass(frozen=True, slots=True)
class MovingCondition:
    reason: MovingReason
    message: str

    @property
    def true(self) -> bool:
        return self.reason is MovingReason.MOVING


def displaced_of(decision: Decision, workload: Workload) -> list[DisplacedShare]:
    info, moves = decision.workload, decision.moving
    if not info.moving.spec.returns or info.whole or info.everywhere:
        return []
    before, after = workload.placements, decision.placements
    known, there = workload.status.displaced, decision.snapshot.row
    names = renamed([each.cluster for each in known], decision.snapshot.clusters, there)
    found = {
        each.cluster: each
        for each in with_names(known, names)
        if each.cluster in decision.snapshot.row and each.cluster not in moves.dropped
    }
    grown = sum(max(n - before.get(cluster, 0), 0) for cluster, n in after.items())
    for cluster, eviction in moves.evictions.items():
        went = min(before.get(cluster, 0) - after.get(cluster, 0), grown)
        if went > 0 and eviction.cause in _RETURNING:
            had, now = found.get(cluster), timestamp(decision.time)
            replicas = went + (had.replicas if had else 0)
            found[cluster] = DisplacedShare(cluster, replicas, eviction.cause, now)
    for back in (moves.cancelled, moves.returned):
        for cluster, replicas in back.items():
            if (had := found.get(cluster)) is not None:
                left = had.replicas - replicas
                found[cluster] = DisplacedShare(cluster, left, had.cause, had.time)
    shares = sorted(found.values(), key=lambda each: (each.time, each.cluster))
    return [each for each in shares if each.replicas > 0][-MOST_DISPLACED:]


def carried_of(
    decision: Decision, workload: Workload, leaving: Sequence[LeavingShare]
) -> dict[str, str]:
    """Return the values of spec.movement.carry on the clusters that are left, the last ones known.

    A cluster that tells no value of a name leaves that of before.
    """
    names = decision.workload.moving.spec.carry
    if not names:
        return {}
    before, after = workload.placements, decision.placements
    moved = any(replicas > before.get(cluster, 0) for cluster, replicas in after.items())
    left = {each.cluster for each in (*workload.status.leaving, *leaving)}
    left |= {c for c, replicas in before.items() if moved and after.get(c, 0) < replicas}
    found = dict(workload.status.carried)
    for share in workload.status.clusters:
        if share.name in left:
            found |= share.fields
    return {name: found[name] for name in sorted(names) if name in found}


def moving_of(
    decision: Decision, workload: Workload, leaving: Sequence[LeavingShare]
) -> MovingCondition | None:
    """Return the condition Moving; None for a Workload that never moved and need not."""
    if not is_workload(decision.workload.key):
        return None
    moves, after = decision.moving, decision.placements
    missing = _lacking(decision, workload) if leaving else {}
    going = [each for each in leaving if missing or _seen(each.cluster, decision)]
    waits = {
        cluster: eviction
        for cluster, eviction in moves.evictions.items()
        if eviction.reason and after.get(cluster) and not due(eviction, decision.time)
        if cluster not in moves.data
    }
    stuck, blocked = sum(moves.stuck.values()), sum(after[cluster] for cluster in waits)
    data = sum(moves.data.values())
    total = sum(each.replicas for each in going) + stuck + moves.held + blocked + data
    if not total:
        known = conditions.among(workload.status.conditions, MOVING)
        moved = known or leaving or workload.status.leaving
        return MovingCondition(MovingReason.SETTLED, _settled(leaving)) if moved else None
    if going:
        reason, text = _going(decision, workload, going, missing)
        text += f"; {_no_room(moves)}" if stuck else ""
        text += f"; {holds_data(decision)}" if data else ""
    elif data:
        reason, text = MovingReason.HOLDS_DATA, holds_data(decision)
    elif stuck:
        reason, text = MovingReason.NO_ROOM, _no_room(moves)
    elif waits:
        first = waits[min(waits)]
        reason, text = MovingReason(first.reason), first.note
    else:
        reason = MovingReason.FLEET_BUDGET if moves.holder else MovingReason.MOVING
        wait = "waits" if moves.held == 1 else "wait"
        text = f"{moves.held} {wait}: {moves.holder or 'others of it move first'}"
    where = _where(decision, going)
    if reason in (MovingReason.HOLDS_DATA, MovingReason.SUSPENDED):
        what = "replicas stays on" if total == 1 else "replicas stay on"
    else:
        what = "replicas leaves" if total == 1 else "replicas leave"
    return MovingCondition(reason, f"{total} of {decision.desired} {what} {where}: {text}")


MOVING = WorkloadCondition.MOVING.value


def _seen(cluster: str, decision: Decision) -> bool:
    row = decision.snapshot.row.get(cluster)
    return row is not None and bool(decision.snapshot.ready[row])


def _where(decision: Decision, going: Sequence[LeavingShare]) -> str:
    moves = decision.moving
    names = {each.cluster: word(each.cause) for each in going}
    names |= {name: word(ChangeCause.EDITED.value) for name in moves.stuck}
    names |= {name: _data_cause(decision) for name in moves.data}
    for cluster, eviction in moves.evictions.items():
        if decision.placements.get(cluster) and (eviction.reason or due(eviction, decision.time)):
            names[cluster] = word(eviction.cause)
    return _named(names) or f"where they are ({word(moves.cause)})"


def _lacking(decision: Decision, workload: Workload) -> dict[str, int]:
    state = decision.workload.moving
    ready = ready_by_cluster(workload.status.clusters, state.spec)
    return state.lacking(decision.placements, ready)


def _settled(leaving: Sequence[LeavingShare]) -> str:
    if not leaving:
        return "every replica is where it should be"
    named = _named({each.cluster: word(each.cause) for each in leaving})
    return f"every replica is where it should be; what {named} still has goes once it answers"


def word(cause: str) -> str:
    return _WORDS.get(cause, cause)


def _going(
    decision: Decision,
    workload: Workload,
    going: Sequence[LeavingShare],
    missing: Mapping[str, int],
) -> tuple[MovingReason, str]:
    shares = {share.name: share for share in workload.status.clusters}
    for each in going:
        share = shares.get(each.cluster)
        blocked = None if share is None else share.blocked
        if blocked is not None and blocked.reason == MovingReason.DISRUPTION_BUDGET.value:
            return MovingReason.DISRUPTION_BUDGET, f"{each.replicas} wait: {blocked.message}"
    if not missing:
        return MovingReason.MOVING, "their successors are ready"
    parts = []
    for cluster in sorted(missing)[:NAMED]:
        placed = decision.placements[cluster]
        said = shares[cluster].message if cluster in shares else ""
        part = f"{placed - missing[cluster]} of {placed} ready on {cluster}"
        parts.append(f"{part} ({said})" if said else part)
    moments = [at for each in going if (at := stored_time(each.since)) is not None]
    late = timedelta(seconds=NOT_READY_SECONDS)
    stands = bool(moments) and decision.time - max(moments) >= late
    reason = MovingReason.NOT_READY_THERE if stands else MovingReason.MOVING
    return reason, ", ".join(parts)


def _data_cause(decision: Decision) -> str:
    cause = ChangeCause.EDITED if decision.workload.edited else ChangeCause.REBALANCED
    return word(cause.value)


def holds_data(decision: Decision) -> str:
    moves, info = decision.moving, decision.workload
    named = [
        _held(info, cluster, replicas, moves.claims)
        for cluster, replicas in sorted(moves.data.items())[:NAMED]
    ]
    more = len(moves.data) - len(named)
    text = ", ".join(named) + (f" and {more} more clusters" if more > 0 else "")
    one = info.profile.data.always or not moves.claims
    leave = "lets it go without" if one else "lets them go without"
    return f"{text}; spec.movement.data: {MovedData.LEAVE} {leave}"


def _held(info: WorkloadInfo, cluster: str, replicas: int, claims: int) -> str:
    if not claims:
        return f"{cluster}: {info.name} stays, as {info.holding[cluster]}"
    if info.profile.data.always:
        return f"{cluster}: {info.name} holds data"
    hold = "holds" if replicas == 1 else "hold"
    return f"{_count(replicas, 'replica')} {hold} {_count(replicas * claims, 'claim')} on {cluster}"


def _count(number: int, word_: str) -> str:
    return f"{number} {word_}" if number == 1 else f"{number} {word_}s"


def _no_room(moves: Moves) -> str:
    units = sum(moves.stuck.values())
    verb = "stays" if units == 1 else "stay"
    return f"{units} {verb}, as no other cluster takes them: {moves.lacks}"


def _named(clusters: Mapping[str, str]) -> str:
    """Return `member-1 (drain), member-2 (lost) and 3 more`."""
    first = sorted(clusters.items())[:NAMED]
    text = ", ".join(f"{name} ({why})" if why else name for name, why in first)
    return f"{text} and {len(clusters) - NAMED} more" if len(clusters) > NAMED else text


@dataclass(frozen=True, slots=True)
class MoveEvent:
    reason: EventReason
    note: str
    warning: bool = False


def events_of(status: Mapping[str, Any], before: Workload) -> list[MoveEvent]:
    """Return the Events of a written status: one per change of Moving's reason."""
    found = []
    changes = [each.get("cause") for each in status.get("history", ())[-1:]]
    if changes == [ChangeCause.MOVE_CANCELLED.value]:
        clusters = ", ".join(sorted({each.cluster for each in before.status.leaving})[:NAMED])
        note = f"nothing drives it from {clusters} any more: what has not moved stays there"
        found.append(MoveEvent(EventReason.MOVE_CANCELLED, note))
    after = conditions.among(status.get("conditions"), MOVING)
    old = conditions.among(before.status.conditions, MOVING)
    reason = after.get("reason")
    if not after or reason == old.get("reason"):
        return found
    if reason == MovingReason.MOVING.value:
        found.append(MoveEvent(EventReason.MOVING, after["message"]))
    elif reason != MovingReason.SETTLED.value:
        found.append(MoveEvent(EventReason.MOVE_BLOCKED, f"{reason}: {after['message']}", True))
    elif old and not changes:
        found.append(MoveEvent(EventReason.MOVED, after["message"]))
    return found


def left_by(status: Mapping[str, Any], before: Workload) -> set[str]:
    """Return the clusters that replicas leave, or left before this status."""
    now = {each["cluster"] for each in status.get("leaving", ())}
    return now or {each.cluster for each in before.status.leaving}


def count(status: Mapping[str, Any], before: Workload) -> None:
    if "leaving" not in status:
        return
    left = {each["cluster"]: each["replicas"] for each in status["leaving"]}
    placed = {each["cluster"]: each["replicas"] for each in status.get("placements", ())}
    for each in before.status.leaving:
        gone = each.replicas - left.get(each.cluster, 0)
        back = placed.get(each.cluster, 0) - before.placements.get(each.cluster, 0)
        cancelled = min(max(gone, 0), max(back, 0))
        MOVES.labels(each.cause, CANCELLED).inc(cancelled)
        MOVES.labels(each.cause, DONE).inc(max(gone - cancelled, 0))


def cause_of(decision: Decision, before: Mapping[str, int]) -> tuple[str, str] | None:
    """Return the cause of a move and its subject; None if no move caused the change."""
    moves, after = decision.moving, decision.placements
    if moves.cause:
        return moves.cause, min(moves.returned, default="")
    for cluster, eviction in sorted(moves.evictions.items()):
        if before.get(cluster, 0) > after.get(cluster, 0) and due(eviction, decision.time):
            return eviction.cause, cluster
    if moves.cancelled:
        return ChangeCause.MOVE_CANCELLED.value, min(moves.cancelled)
    return None
