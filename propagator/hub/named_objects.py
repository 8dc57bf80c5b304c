"""Objects of the hub that travel with Workloads: watched by metadata, read when needed.

Each namespace where a Workload names one has a watch for each kind; the propagator may read tenants
only (`stowage tenant add`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import StowageError, fresh
from machinery.runtime.informer import Informer
from machinery.runtime.informers import InformerPool
from machinery.tasks import KeyedLocks
from machinery.types.metadata import Key, Object

T = TypeVar("T", bound=Object)
User: TypeAlias = str | tuple[str, str]
"""What needs an object: a share, as (Workload's UID, member), or any text."""


class NoTenant(StowageError):
    def __init__(self, kind: str, key: Key) -> None:
        namespace, name = key
        super().__init__(
            f"{kind} {namespace}/{name} may not be read, as the namespace is no tenant: "
            f"`stowage tenant add {namespace}`"
        )


class NamedObjects(Generic[T]):
    """`changed` is called with the key of each changed object.

    And of each named one if its namespace becomes a tenant or is found to be none.
    """

    def __init__(
        self,
        hub: ApiClient,
        resource: Resource,
        type_: type[T],
        *,
        clock: Clock,
        changed: Callable[[Key], None],
    ) -> None:
        self._hub = hub
        self._resource = resource
        self._type = type_
        self._clock = clock
        self._changed = changed
        self._named: dict[str, dict[str, set[User]]] = {}
        self._watches = InformerPool(self._watch, told=self._refused)
        self._held: dict[Key, T] = {}
        self._reading: KeyedLocks[Key] = KeyedLocks()

    async def run(self) -> None:
        """A further run resumes the watches. Raises what a watch ends by."""
        await self._watches.run()

    def clear(self) -> None:
        """Drop all content between two runs: other processes may have written since."""
        self._held.clear()
        self._watches.clear()

    def users(self, key: Key) -> set[User]:
        return self._named.get(key[0], {}).get(key[1], set())

    def need(self, key: Key, user: User = "") -> None:
        namespace, name = key
        self._named.setdefault(namespace, {}).setdefault(name, set()).add(user)
        self._watches.need(namespace, name)

    def drop(self, key: Key, user: User = "") -> None:
        namespace, name = key
        named = self._named.get(namespace, {})
        users = named.get(name, set())
        users.discard(user)
        if users:
            return
        self._held.pop(key, None)
        named.pop(name, None)
        if not named:
            self._named.pop(namespace, None)
        self._watches.drop(namespace, name)

    async def get(
        self, key: Key, *, unless: Callable[[Object], bool] = lambda _: False
    ) -> T | None:
        """Return the present object, or None. Raises NoTenant, TransportError.

        If `unless` returns True for its metadata, the content is not read.
        """
        informer = self._watches.get(key[0])
        if informer is None:
            return None  # the Workload that named the object was deleted
        await informer.wait_tried()
        if informer.refused:
            self._held.pop(key, None)
            raise NoTenant(self._resource.kind, key)
        if not informer.synced and informer.last_error is not None:
            raise fresh(informer.last_error)
        known = informer.get(key)
        if known is None or known.metadata.deleting:
            self._held.pop(key, None)
            return None
        if unless(known):
            self._held.pop(key, None)
            return self._type(metadata=known.metadata)
        # Many Workloads that share an object read it at the same moment.
        async with self._reading.of(key):
            held = self._held.get(key)
            if held is None or held.metadata.resource_version != known.metadata.resource_version:
                found = await self._hub.find(self._resource, key[1], namespace=key[0])
                if found is None:
                    return None
                held = self._held[key] = msgspec.convert(found, self._type)
            return held

    def _watch(self, namespace: str) -> Informer[Object]:
        informer = Informer(
            self._hub,
            self._resource,
            Object,
            namespace=namespace,
            metadata_only=True,
            clock=self._clock,
        )
        informer.add_handler(self._tell)
        return informer

    def _refused(self, namespace: str) -> None:
        for name in [*self._named.get(namespace, ())]:
            self._held.pop((namespace, name), None)
            self._changed((namespace, name))

    def _tell(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is not None:
            if new is None:
                self._held.pop(known.metadata.key, None)
            self._changed(known.metadata.key)
