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
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import Forbidden, NotFound, StowageError, fresh
from machinery.runtime.informer import Informer
from machinery.tasks import end
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


@dataclass
class _NamespaceWatch:
    informer: Informer[Object]
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the hub has answered, or the first request has failed."""
    refused: Forbidden | None = None
    """The answer that `changed` was last called for."""
    named: dict[str, set[str]] = field(default_factory=dict)
    """The users of each name."""
    tasks: tuple[asyncio.Task[None], ...] = ()


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
        self._watches: dict[str, _NamespaceWatch] = {}
        self._held: dict[Key, T] = {}
        self._reading: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._running: asyncio.Future[None] | None = None
        """Done with the exception of a watch that ended by one; None while nothing runs."""

    async def run(self) -> None:
        """Watch until cancelled; a further run resumes the watches where they stood.

        Raises what a watch ends by: without it, Workloads would wait for that watch for ever.
        """
        self._running = asyncio.get_running_loop().create_future()
        for namespace, watch in self._watches.items():
            self._begin(namespace, watch)
        try:
            await self._running
        finally:
            self._running = None
            await end([task for watch in self._watches.values() for task in watch.tasks])

    def clear(self) -> None:
        """Drop all that was read, between two runs: what it says is older than what others wrote.

        Whoever asks for an object waits until its namespace has been listed anew.
        """
        self._held.clear()
        for namespace, watch in self._watches.items():
            watch.informer.discard()
            self._watches[namespace] = replace(self._watch(namespace), named=watch.named)

    def need(self, key: Key, user: str = "") -> None:
        """Watch that object's namespace, as a Workload names the object; once for each user."""
        namespace, name = key
        if namespace not in self._watches:
            self._watches[namespace] = self._watch(namespace)
        self._watches[namespace].named.setdefault(name, set()).add(user)

    def drop(self, key: Key, user: str = "") -> None:
        """Forget an object that no user names any more, and a watch that ran for it alone."""
        namespace, name = key
        watch = self._watches.get(namespace)
        users = watch.named.get(name, set()) if watch is not None else set()
        users.discard(user)
        if users:
            return
        self._held.pop(key, None)
        if watch is None:
            return
        watch.named.pop(name, None)
        if not watch.named:
            del self._watches[namespace]
            _stop(watch)

    async def get(
        self, key: Key, *, unless: Callable[[Object], bool] = lambda _: False
    ) -> T | None:
        """Return the object as it is now, or None. Raises NoTenant, TransportError.

        One whose metadata are enough, as `unless` says of it, is returned without the rest.
        """
        watch = self._watches.get(key[0])
        if watch is None:
            return None  # the Workload that named the object went meanwhile
        await watch.tried.wait()
        if watch.informer.refused:
            self._held.pop(key, None)
            raise NoTenant(self._resource.kind, key)
        if not watch.informer.synced and watch.informer.last_error is not None:
            raise fresh(watch.informer.last_error)
        known = watch.informer.get(key)
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

    def _watch(self, namespace: str) -> _NamespaceWatch:
        informer = Informer(
            self._hub,
            self._resource,
            Object,
            namespace=namespace,
            metadata_only=True,
            clock=self._clock,
        )
        informer.add_handler(self._tell)
        watch = _NamespaceWatch(informer)
        if self._running is not None:
            self._begin(namespace, watch)
        return watch

    def _begin(self, namespace: str, watch: _NamespaceWatch) -> None:
        watch.informer.mistrust()
        name = f"{self._resource.plural} of {namespace}"
        watch.tasks = (
            asyncio.create_task(self._follow(namespace, watch), name=name),
            asyncio.create_task(_announce(watch)),
        )
        for task in watch.tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None and self._running is not None and not self._running.done():
            self._running.set_exception(fault)

    async def _follow(self, namespace: str, watch: _NamespaceWatch) -> None:
        while True:
            await self._step(namespace, watch)

    async def _step(self, namespace: str, watch: _NamespaceWatch) -> None:
        """List or watch to the end; call `changed` where it is new whether this is a tenant."""
        await watch.informer.step()
        watch.tried.set()
        refused = watch.informer.refused
        if bool(refused) != bool(watch.refused):
            for name in [*watch.named]:
                self._held.pop((namespace, name), None)
                self._changed((namespace, name))
        watch.refused = refused

    def _tell(self, old: Object | None, new: Object | None) -> None:
        known = new or old
        if known is not None:
            if new is None:
                self._held.pop(known.metadata.key, None)
            self._changed(known.metadata.key)


async def _announce(watch: _NamespaceWatch) -> None:
    await watch.informer.wait_synced()
    watch.tried.set()


def _stop(watch: _NamespaceWatch) -> None:
    for task in watch.tasks:
        task.cancel()
    watch.informer.discard()
    watch.tried.set()
