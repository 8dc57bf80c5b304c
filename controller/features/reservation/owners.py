"""Finds the owners of reservations, and the reservations of an owner, without asking all.

An owner is in the reservation's own namespace; only a reservation in the namespace of Stowage may
name others. The index files each entry of `spec.owners` under its narrowest demand: a name, a
controller's name, a label, or nothing but the namespace.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from controller.features.reservation.compiled import Reserved
from controller.model.unit import WorkloadInfo
from crds.names import API_VERSION
from machinery.types.api import Owner, OwnerController, OwnerObject
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector, Operator

Rank: TypeAlias = tuple[float, str, Key]
"""The order of use: the reservation that expires first, then the oldest, then by name."""
_Place: TypeAlias = tuple[str, ...]
"""The place of an entry in the index: the namespace, the sort of demand, and the demand."""

MOST_LOOKED_AT = 1000
"""Entries that are looked at for one Workload, however many its labels lead to."""
_NEVER = float("inf")


def rank(reserved: Reserved) -> Rank:
    """Return the rank of a reservation among those that a Workload may use."""
    expires = _NEVER if reserved.expires is None else reserved.expires.timestamp()
    return (expires, reserved.created, reserved.key)


def matches(reserved: Reserved, info: WorkloadInfo) -> bool:
    """Return whether the Workload is an owner; a reservation is no owner of another one."""
    entries = zip(reserved.owners, reserved.namespaces, strict=True)
    return not info.booked and any(
        namespace == info.namespace and _is(owner, info) for owner, namespace in entries
    )


def _is(owner: Owner, info: WorkloadInfo) -> bool:
    if owner.object is None and owner.controller is None and owner.label_selector is None:
        return False
    return (
        (owner.object is None or _named(owner.object, info))
        and (owner.controller is None or _controlled(owner.controller, info))
        and (owner.label_selector is None or owner.label_selector.matches(info.labels))
    )


def _named(said: OwnerObject, info: WorkloadInfo) -> bool:
    return (
        said.kind == "Workload"
        and said.api_version in ("", API_VERSION)
        and said.name == info.name
        and said.uid in ("", info.uid)
    )


def _controlled(said: OwnerController, info: WorkloadInfo) -> bool:
    """Match the controlling owner, or the object of the template, which has no UID yet."""
    version, kind, name, uid = info.controller
    if (said.kind, said.name) == (kind, name):
        return said.api_version in ("", version) and said.uid in ("", uid)
    return (
        (said.kind, said.name) == (info.kind, info.template_name or info.name)
        and said.api_version in ("", info.api_version)
        and not said.uid
    )


class OwnerIndex:
    """Reservations by the demands on their owners."""

    def __init__(self) -> None:
        self._places: dict[_Place, list[Rank]] = {}
        self._all: dict[Key, Reserved] = {}

    def put(self, reserved: Reserved) -> None:
        """Add or replace a reservation."""
        self.drop(reserved.key)
        places = _places(reserved)
        if not places:
            return
        self._all[reserved.key] = reserved
        for place in places:
            insort(self._places.setdefault(place, []), rank(reserved))

    def drop(self, key: Key) -> None:
        """Forget a reservation; an unknown one is ignored."""
        before = self._all.pop(key, None)
        if before is None:
            return
        for place in _places(before):
            ranks = self._places[place]
            del ranks[bisect_left(ranks, rank(before))]
            if not ranks:
                del self._places[place]

    def __len__(self) -> int:
        return len(self._all)

    def of(self, info: WorkloadInfo) -> Iterator[Reserved]:
        """Yield the reservations that the Workload is an owner of, in their order of use.

        Only the first `MOST_LOOKED_AT` that its name, controller or labels lead to are looked at.
        """
        if info.booked or not self._all:
            return
        found = [ranks for place in _asked(info) if (ranks := self._places.get(place))]
        last = None
        for each in islice(heapq.merge(*found), MOST_LOOKED_AT):
            if each != last and matches(self._all[each[2]], info):
                yield self._all[each[2]]
            last = each


class PendingOwners:
    """Workloads with replicas that have no cluster, by the same places."""

    def __init__(self) -> None:
        self._places: dict[_Place, set[Key]] = {}
        self._all: dict[Key, WorkloadInfo] = {}

    def put(self, info: WorkloadInfo) -> None:
        """Add or replace a Workload."""
        before = self._all.get(info.key)
        if before is None or _asked(before) != _asked(info):
            self.drop(info.key)
            for place in _asked(info):
                self._places.setdefault(place, set()).add(info.key)
        self._all[info.key] = info

    def drop(self, key: Key) -> None:
        """Forget a Workload; an unknown one is ignored."""
        before = self._all.pop(key, None)
        for place in _asked(before) if before is not None else ():
            keys = self._places[place]
            keys.discard(key)
            if not keys:
                del self._places[place]

    def of(self, reserved: Reserved) -> Iterator[Key]:
        """Yield the pending owners of a reservation, in no order; the set may change meanwhile."""
        for key in {key for place in _places(reserved) for key in self._places.get(place, ())}:
            info = self._all.get(key)
            if info is not None and matches(reserved, info):
                yield key


def _places(reserved: Reserved) -> set[_Place]:
    return {
        (namespace, *place)
        for owner, namespace in zip(reserved.owners, reserved.namespaces, strict=True)
        if namespace
        for place in _demanded(owner)
    }


def _demanded(owner: Owner) -> list[tuple[str, ...]]:
    """Return the places of an entry: an owner lies in at least one of them."""
    if owner.object is not None:
        return [("object", owner.object.name)]
    if owner.controller is not None:
        return [("controller", owner.controller.kind, owner.controller.name)]
    if owner.label_selector is not None:
        return [("label", *pair) for pair in _pairs(owner.label_selector)] or [("any",)]
    return []


def _pairs(selector: LabelSelector) -> list[tuple[str, str]]:
    if selector.match_labels:
        return [min(selector.match_labels.items())]
    listed = (r for r in selector.match_expressions if r.operator == Operator.IN)
    narrow = min(listed, key=lambda r: len(r.values), default=None)
    return [] if narrow is None else [(narrow.key, value) for value in narrow.values]


def _asked(info: WorkloadInfo) -> set[_Place]:
    """Return every place of an entry that may select this Workload."""
    _, kind, name, _ = info.controller
    ways = [
        ("any",),
        ("object", info.name),
        ("controller", kind, name),
        ("controller", info.kind, info.template_name or info.name),
        *(("label", *pair) for pair in info.labels.items()),
    ]
    return {(info.namespace, *way) for way in ways}
