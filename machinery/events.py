"""Events on objects of the hub, written by the way: never waited for, never a flood.

`event` only notes; a task writes. The same news about the same object (type, reason, action) is one
Event object whose series counts, written at most once in ten seconds; a new note replaces the old
one. What does not fit the bounds is dropped and counted: an event is a courtesy, not a record.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from machinery import logs, metrics
from machinery.clock import Clock, microtime
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.resources import EVENTS
from machinery.transport import ApiClient

LOG = logs.get(__name__)
SPACING_SECONDS = 10.0
"""Between two writes about the same news."""
KEPT = 4096
"""News that is remembered, to be counted on."""
WAITING = 1024
"""News that waits to be written."""
NOTE_LIMIT = 1024
WHEN_CLUSTER_SCOPED = "default"

DROPPED = metrics.counter(
    "stowage_events_dropped",
    "Events that were not written, by cause",
    ("cause",),
    zero=[("full",), ("refused",)],
)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    def to_dict(self) -> dict[str, str]:
        """As Kubernetes writes an ObjectReference."""
        fields = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace}
        fields |= {"name": self.name, "uid": self.uid}
        return {key: value for key, value in fields.items() if value}


@dataclass(slots=True)
class _News:
    """One Event object, and what has not been written of it yet."""

    name: str
    regarding: ObjectRef
    type: str
    reason: str
    action: str
    note: str
    first: datetime
    last: datetime
    count: int = 1
    created: bool = False
    written: float = float("-inf")
    queued: bool = False


class EventRecorder:
    """Notes events and writes them in the background, for one process."""

    def __init__(self, client: ApiClient, *, controller: str, instance: str, clock: Clock) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:128]
        self._clock = clock
        self._news: OrderedDict[tuple[str, ...], _News] = OrderedDict()
        self._waiting: asyncio.Queue[_News] = asyncio.Queue(maxsize=WAITING)
        self._timers: deque[asyncio.TimerHandle] = deque()
        self._complained: set[str] = set()

    def event(
        self,
        regarding: ObjectRef,
        *,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the field's own name
        reason: str,
        note: str,
        action: str,
    ) -> None:
        """Note an event; returns at once."""
        key = (regarding.uid, regarding.namespace, regarding.name, type, reason, action)
        now = self._clock.now()
        news = self._news.get(key)
        if news is None:
            name = f"{regarding.name[:200]}.{uuid.uuid4().hex[:16]}"
            news = _News(name, regarding, type, reason, action, note[:NOTE_LIMIT], now, now)
            self._news[key] = news
            if len(self._news) > KEPT:
                self._news.popitem(last=False)
        else:
            news.count, news.last, news.note = news.count + 1, now, note[:NOTE_LIMIT]
            self._news.move_to_end(key)
        self._queue(news)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            while True:
                await self._write(await self._waiting.get())
        finally:
            for handle in self._timers:
                handle.cancel()

    def _queue(self, news: _News) -> None:
        """To be written as soon as the spacing allows; at most once in the line."""
        if news.queued:
            return
        wait = news.written + SPACING_SECONDS - self._clock.monotonic()
        news.queued = True
        if wait <= 0:
            self._put(news)
            return
        handle = asyncio.get_running_loop().call_later(wait, self._put, news)
        self._timers.append(handle)
        while self._timers[0].when() < asyncio.get_running_loop().time():
            self._timers.popleft()

    def _put(self, news: _News) -> None:
        try:
            self._waiting.put_nowait(news)
        except asyncio.QueueFull:
            news.queued = False
            DROPPED.labels("full").inc()

    async def _write(self, news: _News) -> None:
        news.queued, news.written = False, self._clock.monotonic()
        namespace = news.regarding.namespace or WHEN_CLUSTER_SCOPED
        try:
            if news.created:
                await self._count_on(news, namespace)
            else:
                await self._client.create(EVENTS, self._body(news, namespace), namespace=namespace)
                news.created = True
        except (NotFound, Forbidden) as e:
            # The namespace is going, or we may not: the next one will fare no better.
            DROPPED.labels("refused").inc()
            if type(e).__name__ not in self._complained:
                self._complained.add(type(e).__name__)
                LOG.warning("an event could not be written: %s", e)
        except TransportError as e:
            DROPPED.labels("refused").inc()
            LOG.debug("an event could not be written: %s", e)

    async def _count_on(self, news: _News, namespace: str) -> None:
        series = {"count": news.count, "lastObservedTime": microtime(news.last)}
        try:
            await self._client.merge_patch(
                EVENTS, news.name, {"note": news.note, "series": series}, namespace=namespace
            )
        except NotFound:  # events live an hour
            news.first, news.count, news.created = news.last, 1, False
            await self._client.create(EVENTS, self._body(news, namespace), namespace=namespace)
            news.created = True

    def _body(self, news: _News, namespace: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": news.name, "namespace": namespace},
            "eventTime": microtime(news.first),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": news.regarding.to_dict(),
            "type": news.type,
            "reason": news.reason,
            "action": news.action,
            "note": news.note,
        }
        if news.count > 1:
            body["series"] = {"count": news.count, "lastObservedTime": microtime(news.last)}
        return body
