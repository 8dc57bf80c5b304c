"""A feature of somebody else's: pools of licence seats, written without touching the core.

A `LicencePool` of some namespace has so many seats. A Workload that names it by a label takes a seat
for each of its units, on the clusters where they land; one without a free seat waits for one. A
pool may let no more than so many seats be taken on one cluster, which bounds how units are divided.
A Workload may ask for a second one of its pool, without which it is not worth a seat: then both are
placed, or none is. The pool's status tells who sits where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from controller.cache.ledger import PlacementsByWorkload
from controller.cache.placements import PlacementIndex
from controller.framework.events import Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop, clusters
from controller.framework.interface import NOTHING_REFUSED, Candidates, CycleState, FilterMask
from controller.framework.runtime.arguments import Factory, Plain
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable, wait
from controller.framework.statuswriter import Result, StatusWriter
from controller.framework.waiting import WaitingWorkloads
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.problem import Problem
from controller.planner.webster import MAX_REPLICAS
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.api.resources import Resource
from machinery.types.metadata import Key, Object

NAME = "LicenceSeats"
POOLS = Resource("licences.example.com", "v1", "licencepools", "LicencePool")
POOL_LABEL = "licences.example.com/pool"
PARTNER_LABEL = "licences.example.com/with"
PATIENCE_SECONDS = 300.0


class PoolSpec(msgspec.Struct, frozen=True):
    """LicencePool.spec."""

    seats: int = 0
    each: int = MAX_REPLICAS
    """Of one cluster, at the most."""


class Seated(msgspec.Struct, frozen=True):
    """Seats that are taken on a cluster."""

    name: str
    seats: int


class PoolStatus(msgspec.Struct, frozen=True):
    """LicencePool.status: our books."""

    taken: int = 0
    clusters: list[Seated] = []


class LicencePool(Object, frozen=True):
    """So many seats."""

    spec: PoolSpec = PoolSpec()
    status: PoolStatus = PoolStatus()


def pool_of(info: WorkloadInfo) -> Key | None:
    """The pool that a Workload names."""
    name = info.labels.get(POOL_LABEL)
    return (info.namespace, name) if name else None


def partner_of(info: WorkloadInfo) -> Key | None:
    """The Workload that it wants beside itself."""
    name = info.labels.get(PARTNER_LABEL)
    return (info.namespace, name) if name else None


class Seats:
    """The ledger: the units of each Workload by pool. `told` hears of pools with other counts."""

    def __init__(self, told: Any = lambda _pool: None) -> None:
        self.seats: dict[Key, int] = {}
        self.each: dict[Key, int] = {}
        self._told = told
        self._taken: dict[Key, dict[Key, Mapping[str, int]]] = {}
        self._pools: dict[Key, Key] = {}

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Take a Workload with the shares that count."""
        pool = pool_of(info)
        before = self._taken.get(pool, {}).get(info.key) if pool else None
        if self._pools.get(info.key) == pool and before == placements:
            return
        self.drop(info.key)
        if pool is not None:
            self._pools[info.key] = pool
            self._taken.setdefault(pool, {})[info.key] = dict(placements)
            self._told(pool)

    def drop(self, key: Key) -> None:
        """Forget a Workload."""
        pool = self._pools.pop(key, None)
        if pool is not None:
            del self._taken[pool][key]
            self._told(pool)

    def overlay(self, placed: PlacementsByWorkload) -> Seats:
        """The same with these placed so. The pools of a test are small: a copy will do."""
        copy = Seats()
        copy.seats, copy.each, copy._pools = self.seats, self.each, dict(self._pools)
        copy._taken = {pool: dict(units) for pool, units in self._taken.items()}
        for info, placements in placed.values():
            copy.put(info, placements)
        return copy

    def on(self, pool: Key, *, but: Key | None = None) -> Counter[str]:
        """Seats taken of a pool by cluster, without those of one Workload."""
        counts: Counter[str] = Counter()
        for key, placements in self._taken.get(pool, {}).items():
            counts.update(placements if key != but else {})
        return counts

    def holds(self, key: Key) -> bool:
        """Whether a Workload sits somewhere."""
        pool = self._pools.get(key)
        return pool is not None and any(self._taken[pool][key].values())


def _name(info: WorkloadInfo) -> str:
    return info.labels.get(POOL_LABEL, "")


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return sum(after.values()) > sum(before.values())


def _more_seats(_info: WorkloadInfo, old: LicencePool | None, new: LicencePool | None) -> bool:
    if new is None or old is None:
        return new is not None
    return new.spec.seats > old.spec.seats or new.spec.each > old.spec.each


class LicenceSeats:
    """The plugin: refuses who would exceed the pool, and makes partners wait for each other."""

    name = NAME
    ignored_during_execution = True

    def __init__(self) -> None:
        self._waiting: WaitingWorkloads | None = None

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        """Where partners wait."""
        self._waiting = waiting

    def events_to_register(self) -> Sequence[EventHint]:
        """A pool came or has more seats; somebody gave one back."""
        changed = Action.ADDED | Action.SPEC
        return (
            on(POOLS.kind, changed, _more_seats, about=pool_of),
            on(POOLS.kind, Action.SHARES, about=pool_of),
        )

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        """Find the pool."""
        pool, seats = pool_of(info), bound.ledger(Seats)
        if pool is None:
            return SUCCESS
        if pool not in seats.seats:
            return unschedulable(NAME, f"licence pool {pool[1]} does not exist")
        state.data[NAME] = seats
        return SUCCESS

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Every cluster, where the seats do not suffice."""
        pool, seats = pool_of(info), state.data.get(NAME)
        if pool is None or seats is None:
            return NOTHING_REFUSED
        free = seats.seats[pool] - seats.on(pool, but=info.key).total()
        if free >= info.replicas:
            return NOTHING_REFUSED
        every = np.ones(len(snapshot), dtype=np.bool_)
        return FilterMask(
            (), reached=[(every, f"{max(free, 0)} seats free in licence pool {pool[1]}")]
        )

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        """The pool, or more of it."""
        name = shortage.workload.labels.get(POOL_LABEL)
        return f"a LicencePool {name} with {shortage.workload.replicas} free seats"

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """More seats, in all or on each cluster."""
        pool, most = (
            pool_of(shortage.workload),
            self._most(shortage.workload, shortage.state, shortage.snapshot),
        )
        if pool is not None and most is not None and (shortage.held >= most).any():
            text = f"{shortage.pending} more in spec.each of LicencePool {pool[1]}"
            return (Note(NoteKind.QUOTA, shortage.pending, pool[1], text),)
        if pool is None or shortage.reason is not ScheduledReason.REPLICAS_REACHED:
            return ()
        text = f"more seats in spec.seats of LicencePool {pool[1]}"
        return (Note(NoteKind.QUOTA, shortage.pending, pool[1], text),)

    def divides(self, _info: WorkloadInfo, _state: CycleState) -> bool:
        """The plugin bounds shares that others divide."""
        return False

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """On each cluster the seats that are left there."""
        most = self._most(info, field.state, field.snapshot)
        if most is None:
            return problem
        return replace(problem, upper=np.minimum(problem.upper, most))

    def _most(self, info: WorkloadInfo, state: CycleState, snapshot: Snapshot) -> Ints | None:
        pool, seats = pool_of(info), state.data.get(NAME)
        if pool is None or seats is None or seats.each[pool] == MAX_REPLICAS:
            return None
        others = seats.on(pool, but=info.key)
        left = [max(seats.each[pool] - others[name], 0) for name in snapshot.names]
        return np.array(left, dtype=np.int64)

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """The clusters where its pool has no more seats, though there is room."""
        most = self._most(info, field.state, field.snapshot)
        if most is None:
            return ()
        full = field.feasible & (plan.shares >= most) & (plan.shares < plan.asked.room)
        if not full.any():
            return ()
        return (f"{clusters(full, 'has', 'have')} no seat left of licence pool {_name(info)}",)

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        """The same, in the words of an explanation."""
        most = self._most(shortage.workload, shortage.state, shortage.snapshot)
        if most is None:
            return ()
        text = f"all seats of licence pool {_name(shortage.workload)} there are taken"
        return (Stop(NoteKind.QUOTA, shortage.held >= most, text),)

    def where(self, shortage: Shortage, rows: Mask) -> str:
        """Whose seats are meant."""
        return (
            f"of pool {_name(shortage.workload)}"
            if pool_of(shortage.workload) and rows.any()
            else ""
        )

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        """More units than before sit somewhere: there were seats."""
        return ("SeatsFound", "") if NAME in state.data and _more(before, after) else None

    def own_status(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        _snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """The pool, and the seats that the Workload takes of it."""
        pool = pool_of(info)
        return {} if pool is None else {"pool": pool[1], "seats": sum(placements.values())}

    def permit(
        self, state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        """Wait for the partner; the second one lets the first one go."""
        partner, seats = partner_of(info), state.data.get(NAME)
        if partner is None or seats is None or seats.holds(partner):
            if partner is not None and self._waiting is not None:
                self._waiting.allow(partner, NAME)
            return SUCCESS
        return wait(NAME, f"{partner[1]} has no seat yet", seconds=PATIENCE_SECONDS)


class PoolController(StatusWriter[LicencePool]):
    """Writes what the pools' statuses say."""

    def __init__(self, term: Term, seats: Seats) -> None:
        super().__init__(term, POOLS, LicencePool)
        self._seats = seats

    def draft(self, stored: LicencePool) -> Result:
        """The taken seats."""
        counts = +self._seats.on(stored.metadata.key)
        clusters = [Seated(name, n) for name, n in sorted(counts.items())]
        return Result(fields=msgspec.to_builtins(PoolStatus(counts.total(), clusters)))


class LicencePools(Feature):
    """The feature."""

    controller: PoolController
    plugins: Mapping[str, Factory] = {NAME: Plain(LicenceSeats)}
    defaults = tuple(Enabled(at, NAME) for at in ("preFilter", "filter", "assign", "permit"))

    def __init__(self) -> None:
        self.seats = Seats(self._counted)
        self.ledgers = (self.seats,)
        self.watch(POOLS, LicencePool, self.pool_changed)

    def start(self, term: Term) -> PoolController:
        """Write the statuses of all pools."""
        return PoolController(term, self.seats)

    def pool_changed(self, old: LicencePool | None, new: LicencePool | None) -> None:
        """An informer's handler."""
        known = new or old
        assert known is not None
        key = known.metadata.key
        if new is None:
            self.seats.seats.pop(key, None)
        else:
            self.seats.seats[key], self.seats.each[key] = new.spec.seats, new.spec.each
        action = Action.DELETED if new is None else Action.SPEC if old else Action.ADDED
        self.handle.announce(POOLS.kind, key, action, old, new)
        self.controller.add(key)

    def _counted(self, pool: Key) -> None:
        self.handle.announce(POOLS.kind, pool, Action.SHARES)
        self.controller.add(pool, after=0.05)
