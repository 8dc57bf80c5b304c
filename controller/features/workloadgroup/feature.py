"""WorkloadGroup as a feature: what the process watches and keeps for gangs.

Every instance counts, so that a standby decides at once when its turn comes. Only the leader writes
statuses. Whenever a group comes, changes or goes, and when somebody joins or leaves it, its
Workloads are decided again, once for many changes; a denial that stood in their way is forgotten
then, and whenever a cluster may have become more useful.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from controller.features.workloadgroup.compiled import CompiledGroup, compile_group
from controller.features.workloadgroup.gate.controller import GroupController
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.memory import GroupMemory
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.features.workloadgroup.plugin import NAME, Coscheduling
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Running, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import Capacity, MemberCluster, Workload
from crds.groups.gate import GateState
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from machinery.types import quantities
from machinery.types.metadata import Key


class WorkloadGroups:
    """The one instance of the feature in a process."""

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
        self.memory = GroupMemory()
        self.plugins: Mapping[str, Factory] = {NAME: Coscheduling}
        self.watches = (
            Watch(WORKLOAD_GROUPS, WorkloadGroup, self.group_changed),
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self.books: GroupController | None = None
        self._handle: Handle | None = None
        self._coscheduling: list[Coscheduling] = []

    def attach(self, handle: Handle) -> None:
        """Begin to look at Workloads again; all profiles remember the same of a group."""
        self._handle = handle
        self._coscheduling = [each for each in handle.plugins if isinstance(each, Coscheduling)]
        for each in self._coscheduling:
            each.memory = self.memory

    def lead(self, term: Term) -> Running:
        """Write statuses; nothing is remembered of an earlier term."""
        self.memory.rest()
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self.books = GroupController(
            term, ledger=self.ledger, memory=self.memory, handle=self._handle
        )
        return self.books

    def rest(self) -> None:
        """The term is over."""
        self.books = None
        self.memory.rest()

    def group_changed(self, old: WorkloadGroup | None, new: WorkloadGroup | None) -> None:
        """An informer's handler, ahead of the scheduler's."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._gone(old.metadata.key)
            return
        group = compile_group(new)
        before = self.ledger.get(group.key)
        self.ledger.put_group(group)
        if before is None or before.uid != group.uid:
            self.memory.forget(group.key)
        elif before.generation != group.generation:
            self.memory.clear_denied(group.key)
        self._let_pass()
        self._complete(group.key)
        if self.books is None:
            return
        if before is None or _other(before) != _other(group):
            self.books.wake(group.key)
        else:
            self.books.look(group.key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: who is one of which group, and how he fares."""
        before, after = _group_of(old), _group_of(new)
        known = new or old
        if known is None or (before is None and after is None):
            self._buried(old, new)
            return
        if self.books is not None:
            self.books.saw(known.metadata.key, after)
        if after is not None:
            self._complete(after)
        if before != after:
            self._moved(before, left=True)
            self._moved(after, left=False)
        elif after is not None:
            self._waits_no_more(after)

    def _buried(self, old: Workload | None, new: Workload | None) -> None:
        """One that was being deleted is gone: it is counted until then."""
        key = Groups.group_of(old.unit) if old is not None and new is None else None
        if key is not None and self.books is not None:
            self.books.look(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler: what was refused for want of room may fit now."""
        if new is not None and (old is None or _helps(old, new)):
            self.memory.cluster_changed()

    def _moved(self, key: Key | None, *, left: bool) -> None:
        """Somebody came to a group or left it, if it is one.

        Who comes is decided anyway, and all the others with him: looking at each of them for each
        that comes would take squares. Where one has left, what the others have may be too little.
        """
        if key is None:
            return
        self.memory.clear_denied(key)
        self._let_pass()
        if self.books is not None:
            (self.books.wake if left else self.books.look)(key)

    def _waits_no_more(self, key: Key) -> None:
        """Nobody is kept out for a gang that is complete, or that its Workloads cannot complete.

        Where it has become so by a write of another, it is not decided, and nothing would tell it.
        Asked at each change of a Workload: hardly any is of a gang that others wait for.
        """
        group = self.ledger.get(key)
        if group is None or self._handle is None or not self.memory.turns.matters(key):
            return
        wanted = self.ledger.desired(key, len(self._handle.fleet()))
        if wanted < group.min_member or self.ledger.started(key):
            self.memory.turns.over(key)
            self._let_pass()

    def _complete(self, key: Key) -> None:
        """Units of it may be placed by others, while ours are held for want of just these."""
        for each in self._coscheduling:
            each.complete(key)

    def _gone(self, key: Key) -> None:
        """What its Workloads say of it is true no longer."""
        self.ledger.drop_group(key)
        self.memory.forget(key)
        if self.books is not None:
            self.books.forget(key)
        if self._handle is not None:
            self._handle.look(tuple(self.ledger.members(key)))
        self._let_pass()

    def _let_pass(self) -> None:
        """Those that stood behind one that is changed or gone are looked at, denied or not."""
        for key in self.memory.turns.news():
            self.memory.lift(key)
            if self._handle is not None:
                self._handle.look(tuple(self.ledger.members(key)))


def _other(group: CompiledGroup) -> tuple[str, int, bool]:
    """What its Workloads are decided by; that they are released concerns nobody who decides."""
    return (group.uid, group.generation, group.gate == GateState.CLOSED)


def _group_of(workload: Workload | None) -> Key | None:
    if workload is None or workload.metadata.deleting:
        return None
    return Groups.group_of(workload.unit)


def _helps(old: MemberCluster, new: MemberCluster) -> bool:
    """Whether a cluster may take what it did not; that it has less room now helps nobody."""
    if (old.labels, old.spec, old.ready) != (new.labels, new.spec, new.ready):
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
