"""Compares an object with an apply, by the server's answer to a dry run. Pure.

Only the server knows: it fills in defaults, normalizes quantities, and keeps fields of others.
Status, fields that each write changes, and Stowage's marks are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from crds.fields.labels import reserved
from machinery.types.bounds import NAME, WORD, clean
from propagator.drift.fields import MISSING, Steps, path_of

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

    An annotation applied as null is answered as an empty one (Kubernetes 1.36.3): no change.
    """
    here, there = _compared(applied), _compared(live)
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


def _compared(whole: Json) -> dict[str, Any]:
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
    """Items are matched by name, if all have one, else by position."""
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
