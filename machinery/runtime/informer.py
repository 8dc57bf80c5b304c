"""A local cache of one resource: list once, then watch, and never lose a deletion.

- After a cut the watch resumes from the last resourceVersion, bookmarks included. Only 410, an
  unreadable line or a restored etcd cause a new list. It reports missing objects as deletions, and
  replaced ones (same name, other uid) as a deletion and an addition.
- The cache goes back in time only when the server does (`_restored`).
- Attempts have a back-off with jitter, which only a healthy period resets.
- A server that restarts, or changes a kind, ends all watches and refuses their versions. Where
  others watch the same (`crowded`), a random pause precedes the list, which has small pages.
- Objects are decoded one by one, in slices (`machinery.pace`). A server that exceeds its budget
  (`machinery.types.memory_budget`) counts as failing.
- An undecodable object keeps its last state: it is not a deletion.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import msgspec
import msgspec.inspect

from machinery.api.resources import Resource
from machinery.api.responses import ListMeta, PageHead, Unreadable, decode
from machinery.api.status_errors import error_of
from machinery.api.verbs import Selection, Verbs
from machinery.clock import Clock, SystemClock
from machinery.errors import ApiError, Forbidden, Gone, NotFound, TransportError
from machinery.pace import TimeSlice
from machinery.runtime.backoff import Jitter, delay
from machinery.runtime.store import Cache, number, order, text
from machinery.types import bounds
from machinery.types.bounds import TooMuch
from machinery.types.memory_budget import NoRoom, Shelf
from machinery.types.metadata import Key, Meta, Object, shared

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

WATCH_SECONDS = 60
"""The requested duration of a watch, plus up to half as much."""
STALE_SECONDS = 150.0
"""Seconds after which a cache is not trusted."""
HEALTHY_SECONDS = 30.0
"""Seconds of life after which a watch resets the back-off."""
BASE_DELAY = 0.2
LIST_PAGE = 200
"""Objects of one page."""
CROWD_PAGE = 50
"""The same, where others list beside us: a server's queues charge a list by its limit."""
CROWD_SECONDS = 30.0
"""Seconds at most before such a list."""
MOST_DELAY_CUT = 5.0
COMPLAINT_SECONDS = 60.0
MOST_DELAY_FAILED = 30.0
"""Seconds at most between attempts that fail."""
MOST_DELAY_ABSENT = 3.0
"""Seconds at most between attempts while the server lacks a kind that may be added at any time."""


class Aside(msgspec.Struct, frozen=True, gc=False):
    """What is kept of an object that was put aside, beside its UID."""

    namespace: str
    name: str
    version: int


AsideHandler: TypeAlias = Callable[[str, Object | None], None]


class Informer(Cache[T]):
    """The objects of `resource`, in one namespace or all, that the selectors choose.

    `transform` maps an object decoded as `type_` to the object to keep, with the same
    metadata.{name,namespace,uid,resourceVersion}, or to None. With `metadata_only` the server sends
    only apiVersion, kind and metadata. `kept_bytes` estimates a transformed object; without it the
    received bytes count. `departing` takes the bytes of an unreadable object with a
    deletionTimestamp, and its last readable state.

    `aside` takes the bytes of an object that need not be kept, and returns what it has read; None
    for any other.
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
        comes_and_goes: bool = False,
        aside: Callable[[msgspec.Raw], Object | None] | None = None,
    ) -> None:
        super().__init__()
        self.put_aside: dict[str, Aside] = {}
        """By UID."""
        self._aside = aside
        self._aside_handlers: list[AsideHandler] = []
        self._most_absent = MOST_DELAY_ABSENT if comes_and_goes else MOST_DELAY_FAILED
        self.resource = resource
        self.last_error: TransportError | None = None
        self._client = client
        self._shelf = Shelf(client.holding, self)
        self._kept_bytes = kept_bytes
        self._sizes: dict[Key, int] = {}
        self._complained = -math.inf
        self.selection: Selection = {
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
        self._believed = asyncio.Event()
        self._tried = asyncio.Event()
        self._failures = 0
        self._answered = ""  # the newest version from an answer to our own write
        self._listed = False  # False also where `version` is too old to watch from
        self._cut = False  # the server may have been replaced or restored since
        self._history = client.history.number  # of `version`
        self._whole = False  # the next list is requested in one piece
        self._list_after = -math.inf  # monotonic: others list at the same moment
        self.crowded: Callable[[], bool] = lambda: False
        """Whether other processes watch the same, whose watches end together with this one."""

    @property
    def synced(self) -> bool:
        """True once everything was listed, until `list_anew`."""
        return self._synced.is_set()

    @property
    def trusted(self) -> bool:
        """Whether callers may act on the cache: it is synced, and younger than STALE_SECONDS."""
        return self.synced and self.staleness() <= STALE_SECONDS

    @property
    def refused(self) -> Forbidden | None:
        """The server's refusal to show these objects; None as soon as it shows them again."""
        fault = self.last_error
        return fault if isinstance(fault, Forbidden) and self._spoke <= self._failed else None

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_trusted(self) -> None:
        """Wait until everything was listed, and the server has answered since `mistrust`."""
        await self._synced.wait()
        await self._believed.wait()

    @property
    def tried(self) -> bool:
        """Whether the server has shown everything since `mistrust`, or an attempt has failed."""
        return self._tried.is_set()

    async def wait_tried(self) -> None:
        await self._tried.wait()

    def mistrust(self) -> None:
        """Make the cache stale until the server answers again."""
        self._spoke = -math.inf
        self._believed.clear()
        self._tried.clear()
        self._cut = True

    def staleness(self) -> float:
        """Return seconds since the last page, start of a watch, event or bookmark, or inf."""
        return self._clock.monotonic() - self._spoke

    def upsert(self, obj: T) -> None:
        """Store the answer to our own write, `obj` as decoded, not yet transformed.

        It is ignored unless newer than the cached object and than `version`: an object whose
        deletion was seen since does not come back. The selectors must choose the object.
        """
        version = obj.metadata.resource_version
        if order(version, self.version) not in (-1, 0):
            with suppress(NoRoom):  # the watch will report it
                self._keep(obj, self.observe, size=self._sizes.get(obj.metadata.key, 0))
            if order(version, self._answered) != -1:
                self._answered = version

    def on_aside(self, handler: AsideHandler) -> None:
        """Call `handler` for what is put aside, and when it is gone. It must not block."""
        self._aside_handlers.append(handler)

    def take_up(self, obj: T) -> None:
        """Keep an object that was put aside, as read on its own, unless it was seen to change."""
        self._take_up(obj.metadata, lambda: self._keep(obj, self.observe, size=0))

    def _take_up(self, meta: Meta, keep: Callable[[], object]) -> None:
        held, version = self.put_aside.get(meta.uid), number(meta.resource_version)
        if held is not None and (version is None or version >= held.version):
            keep()

    def list_anew(self) -> None:
        """Have the next run begin with a list: `aside` judges otherwise now."""
        self._listed = False
        self._synced.clear()

    async def sift(self) -> None:
        """Read everything once more: `aside` judges otherwise now. Raises TransportError.

        The watch goes on. An object that it has shown to be gone does not come back.
        """
        stint = TimeSlice(self._client.pace)
        page = CROWD_PAGE if self.crowded() else LIST_PAGE
        async for answer in self._client.pages(self.resource, limit=page, **self.selection):
            stint.begin()
            for raw in taken_apart(answer).items or ():
                if stint.due():
                    await stint.pause()
                self._sift(raw)
            await stint.pause()

    def _sift(self, raw: msgspec.Raw) -> None:
        brief = self._brief_of(raw)
        if brief is None:
            self._take_up(identity_of(raw).metadata, lambda: self._learn(raw, self.observe))
        elif (held := self.get(brief.metadata.key)) and held.metadata.uid == brief.metadata.uid:
            self._put_aside(brief, self.observe)

    def discard(self) -> None:
        self._sizes.clear()
        self._shelf.close()
        self._tried.set()

    async def run(self) -> None:
        while True:
            await self.step()

    async def step(self) -> None:
        if (wait := self._list_after - self._clock.monotonic()) > 0:
            await self._clock.sleep(wait)
        started = self._clock.monotonic()
        fault: TransportError | None = None
        try:
            if self._listed and await self._restored():
                self._listed = False
            if not self._listed:
                await self._list()
            await self._watch()
        except TransportError as e:
            fault = e
        self._settle(fault, lived=self._clock.monotonic() - started)
        await self._clock.sleep(self._pause(fault, spoke=self._spoke >= started))

    def _settle(self, fault: TransportError | None, *, lived: float) -> None:
        self._failures = 1 if lived >= HEALTHY_SECONDS else self._failures + 1
        if isinstance(fault, Gone | Unreadable):  # resuming would bring the same line again
            if isinstance(fault, Gone) and self._listed:
                log.info("%s are listed anew: %s", self.resource.plural, fault)
                if self.crowded() and self._history == self._client.history.number:
                    # Not so a server that was set back. All others were refused as well.
                    moment = CROWD_SECONDS * self._jitter()
                    self._list_after = self._clock.monotonic() + moment
            self._listed = False
        news = fault is not None and str(fault) != str(self.last_error)
        if news and not isinstance(fault, Gone):
            log.warning("%s cannot be watched: %s", self.resource.plural, fault)
        self.last_error, self._failed = fault, self._clock.monotonic()
        if fault is not None:
            self._tried.set()

    def _pause(self, fault: TransportError | None, *, spoke: bool) -> float:
        cap = self._most_absent if isinstance(fault, NotFound) else MOST_DELAY_FAILED
        cap = min(cap, MOST_DELAY_CUT) if spoke else cap
        wait = delay(self._failures, base=BASE_DELAY, cap=cap, jitter=self._jitter)
        asked = fault.retry_after if isinstance(fault, ApiError) else None
        return max(wait, asked or 0.0)

    async def _list(self) -> None:
        page = CROWD_PAGE if self.crowded() else LIST_PAGE
        limit, self._whole = (0, False) if self._whole else (page, False)
        try:
            await self._take_pages(self._client.pages(self.resource, limit=limit, **self.selection))
        except Gone:
            # The pages outlived their moment on the server. A list in one piece cannot expire.
            self._whole = limit > 0
            raise

    async def _restored(self) -> bool:
        """Whether the server is, or was, at an earlier moment than `version`: etcd was restored."""
        if self._history == self._client.history.number and self._cut:
            now = await self._client.latest(self.resource, **self.selection)
            if order(now, self.version) == -1:
                self._client.history.end(self._history)
        return self._history != self._client.history.number

    async def _take_pages(self, pages: AsyncIterator[bytes]) -> None:
        seen, gone_aside = set[Key](), set(self.put_aside)
        version, restored, history = "", False, self._client.history.number
        stint = TimeSlice(self._client.pace)
        async for answer in pages:
            self._heard()
            stint.begin()
            page = taken_apart(answer)
            version = page.metadata.resource_version
            if order(version, self.version) == -1 and history == self._history:
                self._client.history.end(history)
                history = self._client.history.number
            if restored := history != self._history:
                self._answered = ""  # of an ended history
            take = self.restore if restored else self.observe
            for raw in page.items or ():
                if stint.due():
                    await stint.pause()
                meta, kept = self._learn(raw, take)
                if kept:
                    seen.add(meta.key)
                gone_aside.discard(meta.uid)
            self._check_number(len(seen))
            await stint.pause()
        for key, held in self.missing(seen, unless_after=None if restored else version):
            if stint.due():
                await stint.pause()
            self.give_up(key, held)
        for uid in gone_aside:
            self._forget(uid)
        self.version, self._history, self._listed = version, history, True
        self._synced.set()
        self._tried.set()

    def _check_number(self, objects: int) -> None:
        if objects > bounds.KEPT_OBJECTS:
            self._client.refuse("list")
            raise NoRoom(f"there are more than {bounds.KEPT_OBJECTS} {self.resource.plural}")

    async def _watch(self) -> None:
        seconds = round(WATCH_SECONDS * (1 + self._jitter() / 2))
        began, self._cut, silent = self._clock.monotonic(), True, True
        async with self._client.watch(
            self.resource,
            resource_version=self.version,
            timeout_seconds=seconds,
            **self.selection,
        ) as lines:
            self._heard()
            self._tried.set()
            self.last_error = None
            async for line in lines:
                self._heard()
                self._follow(event_of(line))
                silent = False
        # A server that is behind `version` sends no bookmark, and ends the watch in time.
        self._cut = silent or self._clock.monotonic() - began < seconds

    def _follow(self, event: WatchEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                meta, _ = self._learn(event.object, self.observe)
            case "DELETED":
                gone = identity_of(event.object)
                self.lose(gone)
                self._forget(gone.metadata.uid)
                meta = gone.metadata
            case "BOOKMARK":
                meta = identity_of(event.object).metadata
            case _:  # ERROR
                raise error_of(event.object)
        self._move_to(meta.resource_version)

    def _move_to(self, version: str) -> None:
        if order(version, self.version) == -1:  # etcd was restored under a running server
            self._client.history.end(self._history)
        if self._history != self._client.history.number:
            raise Gone(code=410, reason="Expired", message="the server went back in time")
        self.version = version

    def _learn(self, raw: msgspec.Raw, take: Callable[[T], None]) -> tuple[Meta, bool]:
        size = self._kept_bytes or len(memoryview(raw))
        try:
            if (brief := self._brief_of(raw)) is not None:
                return brief.metadata, self._put_aside(brief, take)
            if (echo := self._echo(raw)) is not None:
                self._weigh(echo.key, size)
                return echo, True
            if self._free_form:
                bounds.check_json(memoryview(raw))
            obj = self._decoder.decode(raw)
            check_names(obj.metadata)
            return obj.metadata, self._keep(obj, take, size=size)
        except NoRoom:
            self._client.refuse("list")
            raise
        except Exception as e:  # noqa: BLE001 - one object spoils no other
            meta = identity_of(raw).metadata
            self._client.refuse("object")
            self._complain(meta, e)
            if meta.deleting and self._departing is not None:
                self._depart(raw, meta, take)
            return meta, meta.key in self

    def _brief_of(self, raw: msgspec.Raw) -> Object | None:
        return self._aside(raw) if self._aside is not None else None

    def _put_aside(self, brief: Object, take: Callable[[T], None]) -> bool:
        meta = brief.metadata
        check_names(meta)
        held = self.get(meta.key)
        if held is not None:
            known = order(meta.resource_version, held.metadata.resource_version)
            if known == -1 and take == self.observe:
                return True  # it was seen to change since
            self.give_up(meta.key, held)
        if meta.uid not in self.put_aside:
            self._check_number(len(self) + len(self.put_aside) + 1)
        version = number(meta.resource_version) or 0
        self.put_aside[meta.uid] = Aside(shared(meta.namespace), meta.name, version)
        for handler in self._aside_handlers:
            handler(meta.uid, brief)
        return True

    def _forget(self, uid: str) -> None:
        if self.put_aside.pop(uid, None) is not None:
            for handler in self._aside_handlers:
                handler(uid, None)

    def _echo(self, raw: msgspec.Raw) -> Meta | None:
        # Half of the events of a busy writer's watch are its own writes. They are not decoded
        # again.
        if order(self.version, self._answered) != -1:
            return None
        meta = identity_of(raw).metadata
        held = self.get(meta.key)
        if held is None or held.metadata.uid != meta.uid:
            return None
        known = order(meta.resource_version, held.metadata.resource_version)
        return meta if known in (-1, 0) else None

    def _depart(self, raw: msgspec.Raw, meta: Meta, take: Callable[[T], None]) -> None:
        assert self._departing is not None  # noqa: S101 - the caller's promise
        with suppress(ValueError, RecursionError):  # the last state is kept
            obj = self._departing(raw, self.get(meta.key))
            self._keep(obj, take, size=self._sizes.get(meta.key, 0))

    def _complain(self, meta: Meta, fault: Exception) -> None:
        """Log once a minute; an unforeseen fault with its trace."""
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
        self._weigh(key, size)
        self._sizes[key] = 0
        self.put_aside.pop(obj.metadata.uid, None)
        take(kept)
        self._sizes[key] = size
        return True

    def _weigh(self, key: Key, size: int) -> None:
        # Take only the difference: an object of the same size needs no further room. This returns
        # the previous object's size, also when that one is dropped for another uid.
        self._shelf.take(size - self._sizes.get(key, 0))
        self._sizes[key] = size

    def _drop(self, held: T) -> None:
        self._shelf.take(-self._sizes.pop(held.metadata.key, 0))
        super()._drop(held)

    def _heard(self) -> None:
        self._spoke = self._clock.monotonic()
        self._believed.set()


class Page(PageHead):
    items: list[msgspec.Raw] | None = None


class _LonePage(msgspec.Struct):
    metadata: ListMeta
    items: tuple[msgspec.Raw]


class WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(Page)
_lone_page = msgspec.json.Decoder(_LonePage)
_event = msgspec.json.Decoder(WatchEvent)
_identity = msgspec.json.Decoder(Object)


@functools.cache
def decoder_of(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)


@functools.cache
def free_form(type_: type[Any]) -> bool:
    """Whether the type keeps JSON of any form."""
    seen: set[type[Any]] = set()

    def free(info: msgspec.inspect.Type) -> bool:
        match info:
            case msgspec.inspect.AnyType() | msgspec.inspect.RawType():
                return True
            case msgspec.inspect.StructType(cls=cls, fields=fields):
                new = cls not in seen
                seen.add(cls)
                return new and any(free(field.type) for field in fields)
            case msgspec.inspect.DictType(value_type=inner):
                return free(inner)
            case (
                msgspec.inspect.ListType(item_type=inner)
                | msgspec.inspect.VarTupleType(item_type=inner)
            ):
                return free(inner)
            case msgspec.inspect.UnionType(types=types):
                return any(map(free, types))
        return False

    return free(msgspec.inspect.type_info(type_))


def taken_apart(answer: bytes) -> Page:
    """Return the objects of a page, undecoded. Raises Unreadable."""
    try:
        bounds.check_page(answer)
    except TooMuch:
        alone: _LonePage = decode(answer, _lone_page)
        return Page(alone.metadata, list(alone.items))
    page: Page = decode(answer, _page)
    return page


def event_of(line: bytes) -> WatchEvent:
    """Return the event of a watch's line. Raises Unreadable."""
    event: WatchEvent = decode(line, _event)
    return event


def identity_of(raw: msgspec.Raw) -> Object:
    """Return the metadata and kind of an object. Raises Unreadable."""
    identity: Object = decode(raw, _identity)
    return identity


def check_names(meta: Meta) -> None:
    """Raise TooMuch for names longer than Kubernetes allows: caches keep many copies of them."""
    if max(len(meta.name), len(meta.namespace)) > bounds.NAME:
        raise TooMuch(f"a name is longer than {bounds.NAME} characters")
    if max(len(meta.uid), len(meta.resource_version)) > bounds.UID:
        raise TooMuch(f"a uid or resourceVersion is longer than {bounds.UID} characters")
