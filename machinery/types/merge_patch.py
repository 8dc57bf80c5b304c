"""Merge patches (RFC 7386), made and laid over an object. Pure.

A status that several writers write is patched: each sends the fields of its own that changed, and
those of the others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merging(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch (RFC 7386) from `before` to `after`; empty where they are alike."""
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
    """Return an object with the patch laid over it; neither is changed."""
    found = dict(body) if isinstance(body, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            found[name] = merged(found.get(name), value)
        else:
            found[name] = value
    return found
