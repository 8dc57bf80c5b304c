"""Conditions of a status, as every Kubernetes kind has them: found, read, and said anew.

What is read may come from a member, and have any form: what is no condition is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from machinery.clock import timestamp

Condition: TypeAlias = Mapping[str, Any]


def find(status: Mapping[str, Any], type_: str) -> Condition:
    """The condition of that type in a status; empty when it has none."""
    return among(status.get("conditions"), type_)


def among(conditions: Any, type_: str) -> Condition:
    """The condition of that type in a list of them; empty when it is not there, or that no list."""
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
    """A condition as it is now; its lastTransitionTime is that of the last change of `status`.

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
