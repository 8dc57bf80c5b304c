"""Writes an object that is published: made, patched or deleted on the version that is known.

An object of somebody else is never touched. Each request names the version or the UID that it is
about, so that one that was decided on an old view does nothing; then the object is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from controller.features.publishing.objects import owner_of, reference
from controller.framework.statuswriter import for_good
from controller.model.objects import Workload
from crds.fields.publishing import PublishedReason
from machinery.api.resources import Resource
from machinery.api.verbs import JSON, MERGE_PATCH
from machinery.errors import Conflict, Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.bounds import clean
from machinery.types.metadata import Key, Object

if TYPE_CHECKING:
    from controller.framework.runtime.feature import Term

T = TypeVar("T", bound=Object)


class Obstacle(NamedTuple):
    """Why a decision is not published as a Workload asks."""

    reason: PublishedReason
    message: str


class Objects(Generic[T]):
    """The objects of one kind that are published, for one term of leadership.

    All writes raise TransportError where trying again may help, and LeaseLost.
    """

    def __init__(self, term: Term, resource: Resource, type_: type[T]) -> None:
        self.resource = resource
        self._client = term.client
        self._check = term.check
        self._stored: Informer[T] = term.informer(resource)
        self._decoder = msgspec.json.Decoder(type_)

    @property
    def served(self) -> bool:
        """Whether the hub has the kind, as far as the watch of it has seen."""
        return self._stored.synced and not isinstance(self._stored.last_error, NotFound)

    def get(self, key: Key) -> T | None:
        return self._stored.get(key)

    def of(self, workload: Workload, key: Key) -> T | None:
        """Return the object of that key where the Workload controls it."""
        found = self.get(key)
        return found if found is not None and _owned(found, workload) else None

    async def claim(self, workload: Workload, body: Mapping[str, Any]) -> T | Obstacle | None:
        """Return the object that a Workload controls, made of the body where there is none.

        None where the next event of the object is awaited. An object of an earlier Workload of
        that name, which the garbage collector has not come to yet, is deleted.
        """
        key = (workload.metadata.namespace, body["metadata"]["name"])
        try:
            if self.get(key) is None:
                return await self._create(workload, body)
        except Conflict:  # it was there, unseen
            await self._read(key)
        except NotFound:
            return Obstacle(PublishedReason.NOT_SERVED, f"the hub has no {self.resource.plural}")
        found = self.get(key)
        if found is None or _owned(found, workload):
            return found if found is None or not found.metadata.deleting else None
        owner = owner_of(found.metadata)
        if owner is not None and owner[0] == workload.metadata.key:
            await self.delete(found)
            return None
        said = f"the {self.resource.kind} {key[1]} is somebody else's, and is left alone"
        return Obstacle(PublishedReason.ALREADY_EXISTS, said)

    async def _create(self, workload: Workload, body: Mapping[str, Any]) -> T:
        namespace = workload.metadata.namespace
        metadata = {
            **body["metadata"],
            "namespace": namespace,
            "ownerReferences": [reference(workload)],
        }
        kind = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        path = self.resource.path(namespace)
        return await self._send("POST", path, {**kind, **body, "metadata": metadata})

    async def patch(self, found: T, patch: Mapping[str, Any], *, status: bool = False) -> T:
        """Patch the object on the version that was read."""
        meta = found.metadata
        metadata = {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}
        path = self.resource.path(*meta.key, "status" if status else None)
        try:
            return await self._send("PATCH", path, {**patch, "metadata": metadata})
        except Conflict:
            await self._read(meta.key)
            raise

    async def delete(self, found: T) -> None:
        """Delete the very object; one that is gone by now is no fault."""
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


def _owned(found: Object, workload: Workload) -> bool:
    return owner_of(found.metadata) == (workload.metadata.key, workload.metadata.uid)


def refused(resource: Resource, error: TransportError) -> Obstacle | None:
    """Return the obstacle where the hub would refuse the same write again; None for any other."""
    if not (for_good(error) or isinstance(error, Forbidden)):
        return None
    return Obstacle(
        PublishedReason.REFUSED, f"the hub does not take the {resource.kind}: {clean(str(error))}"
    )
