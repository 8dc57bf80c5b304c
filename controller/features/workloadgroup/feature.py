"""WorkloadGroup as a feature: what the process watches and keeps for gangs.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
statuses. Whenever a group comes, changes or goes, and when somebody joins or leaves it, its
Workloads are decided again; a denial that stood in their way is forgotten then, and whenever a
cluster may have become more useful.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from controller.features.workloadgroup.compiled import Group, compile_group
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.memory import Memory
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.hosting.arguments import Factory
from controller.hosting.feature import Enabled, Running, Term, Watch
from controller.hosting.handle import Handle
from controller.model.objects import Capacity, MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.types import quantities
from machinery.types.metadata import Key


class WorkloadGroups:
    """The one instance of the feature in a process."""

    defaults: tuple[Enabled, ...] = ()

    def __init__(self) -> None:
        self.ledger = Groups()
        self.ledgers = (self.ledger,)
        self.memory = Memory()
        self.plugins: Mapping[str, Factory] = {}
        self.watches = (
            Watch(WORKLOAD_GROUPS, WorkloadGroup, self.group_changed),
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self._handle: Handle | None = None

    def attach(self, handle: Handle) -> None:
        """Begin to look at Workloads again."""
        self._handle = handle

    def lead(self, term: Term) -> Running | None:
        """Nothing is remembered of an earlier term."""
        self.memory.rest()
        return None

    def rest(self) -> None:
        """The term is over."""
        self.memory.rest()

    def group_changed(self, old: WorkloadGroup | None, new: WorkloadGroup | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            key = old.metadata.key
            self.ledger.drop_group(key)
            self.memory.forget(key)
            self._look(key)  # what they say of it is true no longer
            return
        group = compile_group(new)
        before = self.ledger.get(group.key)
        self.ledger.put_group(group)
        if before is None or before.uid != group.uid:
            self.memory.forget(group.key)
        elif before.generation != group.generation:
            self.memory.clear_denied(group.key)
        if before is None or _other(before) != _other(group):
            self._look(group.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: who is one of which group, and how he fares."""
        before, after = _group_of(old), _group_of(new)
        if before == after:
            return
        for key in (before, after):
            if key is not None:
                self.memory.clear_denied(key)
                self._look(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler: what was refused for want of room may fit now."""
        if new is not None and (old is None or _helps(old, new)):
            self.memory.cluster_changed()

    def _look(self, key: Key) -> None:
        """Its Workloads may be decided otherwise now."""
        if self._handle is not None:
            self._handle.look(tuple(self.ledger.members(key)))


def _other(group: Group) -> tuple[Any, ...]:
    """What its Workloads are decided by."""
    return (group.uid, group.generation, group.gate, group.ran, group.retry)


def _group_of(workload: Workload | None) -> Key | None:
    if workload is None or workload.metadata.deleting:
        return None
    return Groups.group_of(workload.unit)


def _helps(old: MemberCluster, new: MemberCluster) -> bool:
    """Whether a cluster may take what it did not; that it has less room now helps nobody."""
    if (old.metadata.labels, old.spec, old.ready) != (new.metadata.labels, new.spec, new.ready):
        return True
    if old.status.node_groups == new.status.node_groups:
        return False
    before, after = old.status.capacity, new.status.capacity
    return before is None or after is None or _roomier(before, after)


def _roomier(before: Capacity, after: Capacity) -> bool:
    """Whether more of anything is free, or what is free lies on fewer nodes."""
    if before.nodes > after.nodes:
        return True
    was = _free(before)
    return any(amount > was.get(name, 0) for name, amount in _free(after).items())


def _free(capacity: Capacity) -> dict[str, int]:
    """Of each resource; nothing of what cannot be read."""
    free = {}
    for name, text in capacity.allocatable.items():
        with suppress(ValueError):
            taken = quantities.amount(name, capacity.requested.get(name, "0"))
            free[name] = quantities.amount(name, text) - taken
    return free
