"""Writes objects of one kind that follow from other stored objects.

Each request carries the version or UID that it was decided on, so a stale decision has no effect;
then the object is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from machinery.api.resources import Resource
from machinery.api.verbs import JSON, MERGE_PATCH
from machinery.errors import Conflict, NotFound
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key, Object

if TYPE_CHECKING:
    from controller.framework.runtime.feature import Term

T = TypeVar("T", bound=Object)


class ObjectWriter(Generic[T]):
    """The objects of one kind for one term.

    Each write raises LeaseLost, or TransportError if a retry may help.
    """

    def __init__(
        self, term: Term, resource: Resource, type_: type[T], *, stored: Informer[T]
    ) -> None:
        self.resource = resource
        self._client = term.client
        self._check = term.check
        self._stored = stored
        self._decoder = msgspec.json.Decoder(type_)

    def get(self, key: Key) -> T | None:
        return self._stored.get(key)

    async def create(self, body: Mapping[str, Any], namespace: str) -> T:
        """Raises AlreadyExists for an object that was not known."""
        kind = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        metadata = {**body["metadata"], "namespace": namespace}
        made = {**kind, **body, "metadata": metadata}
        try:
            return await self._send("POST", self.resource.path(namespace), made)
        except Conflict:
            await self._read((namespace, metadata["name"]))
            raise

    async def patch(self, found: T, patch: Mapping[str, Any], *, status: bool = False) -> T:
        """Raises Conflict if the version is out of date."""
        meta = found.metadata
        metadata = {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}
        path = self.resource.path(*meta.key, "status" if status else None)
        try:
            return await self._send("PATCH", path, {**patch, "metadata": metadata})
        except Conflict:
            await self._read(meta.key)
            raise

    async def delete(self, found: T) -> None:
        """Delete the object by UID. Ignores one that is gone."""
        if found.metadata.deleting:
            return
        self._check()
        meta = found.metadata
        with suppress(NotFound, Conflict):
            await self._client.delete(
                self.resource, meta.name, namespace=meta.namespace, uid=meta.uid
            )

    async def _send(self, method: str, path: str, body: Mapping[str, Any]) -> T:
        self._check()
        kind = MERGE_PATCH if method == "PATCH" else JSON
        answer = await self._client.request(method, path, body=body, content_type=kind)
        found = self._decoder.decode(answer)
        self._stored.upsert(found)
        return found

    async def _read(self, key: Key) -> None:
        with suppress(NotFound):
            answer = await self._client.request("GET", self.resource.path(*key))
            self._stored.upsert(self._decoder.decode(answer))
