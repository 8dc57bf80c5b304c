"""Which replicas stay on their old clusters until their successors are ready. Pure.

`status.leaving` is written with the placements. Those that must not run twice are listed until the
cluster reports them gone, those on a lost cluster until it returns. Surplus replicas go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from controller.cache.renames import by_name, renamed, with_names
from controller.explain.steps import Occasion
from controller.model.moving import ready_by_cluster
from controller.model.objects import Workload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from controller.scheduling.moving import Moves
from controller.snapshot.snapshot import Snapshot
from crds.fields.shares import ShareState
from machinery.types.workload_api import LeavingShare

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
    once = info.moving.at_most_once(info.replicas)
    gone = _gone(workload, info, before, placements) if once else {}
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
    workload: Workload,
    info: WorkloadInfo,
    before: Mapping[str, LeavingShare],
    placements: Mapping[str, int],
) -> dict[str, int]:
    states = {share.name: share.state for share in workload.status.clusters}
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
