"""Checks of plugins' answers, by extension point. Each raises `Unusable`.

The answer comes last, after what it is checked against.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import numpy as np

from controller.framework.gathering import Attempt, Gathering, GroupDecision, TrialResult
from controller.framework.interface import (
    NOTHING_REFUSED,
    Assignment,
    Candidates,
    Descheduling,
    Eviction,
    FilterMask,
    MaskedReason,
)
from controller.framework.status import Code, Status
from controller.model.unit import WorkloadInfo
from controller.planner.problem import Problem
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.types.metadata import Key

T = TypeVar("T")

_MOST_SECONDS = 366 * 24 * 3600.0


class Unusable(Exception):
    """A wrong answer. The message has what was wanted and what was found."""


def anything(_answer: object) -> None:
    """Accept any answer."""


def a_status(answer: Any) -> Status:
    if not isinstance(answer, Status):
        raise _wanted("a Status", answer)
    if not isinstance(answer.code, Code):
        raise _wanted("a Code in the Status", answer.code)
    _strings(answer.reasons, "reasons")
    _strings((answer.detail,), "detail")
    _strings(answer.args, "args")
    if answer.code is Code.WAIT:
        seconds(answer.seconds)
    return answer


def a_bool(answer: Any) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise _wanted("True or False", answer)
    return bool(answer)


def a_workload_info(before: WorkloadInfo, answer: Any) -> WorkloadInfo:
    if not isinstance(answer, WorkloadInfo):
        raise _wanted("a WorkloadInfo", answer)
    if answer.key != before.key or answer.uid != before.uid:
        raise Unusable(f"gave the WorkloadInfo of another Workload, {'/'.join(answer.key)}")
    return answer


def a_descheduling(answer: Any) -> Descheduling:
    """Accept evictions and returns whose times have a time zone."""
    if not isinstance(answer, Descheduling):
        raise _wanted("a Descheduling", answer)
    for each in answer.evictions.values():
        if not isinstance(each, Eviction):
            raise _wanted("Evictions by cluster", each)
    moments = [each.due for each in answer.evictions.values()] + list(answer.returns.values())
    for at in moments:
        if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
            raise _wanted("times with a time zone", at)
    return answer


def a_place_in_line(answer: Any) -> tuple[Any, ...]:
    if not isinstance(answer, tuple):
        raise _wanted("a tuple", answer)
    return answer


def seconds_or_none(answer: Any) -> float | None:
    return None if answer is None else seconds(answer)


def seconds(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        raise _wanted("a number of seconds", answer)
    if not (math.isfinite(answer) and answer >= 0):
        raise Unusable(f"gave {answer} seconds")
    return min(float(answer), _MOST_SECONDS)


def a_mask(answer: Any, size: int) -> Mask:
    if not isinstance(answer, np.ndarray):
        raise _wanted("an array of booleans", answer)
    if answer.dtype != np.bool_:
        raise Unusable(f"gave an array of {answer.dtype}, booleans are wanted")
    _long(answer, size)
    return answer


def refused(size: int, answer: Any) -> FilterMask:
    if not isinstance(answer, FilterMask):
        raise _wanted("a FilterMask", answer)
    if answer is NOTHING_REFUSED:
        return answer
    said = (answer.reasons, answer.reached, answer.short)
    return FilterMask(*(_reasons(each, size) if each else () for each in said))


def _reasons(said: Any, size: int) -> Sequence[MaskedReason]:
    found: list[MaskedReason] = []
    for each in said:
        if not (isinstance(each, tuple) and 2 <= len(each) <= 4):
            raise _wanted("pairs of a mask and a text", each)
        mask, text = each[:2]
        code = each[2] if len(each) > 2 else ""
        args = each[3] if len(each) > 3 else ()
        if not isinstance(text, str):
            raise _wanted("a text as the reason", text)
        if not isinstance(code, str):
            raise _wanted("a text as the code", code)
        found.append((a_mask(mask, size), text, code, _strings(args, "args")))
    return found


def _strings(found: Any, what: str) -> tuple[str, ...]:
    if not (isinstance(found, tuple) and all(isinstance(each, str) for each in found)):
        raise _wanted(f"a tuple of strings as {what}", found)
    return found


def scores(size: int, answer: Any) -> Ints:
    if not isinstance(answer, np.ndarray):
        raise _wanted("an array of integers", answer)
    if answer.dtype.kind not in "iu":
        raise Unusable(f"gave an array of {answer.dtype}, integers are wanted")
    _long(answer, size)
    return answer


def changed_unit(before: WorkloadInfo, answer: Any) -> Status | tuple[WorkloadInfo, bool]:
    if isinstance(answer, Status):
        return _refusal(answer)
    info, changed = _parts(answer, 2, "(info, changed)")
    return (a_workload_info(before, info), True) if a_bool(changed) else (before, False)


def changed_snapshot(
    before: WorkloadInfo, snapshot: Snapshot, answer: Any
) -> Status | tuple[WorkloadInfo, Snapshot, bool]:
    if isinstance(answer, Status):
        return _refusal(answer)
    info, found, changed = _parts(answer, 3, "(info, snapshot, changed)")
    if not a_bool(changed):
        return before, snapshot, False
    if not isinstance(found, Snapshot):
        raise _wanted("a Snapshot", found)
    return a_workload_info(before, info), found, True


def changed_list(
    before: WorkloadInfo, left: Mask, answer: Any
) -> Status | tuple[WorkloadInfo, Mask, bool]:
    if isinstance(answer, Status):
        return _refusal(answer)
    info, mask, changed = _parts(answer, 3, "(info, feasible clusters, changed)")
    if not a_bool(changed):
        return before, left, False
    return a_workload_info(before, info), a_mask(mask, len(left)), True


def an_assignment(field: Candidates, answer: Any) -> Assignment:
    """Accept shares on rows that are feasible, or that hold replicas already."""
    if not isinstance(answer, Assignment):
        raise _wanted("an Assignment", answer)
    desired, given = _count(answer.desired, "desired"), 0
    if not isinstance(answer.shares, Mapping):
        raise _wanted("a mapping of rows to replicas as shares", answer.shares)
    for row, replicas in answer.shares.items():
        if not (0 <= _count(row, "a row") < len(field.feasible)):
            raise Unusable(f"gave replicas to row {row} of {len(field.feasible)} clusters")
        given += _count(replicas, "a share")
        if not (field.feasible[row] or field.held[row]):
            name = field.snapshot.names[row]
            raise Unusable(f"gave {replicas} replicas to {name}, which is refused")
    if given > desired:
        raise Unusable(f"gave {given} replicas where {desired} are desired")
    return answer


def a_problem(before: Problem, answer: Any) -> Problem:
    """Accept a problem of the same total. The planner checks its columns."""
    if not isinstance(answer, Problem):
        raise _wanted("a Problem", answer)
    if answer.total != before.total:
        raise Unusable(f"gave a problem of {answer.total} replicas for {before.total}")
    return answer


def texts(answer: Any) -> Sequence[str]:
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise _wanted("a sequence of texts", answer)
    said = list(answer)
    for each in said:
        if not isinstance(each, str):
            raise _wanted("texts", each)
    return said


def a_text(answer: Any) -> str:
    if not isinstance(answer, str):
        raise _wanted("a text", answer)
    return answer


def a_list(answer: Iterable[T]) -> list[T]:
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise _wanted("a sequence", answer)
    return list(answer)


def a_cause(answer: Any) -> tuple[str, str] | None:
    if answer is None:
        return None
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise _wanted("a pair of texts or None", answer)
    return a_text(answer[0]), a_text(answer[1])


def a_gathering(key: Key, answer: Any) -> Gathering | None:
    if answer is None:
        return None
    if not isinstance(answer, Gathering):
        raise _wanted("a Gathering or None", answer)
    if key not in answer.members or len(set(answer.members)) < len(answer.members):
        raise Unusable("gave members that are not the Workload and others, each once")
    if answer.refusal is not None:
        _refusal(answer.refusal)
    return answer


def an_attempt(answer: Any) -> Attempt | None:
    if answer is not None and not isinstance(answer, Attempt):
        raise _wanted("an Attempt", answer)
    return answer


def a_verdict(answer: Any) -> GroupDecision:
    """Accept a GroupDecision whose Status matches its outcome."""
    if not isinstance(answer, GroupDecision):
        raise _wanted("a GroupDecision", answer)
    status = a_status(answer.status)
    if answer.outcome is TrialResult.REFUSE:
        _refusal(status)
    if answer.outcome is TrialResult.WAIT and status.code is not Code.WAIT:
        raise Unusable(f"gave the Status {status.code.value}, which does not wait")
    return answer


def _refusal(answer: Status) -> Status:
    """Accept a refusal only: a hook's Status ends the pass."""
    if a_status(answer).ok or answer.code is Code.WAIT:
        raise Unusable(f"gave the Status {answer.code.value}, which refuses nothing")
    return answer


def _parts(answer: Any, number: int, form: str) -> tuple[Any, ...]:
    if not isinstance(answer, tuple) or len(answer) != number:
        raise _wanted(f"{form} or a Status", answer)
    return answer


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _wanted(f"an integer as {what}", value)
    if value < 0:
        raise Unusable(f"gave {value} as {what}")
    return int(value)


def _long(answer: Any, size: int) -> None:
    if answer.shape != (size,):
        shape = f"({answer.shape[0]},)" if answer.ndim == 1 else str(answer.shape)
        raise Unusable(f"gave an array of shape {shape} for {size} clusters")


def _wanted(what: str, found: Any) -> Unusable:
    shown = (
        f"{found!r:.60}" if isinstance(found, str | int | float | None) else type(found).__name__
    )
    return Unusable(f"gave {shown} where {what} is wanted")
