"""What the next decision will read: the fleet, where everybody runs, and every Workload's unit.

Fed by the informers, one object at a time, and by the reconciler's own decisions before their
writes have come back (`assume`), so that two decisions in a row never count on the same room. Tells
the scheduling queue who must be decided and what has changed in the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from controller.fleet import Fleet, FleetBuilder
from controller.framework.profile import Profile
from controller.index import Index
from controller.model import MemberCluster, Workload
from controller.queue import Change, Rank, SchedulingQueue
from controller.unit import Unit, compact, compile_unit
from machinery import logs
from machinery.objects import Key

LOG = logs.get(__name__)

LATER = (
    Change.CLUSTER_ADDED
    | Change.CLUSTER_LABELS
    | Change.CLUSTER_RULES
    | Change.CLUSTER_READY
    | Change.CLUSTER_ROOM
)
"""What can bring a Workload that runs everywhere to one more cluster."""


def known(workload: Workload) -> Workload:
    """The Workload with its unit instead of its template, as the informer keeps it."""
    try:
        unit = compile_unit(workload)
    except (ValueError, msgspec.ValidationError) as e:
        return msgspec.structs.replace(compact(workload), fault=str(e))
    return msgspec.structs.replace(compact(workload), unit=unit)


class World:
    """The state between the informers and `decide`. All calls come from one event loop."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self.index = Index()
        self.units: dict[Key, Unit] = {}
        self._profiles = profiles
        self._builder = FleetBuilder()
        self._flight: dict[Key, tuple[Unit, dict[str, int]]] = {}
        self._scheduled: dict[Key, dict[str, int]] = {}
        self._holders: dict[str, set[Key]] = {}
        self._queue: SchedulingQueue | None = None

    def fleet(self) -> Fleet:
        """The clusters as they are now, decisions in flight counted."""
        return self._builder.snapshot()

    def holders(self, cluster: str) -> list[Key]:
        """The Workloads that hold units on a cluster, by name."""
        return sorted(self._holders.get(cluster, ()))

    def lead(self, queue: SchedulingQueue | None) -> None:
        """Feed that queue from now on, beginning with every Workload that is not settled."""
        self._queue = queue
        if queue is not None:
            queue.offer([rank_of(u) for u in self.units.values() if not self.settled(u)])

    def settled(self, unit: Unit) -> bool:
        """Whether the last decision still stands.

        Nothing was edited, and all its clusters exist.
        """
        if unit.scheduler_name not in self._profiles:
            return True
        fleet = self.fleet()
        return (
            unit.hash == "-".join(unit.decided)
            and bool(unit.present)
            and not unit.everywhere
            and sum(unit.present.values()) == unit.replicas
            and all(name in fleet.row for name in unit.present)
        )

    def assume(self, unit: Unit, placements: Mapping[str, int]) -> None:
        """Count a decision whose write is under way."""
        self._place(unit, placements, self._scheduled.get(unit.key, {}))

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler: what it says replaces what was assumed."""
        key = (new or old).metadata.key  # type: ignore[union-attr] # one of them is there
        before = self.units.get(key)
        if new is None or new.unit is None:
            self._gone(key)
            self._announce(Change.WORKLOADS | Change.CLUSTER_ROOM)
            return
        unit: Unit = new.unit
        self._scheduled[key] = {s.name: s.scheduled for s in new.status.clusters}
        self._place(unit, unit.present, self._scheduled[key])
        if before is None or before.present != unit.present or before.labels != unit.labels:
            fewer = before is not None and sum(before.present.values()) > sum(unit.present.values())
            self._announce(Change.WORKLOADS | (Change.CLUSTER_ROOM if fewer else Change.NOTHING))
        if new.metadata.deleting:
            return
        if before is None or before.hash != unit.hash or before.present != unit.present:
            self._offer([unit])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """An informer's handler."""
        if new is None:
            name = old.metadata.name if old is not None else ""
            self._builder.remove(name)
            self._offer(self.units[key] for key in self.holders(name) if key in self.units)
            return
        self._builder.upsert(new)
        if old is None:
            for key in self.holders(new.metadata.name):
                unit, flying = self._flight[key]
                self._builder.assume(
                    new.metadata.name, unit.request, flying.get(new.metadata.name, 0)
                )
        self._announce(_difference(old, new))

    def _place(
        self, unit: Unit, placements: Mapping[str, int], scheduled: Mapping[str, int]
    ) -> None:
        """Where a Workload's units are, and which of them its clusters do not count yet."""
        self._unfly(unit.key)
        self.units[unit.key] = unit
        self.index.put(unit, placements)
        flying = {c: n - min(scheduled.get(c, 0), n) for c, n in placements.items()}
        for cluster, units in flying.items():
            self._builder.assume(cluster, unit.request, units)
            self._holders.setdefault(cluster, set()).add(unit.key)
        self._flight[unit.key] = (unit, flying)

    def _unfly(self, key: Key) -> None:
        unit, flying = self._flight.pop(key, (None, {}))
        for cluster, units in flying.items():
            if unit is not None:
                self._builder.assume(cluster, unit.request, -units)
            holders = self._holders.get(cluster, set())
            holders.discard(key)
            if not holders:
                self._holders.pop(cluster, None)

    def _gone(self, key: Key) -> None:
        self._unfly(key)
        self.index.drop(key)
        self.units.pop(key, None)
        self._scheduled.pop(key, None)
        if self._queue is not None:
            self._queue.forget(key)

    def _offer(self, units: Iterable[Unit]) -> None:
        if self._queue is not None:
            self._queue.offer([rank_of(unit) for unit in units if not self.settled(unit)])

    def _announce(self, change: Change) -> None:
        if self._queue is not None and change:
            self._queue.announce(change)


def rank_of(unit: Unit) -> Rank:
    """The unit's place in the queue."""
    return Rank.of(priority=unit.priority, created=unit.created, key=unit.key)


def _difference(old: MemberCluster | None, new: MemberCluster) -> Change:
    """What changed on a cluster in a way that could help somebody."""
    if old is None:
        return Change.CLUSTER_ADDED
    change = Change.NOTHING
    told, tells = old.status, new.status
    if old.metadata.labels != new.metadata.labels or (told.version, told.provider) != (
        tells.version,
        tells.provider,
    ):
        change |= Change.CLUSTER_LABELS
    if old.spec != new.spec:
        change |= Change.CLUSTER_RULES
    if new.ready and not old.ready:
        change |= Change.CLUSTER_READY
    if told.node_groups != tells.node_groups:
        change |= Change.CLUSTER_ROOM
    return change
