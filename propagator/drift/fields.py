"""The fields of ours that other managers changed, and what an apply would change. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from crds.fields.drift import MOST_VALUE
from crds.fields.labels import reserved
from crds.names import GROUP
from machinery.kinds.fieldpaths import Step, Steps
from machinery.types.bounds import NAME, WORD, clean
from propagator.members.objects import ManagedFieldsEntry, is_ours

_COMPARED_METADATA = ("labels", "annotations")
_NEVER = ("apiVersion", "kind", "metadata", "status")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_SECRET_FIELDS = ("data", "stringData")
_WRITE_ONLY = "stringData"
_AUTOSCALER = ("kube-controller-manager", "scale")


class _Missing:
    """The value of a field that an object lacks."""


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class FieldDrift:
    """A field that another client changed or removed; `manager` is empty if no entry has it."""

    steps: Steps
    wanted: Any
    found: Any
    manager: str
    subresource: str = ""

    @property
    def scaled(self) -> bool:
        return (self.manager, self.subresource) == _AUTOSCALER

    def told(self, kind: str) -> dict[str, str]:
        """Values that may be secret are left out."""
        by = f"{self.manager} ({self.subresource})" if self.subresource else self.manager
        return {
            "path": path_of(self.steps),
            "hub": _shown(kind, self.steps, self.wanted),
            "member": _shown(kind, self.steps, self.found),
            "manager": clean(by, NAME),
        }


class _Other(NamedTuple):
    entry: ManagedFieldsEntry
    node: Mapping[str, Any]


def drifted(body: Mapping[str, Any], live: Mapping[str, Any]) -> list[FieldDrift]:
    """Return the applied fields of `body` that now differ on the object.

    `live` has its managedFields. A wanted value that another manager took over does not differ.
    """
    try:
        said = live["metadata"].get("managedFields") or []
        entries = msgspec.convert(said, list[ManagedFieldsEntry])
    except msgspec.ValidationError:
        return []
    ours = [node for entry in entries if is_ours(entry) and (node := _node(entry.fields))]
    if not ours:
        return []
    others = [
        _Other(entry, node)
        for entry in entries
        if not is_ours(entry) and (node := _node(entry.fields))
    ]
    return list(_among(_compared(body), live, ours, others, ()))


def dropped(body: Mapping[str, Any], answer: Mapping[str, Any], server: str) -> list[FieldDrift]:
    """Return the fields of `body` that the answer to its apply lacks, as `server`'s.

    A server drops unknown and gated fields, answers 200, and still lists them in managedFields.
    """
    try:
        said = answer["metadata"].get("managedFields") or []
        entries = msgspec.convert(said, list[ManagedFieldsEntry])
    except msgspec.ValidationError:
        entries = []
    ours = [_node(entry.fields) for entry in entries if is_ours(entry)]
    return [
        FieldDrift(steps, value, MISSING, server)
        for steps, value in _absent(_compared(body), answer, ours, ())
        if steps[0] != _WRITE_ONLY
    ]


def _absent(
    wanted: Any, found: Any, ours: Sequence[Mapping[str, Any]], at: Steps
) -> Iterator[tuple[Steps, Any]]:
    below: list[tuple[Any, Any, str, Step]] = []
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        below = [(inner, _field(found, key), f"f:{key}", key) for key, inner in wanted.items()]
    elif isinstance(wanted, list) and isinstance(found, list):
        tokens = [token for node in ours for token in node]
        names = _key_names(tokens)
        for index, inner in enumerate(wanted):
            token, step = _identified(inner, tokens, names)
            if step is not None:
                below.append((inner, _item(found, step), token, step))
            elif len(found) == len(wanted):
                below.append((inner, found[index], "", {"": index}))
    for inner, there, token, name in below:
        if there is MISSING:
            yield from _leaves(inner, (*at, name))
        else:
            nodes = [_node(node.get(token)) for node in ours]
            yield from _absent(inner, there, nodes, (*at, name))


def _leaves(value: Any, at: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, Mapping) and isinstance(at[-1], str):
        for key, inner in value.items():
            yield from _leaves(inner, (*at, key))
    elif _says(value):
        yield at, value


def _says(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_says, value.values()))
    if isinstance(value, list):
        return any(map(_says, value))
    return bool(value)


def without(body: Mapping[str, Any], left: Collection[Steps]) -> dict[str, Any]:
    kept: dict[str, Any] = _dropped(body, list(left))
    return kept


def applied(live: Mapping[str, Any]) -> dict[str, Any]:
    """Return what our applies still own of an object: applying it again changes nothing."""
    try:
        said = live["metadata"].get("managedFields") or []
        entries = msgspec.convert(said, list[ManagedFieldsEntry])
    except msgspec.ValidationError:
        return {}
    ours = [_node(entry.fields) for entry in entries if is_ours(entry)]
    return dict(_part(live, ours)) if ours else {}


def value_at(body: Any, steps: Steps) -> Any:
    """Return MISSING without one."""
    for step in steps:
        if isinstance(step, str):
            body = body.get(step, MISSING) if isinstance(body, Mapping) else MISSING
        else:
            body = _item(body, step)
    return body


def path_of(steps: Steps) -> str:
    """Such as `spec.template.spec.containers[main].image`."""
    text = ""
    for step in steps:
        if not isinstance(step, str):
            text += f"[{'/'.join(str(each) for each in step.values())}]"
        elif _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return clean(text, 4 * NAME)


def digest_of(value: Any) -> str:
    """Identifies a wanted value; empty for MISSING."""
    if value is MISSING:
        return ""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def noted_in(text: str) -> list[tuple[Steps, str]]:
    """Return the fields of a note, each with the digest of the value that was wanted."""
    try:
        found = msgspec.json.decode(text, type=list[tuple[list[str | dict[str, Any]], str]])
    except (msgspec.DecodeError, RecursionError):
        return []
    return [(tuple(steps), digest) for steps, digest in found if _may_be_left(steps)]


def note_of(body: Mapping[str, Any], left: Collection[Steps]) -> str:
    return msgspec.json.encode(
        [[steps, digest_of(value_at(body, steps))] for steps in left]
    ).decode()


def _compared(body: Mapping[str, Any]) -> dict[str, Any]:
    compared = {key: value for key, value in body.items() if key not in _NEVER}
    meta = body.get("metadata") or {}
    for name in _COMPARED_METADATA:
        texts = {key: text for key, text in (meta.get(name) or {}).items() if not _of_stowage(key)}
        if texts:
            compared.setdefault("metadata", {})[name] = texts
    return compared


def _may_be_left(steps: Sequence[Step]) -> bool:
    match steps:
        case ["metadata", "labels" | "annotations", str() as key]:
            return not _of_stowage(key)
        case [str() as first, _, *_]:
            return first not in _NEVER
    return False


def _of_stowage(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain == GROUP or domain.endswith(f".{GROUP}")


def _node(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _among(
    wanted: Any, live: Any, ours: Sequence[Mapping[str, Any]], others: Sequence[_Other], at: Steps
) -> Iterator[FieldDrift]:
    ours = [node for node in ours if any(key != "." for key in node)]
    if not ours:
        return  # the server owns it as a whole, and it is ours
    if isinstance(wanted, Mapping):
        for key, inner in wanted.items():
            yield from _below(inner, _field(live, key), f"f:{key}", ours, others, (*at, key))
    elif isinstance(wanted, list):
        tokens = [token for node in (*ours, *(other.node for other in others)) for token in node]
        names = _key_names(tokens)
        for inner in wanted:
            token, step = _identified(inner, tokens, names)
            if step is not None:
                yield from _below(inner, _item(live, step), token, ours, others, (*at, step))


def _below(
    wanted: Any,
    live: Any,
    token: str,
    ours: Sequence[Mapping[str, Any]],
    others: Sequence[_Other],
    at: Steps,
) -> Iterator[FieldDrift]:
    mine = [_node(node[token]) for node in ours if token in node]
    theirs = [_Other(o.entry, _node(o.node[token])) for o in others if token in o.node]
    if mine:
        yield from _among(wanted, live, mine, theirs, at)
    else:
        yield from _lost(wanted, live, theirs, at)


def _lost(wanted: Any, live: Any, others: Sequence[_Other], at: Steps) -> Iterator[FieldDrift]:
    """Fields of a place that is no longer ours are separate, if possible."""
    if isinstance(wanted, Mapping) and wanted and isinstance(live, Mapping):
        for key, inner in wanted.items():
            token = f"f:{key}"
            theirs = [_Other(o.entry, _node(o.node[token])) for o in others if token in o.node]
            yield from _lost(inner, _field(live, key), theirs, (*at, key))
    elif not _equal(wanted, live):
        newest = max((other.entry for other in others), key=lambda e: e.time, default=None)
        manager, subresource = (newest.manager, newest.subresource) if newest else ("", "")
        yield FieldDrift(at, wanted, live, manager, subresource)


def _equal(wanted: Any, live: Any) -> bool:
    """Additions by the server do not count."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        return all(_equal(inner, _field(live, key)) for key, inner in wanted.items())
    if wanted in (None, [], {}) and live is MISSING:
        return True  # a server keeps none of these
    if wanted is None and live == "":
        return True  # null in a map of texts is stored so (1.36.3)
    if isinstance(wanted, list) and isinstance(live, list):
        return len(wanted) == len(live) and all(map(_equal, wanted, live))
    return bool(wanted == live)


def _field(value: Any, key: str) -> Any:
    return value.get(key, MISSING) if isinstance(value, Mapping) else MISSING


def _item(value: Any, step: Mapping[str, Any]) -> Any:
    items = value if isinstance(value, list) else []
    for item in items:
        if not isinstance(item, Mapping):
            if step == {"": item}:
                return item
        elif all(item.get(name, MISSING) == text for name, text in step.items()):
            return item
    for item in items if len(step) > 1 else ():  # a body leaves out a merge key that is a default
        named = isinstance(item, Mapping) and step.keys() & item.keys()
        if named and all(item.get(name, text) == text for name, text in step.items()):
            return item
    return MISSING


def _key_names(tokens: Collection[str]) -> tuple[str, ...]:
    for token in tokens:
        if token.startswith("k:"):
            return tuple(_decoded(token))
    return ()


def _decoded(token: str) -> Mapping[str, Any]:
    try:
        found = json.loads(token[2:])
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _identified(
    item: Any, tokens: Collection[str], names: Collection[str]
) -> tuple[str, Mapping[str, Any] | None]:
    if not isinstance(item, Mapping):
        token = f"v:{json.dumps(item)}"
        return token, ({"": item} if any(each.startswith("v:") for each in tokens) else None)
    for token in tokens:  # a merge key may be a default, which the body leaves out
        keys = _decoded(token) if token.startswith("k:") else {}
        if keys and all(item.get(name, text) == text for name, text in keys.items()):
            return token, keys
    step = {name: item[name] for name in names if name in item}
    return "", step or None


def _part(value: Any, ours: Sequence[Mapping[str, Any]]) -> Any:
    owned = {at for node in ours for at in node if at != "."}
    if isinstance(value, Mapping) and owned:
        return {
            key: _part(inner, [_node(node[at]) for node in ours if at in node])
            for key, inner in value.items()
            if (at := f"f:{key}") in owned
        }
    if isinstance(value, list) and owned:
        names = _key_names(owned)
        found = [(item, _identified(item, owned, names)[0]) for item in value]
        return [
            _part(item, [_node(node[at]) for node in ours if at in node])
            for item, at in found
            if at in owned
        ]
    return value


def _dropped(value: Any, left: list[Steps]) -> Any:
    if not left:
        return value
    if isinstance(value, Mapping):
        kept = {}
        for key, inner in value.items():
            below = [steps[1:] for steps in left if steps and steps[0] == key]
            if all(below):
                kept[key] = _dropped(inner, below)
                if below and not kept[key]:
                    del kept[key]  # an apply would take the empty one
        return kept
    if isinstance(value, list):
        items = []
        meant = [
            (_item(value, steps[0]), steps[1:])
            for steps in left
            if steps and not isinstance(steps[0], str)
        ]
        for item in value:
            below = [rest for which, rest in meant if which is item]
            if all(below):
                items.append(_dropped(item, below))
        return items
    return value


def _shown(kind: str, steps: Steps, value: Any) -> str:
    secret = kind == "Secret" and steps[0] in _SECRET_FIELDS
    literal = "env" in steps and steps[-1] == "value"
    if secret or literal or isinstance(value, Mapping | list) or value is None or value is MISSING:
        return ""
    return clean(value if isinstance(value, str) else json.dumps(value), MOST_VALUE)


MOST_NAMED = 3
# A Deployment's generation also grows with its annotations, without a restart of pods.
_EACH_WRITE = ("managedFields", "resourceVersion", "generation")

Json = Mapping[str, Any]


class Difference(NamedTuple):
    """A field as the hub wants it (`here`), and as it is (`there`)."""

    steps: Steps
    here: Any
    there: Any


def differences(live: Json, applied: Json) -> list[Difference]:
    """Return the changes that the apply with answer `applied` makes to `live`, in order.

    Status, fields that each write changes, and Stowage's marks are not compared.
    """
    here, there = _unmarked(applied), _unmarked(live)
    known = there["metadata"].get("annotations") or {}
    notes = here["metadata"].pop("annotations", {})
    if kept := {key: text for key, text in notes.items() if text or key in known}:
        here["metadata"]["annotations"] = kept
    return list(_differing((), here, there))


def in_words(found: Sequence[Difference], *, secret: bool) -> str:
    """Return the first differences as text; for a Secret only the paths.

    `spec.replicas (2 here, 5 there), spec.paused (nothing here, true there) and 4 more`.
    """
    named = [_in_words(each, secret=secret) for each in found[:MOST_NAMED]]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(named) + more


def _in_words(found: Difference, *, secret: bool) -> str:
    path = clean(path_of(found.steps), NAME)
    # An annotation of a Secret may contain its values too: kubectl apply's does.
    return path if secret else f"{path} ({_value(found.here)} here, {_value(found.there)} there)"


def _value(value: Any) -> str:
    if value is MISSING:
        return "nothing"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return clean(text, WORD) or '""'


def _unmarked(whole: Json) -> dict[str, Any]:
    meta = {key: value for key, value in whole["metadata"].items() if key not in _EACH_WRITE}
    for field in ("labels", "annotations"):
        others = {k: v for k, v in (meta.pop(field, None) or {}).items() if not reserved(k)}
        if others:
            meta[field] = others
    return {key: value for key, value in whole.items() if key != "status"} | {"metadata": meta}


def _differing(at: Steps, here: Any, there: Any) -> Iterator[Difference]:
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        for key in sorted({*here, *there}):
            ours, other = here.get(key, MISSING), there.get(key, MISSING)
            yield from _differing((*at, key), ours, other)
    elif isinstance(here, list) and isinstance(there, list):
        mine, theirs = _items(here, there)
        for key in dict.fromkeys((*mine, *theirs)):
            ours, other = mine.get(key, MISSING), theirs.get(key, MISSING)
            yield from _differing((*at, {"name": key}), ours, other)
    elif here != there:
        yield Difference(at, here, there)


def _items(here: list[Any], there: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    mine, theirs = _named(here), _named(there)
    # Reordered items are compared by position: by name none would differ.
    if mine is None or theirs is None or (mine.keys() == theirs.keys() and [*mine] != [*theirs]):
        return _numbered(here), _numbered(there)
    return mine, theirs


def _numbered(items: list[Any]) -> dict[str, Any]:
    return {str(number): each for number, each in enumerate(items)}


def _named(items: list[Any]) -> dict[str, Any] | None:
    found = {each["name"]: each for each in items if _has_name(each)}
    return found if len(found) == len(items) else None


def _has_name(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("name"), str)
