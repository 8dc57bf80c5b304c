"""The ledger of Reservations: who is inside each, and the room that it holds.

A claim counts as far as the cluster has replicas, on a known reservation of that UID that may serve
the namespace. Room that no user has taken is held. A replica of a user that cannot be compiled
takes one unit.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from controller.cache.ledger import PlacementsByWorkload, RoomHolder
from controller.features.reservation import split
from controller.features.reservation.compiled import Reserved, may_serve
from controller.features.reservation.owners import OwnerIndex, demanded, matches, offered
from controller.features.reservation.split import Amounts
from controller.model.load import Load, Loads
from controller.model.unit import WorkloadInfo
from machinery.api.resources import RESERVATIONS
from machinery.types.metadata import Key
from machinery.types.workload_api import ReservedShare

MOST_USED = 64
"""Reservations that one Workload may use: the first ones in order."""
MOST_PLACES = 2000
"""Clusters of all of them: each decision of the Workload looks at every one."""
MOST_LOOKED_AT = 1000
"""Reservations that are looked at for one Workload."""

Placements: TypeAlias = Mapping[str, int]
Name: TypeAlias = tuple[Key, str]
"""A reservation for good: its key and its UID."""
Spot: TypeAlias = tuple[Key, str]
"""A reservation on one cluster."""
NOTHING: Mapping[str, int] = {}
_PREFIX = f"{RESERVATIONS.plural}/"
_UNITS = ""
"""The request of a user that cannot be compiled: one unit of the reservation."""


@dataclass(frozen=True, slots=True)
class _Inside:
    request: Amounts
    claims: tuple[ReservedShare, ...]
    shares: tuple[ReservedShare, ...]
    workload: WorkloadInfo = field(compare=False)
    placements: Placements = field(compare=False)


@dataclass(slots=True)
class _Users:
    """The users of one reservation, and all their requests together."""

    users: dict[Key, tuple[Amounts, dict[str, int]]] = field(default_factory=dict)
    taken: dict[str, dict[str, int]] = field(default_factory=dict)

    def copy(self) -> _Users:
        return _Users(dict(self.users), {c: dict(amounts) for c, amounts in self.taken.items()})

    def put(self, key: Key, request: Amounts, replicas: dict[str, int]) -> None:
        asked, before = self.users.pop(key, (NOTHING, {}))
        if replicas:
            self.users[key] = (request, replicas)
        for amounts, by_cluster, sign in ((asked, before, -1), (request, replicas, 1)):
            for cluster, n in by_cluster.items():
                taken = self.taken.setdefault(cluster, {})
                for resource, amount in amounts.items():
                    taken[resource] = taken.get(resource, 0) + sign * amount * n
        for cluster in before:
            if not any(self.taken[cluster].values()):
                del self.taken[cluster]

    def taken_on(self, cluster: str, but: Key | None) -> Amounts:
        request, replicas = self.users.get(but, (NOTHING, {})) if but else (NOTHING, {})
        return split.less(self.taken.get(cluster, NOTHING), request, replicas.get(cluster, 0))


class _Hold(NamedTuple):
    """The held loads, and the amounts that no other may have."""

    loads: dict[Load, int]
    spoken: Amounts


_NOBODY, _NO_HOLD = _Users(), _Hold({}, NOTHING)


class ReservationLedger:
    """It holds room from `keep` on."""

    def __init__(self) -> None:
        self._reserved: dict[Key, Reserved] = {}
        self._open = OwnerIndex()
        self._waiting: dict[Key, WorkloadInfo] = {}
        self._waiting_at = OwnerIndex()
        # An overlay has its own changes of these before those of its base.
        self._placed: MutableMapping[Key, tuple[str, Placements]] = {}
        self._inside: MutableMapping[Key, _Inside | None] = {}
        self._users: MutableMapping[Name, _Users] = {}
        self._tight: set[Key] = set()
        """Workloads with more claims than replicas; nearly always none."""
        self._held: dict[Key, dict[str, _Hold]] = {}
        self._left: dict[str, dict[str, int]] = {}
        """The held amounts by namespace."""
        # An overlay has some of these.
        self._holds: dict[Key, dict[str, Mapping[Load, int]]] = {}
        """The loads that reservations hold by its changes, by cluster."""
        self._booked: set[Key] = set()
        """Reservations that it places otherwise: the snapshot has their room in flight."""
        self._room: RoomHolder | None = None

    def keep(self, room: RoomHolder) -> None:
        self._room = room

    def put_reservation(self, reserved: Reserved) -> None:
        before = self._reserved.get(reserved.key)
        self._reserved[reserved.key] = reserved
        if reserved.open:
            self._open.put(reserved.key, demanded(reserved))
        else:
            self._open.drop(reserved.key)
        if before is None or (before.uid, before.open) != (reserved.uid, reserved.open):
            self._settle(self._recount())
        self._settle_all(reserved.key)

    def drop_reservation(self, key: Key) -> None:
        self._reserved.pop(key, None)
        self._open.drop(key)
        self._settle(self._recount())
        self._settle_all(key)

    def put(self, info: WorkloadInfo, placements: Placements) -> None:
        if info.booked:
            self._place(_own(info.key), (info.uid, _some(placements)))
            return
        if sum(placements.values()) < info.replicas:
            self._waiting[info.key] = info
            self._waiting_at.put(info.key, offered(info))
        else:
            self._stop_waiting(info.key)
        self._settle(self._put_inside(info, placements))

    def drop(self, key: Key) -> None:
        if key[1].startswith(_PREFIX):
            self._place(_own(key), None)
            return
        self._stop_waiting(key)
        self._settle(self._replace(key, None))

    def overlay(self, placed: PlacementsByWorkload) -> ReservationLedger:
        """`held` stays that of the snapshot."""
        return _ReservationOverlay(self, placed)

    def values(self) -> Collection[Reserved]:
        return self._reserved.values()

    def get(self, key: Key) -> Reserved | None:
        return self._reserved.get(key)

    def reserved(self, key: Key) -> Placements:
        """Return the units of an open reservation by cluster."""
        reserved = self._reserved.get(key)
        uid, replicas = self._placed.get(key, ("", NOTHING))
        return (
            replicas if reserved is not None and reserved.open and reserved.uid == uid else NOTHING
        )

    # --- the reservations of a Workload -----------------------------------------------------------

    def of(self, info: WorkloadInfo) -> list[Reserved]:
        """Return the open reservations of a Workload in their order of use."""
        if info.booked or not len(self._open):
            return []
        known = (self._reserved[key] for key in self._open.of(offered(info)))
        first = sorted(known, key=attrgetter("rank"))[:MOST_LOOKED_AT]
        usable = (r for r in first if matches(r, info) and not self._spent(r, but=info.key))
        found: list[Reserved] = []
        places = 0
        for reserved in islice(usable, MOST_USED):
            places += len(self.reserved(reserved.key))
            if found and places > MOST_PLACES:
                break
            found.append(reserved)
        return found

    def pending_owners(self, reserved: Reserved) -> Iterator[Key]:
        """Yield the pending owners; the ledger may change between two."""
        for key in self._waiting_at.of(demanded(reserved)):
            info = self._waiting.get(key)
            if info is not None and matches(reserved, info):
                yield key

    def unused(self, key: Key, cluster: str, but: Key | None = None) -> Amounts:
        """Return the amounts that users other than `but` leave."""
        reserved, replicas = self._reserved.get(key), self.reserved(key).get(cluster, 0)
        if reserved is None or not replicas or self._spent(reserved, but=but):
            return NOTHING
        return split.left(reserved.request, replicas, self._taken(reserved, cluster, but))

    def inside(self, request: Amounts, reserved: Iterable[Reserved]) -> dict[Key, dict[str, int]]:
        return {
            each.key: {
                cluster: split.fitting(unused, request)
                for cluster in self.reserved(each.key)
                if (unused := self.unused(each.key, cluster))
            }
            for each in reserved
        }

    def split(self, info: WorkloadInfo, placements: Placements) -> tuple[ReservedShare, ...]:
        """Return the shares inside reservations; replicas that were inside stay."""
        return self._reached(info, self._counting(placements, self._claims(info, placements)))

    def says_too_much(self, info: WorkloadInfo) -> bool:
        known = tuple(share for share in _claimed(info) if self._is_there(share))
        return self._reached(info, known) != known

    # --- the users of a reservation ---------------------------------------------------------------

    def uses(self, key: Key) -> Mapping[Key, Placements]:
        """Return the Workloads inside, with their counted replicas by cluster."""
        reserved = self._reserved.get(key)
        if reserved is None:
            return {}
        users = {key: replicas for key, (_, replicas) in self._users_of(reserved).users.items()}
        if not reserved.open:
            return users
        there = self.reserved(key)
        found = {key: {c: n for c, n in own.items() if c in there} for key, own in users.items()}
        return {key: replicas for key, replicas in found.items() if replicas}

    def claimants(self, key: Key) -> list[Key]:
        """Return the Workloads with claims, also where nothing is held any more."""
        reserved = self._reserved.get(key)
        return [] if reserved is None else [*self._users_of(reserved).users]

    def taken(self, key: Key, cluster: str) -> Amounts:
        """Return the users' requests, which may exceed the reserved amounts."""
        reserved = self._reserved.get(key)
        if reserved is None or (reserved.open and cluster not in self.reserved(key)):
            return NOTHING
        return self._taken(reserved, cluster)

    # --- the held room ----------------------------------------------------------------------------

    def held(self, key: Key) -> Loads:
        there = self._held.get(key, {}).items()
        return {cluster: hold.loads for cluster, hold in there if hold.loads}

    def changed_holds(self, but: Collection[Key]) -> tuple[list[Loads], list[Loads]]:
        """Return what the snapshot holds for reservations, and what they hold by an overlay.

        Only of those that the overlay changes, without those in `but`.
        """
        return [], []

    def unused_in(self, namespace: str) -> Amounts:
        """Return the amounts held in a namespace for owners still to come."""
        return self._left.get(namespace, NOTHING)

    def _place(self, key: Key, place: tuple[str, Placements] | None) -> None:
        before = self.reserved(key).keys()
        self._placed.pop(key, None)
        if place is not None:
            self._placed[key] = place
        if before != self.reserved(key).keys():
            self._settle(self._recount())
        self._settle_all(key)

    def _settle_all(self, key: Key) -> None:
        self._settle((key, cluster) for cluster in {*self._held.get(key, {}), *self.reserved(key)})

    def _settle(self, spots: Iterable[Spot]) -> None:
        """Hold the wanted room there; tell Workloads that wait for freed room."""
        freed = set[str]()
        for key, cluster in spots:
            there = self._held.setdefault(key, {})
            before, after = there.pop(cluster, _NO_HOLD), self._wanted(key, cluster)
            if after != _NO_HOLD:
                there[cluster] = after
            if not there:
                del self._held[key]
            for load in {**before.loads, **after.loads}:
                self._hold(key, cluster, load, after.loads.get(load, 0) - before.loads.get(load, 0))
            if any(after.spoken.get(r, 0) < n for r, n in before.spoken.items()):
                freed.add(cluster)
        if self._room is not None:
            for cluster in sorted(freed):
                self._room.freed(cluster)

    def _wanted(self, key: Key, cluster: str) -> _Hold:
        reserved, replicas = self._reserved.get(key), self.reserved(key).get(cluster, 0)
        if reserved is None or not replicas:
            return _NO_HOLD
        unused, taken = self.unused(key, cluster), self.taken(key, cluster)
        spoken = {
            r: min(n * replicas, unused.get(r, 0) + taken.get(r, 0))
            for r, n in reserved.request.items()
        }
        return _Hold(split.loads(unused, reserved.request, reserved.load), spoken)

    def _hold(self, key: Key, cluster: str, load: Load, change: int) -> None:
        if not change:
            return
        if self._room is not None:
            self._room.hold(cluster, load, change)
        left = self._left.setdefault(key[0], {})
        for resource, amount in load.request:
            left[resource] = left.get(resource, 0) + amount * change
            if not left[resource]:
                del left[resource]
        if not left:
            del self._left[key[0]]

    # --- counting shares inside -------------------------------------------------------------------

    def _put_inside(self, info: WorkloadInfo, placements: Placements) -> set[Spot]:
        new = len(self._open) and info.arriving(placements)
        if not info.reservations and not new and self._inside.get(info.key) is None:
            return set()  # as most Workloads are
        claims = self._claims(info, placements)
        if not claims:
            return self._replace(info.key, None)
        # Usually all claims have replicas. Then all count, as users of an unknown reservation are
        # never read, and a reservation of ten thousand users comes and goes without a recount.
        shares = split.within(claims, placements)
        if shares != claims:
            shares = self._counting(placements, claims)
        request = {_UNITS: 1} if info.unread else info.request
        inside = _Inside(request, claims, shares, info, dict(placements))
        return self._replace(info.key, inside)

    def _recount(self) -> set[Spot]:
        changed = set[Spot]()
        for key in [*self._tight]:
            if (inside := self._inside.get(key)) is not None:
                shares = self._counting(inside.placements, inside.claims)
                changed |= self._replace(key, replace(inside, shares=shares))
        return changed

    def _replace(self, key: Key, after: _Inside | None) -> set[Spot]:
        before = self._inside.get(key)
        self._set_inside(key, after)
        if after is None or after.shares == after.claims:
            self._tight.discard(key)
        else:
            self._tight.add(key)
        if before == after:
            return set()
        left, now = (_by_name(inside.shares) if inside else {} for inside in (before, after))
        for name in {**left, **now}:
            self._put_user(name, key, after.request if after else NOTHING, now.get(name, {}))
        spots = {(name[0], c) for found in (left, now) for name in found for c in found[name]}
        # A reservation that serves once holds nothing anywhere from its first owner on.
        for reserved in {spot[0] for spot in spots}:
            if (known := self._reserved.get(reserved)) is not None and known.once:
                spots |= {(reserved, cluster) for cluster in self.reserved(reserved)}
        return spots

    def _claims(self, info: WorkloadInfo, placements: Placements) -> tuple[ReservedShare, ...]:
        said = _claimed(info)
        new = info.arriving(placements) if len(self._open) else {}
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
        kept = _by_name(self._counting(placements, said))
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
        self, placements: Placements, claims: Iterable[ReservedShare]
    ) -> tuple[ReservedShare, ...]:
        true = [share for share in claims if self._is_there(share)]
        return split.within(true, placements) if true else ()

    def _is_there(self, share: ReservedShare) -> bool:
        reserved = self._reserved.get((share.namespace, share.name))
        # The clusters of an ended reservation are not checked: its users stay on record.
        return (
            reserved is not None
            and reserved.uid == share.uid
            and (not reserved.open or share.cluster in self.reserved(reserved.key))
        )

    def _reached(
        self, info: WorkloadInfo, shares: Iterable[ReservedShare]
    ) -> tuple[ReservedShare, ...]:
        # Other users do not count here, so that the result depends on no order of theirs.
        found = []
        for share in shares:
            reserved, replicas = self._reserved[share.namespace, share.name], share.replicas
            if reserved.open:
                there = self.reserved(reserved.key)[share.cluster]
                amounts = split.left(reserved.request, there, NOTHING)
                replicas = min(replicas, split.most_inside(amounts, info.request))
            if replicas:
                found.append(_share(reserved, share.cluster, replicas))
        return tuple(found)

    def _taken(self, reserved: Reserved, cluster: str, but: Key | None = None) -> Amounts:
        taken = self._users_of(reserved).taken_on(cluster, but)
        units = taken.get(_UNITS, 0)
        if not units:
            return taken
        amounts = {r: taken.get(r, 0) + n * units for r, n in reserved.request.items()}
        return {**taken, **amounts, _UNITS: 0}

    def _users_of(self, reserved: Reserved) -> _Users:
        return self._users.get(_name(reserved), _NOBODY)

    def _spent(self, reserved: Reserved, *, but: Key | None = None) -> bool:
        if not reserved.once:
            return False
        there, users = self.reserved(reserved.key), self._users_of(reserved).users
        return any(
            key != but and not there.keys().isdisjoint(replicas)
            for key, (_, replicas) in users.items()
        )

    def _stop_waiting(self, key: Key) -> None:
        self._waiting.pop(key, None)
        self._waiting_at.drop(key)

    # --- overridden by the overlay ----------------------------------------------------------------

    def _set_inside(self, key: Key, inside: _Inside | None) -> None:
        if inside is None:
            self._inside.pop(key, None)
        else:
            self._inside[key] = inside

    def _put_user(self, name: Name, key: Key, request: Amounts, replicas: dict[str, int]) -> None:
        users = self._users.setdefault(name, _Users())
        users.put(key, request, replicas)
        if not users.users:
            del self._users[name]


class _ReservationOverlay(ReservationLedger):
    """Its own changes over the base, whose entries these hide."""

    def __init__(self, base: ReservationLedger, placed: PlacementsByWorkload) -> None:
        vars(self).update(vars(base))
        self._base = base
        self._placed, self._inside = ChainMap({}, self._placed), ChainMap({}, self._inside)
        self._users, self._own_users = ChainMap({}, self._users), set[Name]()
        self._tight = set()
        self._changed = set[Key]()
        self._holds = {key: dict(there) for key, there in self._holds.items()}
        self._booked = {*self._booked}
        for booked in (True, False):  # reservations first: shares inside depend on their places
            for info, placements in placed.values():
                if info.booked == booked:
                    self.place(info, placements)

    def place(self, info: WorkloadInfo, placements: Placements) -> None:
        if info.booked:
            self._placed[_own(info.key)] = (info.uid, _some(placements))
            self._changed.add(_own(info.key))
            self._booked.add(_own(info.key))
            self._holds.pop(_own(info.key), None)
            return
        for key, cluster in self._put_inside(info, placements):
            self._changed.add(key)
            if key not in self._booked:
                self._holds.setdefault(key, {})[cluster] = self._wanted(key, cluster).loads

    def changed_holds(self, but: Collection[Key]) -> tuple[list[Loads], list[Loads]]:
        then, now = list[Loads](), list[Loads]()
        for key, there in self._holds.items():
            if key not in but:
                held = self._base.held(key)
                then.append({c: held[c] for c in there if c in held})
                now.append({c: loads for c, loads in there.items() if c in held})
        return then, now

    def unused_in(self, namespace: str) -> Amounts:
        total = dict(self._base.unused_in(namespace))
        for key in self._changed:
            if key[0] == namespace:
                for sign, ledger in ((-1, self._base), (1, self)):
                    for cluster in ledger.reserved(key):
                        for resource, n in ledger.unused(key, cluster).items():
                            total[resource] = total.get(resource, 0) + sign * n
        return total

    def _set_inside(self, key: Key, inside: _Inside | None) -> None:
        self._inside[key] = inside

    def _put_user(self, name: Name, key: Key, request: Amounts, replicas: dict[str, int]) -> None:
        if name not in self._own_users:
            self._own_users.add(name)
            self._users[name] = self._users.get(name, _NOBODY).copy()
        self._users[name].put(key, request, replicas)


def _claimed(info: WorkloadInfo) -> tuple[ReservedShare, ...]:
    said = split.claimed(info.reservations)
    return tuple(share for share in said if may_serve(share.namespace, info.namespace))


def _name(reserved: Reserved) -> Name:
    return (reserved.key, reserved.uid)


def _share(reserved: Reserved, cluster: str, replicas: int) -> ReservedShare:
    return ReservedShare(reserved.namespace, reserved.name, reserved.uid, cluster, replicas)


def _by_name(shares: Iterable[ReservedShare]) -> dict[Name, dict[str, int]]:
    found: dict[Name, dict[str, int]] = {}
    for share in shares:
        name = ((share.namespace, share.name), share.uid)
        found.setdefault(name, {})[share.cluster] = share.replicas
    return found


def _some(placements: Placements) -> Placements:
    return {cluster: n for cluster, n in placements.items() if n > 0}


def _own(key: Key) -> Key:
    return (key[0], key[1].removeprefix(_PREFIX))
