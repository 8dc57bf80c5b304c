"""Conditions of a status: found, read, and renewed.

Ready, Reconciling and Stalled follow kstatus: at most one of them is True.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from machinery.clock import timestamp

Condition: TypeAlias = Mapping[str, Any]
READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"


def find(status: Mapping[str, Any], type_: str) -> Condition:
    """Return the condition of that type in a status; empty without one."""
    return among(status.get("conditions"), type_)


def among(conditions: Any, type_: str) -> Condition:
    """Return the condition of that type in a list; empty without one, or without a list."""
    listed = conditions if isinstance(conditions, list | tuple) else ()
    found = (each for each in listed if isinstance(each, Mapping) and each.get("type") == type_)
    return next(found, {})


def holds(status: Mapping[str, Any], type_: str) -> bool:
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
    """Return the current condition; lastTransitionTime is that of the last change of `status`.

    `old` is the stored condition, or empty. `generation` is that of the object it was derived from.
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


def with_progress(
    listed: Iterable[Condition],
    *,
    waits: Collection[str],
    cause: Condition | None = None,
    before: Iterable[Condition] = (),
    now: datetime,
) -> list[Condition]:
    """Return the conditions with the progress of an object that is not Ready.

    Reconciling is True while the reason of `cause` (of Ready if None) is in `waits`, which pass by
    themselves. Otherwise Stalled is True: an operator has to act. The one that is not True is left
    out. `before` are the stored conditions that `listed` lacks.
    """
    after = {each.get("type"): each for each in listed}
    known = {each.get("type"): each for each in before} | after
    ready = after[READY]
    says = cause or ready
    reason = str(says.get("reason") or "")
    progress = RECONCILING if reason in waits else STALLED
    stands = progress if ready["status"] != "True" else None
    for other in {RECONCILING, STALLED} - {stands}:
        after.pop(other, None)
    if stands is not None:
        after[stands] = renewed(
            known.get(stands, {}),
            type_=stands,
            true=True,
            reason=reason,
            # A message of its own would have to be rewritten with each change of the other one.
            message=f"the condition {says['type']} says why",
            now=now,
            generation=ready["observedGeneration"],
        )
    return list(after.values())
