"""Whose an object is that is published, and what is said where it cannot be.

An object of somebody else is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from controller.features.publishing.objects import owner_of
from controller.framework.objectwriter import ObjectWriter
from controller.framework.statuswriter import for_good
from controller.model.objects import Workload
from crds.fields.publishing import PublishedReason
from crds.names import API_VERSION
from machinery.api.resources import WORKLOADS, Resource
from machinery.errors import Conflict, Forbidden, NotFound, TransportError
from machinery.types.bounds import clean
from machinery.types.metadata import Key, Object

if TYPE_CHECKING:
    from controller.framework.runtime.feature import Term

T = TypeVar("T", bound=Object)


class Obstacle(NamedTuple):
    """Why a decision is not published as a Workload asks."""

    reason: PublishedReason
    message: str


class PublishedObjects(ObjectWriter[T]):
    """The objects of one kind that are published, each owned by its Workload."""

    def __init__(self, term: Term, resource: Resource, type_: type[T]) -> None:
        super().__init__(term, resource, type_, stored=term.informer(resource))

    @property
    def served(self) -> bool:
        """Whether the hub has the kind, as far as the watch of it has seen."""
        return self._stored.synced and not isinstance(self._stored.last_error, NotFound)

    def of(self, workload: Workload, key: Key) -> T | None:
        """Return the object of that key where the Workload controls it."""
        found = self.get(key)
        return found if found is not None and _owned(found, workload) else None

    async def claim(self, workload: Workload, body: Mapping[str, Any]) -> T | Obstacle | None:
        """Return the object that a Workload controls, made of the body where there is none.

        None where the next event of the object is awaited. An object of an earlier Workload of
        that name, which the garbage collector has not come to yet, is deleted.
        """
        namespace, name = key = (workload.metadata.namespace, body["metadata"]["name"])
        try:
            if self.get(key) is None:
                ours = workload.metadata.controller_ref(API_VERSION, WORKLOADS.kind)
                metadata = {**body["metadata"], "ownerReferences": [ours]}
                return await self.create({**body, "metadata": metadata}, namespace)
        except Conflict:  # it was there, unseen
            pass
        except NotFound:
            return Obstacle(PublishedReason.NOT_SERVED, f"the hub has no {self.resource.plural}")
        found = self.get(key)
        if found is None or _owned(found, workload):
            return found if found is None or not found.metadata.deleting else None
        owner = owner_of(found.metadata)
        if owner is not None and owner[0] == workload.metadata.key:
            await self.delete(found)
            return None
        said = f"the {self.resource.kind} {name} is somebody else's, and is left alone"
        return Obstacle(PublishedReason.ALREADY_EXISTS, said)


def _owned(found: Object, workload: Workload) -> bool:
    return owner_of(found.metadata) == (workload.metadata.key, workload.metadata.uid)


def refused(resource: Resource, error: TransportError) -> Obstacle | None:
    """Return the obstacle where the hub would refuse the same write again; None for any other."""
    if not (for_good(error) or isinstance(error, Forbidden)):
        return None
    return Obstacle(
        PublishedReason.REFUSED, f"the hub does not take the {resource.kind}: {clean(str(error))}"
    )
