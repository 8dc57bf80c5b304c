"""Conditions of a status, as every Kubernetes kind has them: found, read, and renewed.

A status may come from a member, and have any form: what is no condition is skipped. Tools that know
none of our kinds read Ready, Reconciling and Stalled, by the rules of kstatus: at most one of these
is True.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from machinery.clock import timestamp

Condition: TypeAlias = Mapping[str, Any]
READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"


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


def with_progress(
    listed: Iterable[Condition],
    *,
    waits: Collection[str],
    cause: Condition | None = None,
    before: Iterable[Condition] = (),
    now: datetime,
) -> list[Condition]:
    """Return the conditions with what an object that is not Ready does: it goes on, or is stuck.

    Reconciling is True while the reason of `cause`, of Ready itself when that is None, is one of
    `waits`, which pass by themselves; else Stalled is True, as a person has to do something. Of
    both, the one that is not True is left out. `before` are the stored conditions, where `listed`
    does not hold them.
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
            # A message of its own would have to be written whenever that of the other one changes.
            message=f"the condition {says['type']} says why",
            now=now,
            generation=ready["observedGeneration"],
        )
    return list(after.values())
