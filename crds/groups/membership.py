"""Which WorkloadGroups labels name: one rule for the controller, the propagator and commands.

A label may stand on the Workload, on its template or on its pods, by its own key or by an alias
(`machinery.kinds.groups` reads all three). Several names are several answers: no reader guesses
which of them was meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds.names import GROUP_LABELS

_NOTHING: Mapping[str, Any] = {}


def groups_named(*labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the groups that these labels name, each once, by name; empty values name none.

    Given are the labels of a Workload, of its template and of its pods; the groups are of the
    Workload's own namespace.
    """
    return tuple(sorted({each[key] for each in labels for key in GROUP_LABELS if each.get(key)}))


def labels_in(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels in an object's metadata that are text."""
    labels = _within(_within(body, "metadata"), "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _within(body: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = body.get(field)
    return found if isinstance(found, Mapping) else _NOTHING
