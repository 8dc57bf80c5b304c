"""Events about objects on the hub, for `kubectl describe`; reporting never waits and never raises.

Occurrences with the same object, type, reason, action and cluster are one Event with a series,
written at once and then at most once a minute with the newest note. A token bucket spaces writes,
warnings first.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from machinery import metrics
from machinery.api.resources import EVENTS, MEMBER_CLUSTERS, Resource
from machinery.clock import Clock, microtime
from machinery.errors import (
    AlreadyExists,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    TransportError,
)
from machinery.runtime.workqueue import WorkQueue, work

if TYPE_CHECKING:  # who only names a recorder need not wait for an HTTP client
    from machinery.api.client import ApiClient

log = logging.getLogger(__name__)

EventType: TypeAlias = Literal["Normal", "Warning"]

INTERVAL_SECONDS = 60.0
"""Seconds between two writes of one Event."""
RETRY_SECONDS = 10.0
"""Seconds until the next attempt after a failed write."""
NOTE_BYTES = 1024
"""The API server's limit."""

_CORE_EVENTS = Resource("", "v1", "events", "Event")
_ELLIPSIS = "…"
_NAME_LENGTH = 253 - 1 - 32  # of an Event: the object's name, a dot, a random number in hex
_INSTANCE_LENGTH = 128
_HOPELESS = (NotFound, Forbidden, Invalid, BadRequest)

_written = metrics.counter("stowage_events_written", "Events created or brought up to date")
_dropped = metrics.counter(
    "stowage_events_dropped",
    "Occurrences not written: too many waited, or the hub refused",
    ("cause",),
)
_dropped_backlog = _dropped.labels("backlog")
_dropped_refused = _dropped.labels("refused")


@dataclass(frozen=True, slots=True)
class ObjectRef:
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @staticmethod
    def of(obj: Mapping[str, Any]) -> ObjectRef:
        """Return the reference of an object. Raises KeyError without apiVersion and kind."""
        meta = obj["metadata"]
        return ObjectRef(
            api_version=obj["apiVersion"],
            kind=obj["kind"],
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta.get("uid", ""),
        )

    @property
    def fields(self) -> dict[str, str]:
        named = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name}
        return named | {k: v for k, v in (("namespace", self.namespace), ("uid", self.uid)) if v}


def one_cluster(names: Collection[str]) -> ObjectRef | None:
    """Return the MemberCluster to relate an Event to; None unless there is exactly one name."""
    if len(names) != 1:
        return None
    (name,) = names
    return ObjectRef(MEMBER_CLUSTERS.api_version, MEMBER_CLUSTERS.kind, "", name)


@dataclass(frozen=True, slots=True)
class _Subject:
    regarding: ObjectRef
    type: EventType
    reason: str
    action: str
    related: ObjectRef | None


@dataclass(slots=True)
class _Series:
    note: str
    first: datetime
    last: datetime
    name: str
    count: int = 1
    created: bool = False
    written: int = 0  # the count that the hub knows
    written_at: float = field(default=-math.inf)
    waiting: bool = False

    def repeat(self, note: str, moment: datetime) -> None:
        self.count += 1
        self.note, self.last = note, moment


class EventRecorder:
    """Reports as `controller` (a qualified name: `stowage.dev/controller`), by this `instance`.

    `backlog` bounds the Events that wait to be written, and `memory` the remembered series. `burst`
    Events are written at once, then `per_second`.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        controller: str,
        instance: str,
        clock: Clock,
        backlog: int = 1024,
        memory: int = 4096,
        burst: int = 25,
        per_second: float = 10.0,
    ) -> None:
        if memory <= backlog:
            raise ValueError("memory must exceed backlog: what waits is never forgotten")
        self._client = client
        self._controller = controller
        self._instance = instance[:_INSTANCE_LENGTH]
        self._clock = clock
        self._backlog = backlog
        self._memory = memory
        self._bucket = _TokenBucket(burst=burst, per_second=per_second, clock=clock)
        self._series: OrderedDict[_Subject, _Series] = OrderedDict()  # least recently seen first
        self._waiting = 0
        self._queue: WorkQueue[_Subject] = WorkQueue(
            name="events", clock=clock, flow=lambda subject: subject.regarding.namespace
        )
        self._complained: set[type[TransportError]] = set()

    def event(
        self,
        regarding: Mapping[str, Any] | ObjectRef,
        *,
        type: EventType,  # noqa: A002 - the API's own word
        reason: str,
        note: str,
        action: str,
        related: ObjectRef | None = None,
    ) -> None:
        """Report an occurrence; returns at once. The note is cut at 1 KiB."""
        ref = regarding if isinstance(regarding, ObjectRef) else ObjectRef.of(regarding)
        subject = _Subject(ref, type, reason, action, related)
        series = self._series.get(subject)
        if series is None:
            if self._waiting >= self._backlog:
                _dropped_backlog.inc()
                return
            series = self._remember(subject, shortened(note))
        else:
            self._series.move_to_end(subject)
            series.repeat(shortened(note), self._clock.now())
        self._enqueue(subject, series)

    async def run(self) -> None:
        await work(self._queue, self._write, workers=1, log=log)

    def _remember(self, subject: _Subject, note: str) -> _Series:
        if len(self._series) >= self._memory:
            idle = next(s for s, series in self._series.items() if not series.waiting)
            del self._series[idle]
        now = self._clock.now()
        series = self._series[subject] = _Series(note, now, now, _name(subject.regarding))
        return series

    def _enqueue(self, subject: _Subject, series: _Series) -> None:
        if series.waiting:
            return
        if self._waiting >= self._backlog:
            _dropped_backlog.inc()
            return
        series.waiting = True
        self._waiting += 1
        wait = series.written_at + INTERVAL_SECONDS - self._clock.monotonic()
        self._queue.add_after(subject, wait, priority=int(subject.type == "Warning"))

    async def _write(self, subject: _Subject) -> float | None:
        await self._bucket.take()
        series = self._series[subject]  # waiting series are never dropped
        count = series.count
        try:
            await self._tell(subject, series)
        except _HOPELESS as e:
            _dropped_refused.inc(count - series.written)
            self._complain(e)
        except TransportError as e:
            self._complain(e)
            return RETRY_SECONDS
        else:
            _written.inc()
            self._complained.intersection_update(_HOPELESS)  # log the next outage again
        series.written, series.written_at = count, self._clock.monotonic()
        if series.count > series.written:
            return INTERVAL_SECONDS
        series.waiting = False
        self._waiting -= 1
        return None

    async def _tell(self, subject: _Subject, series: _Series) -> None:
        if series.created and await self._update(subject, series):
            return
        body = self._body(subject, series)
        try:
            await self._client.create(EVENTS, body)
        except AlreadyExists:  # the answer to an earlier attempt was lost
            if series.count > 1:
                await self._update(subject, series)
        series.created = True

    async def _update(self, subject: _Subject, series: _Series) -> bool:
        """Return False if the hub has dropped the Event (after an hour)."""
        patch = {"message": series.note, "series": _series(series)}
        namespace = _namespace(subject.regarding)
        try:
            await self._client.merge_patch(_CORE_EVENTS, series.name, patch, namespace=namespace)
        except NotFound:
            series.first, series.name = series.last, _name(subject.regarding)
            series.created = False
            return False
        return True

    def _body(self, subject: _Subject, series: _Series) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": _namespace(subject.regarding)},
            "eventTime": microtime(series.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": subject.action,
            "reason": subject.reason,
            "type": subject.type,
            "note": series.note,
            "regarding": subject.regarding.fields,
        }
        if subject.related is not None:
            body["related"] = subject.related.fields
        if series.count > 1:
            body["series"] = _series(series)
        return body

    def _complain(self, fault: TransportError) -> None:
        level = logging.DEBUG if type(fault) in self._complained else logging.WARNING
        self._complained.add(type(fault))
        log.log(level, "events cannot be written: %s", fault)


def shortened(note: str) -> str:
    data = note.encode()
    if len(data) <= NOTE_BYTES:
        return note
    room = NOTE_BYTES - len(_ELLIPSIS.encode())
    return data[:room].decode(errors="ignore") + _ELLIPSIS


def _series(series: _Series) -> dict[str, Any]:
    return {"count": max(series.count, 2), "lastObservedTime": microtime(series.last)}


def _name(ref: ObjectRef) -> str:
    return f"{ref.name[:_NAME_LENGTH].rstrip('-.')}.{uuid.uuid4().hex}"


def _namespace(ref: ObjectRef) -> str:
    return ref.namespace or "default"  # the API server allows no other namespace


class _TokenBucket:
    def __init__(self, *, burst: int, per_second: float, clock: Clock) -> None:
        if burst < 1 or per_second <= 0:
            raise ValueError("a bucket without tokens lets nothing through, ever")
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """For one caller at a time."""
        self._refill()
        if self._tokens < 1:
            await self._clock.sleep((1 - self._tokens) / self._per_second)
            self._refill()
        self._tokens -= 1

    def _refill(self) -> None:
        now = self._clock.monotonic()
        earned = (now - self._at) * self._per_second
        self._tokens, self._at = min(self._burst, self._tokens + earned), now
