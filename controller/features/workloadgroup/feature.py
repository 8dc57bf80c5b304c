"""WorkloadGroup as a feature."""

from __future__ import annotations

from controller.features.workloadgroup.compiled import CompiledGroup, WorkloadGroup, compile_group
from controller.features.workloadgroup.gate.controller import GroupController
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.memory import GroupMemory
from controller.features.workloadgroup.plugin import CLUSTER_ACTIONS, NAME, Coscheduling
from controller.framework import events
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from crds.groups.gate import GateState
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.types.metadata import Key


class WorkloadGroups(Feature):
    controller: GroupController
    defaults = (
        Enabled("queueSort", NAME),
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("postFilter", NAME),
        Enabled("reserve", NAME),
        Enabled("permit", NAME),
        Enabled("postBind", NAME),
    )

    def __init__(self) -> None:
        self.ledger = Groups()
        self.ledgers = (self.ledger,)
        self.memory = GroupMemory(self._queue, self._held)
        self.plugins = {NAME: Coscheduling}
        self.watch(WORKLOAD_GROUPS, WorkloadGroup, self.group_changed, gone=self._gone)
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self._coscheduling: list[Coscheduling] = []

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        self._coscheduling = self.enabled(Coscheduling)
        for each in self._coscheduling:
            each.memory = self.memory

    def start(self, term: Term) -> GroupController:
        self.memory.clear()
        return GroupController(term, ledger=self.ledger, memory=self.memory, handle=self.handle)

    def stop_leading(self) -> None:
        super().stop_leading()
        self.memory.clear()

    def group_changed(self, _old: WorkloadGroup | None, new: WorkloadGroup) -> None:
        group = compile_group(new)
        before = self.ledger.get(group.key)
        self.ledger.put_group(group)
        if before is None or before.uid != group.uid:
            self.memory.forget(group.key)
        elif before.generation != group.generation:
            self.memory.clear_denied(group.key)
        self._complete(group.key)
        if before is None or _other(before) != _other(group):
            self.controller.wake(group.key)
        else:
            self.controller.look(group.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        before, after = _group_of(old), _group_of(new)
        known = new or old
        if known is None or (before is None and after is None):
            self._deleted(old, new)
            return
        self.controller.saw(known.metadata.key, after)
        if after is not None:
            self._complete(after)
        if before != after:
            self._moved(before, left=True)
            self._moved(after, left=False)
        elif after is not None:
            self._waits_no_more(after)

    def _held(self, key: Key) -> None:
        self.controller.look(key)

    def _deleted(self, old: Workload | None, new: Workload | None) -> None:
        """Queue the group of a deleted Workload."""
        key = Groups.group_of(old.info) if old is not None and new is None else None
        if key is not None:
            self.controller.look(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None and events.of_cluster(old, new) & CLUSTER_ACTIONS:
            self.memory.cluster_changed()

    def _moved(self, key: Key | None, *, left: bool) -> None:
        if key is None:
            return
        self.memory.clear_denied(key)
        # A Workload that joins is decided anyway, and all others with it: waking each of n members
        # for each that joins would take n squared decisions. After one has left, the others may be
        # too few.
        (self.controller.wake if left else self.controller.look)(key)

    def _waits_no_more(self, key: Key) -> None:
        """End the turn of a gang that is complete, or cannot be."""
        # A gang completed by another scheduler's write is not decided here, so nothing else would
        # end its turn.
        group = self.ledger.get(key)
        if group is None:
            return
        few = self.ledger.desired(key) < group.min_member
        if few:  # the snapshot is only made where it matters
            few = self.ledger.desired(key, len(self.handle.snapshot())) < group.min_member
        if few or self.ledger.started(key):
            self.memory.turns.over(key)

    def _complete(self, key: Key) -> None:
        for each in self._coscheduling:
            each.complete(key)

    def _gone(self, old: WorkloadGroup) -> None:
        key = old.metadata.key
        self.ledger.drop_group(key)
        self.memory.forget(key)
        self.controller.forget(key)
        self._queue(key)

    def _queue(self, key: Key) -> None:
        self.handle.look(tuple(self.ledger.members(key)))


def _other(group: CompiledGroup) -> tuple[str, int, bool]:
    return (group.uid, group.generation, group.gate == GateState.CLOSED)


def _group_of(workload: Workload | None) -> Key | None:
    if workload is None or workload.metadata.deleting:
        return None
    return Groups.group_of(workload.info)
