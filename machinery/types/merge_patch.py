"""Merge patches (RFC 7386): each of several writers of a status sends only its changed fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merging(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from `before` to `after`; empty if they are equal."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inside := merging(old, value):
                patch[name] = inside
        elif name not in before or old != value:
            patch[name] = value
    return patch


def merged(body: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the object with the patch applied."""
    found = dict(body) if isinstance(body, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            found[name] = merged(found.get(name), value)
        else:
            found[name] = value
    return found
