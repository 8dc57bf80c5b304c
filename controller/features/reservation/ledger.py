"""The ledger of Reservations: the room that each holds on the clusters of its units.

Room that no user inside has taken is held: other Workloads find that much less. The held room
follows each change at once, so that no decision comes between. A reservation that serves only once
holds nothing from its first owner on. `controller.features.reservation.inside` counts the users.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from controller.cache.ledger import PlacementsByWorkload, RoomHolder
from controller.features.reservation import split
from controller.features.reservation.compiled import Reserved
from controller.features.reservation.inside import (
    NOTHING,
    Inside,
    Name,
    OwnedUnits,
    Placements,
    ReservationOwners,
    Touched,
)
from controller.features.reservation.owners import PendingOwners
from controller.features.reservation.split import Amounts
from controller.model.load import Load, Loads, added
from controller.model.unit import WorkloadInfo
from machinery.api.resources import RESERVATIONS
from machinery.types.metadata import Key

_PREFIX = f"{RESERVATIONS.plural}/"


class ReservationLedger(ReservationOwners):
    """Every reservation with its room and its users. The ledger holds room from `keep` on."""

    def __init__(self) -> None:
        super().__init__()
        self._room: RoomHolder | None = None
        self._waiting = PendingOwners()
        self._spoken: dict[Key, dict[str, Amounts]] = {}
        self._held: dict[Key, dict[str, dict[Load, int]]] = {}
        self._left: dict[tuple[Key, str], Amounts] = {}
        self._left_in: dict[str, dict[str, int]] = {}

    def keep(self, room: RoomHolder) -> None:
        """Hold room by `room` from now on."""
        self._room = room

    def put_reservation(self, reserved: Reserved) -> None:
        before = self._reserved.get(reserved.key)
        self._reserved[reserved.key] = reserved
        if reserved.open:
            self._index.put(reserved)
        else:
            self._index.drop(reserved.key)
        if before is None or (before.uid, before.open) != (reserved.uid, reserved.open):
            self._settle_all(self._recount(before, reserved))
        self._settle(reserved.key)

    def drop_reservation(self, key: Key) -> None:
        """Forget a reservation; an unknown one is ignored."""
        before = self._reserved.pop(key, None)
        self._index.drop(key)
        self._settle_all(self._recount(before))
        self._settle(key)

    def put(self, info: WorkloadInfo, placements: Placements) -> None:
        """Count a Workload, or a reservation as one, with these shares."""
        if info.booked:
            self._put_place(_own(info.key), (info.uid, _some(placements)))
            return
        if sum(placements.values()) < info.replicas:
            self._waiting.put(info)
        else:
            self._waiting.drop(info.key)
        self._settle_all(self._put_inside(info, placements))

    def drop(self, key: Key) -> None:
        """Forget a Workload, or a reservation counted as one."""
        if key[1].startswith(_PREFIX):
            self._put_place(_own(key), None)
            return
        self._waiting.drop(key)
        self._settle_all(self._leave(key))

    def overlay(self, placed: PlacementsByWorkload) -> ReservationLedger:
        """Return a ledger with these placed so; the held room stays that of the snapshot."""
        return _ReservationOverlay(self, placed)

    def releasable(self, info: WorkloadInfo) -> Loads:
        """Return the room that is held for the Workload, as `Snapshot.releasing` takes it."""
        return added(self.held(reserved.key) for reserved in self.of(info))

    def held(self, key: Key) -> Loads:
        return self._held.get(key, {})

    def pending_owners(self, reserved: Reserved) -> Iterator[Key]:
        """Yield the owners that have replicas without a cluster; there may be many."""
        return self._waiting.of(reserved)

    def holds(self) -> Loads:
        """Return all held room, by cluster."""
        return added(self._held.values())

    def unused_in(self, namespace: str) -> Amounts:
        """Return the amounts that the reservations of a namespace hold for owners still to come."""
        return self._left_in.get(namespace, NOTHING)

    # --- the room ---------------------------------------------------------------------------------

    def _put_place(self, key: Key, place: tuple[str, Placements] | None) -> None:
        before = self.reserved(key).keys()
        self._places.pop(key, None)
        if place is not None:
            self._places[key] = place
        if before != self.reserved(key).keys():
            self._settle_all(self._recount(self._reserved.get(key)))
        self._settle(key)

    def _settle_all(self, touched: Touched) -> None:
        for key, clusters in touched.items():
            reserved = self._reserved.get(key)
            # A reservation that serves once holds nothing anywhere from its first owner on.
            self._settle(key, None if reserved is not None and reserved.once else clusters)

    def _settle(self, key: Key, clusters: Collection[str] | None = None) -> None:
        """Hold the wanted room of a reservation on these clusters, or on all."""
        held, spoken = self._held.setdefault(key, {}), self._spoken.setdefault(key, {})
        freed = []
        for cluster in {*held, *spoken, *self.reserved(key)} if clusters is None else clusters:
            loads, now = self._wanted(key, cluster)
            self._leave_over(key, cluster, self.unused(key, cluster))
            self._hold(cluster, held.get(cluster, {}), loads)
            if any(now.get(r, 0) < n for r, n in spoken.get(cluster, NOTHING).items()):
                freed.append(cluster)
            _set(held, cluster, loads)
            _set(spoken, cluster, now)
        for kept in (self._held, self._spoken):
            if not kept[key]:
                del kept[key]
        if self._room is not None:
            for cluster in sorted(freed):
                self._room.freed(cluster)

    def _leave_over(self, key: Key, cluster: str, now: Amounts) -> None:
        before = self._left.pop((key, cluster), NOTHING)
        if now:
            self._left[key, cluster] = now
        total = self._left_in.setdefault(key[0], {})
        for resource in {*before, *now}:
            left = total.get(resource, 0) + now.get(resource, 0) - before.get(resource, 0)
            _set(total, resource, left)
        _set(self._left_in, key[0], total)

    def _wanted(self, key: Key, cluster: str) -> tuple[dict[Load, int], Amounts]:
        """Return the loads to hold, and the amounts that no other Workload can have."""
        reserved, replicas = self._reserved.get(key), self.reserved(key).get(cluster, 0)
        if reserved is None or not replicas:
            return {}, {}
        unused, taken = self.unused(key, cluster), self._taken(reserved, cluster, None)
        # Users inside count too: one that leaves frees its room for the reservation, not for
        # others.
        spoken = {
            r: min(n * replicas, unused.get(r, 0) + taken.get(r, 0))
            for r, n in reserved.request.items()
        }
        return split.loads(unused, reserved.request, reserved.load), spoken

    def _hold(self, cluster: str, before: Mapping[Load, int], after: Mapping[Load, int]) -> None:
        for load in {**before, **after}:
            change = after.get(load, 0) - before.get(load, 0)
            if change and self._room is not None:
                self._room.hold(cluster, load, change)


class _ReservationOverlay(ReservationLedger):
    """The ledger of a pass on a set: its own changes over the base."""

    def __init__(self, base: ReservationLedger, placed: PlacementsByWorkload) -> None:
        super().__init__()
        self._base = base
        self._index, self._reserved = base._index, base._reserved  # noqa: SLF001 - its own kind
        self._held, self._waiting = base._held, base._waiting  # noqa: SLF001 - as above
        self._touched: set[Key] = set()
        for booked in (True, False):  # reservations first: shares inside depend on their places
            for info, placements in placed.values():
                if info.booked == booked:
                    self.place(info, placements)

    def place(self, info: WorkloadInfo, placements: Placements) -> None:
        """Count a Workload so in this pass."""
        if info.booked:
            self._places[_own(info.key)] = (info.uid, _some(placements))
            self._touched.add(_own(info.key))
        else:
            self._touched |= self._put_inside(info, placements).keys()

    def unused_in(self, namespace: str) -> Amounts:
        """Return the amounts of the base, corrected for the reservations changed in this pass."""
        total = dict(self._base.unused_in(namespace))
        for key in self._touched:
            if key[0] == namespace:
                for sign, ledger in ((-1, self._base), (1, self)):
                    for cluster in ledger.reserved(key):
                        for resource, n in ledger.unused(key, cluster).items():
                            total[resource] = total.get(resource, 0) + sign * n
        return total

    def _place(self, key: Key) -> tuple[str, Placements]:
        return self._places[key] if key in self._places else self._base._place(key)  # noqa: SLF001

    def _inside_of(self, key: Key) -> Inside | None:
        return self._inside[key] if key in self._inside else self._base._inside_of(key)  # noqa: SLF001

    def _forget_inside(self, key: Key) -> None:
        self._inside[key] = None

    def _table(self, name: Name) -> OwnedUnits:
        return self._tables[name] if name in self._tables else self._base._table(name)  # noqa: SLF001

    def _own_table(self, name: Name) -> OwnedUnits:
        if name not in self._tables:
            self._tables[name] = self._base._table(name).copy()  # noqa: SLF001 - its own kind
        return self._tables[name]

    def _tidy(self, name: Name) -> None:
        """Keep an empty table: it hides the users in the base."""


def _some(placements: Placements) -> Placements:
    return {cluster: n for cluster, n in placements.items() if n > 0}


def _own(key: Key) -> Key:
    """Return the key of the reservation that is placed under this key."""
    return (key[0], key[1].removeprefix(_PREFIX))


def _set(by_cluster: dict[str, Any], cluster: str, value: Any) -> None:
    if value:
        by_cluster[cluster] = value
    else:
        by_cluster.pop(cluster, None)
