"""The ledger of WorkloadQuotas: the amounts that each namespace uses over all clusters.

Workloads count by their template's request, Reservations by their unused room, because their users
count themselves. Claims of other processes (`set_foreign`) count too; while a claim's Workload is
unknown here, nothing is let in, and neither while a placed Workload cannot be compiled: it counts
as it was last read. Pods that deleted Workloads left on clusters count until the
quota's annotation `stowage.dev/released` names these. Nothing is kept of a namespace before its
first quota; with a default quota, of any namespace from its first Workload on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from controller.cache.ledger import PlacementsByWorkload
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import (
    Amounts,
    CompiledQuota,
    WorkloadQuota,
    held,
    of_cluster,
    of_unit,
    rendered,
    resource_of,
)
from controller.model.unit import WorkloadInfo
from crds.names import ANNOTATION_RELEASED
from crds.workloadquota import MOST_LEFT, RESERVATIONS
from machinery.types import quantities
from machinery.types.metadata import Key


class LeftNote(NamedTuple):
    """The sum of many deleted Workloads has no `name`."""

    uid: str
    name: str
    amounts: Amounts


class LeftBehind:
    """The notes of one namespace."""

    def __init__(self) -> None:
        self._living: set[str] = set()
        """The UIDs of existing Workloads."""
        self._leaving: dict[str, LeftNote] = {}
        """Existing Workloads that would leave something."""
        self._ended: dict[str, LeftNote] = {}
        """Deletions that this process saw and the stored notes lack."""
        self._stored: dict[Key, dict[str, LeftNote]] = {}
        self._released: dict[Key, frozenset[str]] = {}
        self._sum: Amounts | None = None

    def lives(self, uid: str, name: str, leaves: Amounts) -> None:
        if uid not in self._living:
            self._living.add(uid)
            self._ended.pop(uid, None)
            self._sum = None
        self._leaving.pop(uid, None)
        if leaves:
            self._leaving[uid] = LeftNote(uid, name, leaves)

    def ended(self, uid: str, name: str, leaves: Amounts) -> None:
        """Its last amounts replace the noted ones."""
        self._living.discard(uid)
        self._leaving.pop(uid, None)
        self._sum = None
        if leaves or any(uid in notes for notes in self._stored.values()):
            self._ended[uid] = LeftNote(uid, name, leaves)

    def stored(self, quota: WorkloadQuota) -> bool:
        """Return whether notes or releases changed."""
        key = quota.metadata.key
        named = quota.metadata.annotations.get(ANNOTATION_RELEASED, "").split(",")
        released = frozenset(uid.strip() for uid in named)
        notes = {
            each.uid: LeftNote(each.uid, each.workload, _amounts(each.amounts))
            for each in quota.status.left
        }
        for uid, note in list(self._ended.items()):
            if notes.get(uid, LeftNote(uid, "", {})).amounts == note.amounts:
                del self._ended[uid]
        before = self._stored.get(key, {}), self._released.get(key, frozenset({""}))
        if before == (notes, released):
            return False
        self._stored[key], self._released[key] = notes, released
        self._sum = None
        return True

    def drop(self, quota: Key, *, kept: bool) -> None:
        """If `kept`, another quota of the namespace takes the notes."""
        notes = self._stored.pop(quota, {})
        released = self._released.pop(quota, frozenset())
        self._sum = None
        for uid, note in notes.items() if kept else ():
            if uid not in self._living and uid not in released:
                self._ended.setdefault(uid, note)
        if not kept:
            self._ended.clear()

    def amounts(self) -> Amounts:
        if self._sum is None:
            total: dict[str, int] = {}
            for note in self._gone():
                _add(total, note.amounts)
            self._sum = total
        return self._sum

    def told(self, quota: Key, *, all_of_it: bool) -> list[dict[str, Any]]:
        """`all_of_it` means that the quota is the oldest."""
        if not all_of_it:
            return [_told(each) for each in self._stored.get(quota, {}).values()]
        gone = {each.uid: each for each in self._gone()}
        if len(gone) > MOST_LEFT:
            # A note that is not yet stored as it is here would count again next to the sum.
            stored = self._stored.get(quota, {})
            old = [uid for uid in stored if uid in gone and uid not in self._ended]
            total: dict[str, int] = {}
            for uid in old[: MOST_LEFT // 2]:
                _add(total, gone.pop(uid).amounts)
            gone = {uid: LeftNote(uid, "", total) for uid in old[:1]} | gone
        return [_told(each) for each in [*gone.values(), *self._leaving.values()][:MOST_LEFT]]

    def _gone(self) -> list[LeftNote]:
        found: dict[str, LeftNote] = {}
        for notes in self._stored.values():
            found |= notes
        found |= self._ended
        past = frozenset().union(*self._released.values())
        return [
            note
            for uid, note in found.items()
            if note.amounts and uid not in self._living and uid not in past
        ]


def _told(note: LeftNote) -> dict[str, Any]:
    amounts = {name: rendered(name, n) for name, n in sorted(note.amounts.items())}
    return {"workload": note.name, "uid": note.uid, "amounts": amounts}


def _amounts(given: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, text in given.items():
        try:
            found[name] = quantities.amount(resource_of(name), text)
        except ValueError:
            continue  # an unknown name
    return found


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, n in amounts.items():
        total[name] = total.get(name, 0) + n


Placements: TypeAlias = Mapping[str, int]
Told: TypeAlias = Callable[[str, bool], None]
"""Called with a changed namespace, and whether its amounts may be lower."""


@dataclass(frozen=True, slots=True)
class _QuotaCount:
    """What a Workload counts for.

    Args:
        each: the amounts of one replica.
        booked: it is the units of a Reservation.
        inside: it has shares in Reservations.
        along: what its manifests add on each of its `clusters`.
        leaves: what stays when it is deleted.
    """

    uid: str
    each: Amounts
    replicas: int
    booked: bool
    inside: bool
    along: Amounts
    clusters: int
    leaves: Amounts
    unread: bool

    @staticmethod
    def of(
        info: WorkloadInfo, placements: Placements, before: _QuotaCount | None = None
    ) -> _QuotaCount:
        if info.left is not None and info.deleting:
            placements = info.present  # it still runs
        replicas = sum(placements.values())
        each: Amounts = held(info.request) if info.booked else of_unit(info)
        clusters, inside = sum(n > 0 for n in placements.values()), bool(info.reservations)
        leaves: Amounts = {}
        if info.left is not None:
            # What has not left a cluster yet runs there when the Workload is gone.
            going = {name: share.replicas for name, share in info.moving.leaving.items()}
            both = {c for shares in (placements, going) for c, n in shares.items() if n > 0}
            main = each if info.left.main else {}
            more = replicas + sum(going.values())
            leaves = summed(main, more, held(info.left.alongside), len(both))
        along: Amounts = of_cluster(info)
        unread = info.unread and not info.booked and replicas > 0
        if unread and before is not None and before.uid == info.uid:
            each, along, leaves = before.each, before.along, before.leaves
        return _QuotaCount(
            info.uid, each, replicas, info.booked, inside, along, clusters, leaves, unread
        )

    def total(self) -> dict[str, int]:
        """Without the room of Reservations, which is in their ledger."""
        if self.booked:
            return {RESERVATIONS: 1} if self.replicas else {}
        return self.of_shares(self.replicas, self.clusters)

    def of_shares(self, replicas: int, clusters: int) -> dict[str, int]:
        return summed(self.each, replicas, self.along, clusters)

    def falls(self, after: _QuotaCount) -> bool:
        if self.replicas > after.replicas or self.clusters > after.clusters:
            return True
        if self.unread and not after.unread:
            return True
        parts = ((self.each, after.each), (self.along, after.along))
        return any(n > new.get(r, 0) for old, new in parts for r, n in old.items())


def summed(each: Amounts, replicas: int, along: Amounts, clusters: int) -> dict[str, int]:
    found = {name: n * replicas for name, n in each.items()}
    for name, n in along.items():
        found[name] = found.get(name, 0) + n * clusters
    return {name: n for name, n in found.items() if n}


_UNSEEN = "another scheduler has claimed some for a Workload that is not seen yet"
_UNREAD = "what replicas of Workload {} ask for cannot be read"


@dataclass(frozen=True, slots=True)
class Used:
    """`unknown`: why the amounts are not known, or empty."""

    amounts: Amounts
    unknown: str = ""


@dataclass(slots=True)
class _Namespace:
    quotas: dict[Key, CompiledQuota] = field(default_factory=dict)
    counted: dict[Key, _QuotaCount] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    foreign: dict[Key, Mapping[Key, Placements]] = field(default_factory=dict)
    left: LeftBehind = field(default_factory=LeftBehind)
    unread: dict[Key, None] = field(default_factory=dict)
    """Placed Workloads that cannot be compiled."""

    def add(self, amounts: Amounts, sign: int) -> None:
        for name, n in amounts.items():
            self.total[name] = self.total.get(name, 0) + sign * n

    def put(self, info: WorkloadInfo, placements: Placements) -> tuple[bool, bool]:
        """Return whether amounts changed, and whether they may be lower."""
        before = self.counted.get(info.key)
        after = _QuotaCount.of(info, placements, before)
        inside = after.booked or after.inside
        if before == after and not inside:
            return False, False
        if before is not None:
            self.add(before.total(), -1)
        if before is not None and before.uid != after.uid:
            self.ended(info.name, before)
        if not after.booked:
            self.left.lives(after.uid, info.name, after.leaves)
        self.counted[info.key] = after
        self.unread.pop(info.key, None)
        if after.unread:
            self.unread[info.key] = None
        self.add(after.total(), 1)
        claimed = any(info.key in foreign for foreign in self.foreign.values())
        return True, inside or claimed or (before is not None and before.falls(after))

    def ended(self, name: str, before: _QuotaCount) -> None:
        if not before.booked:
            self.left.ended(before.uid, name, before.leaves if self.quotas else {})


_NOTHING = _Namespace()


class Usage:
    """`told` is called after each change."""

    def __init__(self, told: Told = lambda _namespace, _eased: None) -> None:
        self._told = told
        self.version = 0
        """Changes with each quota and each claim."""
        self._namespaces: dict[str, _Namespace] = {}
        self._feed: Callable[[str], None] = lambda _: None
        self.everywhere = False
        """Whether namespaces without a quota are counted from their first Workload on."""

    def reads(self, feed: Callable[[str], None]) -> None:
        self._feed = feed

    def put_quota(self, quota: CompiledQuota) -> None:
        self._own(quota.key[0]).quotas[quota.key] = quota
        self.version += 1
        self._told(quota.key[0], True)

    def drop_quota(self, key: Key) -> None:
        own = self._of(key[0])
        own.quotas.pop(key, None)
        own.foreign.pop(key, None)
        own.left.drop(key, kept=bool(own.quotas))
        if not own.quotas and not self.everywhere:
            self._namespaces.pop(key[0], None)
        self.version += 1
        self._told(key[0], True)

    def quota(self, key: Key) -> CompiledQuota | None:
        return self._of(key[0]).quotas.get(key)

    def quotas(self, namespace: str) -> list[CompiledQuota]:
        """The valid ones, oldest first."""
        found = self._of(namespace).quotas.values()
        return sorted((each for each in found if not each.fault), key=lambda each: each.order)

    def every(self) -> Iterable[CompiledQuota]:
        return (quota for each in self._namespaces.values() for quota in each.quotas.values())

    def put(self, info: WorkloadInfo, placements: Placements) -> None:
        own = self._own(info.namespace) if self.everywhere else self._of(info.namespace)
        if own is _NOTHING:
            return
        changed, eased = own.put(info, placements)
        if changed:
            self._told(info.namespace, eased)

    def assume(self, info: WorkloadInfo, placements: Placements) -> None:
        self.put(info, _most(info, placements))

    def drop(self, key: Key) -> None:
        own = self._of(key[0])
        before = own.counted.pop(key, None)
        if before is None:
            return
        own.unread.pop(key, None)
        own.add(before.total(), -1)
        own.ended(key[1], before)
        if not own.quotas and not own.counted:
            del self._namespaces[key[0]]
        self._told(key[0], before.replicas > 0)

    def set_left(self, quota: WorkloadQuota) -> None:
        namespace = quota.metadata.namespace
        if self._own(namespace).left.stored(quota):
            self.version += 1
            self._told(namespace, True)

    def left(self, quota: WorkloadQuota) -> list[dict[str, Any]]:
        """Only the oldest quota of the namespace has all of it."""
        key = quota.metadata.key
        own, first = self._of(key[0]), next(iter(self.quotas(key[0])), None)
        return own.left.told(key, all_of_it=first is not None and first.key == key)

    def overlay(self, placed: PlacementsByWorkload) -> Usage:
        return _QuotaOverlay(self, placed)

    def used(self, namespace: str, room: ReservationLedger) -> Used:
        """`room` must be of the same pass."""
        own = self._own(namespace)
        amounts = dict(own.total)
        for name, n in held(room.unused_in(namespace)).items():
            amounts[name] = amounts.get(name, 0) + n
        for name, n in own.left.amounts().items():
            amounts[name] = amounts.get(name, 0) + n
        first = next(iter(own.unread), None)
        unknown = "" if first is None else _UNREAD.format(first[1])
        for foreign in own.foreign.values():
            for key, shares in foreign.items():
                counted = own.counted.get(key)
                unknown = unknown or (_UNSEEN if counted is None else "")
                more = (
                    {} if counted is None else counted.of_shares(sum(shares.values()), len(shares))
                )
                for name, n in more.items():
                    amounts[name] = amounts.get(name, 0) + n
                if counted is not None and counted.booked and not counted.replicas:
                    amounts[RESERVATIONS] = amounts.get(RESERVATIONS, 0) + 1
        return Used(amounts, unknown)

    def set_foreign(self, key: Key, foreign: Mapping[Key, Placements]) -> None:
        own = self._of(key[0])
        if key not in own.quotas or own.foreign.get(key, {}) == foreign:
            return
        own.foreign[key] = dict(foreign)
        self.version += 1
        self._told(key[0], True)

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace, _NOTHING)

    def _own(self, namespace: str) -> _Namespace:
        own = self._namespaces.get(namespace)
        if own is None:
            own = self._namespaces[namespace] = _Namespace()
            self._feed(namespace)
        return own

    def counts(self, namespace: str) -> Mapping[Key, _QuotaCount]:
        return self._of(namespace).counted


def _most(info: WorkloadInfo, placements: Placements) -> Placements:
    """Return the larger number of replicas of a decision that is being written: either may run."""
    return max(placements, info.present, key=lambda shares: sum(shares.values()))


class _QuotaOverlay(Usage):
    def __init__(self, base: Usage, placed: PlacementsByWorkload) -> None:
        super().__init__()
        self._base = base
        self._counted = dict[Key, _QuotaCount]()
        for info, placements in placed.values():
            self.place(info, placements)

    def place(self, info: WorkloadInfo, placements: Placements) -> None:
        self._counted[info.key] = _QuotaCount.of(info, placements)

    def quota(self, key: Key) -> CompiledQuota | None:
        return self._base.quota(key)

    def quotas(self, namespace: str) -> list[CompiledQuota]:
        return self._base.quotas(namespace)

    def used(self, namespace: str, room: ReservationLedger) -> Used:
        base = self._base.used(namespace, room)
        amounts, hidden = dict(base.amounts), self._base.counts(namespace)
        for key, counted in self._counted.items():
            if key[0] != namespace:
                continue
            before = hidden.get(key)
            for sign, part in ((-1, before), (1, counted)):
                for name, n in part.total().items() if part is not None else ():
                    amounts[name] = amounts.get(name, 0) + sign * n
        return Used(amounts, base.unknown)
