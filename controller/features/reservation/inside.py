"""Which Workloads are inside of which reservation, and what is left of each. Holds no room itself.

The shares inside stand in the Workloads' own status, written with their placements; a decision that
is not written yet is split in the same way (`split`). So the tables follow from stored objects
alone, in whatever order these arrive, and no claim outlives its Workload. A claim does not count on
a reservation that is unknown, has another UID, or belongs to another tenant, and neither do
replicas beyond those on the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from controller.features.reservation import split
from controller.features.reservation.compiled import Reserved, may_serve
from controller.features.reservation.owners import OwnerIndex
from controller.features.reservation.split import Amounts
from controller.model.unit import WorkloadInfo
from machinery.types.api import ReservedShare
from machinery.types.metadata import Key

MOST_USED = 64
"""Reservations that one Workload may use: the first ones in order."""

MOST_PLACES = 2000
"""Clusters of all of them together: each decision of the Workload looks at every one."""

Placements: TypeAlias = Mapping[str, int]
Name: TypeAlias = tuple[Key, str]
"""A reservation for good: its key and its UID."""
NOTHING: Mapping[str, int] = {}


@dataclass(slots=True)
class OwnedUnits:
    """The users inside one reservation: replicas by cluster, and their requests together."""

    users: dict[Key, dict[str, int]] = field(default_factory=dict)
    taken: dict[str, dict[str, int]] = field(default_factory=dict)

    def copy(self) -> OwnedUnits:
        return OwnedUnits(dict(self.users), {c: dict(amounts) for c, amounts in self.taken.items()})

    def add(self, key: Key, request: Amounts, replicas: dict[str, int]) -> None:
        """Add a Workload with so many replicas by cluster, each of that request."""
        self.users[key] = replicas
        for cluster, n in replicas.items():
            taken = self.taken.setdefault(cluster, {})
            for resource, amount in request.items():
                taken[resource] = taken.get(resource, 0) + amount * n

    def remove(self, key: Key, request: Amounts) -> None:
        """Remove a Workload that was added with that request."""
        for cluster, n in self.users.pop(key, {}).items():
            taken = self.taken.get(cluster, {})
            for resource, amount in request.items():
                taken[resource] = taken.get(resource, 0) - amount * n
            if not any(taken.values()):
                self.taken.pop(cluster, None)


@dataclass(frozen=True, slots=True)
class Inside:
    """A Workload as it counts: its claims, and the shares of these that stand in the tables.

    `tight` Workloads claim more than they have replicas: which claims count then depends on the
    reservations that are known.
    """

    workload: WorkloadInfo
    placements: Placements
    claims: tuple[ReservedShare, ...]
    shares: tuple[ReservedShare, ...]
    tight: bool

    def like(self, other: Inside) -> bool:
        mine, its = ((i.claims, i.shares, i.tight, i.workload.request) for i in (self, other))
        return mine == its


_NOBODY = OwnedUnits()
Touched: TypeAlias = dict[Key, set[str]]
"""Reservations, and the clusters where something of them has changed."""


class ReservationOwners:
    """Every reservation with its units and its users."""

    def __init__(self) -> None:
        self._index = OwnerIndex()
        self._reserved: dict[Key, Reserved] = {}
        self._places: dict[Key, tuple[str, Placements]] = {}
        self._inside: dict[Key, Inside | None] = {}
        self._tables: dict[Name, OwnedUnits] = {}
        self._tight: dict[Name, set[Key]] = {}

    def values(self) -> Collection[Reserved]:
        """Return all reservations, ended ones too, in no order."""
        return self._reserved.values()

    def get(self, key: Key) -> Reserved | None:
        return self._reserved.get(key)

    def of(self, info: WorkloadInfo) -> list[Reserved]:
        """Return the reservations that a Workload may use, in the order in which it uses them.

        These are open and name the Workload as an owner; one that serves once and serves another
        Workload already is left out. `MOST_USED` and `MOST_PLACES` bound their number.
        """
        usable = (r for r in self._index.of(info) if not self._spent(r, but=info.key))
        found: list[Reserved] = []
        places = 0
        for reserved in islice(usable, MOST_USED):
            places += len(self.reserved(reserved.key))
            if found and places > MOST_PLACES:
                break
            found.append(reserved)
        return found

    def reserved(self, key: Key) -> Placements:
        """Return the units of an open reservation by cluster; none of one that has ended."""
        reserved = self._reserved.get(key)
        uid, replicas = self._place(key)
        return (
            replicas if reserved is not None and reserved.open and reserved.uid == uid else NOTHING
        )

    def unused(self, key: Key, cluster: str, but: Key | None = None) -> Amounts:
        """Return the amounts reserved on a cluster and not taken, not counting `but` as a user."""
        reserved, replicas = self._reserved.get(key), self.reserved(key).get(cluster, 0)
        if reserved is None or not replicas or self._spent(reserved, but=but):
            return NOTHING
        return split.left(reserved.request, replicas, self._taken(reserved, cluster, but))

    def inside(self, info: WorkloadInfo) -> dict[str, int]:
        """Return how many more replicas fit in the room held for the Workload, by cluster."""
        found: dict[str, int] = {}
        for replicas in self.inside_each(info).values():
            for cluster, n in replicas.items():
                if n:
                    found[cluster] = found.get(cluster, 0) + n
        return found

    def inside_each(self, info: WorkloadInfo) -> dict[Key, dict[str, int]]:
        """Return the same of each reservation by itself, 0 where less than a replica is unused."""
        return {
            reserved.key: {
                cluster: split.fitting(unused, info.request)
                for cluster in self.reserved(reserved.key)
                if (unused := self.unused(reserved.key, cluster))
            }
            for reserved in self.of(info)
        }

    def split(self, info: WorkloadInfo, placements: Placements) -> tuple[ReservedShare, ...]:
        """Return the Workload's shares inside reservations, were it placed so.

        Replicas that were inside and are still there stay, as long as the reservation lasts.
        Replicas that a cluster did not have before go into the reservations there, in order, into
        each as many as fit. Others go where they lack the least, into each no more than use it up.
        """
        return self._reached(info, self._counting(info, placements, self._claims(info, placements)))

    def says_too_much(self, info: WorkloadInfo) -> bool:
        """Return whether the status has more replicas inside than an open reservation has room for.

        A status does so when a decision of the reservation was lost after an owner relied on it.
        """
        known = [each for each in split.claimed(info.reservations) if self._is_there(each, info)]
        return self._reached(info, known) != tuple(known)

    def uses(self, key: Key) -> Mapping[Key, Placements]:
        """Return the Workloads inside of a reservation, with their replicas there by cluster."""
        reserved = self._reserved.get(key)
        return {} if reserved is None else self._users(reserved)

    def claimants(self, key: Key) -> list[Key]:
        """Return the Workloads inside, and those with claims where nothing is held any more."""
        reserved = self._reserved.get(key)
        return [] if reserved is None else [*self._table(_name(reserved)).users]

    def users(self, key: Key) -> list[Key]:
        """Return the Workloads inside of a reservation, by name."""
        return sorted(self.uses(key))

    def taken(self, key: Key, cluster: str) -> Amounts:
        """Return the requests of the users on a cluster; they may exceed the reserved amounts."""
        reserved = self._reserved.get(key)
        if reserved is None or (reserved.open and cluster not in self.reserved(key)):
            return NOTHING
        return self._taken(reserved, cluster, None)

    # --- counting shares inside -------------------------------------------------------------------

    def _claims(self, info: WorkloadInfo, placements: Placements) -> tuple[ReservedShare, ...]:
        said = split.claimed(info.reservations)
        new = info.arriving(placements) if len(self._index) else {}
        entering = self._entering(info, placements, said, new) if new else ()
        return split.claimed([*said, *entering]) if entering else said

    def _entering(
        self,
        info: WorkloadInfo,
        placements: Placements,
        said: Collection[ReservedShare],
        new: dict[str, int],
    ) -> list[ReservedShare]:
        """Return the shares of `new` replicas that go inside, and take them off `new`."""
        kept = _by_name(self._counting(info, placements, said))
        found, rest = list[ReservedShare](), list[tuple[Reserved, str, Amounts]]()

        def enter(reserved: Reserved, cluster: str, most: int) -> int:
            replicas = min(most, new[cluster])
            if replicas:
                new[cluster] -= replicas
                found.append(_share(reserved, cluster, replicas))
            return replicas

        for reserved in self.of(info):
            own = kept.get(_name(reserved), NOTHING)
            if own and reserved.once:
                continue  # a reservation that serves once gave its rest back at the first decision
            for cluster in self.reserved(reserved.key).keys() & new.keys():
                unused = self.unused(reserved.key, cluster, info.key)
                unused = split.less(unused, info.request, own.get(cluster, 0))
                entered = enter(reserved, cluster, split.fitting(unused, info.request))
                rest.append((reserved, cluster, split.less(unused, info.request, entered)))
        # What these take beside the reservation is room that nobody holds, so they take the least.
        for reserved, cluster, unused in sorted(rest, key=lambda r: split.lack(r[2], info.request)):
            enter(reserved, cluster, split.using_up(unused, info.request))
        return found

    def _counting(
        self, info: WorkloadInfo, placements: Placements, claims: Iterable[ReservedShare]
    ) -> tuple[ReservedShare, ...]:
        true = [share for share in claims if self._is_there(share, info)]
        return split.within(true, placements) if true else ()

    def _is_there(self, share: ReservedShare, info: WorkloadInfo) -> bool:
        """Return whether the reservation is known by that UID, and holds something there."""
        reserved = self._reserved.get((share.namespace, share.name))
        # The clusters of an ended reservation are not checked: its users stay on record.
        return (
            reserved is not None
            and reserved.uid == share.uid
            and may_serve(share.namespace, info.namespace)
            and (not reserved.open or share.cluster in self.reserved(reserved.key))
        )

    def _reached(
        self, info: WorkloadInfo, shares: Iterable[ReservedShare]
    ) -> tuple[ReservedShare, ...]:
        """Cut each share to the replicas that its reservation has room for; the rest is outside."""
        # Other users do not count here, so that the result depends on no order of theirs.
        reached = (self._reach(info, share) for share in shares)
        return tuple(share for share in reached if share.replicas)

    def _reach(self, info: WorkloadInfo, share: ReservedShare) -> ReservedShare:
        reserved = self._reserved[share.namespace, share.name]
        if not reserved.open:
            return share
        there = self.reserved(reserved.key)[share.cluster]
        most = split.most_inside(split.left(reserved.request, there, NOTHING), info.request)
        return share if share.replicas <= most else _share(reserved, share.cluster, most)

    def _entries(
        self, info: WorkloadInfo, placements: Placements, claims: Collection[ReservedShare]
    ) -> tuple[Sequence[ReservedShare], bool]:
        """Return the claims for the tables, and whether they depend on the known reservations."""
        own = [each for each in claims if may_serve(each.namespace, info.namespace)]
        # Usually there are replicas for all claims, and then all of them stand in the tables, as
        # the table of an unknown reservation is never read. So a reservation that ten thousand
        # Workloads use may come and go without a recount.
        if split.fits(own, placements):
            return own, False
        return self._counting(info, placements, claims), True

    def _put_inside(self, info: WorkloadInfo, placements: Placements) -> Touched:
        """Count a Workload where it is inside; return the changed reservations and clusters."""
        before = self._inside_of(info.key)
        new = len(self._index) and info.arriving(placements)
        if not info.reservations and before is None and not new:
            return {}  # as most Workloads are
        claims = self._claims(info, placements)
        shares, tight = self._entries(info, placements, claims)
        after = Inside(info, dict(placements), claims, tuple(shares), tight)
        if before is not None and before.like(after):
            self._inside[info.key] = after
            return {}
        touched = self._leave(info.key)
        if claims:
            self._inside[info.key] = after
            for share in claims if tight else ():
                self._tight.setdefault(_of_share(share), set()).add(info.key)
            join(touched, self._enter(after))
        return touched

    def _enter(self, inside: Inside) -> Touched:
        touched: Touched = {}
        for name, replicas in _by_name(inside.shares).items():
            self._own_table(name).add(inside.workload.key, inside.workload.request, replicas)
            touched.setdefault(name[0], set()).update(replicas)
        return touched

    def _leave(self, key: Key) -> Touched:
        before = self._inside_of(key)
        if before is None:
            return {}
        self._forget_inside(key)
        for share in before.claims if before.tight else ():
            keys = self._tight.get(_of_share(share), set())
            keys.discard(key)
            if not keys:
                self._tight.pop(_of_share(share), None)
        return self._take_out(before)

    def _take_out(self, before: Inside) -> Touched:
        touched: Touched = {}
        for name, replicas in _by_name(before.shares).items():
            self._own_table(name).remove(before.workload.key, before.workload.request)
            touched.setdefault(name[0], set()).update(replicas)
            self._tidy(name)
        return touched

    def _recount(self, *reservations: Reserved | None) -> Touched:
        """Count the claims on these again: they came, went, or have units on other clusters."""
        touched: Touched = {}
        names = {_name(each) for each in reservations if each is not None}
        for key in {key for name in names for key in self._tight.get(name, ())}:
            before = self._inside_of(key)
            if before is None:
                continue
            shares = self._counting(before.workload, before.placements, before.claims)
            if shares != before.shares:
                self._inside[key] = after = replace(before, shares=shares)
                join(touched, self._take_out(before))
                join(touched, self._enter(after))
        return touched

    def _taken(self, reserved: Reserved, cluster: str, but: Key | None) -> Amounts:
        table = self._table(_name(reserved))
        own = self._inside_of(but) if but is not None else None
        taken = table.taken.get(cluster, NOTHING)
        if own is None:
            return taken
        replicas = table.users.get(own.workload.key, NOTHING).get(cluster, 0)
        return split.less(taken, own.workload.request, replicas)

    def _spent(self, reserved: Reserved, *, but: Key | None = None) -> bool:
        """Return whether the reservation serves once, and serves another Workload than `but`."""
        if not reserved.once:
            return False
        there = self.reserved(reserved.key)
        users = self._table(_name(reserved)).users.items()
        return any(key != but and not there.keys().isdisjoint(replicas) for key, replicas in users)

    def _users(self, reserved: Reserved) -> Mapping[Key, Placements]:
        """Return the users inside; those of an open reservation only where it holds something."""
        users = self._table(_name(reserved)).users
        if not reserved.open:
            return users
        there = self.reserved(reserved.key)
        found = {key: {c: n for c, n in own.items() if c in there} for key, own in users.items()}
        return {key: replicas for key, replicas in found.items() if replicas}

    # --- overridden by the overlay ----------------------------------------------------------------

    def _place(self, key: Key) -> tuple[str, Placements]:
        """Return the UID that the reservation was placed with, and its shares."""
        return self._places.get(key, ("", NOTHING))

    def _inside_of(self, key: Key) -> Inside | None:
        return self._inside.get(key)

    def _forget_inside(self, key: Key) -> None:
        self._inside.pop(key, None)

    def _table(self, name: Name) -> OwnedUnits:
        """Return the users inside, to read only."""
        return self._tables.get(name, _NOBODY)

    def _own_table(self, name: Name) -> OwnedUnits:
        """Return the users inside, to change."""
        return self._tables.setdefault(name, OwnedUnits())

    def _tidy(self, name: Name) -> None:
        if not self._tables[name].users:
            del self._tables[name]


def _name(reserved: Reserved) -> Name:
    return (reserved.key, reserved.uid)


def _share(reserved: Reserved, cluster: str, replicas: int) -> ReservedShare:
    return ReservedShare(reserved.namespace, reserved.name, reserved.uid, cluster, replicas)


def _of_share(share: ReservedShare) -> Name:
    return ((share.namespace, share.name), share.uid)


def _by_name(shares: Iterable[ReservedShare]) -> dict[Name, dict[str, int]]:
    found: dict[Name, dict[str, int]] = {}
    for share in shares:
        found.setdefault(_of_share(share), {})[share.cluster] = share.replicas
    return found


def join(touched: Touched, more: Touched) -> Touched:
    """Add `more` to `touched`, in place, and return it."""
    for key, clusters in more.items():
        touched.setdefault(key, set()).update(clusters)
    return touched
