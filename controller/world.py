"""What the next decision will read: the fleet, where everybody runs, and every Workload's unit.

Fed by the informers, one object at a time, and by the reconciler's own decisions before their
writes have come back (`assume`), so that two decisions in a row never count on the same room. Tells
the scheduling queue who must be decided and what has changed in the world.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from controller import changes
from controller.fleet import Fleet, FleetBuilder
from controller.framework.points import QueueSort
from controller.index import Index
from controller.model import MemberCluster, Workload, WorkloadPolicy
from controller.plugins.divide import undividable
from controller.policies import compile_policy
from controller.queue import Change, Rank, SchedulingQueue, Topic
from controller.unit import Unit, compact, compile_unit
from crds.workload import WorkloadCondition
from machinery.objects import Key, Meta

REMEMBERED = 4096
"""Workloads that went and whose claims on quota may still be read."""


def known(workload: Workload) -> Workload:
    """The Workload with its unit instead of its template, as the informer keeps it.

    Where the template cannot be read, the unit is one that asks for nothing and `fault` says why.
    """
    slim = compact(workload)
    try:
        unit = compile_unit(workload)
        fault = undividable(unit)
    except (ValueError, msgspec.ValidationError) as e:
        unit, fault = compile_unit(slim), str(e)
    return msgspec.structs.replace(slim, unit=unit, fault=fault)


@dataclass(frozen=True, slots=True)
class _Holding:
    """The shares of a Workload, assumed or written, and the units its clusters do not count yet."""

    unit: Unit
    placements: Mapping[str, int]
    flying: Mapping[str, int]


class PolicyListener(Protocol):
    """Who keeps the policies' status."""

    def policy_changed(self, old: WorkloadPolicy | None, new: WorkloadPolicy | None) -> None:
        """A policy came, changed or went."""

    def touched(self, policies: Collection[Key]) -> None:
        """What these count has changed."""


class World:
    """The state between the informers and `decide`. All calls come from one event loop.

    `schedulers` are the scheduler names that we answer to; `sort` is the order of the queue;
    `reviewed` says whether admission has seen a Workload as it is now.
    """

    def __init__(
        self,
        schedulers: Collection[str],
        *,
        sort: QueueSort,
        reviewed: Callable[[Meta], bool],
    ) -> None:
        self.index = Index()
        self._sort = sort
        self._schedulers = frozenset(schedulers)
        self._reviewed = reviewed
        self._builder = FleetBuilder()
        self._holdings: dict[Key, _Holding] = {}
        self._holders: dict[str, set[Key]] = {}
        self._queue: SchedulingQueue | None = None
        self._gone: dict[str, None] = {}
        self._listener: PolicyListener | None = None

    def tell_policies(self, listener: PolicyListener | None) -> None:
        """Tell this listener, and no other, what happens to policies."""
        self._listener = listener

    def fleet(self) -> Fleet:
        """The clusters as they are now, decisions in flight counted."""
        return self._builder.snapshot()

    def unit(self, key: Key) -> Unit | None:
        """A Workload as the last decision saw it; None for one that does not exist."""
        holding = self._holdings.get(key)
        return holding.unit if holding else None

    def rank(self, unit: Unit) -> Rank:
        """The unit's place in the queue."""
        return Rank(self._sort.rank(unit), unit.key, unit.priority)

    def waiting(self, beside: Unit) -> dict[Key, Unit]:
        """The Workloads of its scheduler and namespace that require others and run nowhere yet."""
        return {
            key: held.unit
            for key, held in self._holdings.items()
            if not held.placements
            and held.unit.affinity.required
            and held.unit.namespace == beside.namespace
            and held.unit.scheduler_name == beside.scheduler_name
        }

    def shares(self, cluster: str) -> dict[Key, int]:
        """The units of each Workload on a cluster, decided ones included, by name."""
        holders = sorted(self._holders.get(cluster, ()))
        return {key: self._holdings[key].placements[cluster] for key in holders}

    def lead(self, queue: SchedulingQueue, workloads: Iterable[Workload]) -> None:
        """Feed that queue from now on, beginning with every Workload that is not settled."""
        self._queue = queue
        self._offer(w for w in workloads if self.unsettled(w))

    def rest(self) -> None:
        """Feed no queue any more."""
        self._queue = None
        self._listener = None

    def ours(self, workload: Workload) -> bool:
        """Whether we are to place it: it names one of our schedulers and is not on its way out."""
        deleting = workload.metadata.deleting
        return workload.spec.scheduler_name in self._schedulers and not deleting

    def unsettled(self, workload: Workload) -> bool:
        """Whether it is ours and the last decision, as written, does not stand.

        It stands while nothing was edited, every unit has a cluster, and all these exist and run
        what they were given.
        """
        if not self.ours(workload):
            return False
        unit, status = workload.unit, workload.status
        return not (
            status.observed_generation == workload.metadata.generation
            and unit.hash == status.decision.hash
            and _scheduled(workload)
            and not unit.everywhere
            and all(name in self.fleet().row for name in unit.present)
            and not unit.limits
            and not unit.shown
            and _bound_to(workload) == (unit.policy[1] if unit.policy else "")
            and self._reviewed(workload.metadata)
        )

    def assume(self, unit: Unit, placements: Mapping[str, int]) -> None:
        """Count a decision whose write is under way: all its new units are in flight."""
        before = self._holdings.get(unit.key)
        counted: dict[str, int] = {}
        if before is not None:
            counted = {c: n - before.flying[c] for c, n in before.placements.items()}
        self._hold(unit, placements, counted)

    def written(self, key: Key, uid: str) -> Mapping[str, int] | None:
        """The shares that a Workload shows; None for one that is known to be gone.

        One that nobody here has heard of may be on its way: it shows nothing yet.
        """
        holding = self._holdings.get(key)
        if uid in self._gone or (holding is not None and holding.unit.uid != uid):
            return None
        return holding.placements if holding is not None else {}

    def haunt(self, policy: Key, ghosts: Mapping[Key, Mapping[str, int]]) -> None:
        """Count what other processes have claimed of a policy's quota."""
        before = sum(self.index.units_of(policy).values())
        if self.index.tally.haunt(policy, ghosts):
            if sum(self.index.units_of(policy).values()) < before:
                self.index.tally.eased.add(policy)
            self._tell()

    def policy_changed(self, old: WorkloadPolicy | None, new: WorkloadPolicy | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self.index.drop_policy(old.metadata.key)
        elif old is None or old.metadata.generation != new.metadata.generation:
            self.index.put_policy(compile_policy(new))
        if self._listener is not None:
            self._listener.policy_changed(old, new)
        self._tell()

    def restore(self, key: Key, workload: Workload | None) -> None:
        """A decision was not written: what the informer holds counts again, and room is free."""
        if workload is None:
            self._drop(key)
        else:
            self._take(workload)
        self._announce(Change.CLUSTER_ROOM)
        self._announce(Change.WORKLOADS, {key[0]})

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: what it says replaces what was assumed."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._bury(old.metadata.uid)
            self._drop(old.metadata.key)
            if old.placements:
                self._announce(Change.CLUSTER_ROOM)
                self._announce(Change.WORKLOADS, {old.metadata.namespace})
            return
        held = self._holdings.get(new.metadata.key)
        ours = held is not None and held.placements == new.placements  # what was assumed came back
        self._take(new)
        change = changes.effect(old, new)
        self._announce(change & Change.CLUSTER_ROOM)
        self._announce(change & Change.WORKLOADS, {new.metadata.namespace})
        told = old is None or old.unit.shown != new.unit.shown
        if (changes.edited(old, new) or not ours or told) and self.unsettled(new):
            self._offer([new])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler."""
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._builder.remove(old.metadata.name)
            self._lost(old.metadata.name)
            return
        self._builder.upsert(new)
        if old is None:  # its Workloads were known before it was
            name = new.metadata.name
            for key in self._holders.get(name, ()):
                held = self._holdings[key]
                self._builder.assume(name, held.unit.request, held.flying[name])
        change = changes.difference(old, new)
        if change & (Change.CLUSTER_ADDED | Change.CLUSTER_LABELS):
            self.index.tally.touch_all()
            self._tell()
        self._announce(change)

    def _take(self, workload: Workload) -> None:
        counted = {share.name: share.scheduled for share in workload.status.clusters}
        deleting = workload.metadata.deleting
        self._hold(workload.unit, workload.placements, counted, deleting=deleting)

    def _hold(
        self,
        unit: Unit,
        placements: Mapping[str, int],
        counted: Mapping[str, int],
        *,
        deleting: bool = False,
    ) -> None:
        """Where a Workload's units are, and how many of them each cluster counts itself."""
        self._let_go(unit.key)
        self.index.put(unit, placements, deleting=deleting)
        flying = {c: max(n - counted.get(c, 0), 0) for c, n in placements.items()}
        for cluster, units in flying.items():
            self._builder.assume(cluster, unit.request, units)
            self._holders.setdefault(cluster, set()).add(unit.key)
        self._holdings[unit.key] = _Holding(unit, dict(placements), flying)
        self._tell()

    def _bury(self, uid: str) -> None:
        """Remember for a while that a Workload is gone."""
        self._gone[uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))

    def _tell(self) -> None:
        """The policies that count differently now, and to whom that may open a door."""
        tally = self.index.tally
        touched, tally.touched = tally.touched, set()
        eased, tally.eased = tally.eased, set()
        if touched and self._listener is not None:
            self._listener.touched(touched)
        if eased:
            self._announce(Change.POLICIES, eased)

    def _let_go(self, key: Key) -> None:
        held = self._holdings.pop(key, None)
        if held is None:
            return
        for cluster, units in held.flying.items():
            self._builder.assume(cluster, held.unit.request, -units)
            holders = self._holders[cluster]
            holders.discard(key)
            if not holders:
                del self._holders[cluster]

    def _drop(self, key: Key) -> None:
        self._let_go(key)
        self.index.drop(key)
        self._tell()
        if self._queue is not None:
            self._queue.forget(key)

    def _lost(self, cluster: str) -> None:
        """Whoever held units on a cluster that is gone needs another one."""
        units = [self._holdings[key].unit for key in self._holders.get(cluster, ())]
        if self._queue is not None:
            ours = [unit for unit in units if unit.scheduler_name in self._schedulers]
            self._queue.offer([self.rank(unit) for unit in ours])

    def _offer(self, workloads: Iterable[Workload]) -> None:
        if self._queue is not None:
            self._queue.offer([self.rank(workload.unit) for workload in workloads])

    def _announce(self, change: Change, about: Collection[Topic] | None = None) -> None:
        if self._queue is not None and change:
            self._queue.announce(change, about)


def _bound_to(workload: Workload) -> str:
    reference = workload.status.policy_ref
    return reference.name if reference else ""


def _scheduled(workload: Workload) -> bool:
    return any(
        c["type"] == WorkloadCondition.SCHEDULED.value and c["status"] == "True"
        for c in workload.status.conditions
    ) and sum(workload.placements.values()) == (workload.status.desired or 0)
