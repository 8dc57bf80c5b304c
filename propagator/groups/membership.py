"""Which groups a Workload names, read from the bytes that its template is kept as. Pure.

The rule itself is `crds.groups.membership`. Most Workloads are in no group, and each report of ours
makes a Workload anew: so the template is looked through for the keys, and only one that holds one
of them is taken apart. An API server writes JSON anew when it stores it, without escapes in these
keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from crds.fields.template import REPLICAS_PATHS
from crds.groups.membership import groups_named
from crds.names import GROUP_LABELS

IN_EACH_KEY = "-group"
"""Looked for first: one pass instead of three."""
_SIGN = IN_EACH_KEY.encode()
_KEYS = tuple(f'"{key}"'.encode() for key in GROUP_LABELS)
_NOTHING: Mapping[str, Any] = {}


def groups_of(labels: Mapping[str, str], template: msgspec.Raw) -> tuple[str, ...]:
    """The names that a Workload's labels, its template's and its pods' give, each once.

    A template that cannot be read names none: nothing of it can be rendered either.
    """
    raw = bytes(template)
    if _SIGN not in raw or not any(key in raw for key in _KEYS):
        return groups_named(labels)
    found: Any = _NOTHING
    with suppress(ValueError, RecursionError):
        found = _decoder.decode(raw)
    return groups_named(labels, _labels(found), _labels(_pods(found)))


def _pods(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template of its pods; empty for a custom kind, of whose pods nothing is known."""
    kind, body = template.get("kind"), _within(template, "spec")
    if kind == "CronJob":
        body = _within(_within(body, "jobTemplate"), "spec")
    elif kind not in REPLICAS_PATHS and kind != "DaemonSet":
        return _NOTHING
    return _within(body, "template")


def _labels(of: Mapping[str, Any]) -> dict[str, str]:
    """Those that are labels: what is no text names nothing."""
    labels = _within(_within(of, "metadata"), "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _within(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = body.get(field)
    return found if isinstance(found, dict) else _NOTHING


_decoder = msgspec.json.Decoder(dict[str, Any])
