"""Whose room it is: which Workloads are owners of which reservations, found without asking all.

An owner is of the reservation's own namespace; only one in the namespace of Stowage may name
others. Each entry of `spec.owners` lies in the index under what it demands most narrowly: a name, a
controller's name, a label, or nothing but the namespace.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from controller.features.reservation.compiled import Reserved
from controller.features.reservation.objects import Owner, OwnerController, OwnerObject
from controller.model.unit import WorkloadInfo
from crds.fields.template import APPS_KINDS, BATCH_KINDS
from crds.names import API_VERSION
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector, Operator

_TEMPLATES = dict.fromkeys(APPS_KINDS, "apps/v1") | dict.fromkeys(BATCH_KINDS, "batch/v1")

Rank: TypeAlias = tuple[float, str, Key]
"""Who is used first is less: the one that expires first, then the oldest, then by name."""
_Place: TypeAlias = tuple[str, ...]
"""Where an entry lies in the index: the namespace, of what sort it is, and what it demands."""

MOST_LOOKED_AT = 1000
"""Entries that are looked at for one Workload, however many lie where its labels lead to."""
_NEVER = float("inf")


def rank(reserved: Reserved) -> Rank:
    """Its place among those that a Workload may use."""
    expires = _NEVER if reserved.expires is None else reserved.expires.timestamp()
    return (expires, reserved.created, reserved.key)


def matches(reserved: Reserved, unit: WorkloadInfo) -> bool:
    """Whether the Workload is one of its owners; a reservation is no owner of another one."""
    entries = zip(reserved.owners, reserved.namespaces, strict=True)
    return not unit.booked and any(
        namespace == unit.namespace and _is(owner, unit) for owner, namespace in entries
    )


def _is(owner: Owner, unit: WorkloadInfo) -> bool:
    if owner.object is None and owner.controller is None and owner.label_selector is None:
        return False
    return (
        (owner.object is None or _named(owner.object, unit))
        and (owner.controller is None or _controlled(owner.controller, unit))
        and (owner.label_selector is None or owner.label_selector.matches(unit.labels))
    )


def _named(said: OwnerObject, unit: WorkloadInfo) -> bool:
    return (
        said.kind == "Workload"
        and said.api_version in ("", API_VERSION)
        and said.name == unit.name
        and said.uid in ("", unit.uid)
    )


def _controlled(said: OwnerController, unit: WorkloadInfo) -> bool:
    """By who controls the Workload, or by the object of its template, which has no UID yet.

    Of a template of somebody's own group the version is not known: kind and name decide.
    """
    version, kind, name, uid = unit.controller
    if (said.kind, said.name) == (kind, name):
        return said.api_version in ("", version) and said.uid in ("", uid)
    known = _TEMPLATES.get(unit.kind, said.api_version)
    return (
        (said.kind, said.name) == (unit.kind, unit.template_name or unit.name)
        and said.api_version in ("", known)
        and not said.uid
    )


class OwnerIndex:
    """Reservations by what their owners must have."""

    def __init__(self) -> None:
        self._places: dict[_Place, list[Rank]] = {}
        self._all: dict[Key, Reserved] = {}

    def put(self, reserved: Reserved) -> None:
        """Take a reservation, new or changed."""
        self.drop(reserved.key)
        places = _places(reserved)
        if not places:
            return
        self._all[reserved.key] = reserved
        for place in places:
            insort(self._places.setdefault(place, []), rank(reserved))

    def drop(self, key: Key) -> None:
        """Forget a reservation; one that is unknown is no fault."""
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

    def of(self, unit: WorkloadInfo) -> Iterator[Reserved]:
        """The reservations that the Workload is an owner of, in the order in which it uses them.

        Looked at are the first MOST_LOOKED_AT that its name, controller or labels lead to.
        """
        if unit.booked or not self._all:
            return
        found = [ranks for place in _asked(unit) if (ranks := self._places.get(place))]
        last = None
        for each in islice(heapq.merge(*found), MOST_LOOKED_AT):
            if each != last and matches(self._all[each[2]], unit):
                yield self._all[each[2]]
            last = each


class PendingOwners:
    """Workloads that have units without a cluster, by the same places."""

    def __init__(self) -> None:
        self._places: dict[_Place, set[Key]] = {}
        self._all: dict[Key, WorkloadInfo] = {}

    def put(self, unit: WorkloadInfo) -> None:
        """Take a Workload, new or changed."""
        before = self._all.get(unit.key)
        if before is None or _asked(before) != _asked(unit):
            self.drop(unit.key)
            for place in _asked(unit):
                self._places.setdefault(place, set()).add(unit.key)
        self._all[unit.key] = unit

    def drop(self, key: Key) -> None:
        """Forget a Workload; one that is unknown is no fault."""
        before = self._all.pop(key, None)
        for place in _asked(before) if before is not None else ():
            keys = self._places[place]
            keys.discard(key)
            if not keys:
                del self._places[place]

    def of(self, reserved: Reserved) -> Iterator[Key]:
        """The owners of a reservation among them, in no order; they may change meanwhile."""
        for key in {key for place in _places(reserved) for key in self._places.get(place, ())}:
            unit = self._all.get(key)
            if unit is not None and matches(reserved, unit):
                yield key


def _places(reserved: Reserved) -> set[_Place]:
    return {
        (namespace, *place)
        for owner, namespace in zip(reserved.owners, reserved.namespaces, strict=True)
        if namespace
        for place in _demanded(owner)
    }


def _demanded(owner: Owner) -> list[tuple[str, ...]]:
    """What an owner by that entry has for sure; one of several, where a label may have several."""
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


def _asked(unit: WorkloadInfo) -> set[_Place]:
    """Every place where an entry may lie that means this Workload."""
    _, kind, name, _ = unit.controller
    ways = [
        ("any",),
        ("object", unit.name),
        ("controller", kind, name),
        ("controller", unit.kind, unit.template_name or unit.name),
        *(("label", *pair) for pair in unit.labels.items()),
    ]
    return {(unit.namespace, *way) for way in ways}
