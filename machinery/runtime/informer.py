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
  A server takes a watch from a moment that has not come yet, and shows nothing until it comes. So
  after a watch that ended before its time one object is listed, for the version of that list.
- It never spins: attempts are spaced by a back-off with jitter that only a healthy time resets.
- Memory stays bounded: lists come in pages, each object is decoded alone into the typed struct, and
  what `transform` answers None for is not kept. A server that shows more than is kept of it
  (`machinery.types.memory_budget`) is told off as one that fails, and nothing of it is forgotten
  for that.
- The loop stays free: however much a server says, it is taken in slices (`machinery.pace`).
- An object that cannot be decoded stays as it was last seen, and is logged, once a minute for all
  of them: it is not a deletion.

Why not a library's: those available lose deletes across a relist, or reconnect without back-off.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from machinery.api.resources import Resource
from machinery.api.responses import Unreadable
from machinery.api.status_errors import told
from machinery.api.verbs import Verbs
from machinery.clock import Clock, SystemClock
from machinery.errors import ApiError, Forbidden, Gone, TransportError
from machinery.pace import TimeSlice
from machinery.runtime.backoff import Jitter, delay
from machinery.runtime.list_and_watch import (
    WatchEvent,
    check_names,
    decoder_of,
    event_of,
    free_form,
    identity_of,
    taken_apart,
)
from machinery.runtime.store import Cache, order, text
from machinery.types import bounds
from machinery.types.bounds import TooMuch
from machinery.types.memory_budget import NoRoom, Shelf
from machinery.types.metadata import Key, Meta, Object

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

WATCH_SECONDS = 60
"""A watch is asked for that long, and up to half as much again. The transport calls a connection
dead that is silent for longer, so this bounds how long a dead one goes unnoticed; resuming costs
one request."""
STALE_SECONDS = 150.0
"""A healthy server speaks about once a minute; nothing is concluded from an older picture."""
HEALTHY_SECONDS = 30.0
"""A watch that lived that long owes nothing to earlier failures."""
BASE_DELAY = 0.2
LIST_PAGE = 200
"""Objects of one page: the largest answer of a list, undecoded, is held once."""
MOST_DELAY_CUT = 5.0
"""Seconds between watches that begin well and die early."""
COMPLAINT_SECONDS = 60.0
MOST_DELAY_FAILED = 30.0
"""Seconds between attempts that fail."""


class Informer(Cache[T]):
    """The objects of `resource`, in one namespace or all, as far as the selectors choose them.

    `transform` is called with each object decoded as `type_`; it answers what to keep of it, with
    the same metadata.{name,namespace,uid,resourceVersion}, or None to keep nothing. With
    `metadata_only` the server sends no more than apiVersion, kind and metadata. `kept_bytes` is
    what `transform` leaves of each object, about; otherwise the bytes that came are counted.
    `departing` is called with the bytes of a deleted object that cannot be read, and with its last
    state that could; it answers what stands for it, so that whose finalizer it has can end it.
    """

    def __init__(
        self,
        client: Verbs,
        resource: Resource,
        type_: type[T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        transform: Callable[[T], T | None] | None = None,
        departing: Callable[[msgspec.Raw, T | None], T] | None = None,
        clock: Clock | None = None,
        jitter: Jitter = random.random,
        kept_bytes: int | None = None,
    ) -> None:
        super().__init__()
        self.resource = resource
        self.last_error: TransportError | None = None
        self._client = client
        self._shelf = Shelf(client.holding, self)
        self._kept_bytes = kept_bytes
        self._sizes: dict[Key, int] = {}
        self._complained = -math.inf
        self.selection: Mapping[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "metadata_only": metadata_only,
        }
        self._decoder: msgspec.json.Decoder[T] = decoder_of(type_)
        self._free_form = free_form(type_)
        self._transform = transform
        self._departing = departing
        self._clock = clock or SystemClock()
        self._jitter = jitter
        self._spoke = -math.inf
        self._failed = -math.inf
        self._synced = asyncio.Event()
        self._failures = 0
        self._listed = False  # or `version` is too old to watch from
        self._cut = False  # the server may be another one since, or have been restored
        self._whole = False  # the next list is asked for in one piece

    @property
    def synced(self) -> bool:
        """True once everything was listed; it stays True, `staleness` says how true it still is."""
        return self._synced.is_set()

    @property
    def trusted(self) -> bool:
        """Whether the picture may be acted on: everything was listed, and is followed still."""
        return self.synced and self.staleness() <= STALE_SECONDS

    @property
    def refused(self) -> Forbidden | None:
        """The server's word that these may not be read; None as soon as it has shown them again."""
        fault = self.last_error
        return fault if isinstance(fault, Forbidden) and self._spoke <= self._failed else None

    async def wait_synced(self) -> None:
        """Return once `synced`."""
        await self._synced.wait()

    def mistrust(self) -> None:
        """Nobody has run it for a while: it is stale until the server speaks again."""
        self._spoke = -math.inf

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
            with suppress(NoRoom):  # then the watch shall say so
                self._keep(obj, self.observe, size=self._sizes.get(obj.metadata.key, 0))

    def discard(self) -> None:
        """It will not be run again: what it holds counts no longer for its server."""
        self._sizes.clear()
        self._shelf.close()

    async def run(self) -> None:
        """Keep the picture true until cancelled. May be run again; it goes on where it stood."""
        while True:
            await self.step()

    async def step(self) -> None:
        """The body of the loop: list if needed, watch until it ends, wait. Faults end here."""
        started = self._clock.monotonic()
        fault: TransportError | None = None
        try:
            if self._cut and self._listed and await self._restored():
                self._listed = False
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
        if isinstance(fault, Gone | Unreadable):  # resuming would bring the same line again
            if isinstance(fault, Gone) and self._listed:
                log.info("%s are listed anew: %s", self.resource.plural, fault)
            self._listed = False
        news = fault is not None and str(fault) != str(self.last_error)
        if news and not isinstance(fault, Gone):
            log.warning("%s cannot be watched: %s", self.resource.plural, fault)
        self.last_error, self._failed = fault, self._clock.monotonic()

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
            await self._take_pages(self._client.pages(self.resource, limit=limit, **self.selection))
        except Gone:
            self._whole = limit > 0
            raise

    async def _restored(self) -> bool:
        """Whether the server is at an earlier moment than the one that was seen."""
        now = await self._client.latest(self.resource, **self.selection)
        return order(now, self.version) == -1

    async def _take_pages(self, pages: AsyncIterator[bytes]) -> None:
        seen: set[Key] = set()
        version, restored = "", False
        stint = TimeSlice(self._client.pace)
        async for answer in pages:
            self._heard()
            stint.begin()
            page = taken_apart(answer)
            version = page.metadata.resource_version
            restored = order(version, self.version) == -1
            take = self.replace if restored else self.observe
            for raw in page.items or ():
                if stint.due():
                    await stint.pause()
                meta, kept = self._learn(raw, take)
                if kept:
                    seen.add(meta.key)
            self._check_number(len(seen))
            await stint.pause()
        for key, held in self.missing(seen, unless_after=None if restored else version):
            if stint.due():
                await stint.pause()
            self.give_up(key, held)
        self.version, self._listed = version, True
        self._synced.set()

    def _check_number(self, objects: int) -> None:
        if objects > bounds.KEPT_OBJECTS:
            self._client.refuse("list")
            raise NoRoom(f"there are more than {bounds.KEPT_OBJECTS} {self.resource.plural}")

    async def _watch(self) -> None:
        """Follow the changes until the stream ends. Raises what it ended with."""
        seconds = round(WATCH_SECONDS * (1 + self._jitter() / 2))
        began, self._cut = self._clock.monotonic(), True
        async with self._client.watch(
            self.resource,
            resource_version=self.version,
            timeout_seconds=seconds,
            **self.selection,
        ) as lines:
            self._heard()
            self.last_error = None
            async for line in lines:
                self._heard()
                self._follow(event_of(line))
        self._cut = self._clock.monotonic() - began < seconds

    def _follow(self, event: WatchEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                meta, _ = self._learn(event.object, self.observe)
            case "DELETED":
                gone = identity_of(event.object)
                self.lose(gone)
                meta = gone.metadata
            case "BOOKMARK":
                meta = identity_of(event.object).metadata
            case _:  # ERROR
                raise told(event.object)
        self._move_to(meta.resource_version)

    def _move_to(self, version: str) -> None:
        if order(version, self.version) == -1:  # etcd was restored under a running server
            raise Gone(code=410, reason="Expired", message="the server went back in time")
        self.version = version

    def _learn(self, raw: msgspec.Raw, take: Callable[[T], None]) -> tuple[Meta, bool]:
        """Decode one object and take it in: its metadata, and whether it belongs in the picture."""
        size = len(memoryview(raw))
        try:
            if self._free_form:
                bounds.check_json(memoryview(raw))
            obj = self._decoder.decode(raw)
            check_names(obj.metadata)
            return obj.metadata, self._keep(obj, take, size=self._kept_bytes or size)
        except NoRoom:
            self._client.refuse("list")
            raise
        except Exception as e:  # noqa: BLE001 - one object of whatever form spoils no other
            meta = identity_of(raw).metadata
            self._client.refuse("object")
            self._complain(meta, e)
            if meta.deleting and self._departing is not None:
                self._depart(raw, meta, take)
            return meta, meta.key in self

    def _depart(self, raw: msgspec.Raw, meta: Meta, take: Callable[[T], None]) -> None:
        """Take in what stands for a deleted object that cannot be read: its finalizer is ours."""
        assert self._departing is not None  # noqa: S101 - the caller's promise
        with suppress(ValueError, RecursionError):  # then its last state is kept
            obj = self._departing(raw, self.get(meta.key))
            self._keep(obj, take, size=self._sizes.get(meta.key, 0))

    def _complain(self, meta: Meta, fault: Exception) -> None:
        """Say once in a while that something cannot be read; a fault of our own with its trace."""
        if self._clock.monotonic() - self._complained < COMPLAINT_SECONDS:
            return
        self._complained = self._clock.monotonic()
        foreseen = isinstance(fault, TooMuch | ValueError)
        log.log(
            logging.WARNING if foreseen else logging.ERROR,
            "one of the %s cannot be read, its last state is kept: %s",
            self.resource.plural,
            bounds.clean(str(fault), bounds.NAME),
            extra={"object": bounds.clean(text(meta.key), bounds.NAME)},
            exc_info=None if foreseen else fault,
        )

    def _keep(self, obj: T, take: Callable[[T], None], *, size: int) -> bool:
        kept = self._transform(obj) if self._transform else obj
        if kept is None:
            self.lose(obj)
            return False
        key = obj.metadata.key
        if key not in self:
            self._check_number(len(self) + 1)
        self._shelf.take(size)
        take(kept)
        self._shelf.take(-self._sizes.pop(key, 0))
        self._sizes[key] = size
        return True

    def _drop(self, held: T) -> None:
        self._shelf.take(-self._sizes.pop(held.metadata.key, 0))
        super()._drop(held)

    def _heard(self) -> None:
        self._spoke = self._clock.monotonic()
