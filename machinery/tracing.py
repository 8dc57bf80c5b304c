"""Traces: the time of each part of a decision, from the queue to the members.

One trace is one decision. Its id derives from the Workload's UID and the decision's id in the
status: spans of the controller and the propagator join without a header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, TypeAlias

from machinery.clock import stopwatch
from machinery.errors import Conflict

SLOW_SECONDS = 1.0
"""A trace of longer work is always kept."""
MOST_BEYOND = 10
"""Traces a second that are kept beyond the sample."""
MOST_PARTS = 1000
"""Children of a span, and calls in it."""
ERROR_LIMIT = 400
CONFLICT = "stowage.conflict"
_HALF = 1 << 64

Value: TypeAlias = str | int | float


class Call(NamedTuple):
    """A call of a `group`, such as a plugin at an extension point; seconds of the stopwatch."""

    group: str
    name: str
    began: float
    ended: float


@dataclass(slots=True)
class TraceSpan:
    """`began` and `ended` are seconds of the stopwatch."""

    name: str
    began: float
    ended: float = 0.0
    attributes: dict[str, Value] = field(default_factory=dict)
    error: str = ""
    children: list[TraceSpan] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def size(self) -> int:
        return 1 + len(self.calls) + sum(each.size for each in self.children)

    def end(self, fault: BaseException | None = None) -> None:
        self.ended = stopwatch()
        if isinstance(
            fault, Conflict
        ):  # no fault: another writer was first, and the write is retried
            self.attributes[CONFLICT] = str(fault)[:ERROR_LIMIT]
        elif fault is not None:
            self.error = f"{type(fault).__name__}: {fault}"[:ERROR_LIMIT]

    def parts(self) -> list[TraceSpan]:
        """Return the children, and one span for each run of a group of calls; by their times."""
        groups: list[TraceSpan] = []
        for each in self.calls:
            call = TraceSpan(each.name, each.began, each.ended)
            if not groups or groups[-1].name != each.group:
                groups.append(TraceSpan(each.group, each.began))
            groups[-1].ended = each.ended
            groups[-1].children.append(call)
        return sorted((*self.children, *groups), key=lambda part: part.began)


WITHIN: ContextVar[TraceSpan | None] = ContextVar("within", default=None)
"""The span that this task is recorded in, or None."""


class span:  # noqa: N801 - it reads as the statement that it is: `with span("write"):`
    """Measures a part of this task's work, if it is recorded."""

    __slots__ = ("_attributes", "_name", "_span", "_token")

    def __init__(self, name: str, attributes: Mapping[str, Value] | None = None) -> None:
        self._name = name
        self._attributes = attributes or {}
        self._span: TraceSpan | None = None
        self._token: Token[TraceSpan | None]

    def __enter__(self) -> None:
        outer = WITHIN.get()
        if outer is not None and not outer.ended:
            self._span = TraceSpan(self._name, stopwatch(), attributes=dict(self._attributes))
            if len(outer.children) < MOST_PARTS:
                outer.children.append(self._span)
            self._token = WITHIN.set(self._span)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._span is not None:
            self._span.end(fault)
            WITHIN.reset(self._token)


def called(group: str, name: str, began: float) -> None:
    outer = WITHIN.get()
    if outer is not None and not outer.ended and len(outer.calls) < MOST_PARTS:
        outer.calls.append(Call(group, name, began, stopwatch()))


def recorded() -> bool:
    outer = WITHIN.get()
    return outer is not None and not outer.ended


@contextmanager
def recording(whole: TraceSpan) -> Iterator[None]:
    """Record the work of this task, and of tasks that it begins, in that span."""
    token = WITHIN.set(whole)
    try:
        yield
    except BaseException as e:
        whole.end(e)
        raise
    else:
        whole.end()
    finally:
        WITHIN.reset(token)


class TraceIds(NamedTuple):
    """128 and 64 bits."""

    trace: int
    root: int

    @classmethod
    def of(cls, uid: str, decision: str) -> TraceIds:
        digest = hashlib.blake2b(f"{uid}/{decision}".encode(), digest_size=24).digest()
        return cls(int.from_bytes(digest[:16]), int.from_bytes(digest[16:]))


Export: TypeAlias = Callable[[int, TraceSpan, int | None, int | None], None]
"""Takes (trace, span, own, parent).

`own` is the span's id, None for any; without `parent` it is a root.
"""


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    endpoint: str = ""
    """The base URL of a collector of OTLP over HTTP; empty: there are no traces."""
    ratio: float = 0.01


class Tracer:
    """Exports the kept spans; `ratio` of all traces, 0 to 1."""

    def __init__(self, export: Export, *, ratio: float) -> None:
        self._export = export
        self._below = int(ratio * _HALF)
        self._second = self._beyond = 0

    def samples(self, ids: TraceIds) -> bool:
        """Whether the trace is kept by its id."""
        return ids.trace % _HALF < self._below

    def finish(self, ids: TraceIds, whole: TraceSpan) -> None:
        """Export the root of a trace, if it is kept. A failed one gets another id."""
        if self._keeps(ids, whole):
            own = None if whole.error else ids.root
            self._export(ids.trace, whole, own, None)

    def join(self, ids: TraceIds, whole: TraceSpan) -> None:
        """Export a span below the root, which another process exports, if it is kept."""
        if self._keeps(ids, whole):
            self._export(ids.trace, whole, None, ids.root)

    def _keeps(self, ids: TraceIds, whole: TraceSpan) -> bool:
        if self.samples(ids):
            return True
        if not whole.error and whole.seconds <= SLOW_SECONDS:
            return False
        second = int(stopwatch())
        self._beyond = self._beyond + 1 if second == self._second else 1
        self._second = second
        return self._beyond <= MOST_BEYOND


_in_use: Tracer | None = None


def tracer() -> Tracer | None:
    return _in_use


@contextmanager
def using(made: Tracer) -> Iterator[None]:
    global _in_use  # noqa: PLW0603 - as the registry of metrics is one for the process
    before, _in_use = _in_use, made
    try:
        yield
    finally:
        _in_use = before


def exemplar(uid: str, decision: str) -> dict[str, str] | None:
    """Return the exemplar of an observation in a histogram: a trace that is kept by its id."""
    if _in_use is None or not _in_use.samples(ids := TraceIds.of(uid, decision)):
        return None
    return {"trace_id": f"{ids.trace:032x}"}
