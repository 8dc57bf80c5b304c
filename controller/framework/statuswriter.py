"""The base of controllers that write the statuses of one kind: queue, draft, compare-and-swap.

Changes during a write are merged into the next one. On a conflict the status is drafted on the
newer version. A refused status is retried shorter if the controller can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import msgspec

from machinery import logs
from machinery.api.resources import Resource
from machinery.api.verbs import MERGE_PATCH
from machinery.errors import Conflict, Invalid, NotFound, TooLarge, TransportError
from machinery.runtime.event_recorder import ObjectRef, one_cluster
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import in_slices
from machinery.types import conditions
from machinery.types.metadata import Key, Meta, Object

if TYPE_CHECKING:
    from controller.framework.runtime.feature import Term

LOG = logs.get(__name__)
WRITERS = 16
RESYNC_SECONDS = 1.0
"""Seconds between two rounds over all objects."""
LEAST_WAIT = 0.1
"""The least seconds until the next draft: the two clocks that measure them differ slightly."""
MESSAGE_LIMIT = 4096
VALID = "its spec is valid and in force"
"""The longest message of a condition, by the schemas of the kinds."""
LONGEST_WAIT = 3600.0
"""Seconds after which an object is drafted again, in case the wall clock was set."""


def for_good(error: TransportError) -> bool:
    """Whether the hub would refuse a retry: it breaks the schema, or is too large."""
    return isinstance(error, Invalid | TooLarge)


def answer(done: asyncio.Future[bool], granted: bool | TransportError) -> None:
    """Answer a decision that waits for a status. The first answer counts."""
    if done.done():
        return
    if isinstance(granted, bool):
        done.set_result(granted)
    else:
        done.set_exception(granted)


def changed(fields: Mapping[str, Any], status: Any) -> list[str]:
    """Return the fields that the stored status lacks. Empty values are equal."""
    given = {name: value for name, value in fields.items() if value}
    wanted = msgspec.to_builtins(msgspec.convert(msgspec.to_builtins(given), type(status)))
    had = msgspec.to_builtins(status)
    return [name for name in fields if (wanted.get(name) or None) != (had.get(name) or None)]


def ready_conditions(
    stored: Any,
    *,
    true: bool,
    reason: str,
    message: str,
    now: datetime,
    waits: Collection[str] = (),
) -> list[conditions.Condition]:
    """Return the condition Ready as of now, with `conditions.with_progress`.

    An object that is ready for no other reason than its spec gives no message.
    """
    before = stored.status.conditions
    ready = conditions.renewed(
        conditions.among(before, conditions.READY),
        type_=conditions.READY,
        true=true,
        reason=reason,
        message=(message or VALID)[:MESSAGE_LIMIT],
        now=now,
        generation=stored.metadata.generation,
    )
    return conditions.with_progress([ready], waits=waits, before=before, now=now)


@dataclass(frozen=True, slots=True)
class StatusEvent:
    reason: str
    note: str
    warning: bool = False
    clusters: Collection[str] = ()
    """A single one is the Event's `related` object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A drafted status.

    Args:
        fields: by their JSON names; None writes nothing.
        events: emitted once the status is stored.
        requeue_after: seconds until the next draft, from this one.
        anyway: write unchanged fields too, to swap the version.
        carry: the controller's own, for the end of the turn.
    """

    fields: Mapping[str, Any] | None
    events: Sequence[StatusEvent] = ()
    requeue_after: float | None = None
    anyway: bool = False
    carry: Any = None


T = TypeVar("T", bound=Object)


class _Stored(Protocol[T]):
    def get(self, key: Key) -> T | None: ...

    def values(self) -> Collection[T]: ...

    def upsert(self, obj: T) -> None: ...


class StatusWriter(Generic[T]):
    """Writes the statuses of a kind for one term, one write per object at a time.

    A subclass drafts them. All its methods except `prepare` return at once. `action` is that of its
    Events.
    """

    action = ""

    def __init__(self, term: Term, resource: Resource, type_: type[T]) -> None:
        self._client = term.client
        self._clock = term.clock
        self._check = term.check
        self._recorder = term.recorder
        self._resource = resource
        self._stored: _Stored[T] = term.informer(resource)
        self._drafts: dict[Key, Result] = {}
        self._written: dict[Key, float] = {}
        self._decoder = msgspec.json.Decoder(type_)
        self._queue: WorkQueue[Key] = WorkQueue(
            name=resource.kind.lower(), clock=term.clock, flow=namespace_of, seats=WRITERS
        )
        self._everything = asyncio.Event()
        self._everything.set()

    async def prepare(self, stored: T) -> None:
        """Write what must precede the status."""

    def draft(self, stored: T) -> Result | None:
        """Return the status by the stored objects; None leaves the object alone."""
        raise NotImplementedError

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        """The draft is stored, by this write or before."""

    def conflicted(self, key: Key, result: Result) -> None:
        """Another writer was faster. The next draft reads its version."""

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        """The hub refuses the status. Return whether the next draft is shorter."""
        return False

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        """A turn ended with an error, or a draft that is not stored."""

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

    def rest(self, key: Key, seconds: float) -> float:
        """Return seconds until the term's last write is `seconds` old; 0 without one."""
        written = self._written.get(key)
        return 0.0 if written is None else max(written + seconds - self._clock.monotonic(), 0.0)

    def resync(self, stored: T) -> None:
        self.add(stored.metadata.key)

    def add(self, key: Key, *, after: float = 0.0) -> None:
        """Update an object's status now, or within `after` seconds."""
        if after:
            self._queue.add_after(key, after)
        else:
            self._queue.add(key)

    def add_all(self) -> None:
        self._everything.set()

    def emit(self, about: Meta, event: StatusEvent) -> None:
        self._recorder.event(
            ObjectRef(self._resource.api_version, self._resource.kind, *about.key, about.uid),
            type="Warning" if event.warning else "Normal",
            reason=str(event.reason),
            note=event.note,
            action=self.action,
            related=one_cluster(event.clusters),
        )

    async def run(self) -> None:
        """Write until cancelled, all objects first: there may be changes from before the term."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._rounds())
                tasks.create_task(work(self._queue, self.sync, workers=WRITERS, log=LOG))
        finally:
            self._queue.shut_down()

    async def sync(self, key: Key) -> float | None:
        """Update one status. Return the seconds until the next draft, or None.

        Raises LeaseLost, or TransportError if a retry may help.
        """
        error: TransportError | None = None
        try:
            if (stored := self._stored.get(key)) is not None:
                await self.prepare(stored)
            return await self._bring(key)
        except TransportError as e:
            error = e
            raise
        finally:
            result = self._drafts.pop(key, None)
            if result is not None or error is not None:
                self.failed(key, result, error)

    async def _rounds(self) -> None:
        while True:
            await self._everything.wait()
            self._everything.clear()
            async for stored in in_slices(list(self._stored.values())):
                self.resync(stored)
            await self._clock.sleep(RESYNC_SECONDS)

    async def _bring(self, key: Key) -> float | None:
        while (stored := self._stored.get(key)) is not None:
            began, result = self._clock.monotonic(), self.draft(stored)
            if result is None:
                return None
            self._drafts[key] = result
            fields, status = result.fields, cast("Any", stored).status
            if fields is None or not (result.anyway or changed(fields, status)):
                return self._done(stored.metadata, result, began, written=False)
            try:
                await self._write(stored.metadata, fields)
            except Conflict:
                await self._fetch(key)
                self._drafts.pop(key, None)
                self.conflicted(key, result)
                self.add(key)
                return None
            except NotFound:
                return None
            except TransportError as e:
                if not for_good(e):
                    raise
                self._drafts.pop(key, None)
                if not self.shorter(key, result, e):
                    about = {"object": "/".join(key)}
                    LOG.warning("the hub refuses its status: %s", e, extra=about)
                    return None
            else:
                return self._done(stored.metadata, result, began, written=True)
        return None

    def _done(self, about: Meta, result: Result, began: float, *, written: bool) -> float | None:
        self._drafts.pop(about.key, None)
        if written:
            self._written[about.key] = self._clock.monotonic()
        self.landed(about.key, result, written=written)
        if self._stored.get(about.key) is None:  # it may be gone already
            self._written.pop(about.key, None)
            return None
        for event in result.events:
            self.emit(about, event)
        if result.requeue_after is None:
            return None
        due = result.requeue_after - (self._clock.monotonic() - began)
        return min(max(due, LEAST_WAIT), LONGEST_WAIT)

    async def _write(self, meta: Meta, status: Mapping[str, Any]) -> None:
        self._check()
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        path = self._resource.path(meta.namespace or None, meta.name, "status")
        answer = await self._client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        self._stored.upsert(self._decoder.decode(answer))

    async def _fetch(self, key: Key) -> None:
        with suppress(NotFound):
            path = self._resource.path(key[0] or None, key[1])
            self._stored.upsert(self._decoder.decode(await self._client.request("GET", path)))
