"""Which groups a Workload names, read from the bytes of its template. Pure.

The rule itself is `crds.groups.membership`. Most Workloads are in no group, and each report makes
the Workload again: so the bytes are searched for the keys, and only a template that holds one of
them is decoded. An API server encodes JSON again when it stores it, without escapes in these keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from crds.groups import membership
from crds.names import GROUP_LABELS

IN_EACH_KEY = "-group"
"""Searched for first: one pass instead of three."""
_SIGN = IN_EACH_KEY.encode()
_KEYS = tuple(f'"{key}"'.encode() for key in GROUP_LABELS)
_NOTHING: Mapping[str, Any] = {}


def groups_of(labels: Mapping[str, str], template: msgspec.Raw) -> tuple[str, ...]:
    """Return the names in a Workload's labels, its template's and its pods', each once.

    A template that cannot be read names none: it cannot be rendered either.
    """
    raw = bytes(template)
    if _SIGN not in raw or not any(key in raw for key in _KEYS):
        return membership.groups_named(labels)
    found: Any = _NOTHING
    with suppress(ValueError, RecursionError):
        found = _decoder.decode(raw)
    return membership.groups_of(labels, found)


_decoder = msgspec.json.Decoder(dict[str, Any])
