"""Objects of the hub that travel with Workloads: known by name, read only when they are needed.

There is a watch for each kind and namespace in which a Workload names such an object, as the
propagator may read them in tenants alone (`stowage tenant add`). The watch brings metadata; what is
in an object, such as the values of a Secret, is read when a Workload is written to a member, and
again when its version has changed. Where a namespace is no tenant only the watch asks again, with
its back-off; `get` raises what the watch was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import NotFound, StowageError, fresh
from machinery.runtime.informer import Informer
from machinery.runtime.informers import InformerPool
from machinery.types.metadata import Key, Object

T = TypeVar("T", bound=Object)


class NoTenant(StowageError):
    """The propagator may not read the objects of that kind in that namespace."""

    def __init__(self, kind: str, key: Key) -> None:
        namespace, name = key
        super().__init__(
            f"{kind} {namespace}/{name} may not be read, as the namespace is no tenant: "
            f"`stowage tenant add {namespace}`"
        )


class NamedObjects(Generic[T]):
    """The objects of one kind, decoded as `type_`.

    Calls `changed` with the key of each one that came, changed or went, and for each named one of a
    namespace that becomes a tenant, or turns out to be none.
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
        self._named: dict[str, dict[str, set[str]]] = {}
        """The users of each name, by namespace."""
        self._watches = InformerPool(self._watch, told=self._refused)
        self._held: dict[Key, T] = {}
        self._reading: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def run(self) -> None:
        """Watch until cancelled; a further run resumes the watches where they stood.

        Raises what a watch ends by: without it, Workloads would wait for that watch for ever.
        """
        await self._watches.run()

    def clear(self) -> None:
        """Drop all that was read, between two runs: what it says is older than what others wrote.

        Whoever asks for an object waits until its namespace has been listed anew.
        """
        self._held.clear()
        self._watches.clear()

    def need(self, key: Key, user: str = "") -> None:
        """Watch that object's namespace, as a Workload names the object; once for each user."""
        namespace, name = key
        self._named.setdefault(namespace, {}).setdefault(name, set()).add(user)
        self._watches.need(namespace, name)

    def drop(self, key: Key, user: str = "") -> None:
        """Forget an object that no user names any more, and a watch that ran for it alone."""
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
        """Return the object as it is now, or None. Raises NoTenant, TransportError.

        One whose metadata are enough, as `unless` says of it, is returned without the rest.
        """
        informer = self._watches.get(key[0])
        if informer is None:
            return None  # the Workload that named the object went meanwhile
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
        # Many Workloads that share an object ask for it in the same moment.
        async with self._reading.setdefault(key, asyncio.Lock()):
            held = self._held.get(key)
            if held is None or held.metadata.resource_version != known.metadata.resource_version:
                try:
                    found = await self._hub.get(self._resource, key[1], namespace=key[0])
                except NotFound:
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
        """Tell of each name once it is new whether the namespace is a tenant."""
        for name in [*self._named.get(namespace, ())]:
            self._held.pop((namespace, name), None)
            self._changed((namespace, name))

    def _tell(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is not None:
            if new is None:
                self._held.pop(known.metadata.key, None)
            self._changed(known.metadata.key)
