"""What a system is that Workloads are migrated from, and what it says of one of them.

A `Peer` names what has to be read of its hub, and makes a `PeerView` of that. The view says of each
Workload where it runs, what makes the peer let go, how its own objects prove that, and which go in
the end. Pure: the steps (`stowage.migrating.steps`) do all reading and writing.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from machinery.api.resources import Resource
from stowage.importing.pieces import Placed
from stowage.importing.reading import dig

Json = Mapping[str, Any]
Key = tuple[str, str, str, str]
"""Group, kind, namespace, name."""


class Ref(msgspec.Struct, frozen=True, rename="camel"):
    """An object, on whichever server."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, body: Json, namespace: str = "") -> Ref:
        meta = body.get("metadata") or {}
        where = str(meta.get("namespace") or namespace)
        version, kind = (str(body.get(key) or "") for key in ("apiVersion", "kind"))
        return cls(version, kind, where, str(meta.get("name") or ""))

    @property
    def key(self) -> Key:
        return self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


class Change(msgspec.Struct, frozen=True):
    """A field of an object of the peer that a release sets."""

    ref: Ref
    path: tuple[str, ...]
    value: Any


class HeldObject(msgspec.Struct, frozen=True):
    """An object that the peer has on members; its clusters by the peer's names."""

    ref: Ref
    clusters: tuple[str, ...]


class Standing(msgspec.Struct, frozen=True):
    """What the peer's objects say of one Workload."""

    shares: Mapping[str, int]
    """Its replicas by the peer's names of the clusters."""
    held: Sequence[HeldObject]
    changes: Sequence[Change]
    """What has the peer let go."""
    templates: Sequence[Ref]
    """The objects of its hub that go at the end, in that order."""
    rules: Sequence[Ref]
    """What places them: each goes once nothing else is placed by it."""
    ways: Sequence[str] = ()
    """What is in the way of a release."""
    seals: Sequence[Change] = ()
    """What follows once the members prove that the peer has let go."""


class PeerCluster(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    """The UID of its kube-system; empty where the peer does not know it."""


class Objects:
    """Objects of the peer's hub."""

    def __init__(self, bodies: Iterable[Json]) -> None:
        self._all = {Ref.of(each).key: each for each in bodies}

    def of(self, resource: Resource) -> Iterator[Json]:
        kind = (resource.group, resource.kind)
        return (each for key, each in self._all.items() if key[:2] == kind)

    def find(self, key: Key) -> Json | None:
        return self._all.get(key)


class PeerView(ABC):
    """What the objects of a peer's hub say together; a new one for each reading."""

    @abstractmethod
    def clusters(self) -> list[PeerCluster]:
        """Return its clusters."""

    @abstractmethod
    def standing(self, placed: Placed, named: Collection[Key]) -> Standing:
        """Return what it says of a Workload; `named` are all objects that are migrated along."""

    @abstractmethod
    def runs_on(self, standing: Standing) -> Collection[str]:
        """Return the clusters on which it places a Workload now."""

    @abstractmethod
    def unreleased(self, standing: Standing) -> Iterator[str]:
        """Yield why its own objects do not prove that it has let go of what a Workload runs."""

    @abstractmethod
    def silent(self, standing: Standing) -> Iterator[str]:
        """Yield why it is not seen to write a Workload again, after a release was taken back."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A system that Workloads are migrated from."""

    name: str
    """As `--from` takes it."""
    title: str
    resources: Sequence[Resource]
    """The kinds that are read whole, beside what an import reads."""
    view: Callable[[Objects], PeerView]
    held_by: Callable[[Json], Mapping[str, Any]]
    """Returns the metadata by which the peer counts an object on a member as its own: what a
    release takes off, and what takes that back. Empty for an object that it does not hold."""
    mark: Callable[[str], bool]
    """Whether a label, an annotation, a finalizer or the group of an owner is the peer's."""
    frees: bool = True
    """Whether a release takes off what the peer holds objects by; else the peer itself does."""
    anywhere: bool = False
    """Whether rules are in other namespaces than what they place."""


def without_marks(body: Json, mark: Callable[[str], bool]) -> dict[str, Any]:
    """Return the merge patch of metadata that takes a peer's marks off; empty if there is none."""
    metadata, patch = body["metadata"], dict[str, Any]()
    for field in ("labels", "annotations"):
        if gone := [key for key in metadata.get(field) or {} if mark(key)]:
            patch[field] = dict.fromkeys(gone)
    finalizers = metadata.get("finalizers") or []
    if (kept := [each for each in finalizers if not mark(each)]) != finalizers:
        patch["finalizers"] = kept
    owners = metadata.get("ownerReferences") or []
    if (left := [each for each in owners if not mark(str(each.get("apiVersion")))]) != owners:
        patch["ownerReferences"] = left
    return patch


def freed(held: Json, found: Json) -> dict[str, Any]:
    """Return the merge patch of metadata that takes off what the peer holds an object by."""
    patch: dict[str, Any] = {}
    for field, value in held.items():
        if isinstance(value, Mapping):
            patch[field] = dict.fromkeys(value)
        else:
            patch[field] = [
                each for each in found["metadata"].get(field) or () if each not in value
            ]
    return patch


def held_again(held: Json, found: Json) -> dict[str, Any]:
    """Return the merge patch of metadata that takes that back; empty if the object has it."""
    patch: dict[str, Any] = {}
    for field, value in held.items():
        now = found["metadata"].get(field)
        if isinstance(value, Mapping):
            if not value.items() <= (now or {}).items():
                patch[field] = dict(value)
        elif lacking := [each for each in value if each not in (now or ())]:
            patch[field] = [*(now or ()), *lacking]
    return patch


def held_words(held: Json) -> str:
    """Return what the peer holds an object by, in words."""
    marks = [each for value in held.values() for each in value]
    return ", ".join(
        f"the owner {mark.get('kind')} {mark.get('name')}" if isinstance(mark, Mapping) else mark
        for mark in marks
    )


# --- changes of the peer's objects ----------------------------------------------------------------


def value_at(body: Any, path: Sequence[str]) -> Any:
    """Return the value at a path; None where it leads nowhere."""
    return dig(body, *path)


T = TypeVar("T")


def held_back(rules: Mapping[T, Iterable[Ref]], faults: Mapping[T, str]) -> dict[T, Ref]:
    """Return what shares a rule, at whichever hand, with what cannot go on, and that rule.

    A rule is changed for all that it places, or not at all. `faults` is why some cannot go on.
    """
    by_rule: dict[Ref, list[T]] = {}
    for each, its in rules.items():
        for rule in its:
            by_rule.setdefault(rule, []).append(each)
    found: dict[T, Ref] = {}
    todo = [each for each in faults if faults[each]]
    while todo:
        for rule in rules.get(todo.pop(), ()):
            for each in by_rule.pop(rule, ()):
                if each not in found and not faults.get(each):
                    found[each] = rule
                    todo.append(each)
    return found


def made(body: Json, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the merge patch that makes these changes of an object; empty if it has them."""
    patch: dict[str, Any] = {}
    for each in changes:
        if value_at(body, each.path) != each.value:
            _set(patch, each.path, each.value)
    return patch


def unmade(body: Json, before: Json, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the merge patch that gives the fields of these changes the values of `before`.

    What somebody else changed meanwhile stays; what a change alone has made goes whole.
    """
    wanted = copy.deepcopy(dict(body))
    for each in changes:
        _restore(wanted, before, each.path)
    return _difference(body, wanted)


def _restore(value: dict[str, Any], before: Any, path: Sequence[str]) -> None:
    key, was = path[0], dig(before, path[0])
    inner = value.get(key)
    if len(path) > 1 and isinstance(inner, dict):
        _restore(inner, was, path[1:])
        if not inner and was is None:
            del value[key]
    elif was is None:
        value.pop(key, None)
    else:
        value[key] = was


def _difference(now: Json, wanted: Json) -> dict[str, Any]:
    """Return the merge patch from one object to another."""
    patch: dict[str, Any] = dict.fromkeys(now.keys() - wanted.keys())
    for key, value in wanted.items():
        was = now.get(key)
        if isinstance(was, dict) and isinstance(value, dict):
            if inner := _difference(was, value):
                patch[key] = inner
        elif was != value:
            patch[key] = value
    return patch


def _set(patch: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        patch = patch.setdefault(key, {})
    patch[path[-1]] = value
