"""Events of objects, and which of them could lift a plugin's refusal.

A resource is the name of a kind.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from controller.model.objects import MemberCluster, Workload
from controller.model.requests import leave_more
from controller.model.unit import WorkloadInfo
from machinery.types import hostports, quantities
from machinery.types.api import NodeGroup
from machinery.types.metadata import Key

MEMBER_CLUSTER = "MemberCluster"
WORKLOAD = "Workload"
ANY_RESOURCE = "*"


class Action(enum.Flag):
    """Changes of an object. One update may be several of these."""

    ADDED = enum.auto()
    DELETED = enum.auto()
    LABELS = enum.auto()
    """Of a cluster also what all its nodes, or one, say."""
    ANNOTATIONS = enum.auto()
    TAINTS = enum.auto()
    """The taints or the cordon of a cluster."""
    SPEC = enum.auto()
    """Any other field of the spec."""
    READY = enum.auto()
    """A cluster became reachable or unreachable."""
    VERSION = enum.auto()
    """The version, provider, accepted namespaces or served kinds of a cluster."""
    ROOM = enum.auto()
    """A cluster may hold more: it reports so, its quotas too, or fewer replicas are in flight."""
    SHARES = enum.auto()
    """A Workload has replicas on other clusters, or another object counts fewer."""
    WORSE = enum.auto()
    """Less is left, or replicas counted twice are counted once. Requeues no Workload, but may
    outdate messages about the object."""

    @classmethod
    def every(cls) -> Action:
        """Return all actions that could lift a refusal."""
        return ~cls.WORSE

    @classmethod
    def updated(cls) -> Action:
        """Return all actions of an update that could lift a refusal."""
        return ~(cls.ADDED | cls.DELETED | cls.WORSE)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    resource: str
    action: Action


Hint: TypeAlias = Callable[[WorkloadInfo, Any, Any], bool]
"""(refused Workload, old object, new object): whether the event could lift the refusal. An object
is None if it was added or deleted. No I/O; a few microseconds, because each waiting Workload's hint
is called. A burst, or several events of one object, requeue without a call.
"""

About: TypeAlias = Callable[[WorkloadInfo], str | Key | None]
"""Returns the key of the only object, or the namespace, whose events matter; None for any."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that could lift a refusal. Events that are not of `about` cost nothing."""

    event: ClusterEvent
    hint: Hint | None = None
    about: About | None = None


def on(
    resource: str, action: Action, hint: Hint | None = None, about: About | None = None
) -> EventHint:
    return EventHint(ClusterEvent(resource, action), hint, about)


ANYTHING: Sequence[EventHint] = (on(ANY_RESOURCE, Action.every()),)

THE_PLAN = ""
"""The plugin name that stands for the plan of shares."""
PLAN_EVENTS: Sequence[EventHint] = (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)
"""Awaited by every plan, because room bounds it."""


def namespace_of(info: WorkloadInfo) -> str:
    return info.namespace


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


class _Node(NamedTuple):
    """The free amounts of a node by resource, without zeros, and the host ports in use."""

    free: tuple[tuple[str, int], ...]
    ports: frozenset[int]

    def within(self, other: _Node) -> bool:
        """Whether everything that fits on this node fits on `other`."""
        if not self.ports >= other.ports:
            return False
        room = dict(other.free)
        return all(amount <= room.get(resource, 0) for resource, amount in self.free)


_Kinds: TypeAlias = dict[bytes, Counter[_Node]]


def roomier(before: Iterable[NodeGroup], after: Iterable[NodeGroup]) -> bool:
    """Whether a replica may fit on the nodes that did not fit before.

    False if each node has a counterpart among the nodes before, with the same labels and taints and
    at least its room.
    """
    was, now = _kinds(before), _kinds(after)
    return any(_more(was.get(kind, Counter()), nodes) for kind, nodes in now.items())


def _more(before: Counter[_Node], after: Counter[_Node]) -> bool:
    before, after = before - after, after - before  # an unchanged node is its own counterpart
    for node in sorted(after, reverse=True):
        left = after[node]
        for other in sorted(before):
            if left and node.within(other):
                taken = min(left, before[other])
                before[other] -= taken
                left -= taken
        if left:
            return True
        before = +before
    return False


def _kinds(groups: Iterable[NodeGroup]) -> _Kinds:
    kinds: _Kinds = defaultdict(Counter)
    for group in groups:
        if group.count > 0:
            kind = msgspec.json.encode((group.labels, group.taints), order="deterministic")
            kinds[kind][_node(group)] += group.count
    return kinds


def _node(group: NodeGroup) -> _Node:
    free = {}
    for resource, text in group.free.items():
        if resource.startswith(hostports.PREFIX):
            continue  # a port in use is no amount
        try:
            amount = quantities.bounded(resource, text)
        except ValueError:
            continue  # counts as no room, as in the snapshot
        if amount:
            free[resource] = amount
    return _Node(tuple(sorted(free.items())), frozenset(hostports.used(group.free)))
