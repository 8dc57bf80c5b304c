"""One writer for the statuses of one kind: queue, compute, compare-and-swap.

Changes that come while a status is written go into the next write together, so that a burst costs a
handful of writes. Every write is a compare-and-swap on the version that was read. On a conflict the
newer version is read and the status computed on it; a status that the hub refuses is tried shorter,
as long as its book knows how. However a turn ends, by cancellation too, the book is told, so that
nothing waits for a write that will not come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from machinery import logs
from machinery.api.resources import Resource
from machinery.api.verbs import MERGE_PATCH
from machinery.clock import Clock
from machinery.errors import ApiError, Conflict, Invalid, NotFound, TransportError
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key, Object

if TYPE_CHECKING:
    from machinery.api.client import ApiClient

LOG = logs.get(__name__)
WRITERS = 16
"""How many statuses are written at once."""
_TOO_LARGE = 413

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)


def for_good(error: TransportError) -> bool:
    """Whether the same write would be refused again: it breaks the schema, or is too large."""
    return isinstance(error, Invalid) or too_large(error)


def too_large(error: TransportError) -> bool:
    """Whether the hub takes nothing of that size."""
    # A request that is too large for etcd fails like any fault of the server, but for its message.
    return isinstance(error, ApiError) and (
        error.code == _TOO_LARGE or "request is too large" in str(error)
    )


class StatusBook(Protocol[T_contra]):
    """Computes the statuses. All but `prepare` return at once: nothing is awaited in them."""

    async def prepare(self, stored: T_contra) -> None:
        """Called before each draft, to write what must be written first."""

    def draft(self, stored: T_contra) -> Mapping[str, Any] | None:
        """Return the fields of the status to write; None where the object has all of them."""

    def landed(self, key: Key) -> float | None:
        """The draft is stored; return the seconds until the next look, or None."""

    def missed(self, key: Key) -> None:
        """Another writer was faster; its version is known by now, and the next draft follows."""

    def shorter(self, key: Key, error: TransportError) -> bool:
        """The hub refuses the status; return whether the next draft, at once, is a shorter one."""

    def given_up(self, key: Key, error: TransportError | None) -> None:
        """The turn is over: no draft that neither landed nor was missed is stored."""


class StatusWriter(Generic[T]):
    """Writes the statuses of a kind for one term of leadership; one write for an object at a time.

    `check` raises LeaseLost; `store` is the informer whose view is drafted on.
    """

    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        type_: type[T],
        book: StatusBook[T],
        *,
        store: Informer[T],
        clock: Clock,
        check: Callable[[], None],
    ) -> None:
        self._client = client
        self._resource = resource
        self._decoder = msgspec.json.Decoder(type_)
        self._book = book
        self._store = store
        self._check = check
        self._queue: WorkQueue[Key] = WorkQueue(
            name=resource.kind.lower(), clock=clock, flow=namespace_of, seats=WRITERS
        )

    def add(self, key: Key, *, after: float = 0.0) -> None:
        """Bring an object's status up to date, now or within so many seconds."""
        if after:
            self._queue.add_after(key, after)
        else:
            self._queue.add(key)

    async def run(self) -> None:
        try:
            await work(self._queue, self.sync, workers=WRITERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, key: Key) -> float | None:
        """Bring one status up to date; return the seconds until the next look, or None.

        Raises TransportError where trying again may help, and LeaseLost.
        """
        error: TransportError | None = None
        try:
            if (stored := self._store.get(key)) is not None:
                await self._book.prepare(stored)
            return await self._bring(key)
        except TransportError as e:
            error = e
            raise
        finally:
            self._book.given_up(key, error)

    async def _bring(self, key: Key) -> float | None:
        while (stored := self._store.get(key)) is not None:
            status = self._book.draft(stored)
            if status is None:
                return self._book.landed(key)
            try:
                await self._write(stored, status)
            except Conflict:
                await self._read(key)
                self._book.missed(key)
                self.add(key)
                return None
            except NotFound:
                return None
            except TransportError as e:
                if not for_good(e):
                    raise
                if not self._book.shorter(key, e):
                    about = {"object": "/".join(key)}
                    LOG.warning("the hub refuses its status: %s", e, extra=about)
                    return None
            else:
                return self._book.landed(key)
        return None

    async def _write(self, stored: T, status: Mapping[str, Any]) -> None:
        self._check()
        meta = stored.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        path = self._resource.path(meta.namespace or None, meta.name, "status")
        answer = await self._client.request("PATCH", path, body=patch, content_type=MERGE_PATCH)
        self._store.upsert(self._decoder.decode(answer))

    async def _read(self, key: Key) -> None:
        with suppress(NotFound):
            path = self._resource.path(key[0] or None, key[1])
            self._store.upsert(self._decoder.decode(await self._client.request("GET", path)))
