"""The events of Workloads and clusters, from two versions of an object. Pure."""

from __future__ import annotations

import msgspec

from controller.framework.events import Action
from controller.model.objects import MemberCluster, Workload
from controller.model.podcharges import leave_more
from controller.model.room import roomier

NOTHING = Action(0)


def edited(old: Workload | None, new: Workload) -> bool:
    """Whether the Workload's own decision depends on a change, placements apart."""
    return (
        old is None
        or old.metadata.generation != new.metadata.generation
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
    )


def of_workload(old: Workload | None, new: Workload | None) -> Action:
    if old is None or new is None:
        return Action.ADDED if old is None else Action.DELETED
    action = NOTHING
    if old.info.labels != new.info.labels or old.info.unit_labels != new.info.unit_labels:
        action |= Action.LABELS
    if old.metadata.generation != new.metadata.generation or old.fault != new.fault:
        action |= Action.SPEC
    if _holding(old) != _holding(new):
        action |= Action.SHARES
    return action


def freed(old: Workload, new: Workload | None) -> set[str]:
    """Return the clusters where the Workload takes less room than before."""
    if new is None or old.info.load != new.info.load:
        return {cluster for cluster, replicas in old.placements.items() if replicas}
    after = new.placements
    fewer = {
        cluster for cluster, replicas in old.placements.items() if after.get(cluster, 0) < replicas
    }
    ended = {each.name: each.finished for each in old.status.clusters}
    more = (e.name for e in new.status.clusters if e.finished > ended.get(e.name, 0))
    return fewer.union(more)


def taken(old: Workload | None, new: Workload | None) -> set[str]:
    if new is None:
        return set()
    same = old is not None and old.info.load == new.info.load
    before = old.placements if old is not None and same else {}
    return {
        cluster for cluster, replicas in new.placements.items() if replicas > before.get(cluster, 0)
    }


def of_cluster(old: MemberCluster | None, new: MemberCluster | None) -> Action:
    if old is None or new is None:
        return Action.ADDED if old is None else Action.DELETED
    action = _of_spec(old, new)
    old_status, new_status = old.status, new.status
    same_nodes = old_status.node_groups == new_status.node_groups
    if old.labels != new.labels or not (same_nodes or old.node_labels == new.node_labels):
        action |= Action.LABELS
    if old.metadata.annotations != new.metadata.annotations:
        action |= Action.ANNOTATIONS
    before, after = (
        (of.version, of.provider, of.status.namespaces, of.served) for of in (old, new)
    )
    if before != after:
        action |= Action.VERSION
    takes, took = ((each.ready, each.agent_old, each.metadata.deleting) for each in (new, old))
    if takes != took:
        action |= Action.READY
    if not same_nodes:
        more = roomier(old_status.node_groups, new_status.node_groups)
        action |= Action.ROOM if more else Action.WORSE
    if old.spec.max_allocatable != new.spec.max_allocatable:
        action |= Action.ROOM
    if old_status.quotas != new_status.quotas:
        more = leave_more(old_status.quotas, new_status.quotas)
        action |= Action.ROOM if more else Action.WORSE
    return action


def _of_spec(old: MemberCluster, new: MemberCluster) -> Action:
    if old.spec == new.spec:
        return NOTHING
    one, other = (
        msgspec.structs.replace(each.spec, taints=[], unschedulable=False) for each in (old, new)
    )
    action = Action.SPEC if one != other else NOTHING
    if (old.spec.taints, old.spec.unschedulable) != (new.spec.taints, new.spec.unschedulable):
        action |= Action.TAINTS
    return action


def _holding(workload: Workload) -> set[str]:
    return {cluster for cluster, replicas in workload.placements.items() if replicas}
