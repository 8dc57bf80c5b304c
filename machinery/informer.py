"""A local picture of one resource that stays true: list once, then watch, and never lose a delete.

`Informer` is a `Cache` that keeps itself up to date from an API server. It promises:

- After a cut it resumes from the last resourceVersion it saw, bookmarks included; it lists again
  only when the server has forgotten that moment (410) or sent a line that cannot be read, and then
  tells what went away meanwhile as deletions, and what was replaced under the same name as a
  deletion and an addition.
- It goes back in time only when the server does. A list is asked for without resourceVersion, which
  is a consistent read: `resourceVersion="0"` may be answered by a server that lags behind the one
  we heard before, and would bring deleted objects back. Servers since 1.31 answer the consistent
  read from their cache too, so it costs one round trip to etcd and not a scan.
  When even a consistent list is older than what was seen, etcd was restored: the list is the truth.
- It never spins: attempts are spaced by a back-off with jitter that only a healthy time resets.
- Memory stays bounded: lists come in pages, each object is decoded alone into the typed struct, and
  what `transform` answers None for is not kept.
- An object that cannot be decoded stays as it was last seen, and is logged: it is not a deletion.

Why not a library's: those available lose deletes across a relist, or reconnect without back-off.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from machinery.backoff import Jitter, delay
from machinery.cache import Cache, order, text
from machinery.clock import Clock, SystemClock
from machinery.errors import ApiError, Gone, TransportError
from machinery.objects import Key, Meta, Object
from machinery.resources import Resource
from machinery.transport import ApiClient

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)
D = TypeVar("D")

WATCH_SECONDS = 60
"""A watch is asked for that long, and up to half as much again. The transport calls a connection
dead that is silent for longer, so this bounds how long a dead one goes unnoticed; resuming costs
one request."""
HEALTHY_SECONDS = 30.0
"""A watch that lived that long owes nothing to earlier failures."""
BASE_DELAY = 0.2
LIST_PAGE = 200
"""Objects of one page: the largest answer of a list, undecoded, is held once."""
MOST_DELAY_CUT = 5.0
"""Seconds between watches that begin well and die early."""
MOST_DELAY_FAILED = 30.0
"""Seconds between attempts that fail."""


class _Unreadable(TransportError):
    """The answer is not what an API server would say."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


_page = msgspec.json.Decoder(_Page)
_event = msgspec.json.Decoder(_Event)
_status = msgspec.json.Decoder(_Status)
_identity = msgspec.json.Decoder(Object)


@functools.cache
def _decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    """One for each type: hundreds of informers share it."""
    return msgspec.json.Decoder(type_)


class Informer(Cache[T]):
    """The objects of `resource`, in one namespace or all, as far as the selectors choose them.

    `transform` is called with each object decoded as `type_`; it answers what to keep of it, with
    the same metadata.{name,namespace,uid,resourceVersion}, or None to keep nothing. With
    `metadata_only` the server sends no more than apiVersion, kind and metadata.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        transform: Callable[[T], T | None] | None = None,
        clock: Clock | None = None,
        jitter: Jitter = random.random,
    ) -> None:
        super().__init__()
        self.resource = resource
        self.last_error: TransportError | None = None
        self._client = client
        self._selection: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "metadata_only": metadata_only,
        }
        self._decoder: msgspec.json.Decoder[T] = _decoder(type_)
        self._transform = transform
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._spoke = -math.inf
        self._synced = asyncio.Event()
        self._failures = 0
        self._listed = False  # or `version` is too old to watch from
        self._whole = False  # the next list is asked for in one piece

    @property
    def synced(self) -> bool:
        """True once everything was listed; it stays True, `staleness` says how true it still is."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return once `synced`."""
        await self._synced.wait()

    def staleness(self) -> float:
        """Seconds since the server last spoke: a page, a watch that began, an event, a bookmark.

        inf before the first time. A healthy server speaks about once a minute.
        """
        return self._clock.monotonic() - self._spoke

    def upsert(self, obj: T) -> None:
        """Take the answer to a write of our own at once, `obj` as decoded, not yet transformed.

        Ignored when not newer than what is held, or than what was seen: an object seen to go since
        does not come back. It must be one that the selectors choose.
        """
        if order(obj.metadata.resource_version, self.version) not in (-1, 0):
            self._keep(obj, self.observe)

    async def run(self) -> None:
        """Keep the picture true until cancelled. May be run again; it goes on where it stood."""
        while True:
            await self.step()

    async def step(self) -> None:
        """The body of the loop: list if needed, watch until it ends, wait. Faults end here."""
        started = self._clock.monotonic()
        fault: TransportError | None = None
        try:
            if not self._listed:
                await self._list()
            await self._watch()
        except TransportError as e:
            fault = e
        self._settle(fault, lived=self._clock.monotonic() - started)
        await self._clock.sleep(self._pause(fault, spoke=self._spoke >= started))

    def _settle(self, fault: TransportError | None, *, lived: float) -> None:
        """Draw the lesson of an attempt: what to ask for next, and how patient to be."""
        self._failures = 1 if lived >= HEALTHY_SECONDS else self._failures + 1
        if isinstance(fault, Gone | _Unreadable):  # resuming would bring the same line again
            self._listed = False
        news = fault is not None and str(fault) != str(self.last_error)
        if news and not isinstance(fault, Gone):
            log.warning("%s cannot be watched: %s", self.resource.plural, fault)
        self.last_error = fault

    def _pause(self, fault: TransportError | None, *, spoke: bool) -> float:
        cap = MOST_DELAY_CUT if spoke else MOST_DELAY_FAILED
        wait = delay(self._failures, base=BASE_DELAY, cap=cap, jitter=self._jitter)
        asked = fault.retry_after if isinstance(fault, ApiError) else None
        return max(wait, asked or 0.0)

    async def _list(self) -> None:
        """Take everything in, then drop what is no longer there.

        When the pages outlive the server's memory of their moment (Gone), the next list is asked
        for in one piece, as that cannot expire.
        """
        limit, self._whole = (0, False) if self._whole else (LIST_PAGE, False)
        try:
            await self._take_pages(
                self._client.pages(self.resource, limit=limit, **self._selection)
            )
        except Gone:
            self._whole = limit > 0
            raise

    async def _take_pages(self, pages: AsyncIterator[bytes]) -> None:
        seen: set[Key] = set()
        version, restored = "", False
        async for answer in pages:
            self._heard()
            page = _decode(_page, answer)
            version = page.metadata.resource_version
            restored = order(version, self.version) == -1
            seen.update(self._take_page(page, self.replace if restored else self.observe))
        self.retain(seen, unless_after=None if restored else version)
        self.version, self._listed = version, True
        self._synced.set()

    def _take_page(self, page: _Page, take: Callable[[T], None]) -> Iterator[Key]:
        """The keys of what is to be kept."""
        for raw in page.items or ():
            meta, kept = self._learn(raw, take)
            if kept:
                yield meta.key

    async def _watch(self) -> None:
        """Follow the changes until the stream ends. Raises what it ended with."""
        seconds = round(WATCH_SECONDS * (1 + self._jitter() / 2))
        async with self._client.watch(
            self.resource,
            resource_version=self.version,
            timeout_seconds=seconds,
            **self._selection,
        ) as lines:
            self._heard()
            self.last_error = None
            async for line in lines:
                self._heard()
                self._follow(_decode(_event, line))

    def _follow(self, event: _Event) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                meta, _ = self._learn(event.object, self.observe)
            case "DELETED":
                gone = _decode(_identity, event.object)
                self.lose(gone)
                meta = gone.metadata
            case "BOOKMARK":
                meta = _decode(_identity, event.object).metadata
            case _:  # ERROR
                status = _decode(_status, event.object)
                raise ApiError.of(code=status.code, reason=status.reason, message=status.message)
        self._move_to(meta.resource_version)

    def _move_to(self, version: str) -> None:
        if order(version, self.version) == -1:  # etcd was restored under a running server
            raise Gone(code=410, reason="Expired", message="the server went back in time")
        self.version = version

    def _learn(self, raw: msgspec.Raw, take: Callable[[T], None]) -> tuple[Meta, bool]:
        """Decode one object and take it in: its metadata, and whether it belongs in the picture."""
        try:
            obj = self._decoder.decode(raw)
            return obj.metadata, self._keep(obj, take)
        except Exception:
            meta = _decode(_identity, raw).metadata
            log.exception(
                "one of the %s cannot be read, its last state is kept",
                self.resource.plural,
                extra={"object": text(meta.key)},
            )
            return meta, True

    def _keep(self, obj: T, take: Callable[[T], None]) -> bool:
        kept = self._transform(obj) if self._transform else obj
        if kept is None:
            self.lose(obj)
        else:
            take(kept)
        return kept is not None

    def _heard(self) -> None:
        self._spoke = self._clock.monotonic()


def _decode(decoder: msgspec.json.Decoder[D], answer: bytes | msgspec.Raw) -> D:
    """Raises _Unreadable, also for what is no UTF-8 or nested without end."""
    try:
        return decoder.decode(answer)
    except (ValueError, RecursionError) as e:
        raise _Unreadable(f"the answer is not the JSON that was asked for: {e}") from e
