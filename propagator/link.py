"""One set of credentials in use: the client of a member, its probe, and its watches.

A link alternates between two phases. *Knocking*: it probes until the member answers. *Watching*:
the watches run until the probe says that the member is lost; as soon as all of them have listed
what there is, the link is `serving`: before that, an object that is not known could be there. The
watches are stopped with the phase, so that a dead member costs one probe now and then. What was
learnt stays readable throughout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from crds.names import LABEL_MANAGED
from machinery.clock import Clock
from machinery.informer import Informer
from machinery.kubeconfig import Connection
from machinery.objects import Object
from machinery.resources import NODES, PODS, Resource
from machinery.transport import ApiClient
from propagator.capacity import (
    UNFINISHED,
    CapacityLedger,
    Node,
    Pod,
    WireNode,
    WirePod,
    slim_node,
    slim_pod,
)
from propagator.managed import OWNER_INDEX, ManagedObject, owners
from propagator.observe import UNKNOWN_PROVIDER, UnitLedger, Verdict, provider_of
from propagator.probe import Probe
from propagator.settings import SessionSettings

MANAGED_SELECTOR = f"{LABEL_MANAGED}=true"
_IMPERSONATED_CONNECTIONS = 4
_LOOK_AGAIN = 0.02


@dataclass(frozen=True)
class LinkListener:
    """Whom a link tells; all called in the event loop, none may block."""

    verdict: Callable[[Verdict], None]
    """Connected when the link begins to serve, the reason when it ends, and when knocking fails."""
    managed: Callable[[ManagedObject | None, ManagedObject | None], None]
    units: Callable[[set[str]], None]
    """The UIDs of Workloads whose unit counts changed."""
    facts: Callable[[], None]
    """Capacity, provider, version, latency or reliability may have changed."""
    counted: Callable[[], None]
    """The pods have been listed: unit counts are known from now on."""


class Link:
    """Make it, `run` it in one task, throw it away. Raises KubeconfigError for unusable keys."""

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        settings: SessionSettings,
        clock: Clock,
        resources: Iterable[Resource],
        listener: LinkListener,
    ) -> None:
        self._connection = connection
        self._name = name
        self._settings = settings
        self._clock = clock
        self._tell = listener
        self.client = self._client(connection, settings.connections)
        self._impersonating: dict[str, ApiClient] = {}
        self.serving = False
        self.probe = Probe(self.client, settings=settings, clock=clock, seen=listener.facts)
        self.capacity = CapacityLedger()
        self.units = UnitLedger()
        self._nodes: Informer[Object] = Informer(
            self.client, NODES, WireNode, transform=slim_node, clock=clock
        )
        self._pods: Informer[Object] = Informer(
            self.client,
            PODS,
            WirePod,
            field_selector=UNFINISHED,
            transform=slim_pod,
            clock=clock,
        )
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        self.managed: dict[Resource, Informer[ManagedObject]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._streams: list[asyncio.Task[None]] = []
        for resource in resources:
            self.track(resource)

    @property
    def counted(self) -> bool:
        """True once every pod has been seen."""
        return self._pods.synced

    @property
    def measured(self) -> bool:
        """True once every node and pod has been seen: before that, room would be overstated."""
        return self._nodes.synced and self._pods.synced

    @property
    def obstacle(self) -> str:
        """Why nodes or pods cannot be read; empty when they can, or when that is not known yet."""
        for informer in (self._nodes, self._pods):
            if not informer.synced and informer.last_error is not None:
                return str(informer.last_error)
        return ""

    @property
    def provider(self) -> str:
        """Who provides the nodes; `unknown` where that is not to be found out, empty until then."""
        if self._nodes.synced:
            return provider_of(self.capacity.nodes)
        return UNKNOWN_PROVIDER if self.obstacle else ""

    def client_for(self, namespace: str) -> ApiClient:
        """The client for writes into that namespace of the member.

        With impersonation, one that acts as the namespace's service account `stowage`; its
        connections close when they have been idle.
        """
        if not self._settings.impersonate:
            return self.client
        client = self._impersonating.get(namespace)
        if client is None:
            user = f"system:serviceaccount:{namespace}:stowage"
            acting = self._connection.with_impersonation(user)
            client = self._client(acting, _IMPERSONATED_CONNECTIONS)
            self._impersonating[namespace] = client
        return client

    def track(self, resource: Resource) -> Informer[ManagedObject]:
        """The informer over our objects of that kind, started with the first call."""
        informer = self.managed.get(resource)
        if informer is None:
            informer = Informer(
                self.client,
                resource,
                ManagedObject,
                label_selector=MANAGED_SELECTOR,
                clock=self._clock,
            )
            informer.add_index(OWNER_INDEX, lambda found: owners(found.metadata))
            informer.add_handler(self._tell.managed)
            self.managed[resource] = informer
            self._start(informer)
        return informer

    def published(self, placed: dict[str, int]) -> None:
        """The hub knows the capacity that these units, by Workload UID, are counted in."""
        touched = self.units.publish(placed)
        if touched:
            self._tell.units(touched)

    async def run(self) -> None:
        """Knock, serve, and again, until cancelled; closes the client at the end."""
        try:
            while True:
                await self._serve(await self.probe.until_answered(self._tell.verdict))
        finally:
            self.serving = False
            for client in (self.client, *self._impersonating.values()):
                await client.close()

    async def _serve(self, answer: Verdict) -> None:
        self._forget_ours()
        async with asyncio.TaskGroup() as group:
            self._group = group
            informers: list[Informer[Any]] = [self._nodes, self._pods, *self.managed.values()]
            for informer in informers:
                self._start(informer)
            opening = group.create_task(self._open(answer, informers))
            try:
                lost = await self.probe.until_lost()
            finally:
                self.serving = False
                self._group = None
            for task in (opening, *self._streams):
                task.cancel()
        self._streams.clear()
        self._tell.verdict(lost)

    def _forget_ours(self) -> None:
        """Have our objects listed anew after an outage.

        A write whose answer was lost may have arrived; only a list that begins now surely shows it.
        """
        for resource, informer in list(self.managed.items()):
            if informer.synced:
                del self.managed[resource]
                self.track(resource)
                for found in informer.values():
                    self._tell.managed(found, None)

    def _start(self, informer: Informer[Any]) -> None:
        if self._group is not None:
            self._streams.append(self._group.create_task(informer.run()))

    async def _open(self, answer: Verdict, informers: Sequence[Informer[Any]]) -> None:
        """Begin to serve once everything has been listed, or was asked for in vain."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.request_timeout):
                while not all(i.synced or i.last_error for i in informers):
                    await self._clock.sleep(_LOOK_AGAIN)
        self.serving = True
        self._tell.verdict(answer)
        for informer, tell in ((self._pods, self._tell.counted), (self._nodes, self._tell.facts)):
            if not informer.synced:
                await informer.wait_synced()
                tell()

    def _client(self, connection: Connection, limit: int) -> ApiClient:
        return ApiClient(
            connection,
            clock=self._clock,
            name=self._name,
            limit=limit,
            timeout=self._settings.request_timeout,
        )

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        self.capacity.replace_node(cast("Node | None", old), cast("Node | None", new))
        self._tell.facts()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        if before is not None and after is not None and before.facts == after.facts:
            return
        self.capacity.replace_pod(before, after)
        touched = self.units.replace(before, after)
        if touched:
            self._tell.units(touched)
        self._tell.facts()
