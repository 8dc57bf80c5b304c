"""What differs between clusters: changes of another system in their order become overrides.

A later change there sees what an earlier one made. So the object is worked out for each set of
selectors that one cluster may match, in order of their size, and an override says the difference to
what the overrides before it make of the object. The number of replicas is no override: it is told
apart.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

from crds.fields.overrides import KEPT, MOST_OPERATIONS, MOST_OVERRIDES
from crds.names import GROUP
from stowage.fleet.manifests import Document
from stowage.importing.clusters import EVERY, Clusters, Fleet
from stowage.importing.fields import Notes
from stowage.importing.reading import dig

MOST_SETS = 128
CLUSTER_NAME = "\ue000"
"""Stands for the name of the cluster in what a change writes: no text of the input has it."""
_LABEL = re.compile("\ue001([^\ue001]*)\ue001")


def label_of(key: str) -> str:
    """Return what stands for the value of a label of the cluster in what a change writes."""
    return f"\ue001{key}\ue001"


_POD_LABELS = ("spec", "template", "metadata", "labels")
Body = dict[str, Any]


class Misfit(ValueError):
    """A change cannot be made of this object."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object on some clusters, and where the input says it."""

    clusters: tuple[Clusters, ...]
    """ORed; none for every cluster."""
    make: Callable[[Body], Body]
    """Returns the changed object; may change its argument. Raises Misfit."""
    document: Document
    path: str
    name: str


@dataclass(slots=True)
class Differences:
    """What the changes of one object come to."""

    overrides: list[dict[str, Any]] = field(default_factory=list)
    numbers: list[tuple[Clusters, int]] = field(default_factory=list)
    """Numbers of replicas on some clusters; the last entry that a cluster matches counts."""
    numbered_by: Change | None = None


def differences(
    base: Body,
    changes: Sequence[Change],
    notes: Notes,
    fleet: Fleet,
    *,
    replicas_path: str,
    target: Any = None,
) -> Differences:
    """Return the overrides that the changes come to, and the numbers of replicas that they set.

    Where these are too many, the sets of selectors that clusters of the input match count alone.
    """
    if not changes:
        return Differences()
    path = tuple(replicas_path.split(".")) if replicas_path else ()
    work = _Work(base, changes, notes, path)
    sets = _sets(changes)
    found = _laid(work, sets, target) if sets is not None else None
    if found is None or len(found.overrides) > MOST_OVERRIDES:
        found = _laid(work, _sets_of(changes, fleet), target)
        text = "are many on one object: they count on clusters like those of the input"
        for each in changes if fleet.labels else ():
            notes.note(each.document, each.path, text, becomes="overrides")
    if len(found.overrides) > MOST_OVERRIDES or (sets is None and not fleet.labels):
        _too_many(notes, changes, f"{MOST_OVERRIDES} overrides")
        found.overrides = []
    return found


def _laid(work: _Work, sets: Sequence[tuple[frozenset[int], Clusters]], target: Any) -> Differences:
    found = Differences()
    laid: list[tuple[frozenset[int], list[dict[str, Any]]]] = []
    for chosen, clusters in sets:
        wanted, number = work.state(chosen)
        if number is not None:
            found.numbers.append((clusters, number))
        now = copy.deepcopy(work.base)
        for before, operations in laid:
            if before <= chosen:
                now = operated(now, operations)
        operations = list(patch(now, wanted))
        if operations:
            laid.append((chosen, operations))
            found.overrides += _override(work, chosen, clusters, operations, target)
    found.numbered_by = work.numbered_by
    return found


def _too_many(notes: Notes, changes: Sequence[Change], what: str) -> None:
    for each in changes:
        notes.lost(each.document, each.path, f"with the others it makes more than {what}")


@dataclass(slots=True)
class _Work:
    base: Body
    changes: Sequence[Change]
    notes: Notes
    replicas: tuple[str, ...]
    numbered_by: Change | None = None

    def state(self, chosen: frozenset[int]) -> tuple[Body, int | None]:
        """Return the object on clusters of just these selectors, and its own number, if it has."""
        body, number = copy.deepcopy(self.base), None
        atoms = _atoms(self.changes)
        for each in self.changes:
            if not _is_of(each, atoms, chosen):
                continue
            before = body
            try:
                body = each.make(copy.deepcopy(body))
            except Misfit as e:
                self.notes.lost(each.document, each.path, str(e))
                continue
            changed, body = self._kept(each, before, body)
            number = number if changed is None else changed
        return body, number

    def _kept(self, change: Change, before: Body, after: Body) -> tuple[int | None, Body]:
        """Put back what no override may touch. Return the number that the change sets."""
        number = None
        if self.replicas and dig(before, *self.replicas) != (new := dig(after, *self.replicas)):
            self.numbered_by = change
            number = new if isinstance(new, int) and new >= 0 else None
            if number is None:
                text = f"/{'/'.join(self.replicas)}: {new!r:.40} is no number of replicas"
                self.notes.lost(change.document, change.path, text)
            _put(after, self.replicas, dig(before, *self.replicas))
        for path in (*KEPT, *_selected(before), *_ours(before, after)):
            if dig(before, *path) != dig(after, *path):
                text = f"/{'/'.join(path)}: is the same on every cluster here"
                self.notes.lost(change.document, change.path, text)
                _put(after, path, dig(before, *path))
        return number, after


def _selected(body: Body) -> Iterator[tuple[str, ...]]:
    """Yield the labels of the pods by which they are selected."""
    labels = dig(body, "spec", "selector", "matchLabels")
    if isinstance(labels, dict) and isinstance(dig(body, *_POD_LABELS), dict):
        yield from ((*_POD_LABELS, key) for key in labels)


def _ours(before: Body, after: Body) -> Iterator[tuple[str, ...]]:
    for place in (("metadata",), ("spec", "template", "metadata")):
        for kind in ("labels", "annotations"):
            for body in (before, after):
                keys = dig(body, *place, kind)
                for key in keys if isinstance(keys, dict) else ():
                    if str(key).startswith(f"{GROUP}/") or f".{GROUP}/" in str(key):
                        yield (*place, kind, key)


def _put(body: Body, path: Sequence[str], value: Any) -> None:
    for key in path[:-1]:
        inner = body.get(key)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = body[key] = {}
        body = inner
    if value is None:
        body.pop(path[-1], None)
    else:
        body[path[-1]] = value


# --- sets of selectors ----------------------------------------------------------------------------


def _atoms(changes: Sequence[Change]) -> list[Clusters]:
    return list(dict.fromkeys(clusters for each in changes for clusters in each.clusters))


def _is_of(change: Change, atoms: Sequence[Clusters], chosen: frozenset[int]) -> bool:
    """Whether a change is made on clusters that match just these selectors."""
    return not change.clusters or any(atoms.index(each) in chosen for each in change.clusters)


def _sets(changes: Sequence[Change]) -> list[tuple[frozenset[int], Clusters]] | None:
    """Return the sets of selectors that one cluster may match, small ones first; None: too many."""
    found: list[tuple[frozenset[int], Clusters]] = [(frozenset(), EVERY)]
    for n, each in enumerate(_atoms(changes)):
        for chosen, clusters in list(found):
            if (both := clusters.both(each)) is not None:
                found.append((chosen | {n}, both))
        if len(found) > MOST_SETS:
            return None
    return sorted(found, key=lambda each: (len(each[0]), sorted(each[0])))


def _sets_of(changes: Sequence[Change], fleet: Fleet) -> list[tuple[frozenset[int], Clusters]]:
    """Return the sets of selectors that clusters of the input match, small ones first."""
    atoms = _atoms(changes)
    found: dict[frozenset[int], Clusters] = {}
    for name in sorted(fleet.labels):
        chosen = frozenset(n for n, each in enumerate(atoms) if fleet.matches(each, name))
        clusters: Clusters | None = EVERY
        for n in sorted(chosen):
            clusters = clusters.both(atoms[n]) if clusters else None
        if clusters is not None:
            found[chosen] = clusters
    return sorted(found.items(), key=lambda each: (len(each[0]), sorted(each[0])))


def _override(
    work: _Work,
    chosen: frozenset[int],
    clusters: Clusters,
    operations: list[dict[str, Any]],
    target: Any,
) -> Iterator[dict[str, Any]]:
    atoms = _atoms(work.changes)
    of = [each for each in work.changes if _is_of(each, atoms, chosen)]
    own = [each for each in of if not chosen or each.clusters]
    if len(operations) > MOST_OPERATIONS:
        _too_many(work.notes, own, f"{MOST_OPERATIONS} changes of one object")
        return
    name = "-".join(dict.fromkeys(each.name for each in own)) or "override"
    for selector in clusters.selectors():
        aimed = {"target": target} if target else {}
        yield {"name": name, "clusterSelector": selector, **aimed, "jsonPatch": literal(operations)}


def named_apart(overrides: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the overrides with names that differ, each a DNS label."""
    taken: set[str] = set()
    made = []
    for each in overrides:
        plain = re.sub(r"[^a-z0-9-]", "-", str(each["name"]).lower())[:56].strip("-") or "override"
        name, n = plain, 1
        while name in taken:
            n += 1
            name = f"{plain}-{n}"
        taken.add(name)
        made.append({**each, "name": name})
    return made


# --- patches --------------------------------------------------------------------------------------


def patch(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations of a JSON patch that makes one value the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before):
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key in sorted(after):
            at = f"{path}/{_escaped(key)}"
            if key not in before:
                yield {"op": "add", "path": at, "value": after[key]}
            else:
                yield from patch(before[key], after[key], at)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for n, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from patch(one, other, f"{path}/{n}")
    elif before != after or type(before) is not type(after):
        yield {"op": "replace", "path": path, "value": after}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def operated(body: Body, operations: Sequence[Mapping[str, Any]]) -> Body:
    """Return the object with a JSON patch applied, in place. Raises Misfit."""
    for each in operations:
        try:
            made = jsonpatch.JsonPatch([dict(each)]).apply(body, in_place=True)
        except jsonpatch.JsonPatchTestFailed as e:
            raise Misfit(f"{each.get('path')}: the object is not what the test says") from e
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as e:
            raise Misfit(f"{each.get('path')}: {each.get('op')} fits nothing there") from e
        if not isinstance(made, dict):
            raise Misfit("replaces the whole object")
        body = made
    return body


def literal(value: Any) -> Any:
    """Return a value whose strings are no variables of ours, but where `CLUSTER_NAME` stands."""
    if isinstance(value, str):
        escaped = value.replace("$(stowage.", "$$(stowage.")
        named = escaped.replace(CLUSTER_NAME, "$(stowage.cluster)")
        return _LABEL.sub(lambda found: f"$(stowage.label:{found[1]})", named)
    if isinstance(value, dict):
        return {key: literal(each) for key, each in value.items()}
    return [literal(each) for each in value] if isinstance(value, list) else value
