"""The verbs of an API server on one resource: get, list, apply, patch, delete, discover.

A verb becomes method, path, query and body; `machinery.api.client` sends it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeAlias, TypedDict, Unpack

import msgspec

from machinery.api.kinds import Catalogue
from machinery.api.lanes import DISCOVERY, FACT, LIST, OBJECT, RequestClass
from machinery.api.resources import Resource
from machinery.api.responses import decode, joined, onward, version_of
from machinery.api.server_time import ServerTime
from machinery.clock import Clock
from machinery.errors import Gone, NotFound, TransportError
from machinery.pace import ServerBudget
from machinery.types.bounds import (
    DISCOVERY_SECONDS,
    TOKEN,
    USUAL_PAGE_BYTES,
    VERSION_TEXT,
    TooMuch,
    check_page,
    clean,
)
from machinery.types.memory_budget import BudgetShare

JSON = "application/json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML; the server takes it under this name
MERGE_PATCH = "application/merge-patch+json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

PAGE = 500
MOST_PAGES = 10_000
"""The most pages of one list."""


BeforeWrite: TypeAlias = Callable[[], float | None]
"""Raises if the right to write is gone; may return the seconds that it lasts."""


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


_version = msgspec.json.Decoder(_Version)


class Selection(TypedDict, total=False):
    """The objects of a list or a watch: of all namespaces, without selectors, whole."""

    namespace: str | None
    label_selector: str | None
    field_selector: str | None
    metadata_only: bool


def query_of(chosen: Selection, **more: str) -> dict[str, str]:
    selectors = {"labelSelector": "label_selector", "fieldSelector": "field_selector"}
    found = {param: chosen.get(name) for param, name in selectors.items()}
    return {param: str(value) for param, value in found.items() if value} | more


OF_NO_OBJECT = "1"
"""A resourceVersion that no object has: an empty etcd is at 1, and its first write makes it 2.

An apply with a resourceVersion creates a missing object, or changes one of that version: with this
one the server never overwrites an object.
"""


class ServerHistory:
    """The history of one API server's store, of which every resourceVersion is a moment."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def ended(self) -> bool:
        return self.number > 0

    def end(self, known: int) -> None:
        if known == self.number:
            self.number += 1


class Verbs(ABC):
    def __init__(
        self,
        clock: Clock,
        pace: ServerBudget,
        holding: BudgetShare,
        history: ServerHistory | None = None,
    ) -> None:
        self.clock = clock
        self.pace = pace
        """A reader that decodes much of this server's answers takes a TimeSlice of it."""
        self.holding = holding
        """A reader that keeps much of this server's objects takes a Shelf of it."""
        self.history = history or ServerHistory()
        self.server_time = ServerTime(clock)
        self._catalogue = Catalogue(self._describe, clock=clock)

    @abstractmethod
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds each attempt, not the call
        errand: RequestClass = OBJECT,
        agent: str = "",
        before_write: BeforeWrite | None = None,
    ) -> bytes:
        """Send one request, return the body of a 2xx answer; see `ApiClient.request`."""

    @abstractmethod
    def watch(
        self,
        res: Resource,
        *,
        resource_version: str,
        timeout_seconds: int = 300,
        **chosen: Unpack[Selection],
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the events after `resource_version`; see `ApiClient.watch`."""

    @abstractmethod
    def refuse(self, what: str) -> None:
        """Count input of this server that exceeded a bound; one of `client.INPUT`."""

    async def get(
        self,
        res: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        errand: RequestClass = OBJECT,
    ) -> dict[str, Any]:
        """Return the object, or its subresource. Raises NotFound."""
        return await self._json("GET", res.path(namespace, name, subresource), errand=errand)

    async def find(
        self, res: Resource, name: str, *, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """Return the object; None where there is none, or no such kind."""
        try:
            return await self.get(res, name, namespace=namespace)
        except NotFound:
            return None

    async def pages(
        self,
        res: Resource,
        *,
        limit: int = PAGE,
        errand: RequestClass = LIST,
        **chosen: Unpack[Selection],
    ) -> AsyncIterator[bytes]:
        """Yield a list, page by page, undecoded; watch from the last page's resourceVersion.

        Raises Gone when the server has forgotten that moment: drop the pages so far. `limit` 0
        requests everything at once. Raises TransportError for a list that repeats a continue token
        or never ends, and TooMuch if a single object is too large.
        """
        path, params = res.path(chosen.get("namespace")), query_of(chosen)
        accept = METADATA_LIST if chosen.get("metadata_only") else JSON
        followed: set[int] = set()
        size = limit
        for _ in range(MOST_PAGES):
            page, size = await self._page(res, path, params, accept, size, errand)
            following = onward(page)
            yield page
            if not following:
                return
            if hash(following) in followed or len(following) > TOKEN:
                raise TransportError(f"the list of {path} leads back to a page that it had")
            followed.add(hash(following))
            params["continue"] = following
            size = min(limit, max(1, size * USUAL_PAGE_BYTES // len(page)))
        raise TransportError(f"the list of {path} has no end after {MOST_PAGES} pages")

    async def _page(
        self,
        res: Resource,
        path: str,
        params: Mapping[str, str],
        accept: str,
        size: int,
        errand: RequestClass,
    ) -> tuple[bytes, int]:
        """Return one page, and its limit. Raises TooMuch."""
        while True:
            bounded = {**params, "limit": str(size)} if size else params
            try:
                with self._doubting(res):
                    page = await self.request(
                        "GET", path, params=bounded, accept=accept, errand=errand
                    )
                if size != 1:
                    check_page(page)
            except TooMuch:
                if size <= 1:
                    raise
                size = max(1, size // 8)
            else:
                return page, size

    async def list(
        self, res: Resource, *, errand: RequestClass = LIST, **chosen: Unpack[Selection]
    ) -> dict[str, Any]:
        """Return the whole list as one object; watch from its resourceVersion.

        If the server forgets the moment of the pages, the list is requested in one piece, which
        cannot expire.
        """
        for limit in (PAGE, 0):
            try:
                return await joined(self.pages(res, limit=limit, errand=errand, **chosen))
            except Gone:
                if not limit:
                    raise
        raise AssertionError("the second round returns or raises")

    async def latest(self, res: Resource, **chosen: Unpack[Selection]) -> str:
        """Return the resourceVersion that a list would have now, from a list of one object."""
        path, params = res.path(chosen.get("namespace")), query_of(chosen, limit="1")
        accept = METADATA_LIST if chosen.get("metadata_only", True) else JSON
        page = await self.request("GET", path, params=params, accept=accept, errand=LIST)
        return version_of(page)

    async def create(
        self,
        res: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        errand: RequestClass = OBJECT,
    ) -> dict[str, Any]:
        """Return the created object, by default in its own namespace. Raises AlreadyExists."""
        path = res.path(namespace or _namespace(res, obj))
        return await self._json("POST", path, params=_dry(dry_run), body=obj, errand=errand)

    async def apply(
        self,
        res: Resource,
        obj: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None = None,
        field_manager: str = "stowage",
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
        errand: RequestClass = OBJECT,
    ) -> dict[str, Any]:
        """Apply on the server; return the merged object. Raises Conflict over another's field.

        Raises ValueError for a resourceVersion without a UID, except OF_NO_OBJECT: if the object
        were deleted, the server would create it again.
        """
        meta = obj.get("metadata", {})
        if meta.get("resourceVersion", OF_NO_OBJECT) != OF_NO_OBJECT and not meta.get("uid"):
            raise ValueError(f"an apply of {name} names a resourceVersion and no UID")
        params = {"fieldManager": field_manager, **_dry(dry_run)}
        if force:
            params["force"] = "true"
        path = res.path(namespace or _namespace(res, obj), name, subresource)
        with self._doubting(res):
            return await self._json(
                "PATCH", path, params=params, body=obj, content_type=APPLY_PATCH, errand=errand
            )

    async def merge_patch(
        self,
        res: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        errand: RequestClass = OBJECT,
    ) -> dict[str, Any]:
        """Return the patched object. Raises Conflict for an old metadata.resourceVersion in it."""
        path = res.path(namespace, name, subresource)
        return await self._json("PATCH", path, body=patch, content_type=MERGE_PATCH, errand=errand)

    async def delete(
        self,
        res: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> dict[str, Any]:
        """Request the deletion. Raises NotFound; Conflict for another uid or resourceVersion.

        Returns the object, with a deletionTimestamp, while it waits for its finalizers; otherwise a
        Status.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        given = {key: value for key, value in preconditions.items() if value}
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        body["propagationPolicy"] = "Background"
        if given:
            body["preconditions"] = given
        return await self._json("DELETE", res.path(namespace, name), body=body)

    async def api_versions(self) -> Sequence[str]:
        return await self._catalogue.preferred()

    async def discover(self, api_version: str) -> Sequence[Resource]:
        """Return every resource type of a group and version, cached. Raises NotFound for none."""
        return await self._catalogue.of(api_version)

    async def resource(self, api_version: str, kind: str) -> Resource:
        """Return the resource type of a manifest. Raises NotFound when the server lacks it."""
        return await self._catalogue.find(api_version, kind)

    async def version(self) -> str:
        """Return the server's version, one short line: `v1.36.3`."""
        version: _Version = decode(await self.request("GET", "/version", errand=FACT), _version)
        return clean(version.git_version, VERSION_TEXT)

    @contextmanager
    def _doubting(self, res: Resource) -> Iterator[None]:
        try:
            yield
        except NotFound:
            self._catalogue.doubt(res.api_version)
            raise

    async def _describe(self, path: str) -> bytes:
        return await self.request("GET", path, timeout=DISCOVERY_SECONDS, errand=DISCOVERY)

    async def _json(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        answer: dict[str, Any] = decode(await self.request(method, path, **how))
        return answer


class View(Verbs):
    """The API of `client`'s server over its connections; needs no closing, and is cheap to make."""

    def __init__(self, client: Verbs) -> None:
        self.clock = client.clock
        self.pace = client.pace
        self.holding = client.holding
        self.history = client.history
        self.server_time = client.server_time
        self._catalogue = client._catalogue  # noqa: SLF001 - of a client of the same base
        self._client = client

    async def request(self, method: str, path: str, **how: Any) -> bytes:
        return await self._client.request(method, path, **how)

    def refuse(self, what: str) -> None:
        self._client.refuse(what)

    def watch(self, res: Resource, **how: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._client.watch(res, **how)


def _namespace(res: Resource, obj: Mapping[str, Any]) -> str | None:
    return obj.get("metadata", {}).get("namespace") if res.namespaced else None


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
