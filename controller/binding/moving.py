"""Moves in the status: `leaving`, `displaced`, their causes, and the condition Moving. Pure.

`status.leaving` is written with the placements: replicas that stay on their old clusters until
their successors are ready. Those that must not run twice are listed until the cluster reports them
gone, those on a lost cluster until it returns. Surplus replicas go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from controller.cache.asread import by_name, renamed, with_names
from controller.explain.history import Occasion
from controller.model.moving import ready_by_cluster
from controller.model.objects import Workload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import Decision
from controller.scheduling.moving import Moves, due
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovedData, MovingReason
from crds.fields.shares import ShareState
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
    before, after = info.present, decision.placements
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
    """Return the last known values of spec.movement.carry on left clusters."""
    names = decision.workload.moving.spec.carry
    if not names:
        return {}
    before, after = decision.workload.present, decision.placements
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
    """None for a Workload that never moved and need not."""
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
        verb = "stays on" if total == 1 else "stay on"
    else:
        verb = "leaves" if total == 1 else "leave"
    of = _count(decision.desired, "replica")
    return MovingCondition(reason, f"{total} of {of} {verb} {where}: {text}")


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
            return MovingReason.DISRUPTION_BUDGET, blocked.message
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
    """One per change of Moving's reason."""
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
    """Return the cause and its subject; None if no move caused the change."""
    moves, after = decision.moving, decision.placements
    if moves.cause:
        return moves.cause, min(moves.returned, default="")
    for cluster, eviction in sorted(moves.evictions.items()):
        if before.get(cluster, 0) > after.get(cluster, 0) and due(eviction, decision.time):
            return eviction.cause, cluster
    if moves.cancelled:
        return ChangeCause.MOVE_CANCELLED.value, min(moves.cancelled)
    return None


MOST_LEAVING = 1000
"""Shares that a status lists, at about 110 bytes each in addition to the placements."""


def leaving_of(
    workload: Workload,
    info: WorkloadInfo,
    placements: Mapping[str, int],
    *,
    moves: Moves,
    snapshot: Snapshot,
    occasion: Callable[[], Occasion],
) -> list[LeavingShare]:
    """Return the leaving shares, by cluster.

    `workload` is the stored object with the previous placements, `placements` are those of the
    decision. `occasion` is called if a share begins to leave.
    """
    if not placements or not is_workload(workload.metadata.key) or not _leaves(info):
        return []
    if not workload.status.leaving and dict(placements) == workload.placements:
        return []
    clusters, left = snapshot.row, workload.status.leaving
    names = (*workload.placements, *(each.cluster for each in left))
    now = renamed(names, snapshot.clusters, clusters)
    known = by_name(with_names(left, now))
    before = {name: each for name, each in known.items() if name in clusters}
    placed = {now.get(name, name): n for name, n in workload.placements.items()}
    standing = {name: n for name, n in placed.items() if name in clusters}
    for each in before.values():
        standing[each.cluster] = standing.get(each.cluster, 0) + each.replicas
    excess = {
        cluster: more
        for cluster, replicas in standing.items()
        if (more := replicas - placements.get(cluster, 0)) > 0
    }
    if not excess:
        return []
    grown = sum(max(n - standing.get(cluster, 0), 0) for cluster, n in placements.items())
    moved = grown + sum(each.replicas for each in before.values())
    once = info.moving.at_most_once
    states = {now.get(each.name, each.name): each.state for each in workload.status.clusters}
    gone = _gone(states, info, before, placements) if once else {}
    stay = moved if once else min(_missing(workload, info, placements), moved)
    if stay and info.whole:
        moved = stay = sum(excess.values())  # a copy moves as a whole
    found, surplus = [], info.moving.surplus
    # Shares that already leave come before new ones.
    for cluster in sorted(excess, key=lambda each: (each not in before, each)):
        lost = _is_lost(cluster, before, moves, snapshot)
        replicas = min(excess[cluster] - gone.get(cluster, 0), moved if lost else stay)
        moved -= replicas
        stay -= 0 if lost else replicas
        # Replaced replicas are listed until the member has removed them.
        was = before.get(cluster)
        replicas, replaced = max(replicas, 0), 0
        if was and not lost:
            begins = placed.get(cluster, 0) - placements.get(cluster, 0)
            stands = min(surplus.get(cluster, 0) + begins, excess[cluster])
            replaced = min(was.replicas, max(stands - replicas, 0))
        if units := replicas + replaced:
            found.append(_share(cluster, units, replaced, was, moves, occasion))
    # The propagator's guard keeps the rest as well, but a status is bounded.
    return sorted(found[:MOST_LEAVING], key=lambda each: each.cluster)


def _missing(workload: Workload, info: WorkloadInfo, placements: Mapping[str, int]) -> int:
    ready = ready_by_cluster(workload.status.clusters, info.moving.spec)
    return sum(info.moving.lacking(placements, ready).values())


def _gone(
    states: Mapping[str, str],
    info: WorkloadInfo,
    before: Mapping[str, LeavingShare],
    placements: Mapping[str, int],
) -> dict[str, int]:
    found = {}
    for cluster, each in before.items():
        state = states.get(cluster)
        # A share of which all leaves may have no pod for a moment, as a Job between two of them: a
        # report from before it was to leave does not tell that its object is gone.
        tells = state == ShareState.LEAVING.value or cluster in placements
        seen = info.counted and tells and state != ShareState.UNREACHABLE.value
        stands = info.moving.surplus.get(cluster, 0) if seen else each.replicas
        # The propagator tells of one that does a part of the work until `leaving` names it no more.
        told = state is not None or each.completions > 0
        found[cluster] = max(each.replicas - stands, 0) if told else each.replicas
    return found


def _is_lost(
    cluster: str, before: Mapping[str, LeavingShare], moves: Moves, snapshot: Snapshot
) -> bool:
    if snapshot.ready[snapshot.row[cluster]]:
        return False
    eviction = moves.evictions.get(cluster)
    return cluster in before or (eviction is not None and eviction.lost)


def _share(
    cluster: str,
    replicas: int,
    replaced: int,
    before: LeavingShare | None,
    moves: Moves,
    occasion: Callable[[], Occasion],
) -> LeavingShare:
    if before is not None:
        return msgspec.structs.replace(before, replicas=replicas, replaced=replaced)
    now, eviction = occasion(), moves.evictions.get(cluster)
    if eviction is not None:
        cause, name = eviction.cause, eviction.name
    else:
        cause, name = moves.cause or str(now.cause), now.name
    return LeavingShare(cluster, replicas, since=now.time, cause=cause, name=name)


def _leaves(info: WorkloadInfo) -> bool:
    """Whether replicas on one cluster replace those on another.

    Copies of a duplicated Workload do not.
    """
    return info.delivered and not info.groups and not info.everywhere
