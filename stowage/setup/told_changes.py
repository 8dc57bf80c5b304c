"""The difference between two states of an object of the hub, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crds.names import VERSION
from machinery.api.resources import CRDS
from stowage.setup.images import Image
from stowage.setup.lacking_rights import rights

Object = Mapping[str, Any]

NAMED = 3
"""The most differences that are named."""
_SHORT = 60
"""A value of so many characters is shown."""
_IMAGE = "spec.template.spec.containers[0].image"


def told(before: Object, after: Object) -> str:
    """Return `+ get pods, - get nodes`, or `image 0.1.0 → 0.2.0`; of one kind, which differ."""
    old, new = _facts(before), _facts(after)
    words = [
        *(f"+ {each}" for each in _outer(new, old)),
        *(f"- {each}" for each in _outer(old, new)),
        *(
            _changed(name, old[name], new[name])
            for name in old
            if old[name] != new.get(name, old[name])
        ),
    ]
    more = len(words) - NAMED
    return ", ".join(words[:NAMED] or ["other fields"]) + (f" and {more} more" if more > 0 else "")


def _outer(these: Mapping[str, Any], those: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names that only `these` have, without those inside of one that is told."""
    last = None
    for name in these:
        if name in those or (last and name.startswith((f"{last}.", f"{last}["))):
            continue
        last = name
        yield name


def _changed(name: str, was: Any, now: Any) -> str:
    if name == _IMAGE:
        old, new = Image.of(was), Image.of(now)
        if old.repository == new.repository and not old.digest and not new.digest:
            was, now = old.tag, new.tag
        return f"image {was} → {now}"
    short = max(len(str(was)), len(str(now))) <= _SHORT
    return f"{name} {was} → {now}" if short else name


def _facts(found: Object) -> dict[str, Any]:
    """Return what is told of an object: names, and values where a name alone says too little."""
    kind = found["kind"]
    if kind == CRDS.kind:
        return dict.fromkeys(_fields(found))
    if kind in ("ClusterRole", "Role"):
        return dict.fromkeys(each for rule in found.get("rules") or () for each in rights(rule))
    return dict(_leaves(found))


def _fields(definition: Object) -> Iterable[str]:
    for version in definition["spec"]["versions"]:
        if version["name"] == VERSION:
            yield from _properties(version["schema"]["openAPIV3Schema"])


def _properties(schema: Mapping[str, Any], path: str = "") -> Iterable[str]:
    for name, inner in schema.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        yield at
        yield from _properties(inner, at)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(inner := schema.get(key), dict):
            yield from _properties(inner, f"{path}{mark}")


def _leaves(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
