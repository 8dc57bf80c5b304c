"""Conditions of a status, as every Kubernetes kind has them: found, read, and renewed.

A status may come from a member, and have any form: what is no condition is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from machinery.clock import timestamp

Condition: TypeAlias = Mapping[str, Any]


def find(status: Mapping[str, Any], type_: str) -> Condition:
    """Return the condition of that type in a status; empty when it has none."""
    return among(status.get("conditions"), type_)


def among(conditions: Any, type_: str) -> Condition:
    """Return the condition of that type in a list; empty when it is missing, or that is no list."""
    listed = conditions if isinstance(conditions, list | tuple) else ()
    found = (each for each in listed if isinstance(each, Mapping) and each.get("type") == type_)
    return next(found, {})


def holds(status: Mapping[str, Any], type_: str) -> bool:
    """Whether the condition of that type is True."""
    return find(status, type_).get("status") == "True"


def renewed(
    old: Condition,
    *,
    type_: str,
    true: bool,
    reason: str,
    message: str,
    now: datetime,
    generation: int,
) -> dict[str, Any]:
    """Return a condition as it is now; its lastTransitionTime is of the last change of `status`.

    `old` is the one that it replaces, empty when there was none; `generation` is that of the object
    that it was concluded from.
    """
    status = "True" if true else "False"
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or timestamp(now),
        "observedGeneration": generation,
    }
