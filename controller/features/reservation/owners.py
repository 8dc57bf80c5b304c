"""Which Workloads are owners of which reservations, by an index.

Only a reservation in the namespace of Stowage may name owners of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from controller.features.reservation.compiled import Reserved
from controller.model.unit import WorkloadInfo
from crds.names import API_VERSION
from machinery.types.api import Owner, OwnerController, OwnerObject
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector, Operator

Place: TypeAlias = tuple[str, ...]
"""The namespace, the sort of demand, and the demand."""


def matches(reserved: Reserved, info: WorkloadInfo) -> bool:
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
    """Match the controlling owner, or the template's object, which has no UID yet."""
    version, kind, name, uid = info.controller
    if (said.kind, said.name) == (kind, name):
        return said.api_version in ("", version) and said.uid in ("", uid)
    return (
        (said.kind, said.name) == (info.kind, info.template_name or info.name)
        and said.api_version in ("", info.api_version)
        and not said.uid
    )


class OwnerIndex:
    """`demanded` and `offered` places meet here."""

    def __init__(self) -> None:
        self._keys: dict[Place, set[Key]] = {}
        self._places: dict[Key, set[Place]] = {}

    def put(self, key: Key, places: set[Place]) -> None:
        if self._places.get(key) == places:
            return
        self.drop(key)
        self._places[key] = places
        for place in places:
            self._keys.setdefault(place, set()).add(key)

    def drop(self, key: Key) -> None:
        for place in self._places.pop(key, ()):
            keys = self._keys[place]
            keys.discard(key)
            if not keys:
                del self._keys[place]

    def __len__(self) -> int:
        return len(self._places)

    def of(self, places: Iterable[Place]) -> set[Key]:
        return {key for place in places for key in self._keys.get(place, ())}


def demanded(reserved: Reserved) -> set[Place]:
    """Each owner offers at least one of them."""
    return {
        (namespace, *place)
        for owner, namespace in zip(reserved.owners, reserved.namespaces, strict=True)
        if namespace
        for place in _narrowest(owner)
    }


def _narrowest(owner: Owner) -> list[Place]:
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


def offered(info: WorkloadInfo) -> set[Place]:
    _, kind, name, _ = info.controller
    ways: list[Place] = [
        ("any",),
        ("object", info.name),
        ("controller", kind, name),
        ("controller", info.kind, info.template_name or info.name),
        *(("label", *pair) for pair in info.labels.items()),
    ]
    return {(info.namespace, *way) for way in ways}
