"""One set of credentials in use: the client of a member, its probe, and its watches.

A link is either connecting, with probes only, or serving. Nodes and pods are always watched, other
kinds once an object of ours is, or will be, of that kind. It keeps its last observations while it
reconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any, cast

from machinery.api.acting import Acting, account
from machinery.api.client import ApiClient, WritesInFlight
from machinery.api.resources import CONFIG_MAPS, NODES, PODS, SECRETS, Resource
from machinery.api.verbs import Verbs
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.errors import LeaseLost, TransportError
from machinery.pace import BURST_SECONDS, ServerBudget
from machinery.release import user_agent
from machinery.runtime.informer import Informer
from machinery.runtime.informers import InformerPool
from machinery.tasks import end
from machinery.types.memory_budget import MEMBERS, BudgetShare
from machinery.types.metadata import Object
from propagator.credentials.accounts import TENANT_ACCOUNT
from propagator.credentials.credentials import Credentials, HeldToken, Rights
from propagator.members.capacity.kept import (
    NODE_BYTES,
    POD_BYTES,
    UNFINISHED,
    Node,
    Pod,
    WireNode,
    WirePod,
    slim_node,
    slim_pod,
)
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.cluster_identity import (
    ClusterIdentity,
    Identities,
    cluster_id,
    set_identity,
)
from propagator.members.disruption_budgets import DisruptionBudgets
from propagator.members.health import (
    UNKNOWN_PROVIDER,
    HealthProbe,
    MemberHealth,
    Probe,
    provider_of,
    unreachable,
    verdict_of,
)
from propagator.members.hub_lease import Holder, HubLease, no_holder
from propagator.members.objects import ManagedObject
from propagator.members.pod_index import Placed, PodIndex
from propagator.members.pods import PodClaim
from propagator.members.quotas import QuotasOfMember
from propagator.members.served_kinds import KindsOfMember
from propagator.members.tenants import Tenants
from propagator.members.watches import EVERYWHERE, Watches
from propagator.settings import SessionSettings
from propagator.types.cluster import MemberCluster

CONFIDENTIAL = (SECRETS, CONFIG_MAPS)
"""Kinds that a narrow credential may read only as the account of a namespace."""
IDENTITY_EVERY = 12
"""Probes between two reads of the cluster's identity."""
_TIDY_SECONDS = 30.0


@dataclass(frozen=True)
class LinkListener:
    """The callbacks of a link, called in the event loop. None may block."""

    verdict: Callable[[MemberHealth], None]
    """CONNECTED when the link begins to serve; the reason if that ends, or connecting fails."""
    managed: Callable[[ManagedObject | None, ManagedObject | None], None]
    pods: Callable[[set[PodClaim]], None]
    """The claims of pods whose counts changed."""
    facts: Callable[[], None]
    """Capacity, provider, version, latency or reliability may have changed."""
    counted: Callable[[], None]


class Link:
    """`run` it once, in one task. Raises KubeconfigError for unusable keys."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        name: str,
        settings: SessionSettings,
        clock: Clock,
        resources: Iterable[Resource],
        listener: LinkListener,
        health: HealthProbe,
        before_write: Callable[[], float | None],
        holder: Holder = no_holder,
        identities: Identities,
        members: Callable[[], int] = lambda: 1,
        mark: Callable[[], str] = str,
        writes: WritesInFlight | None = None,
    ) -> None:
        """`members` returns how many members this process has.

        `mark` and `writes` are those of `ApiClient`.
        """
        self._mark, self._writes = mark, writes
        self._before_write = before_write
        self._identities = identities
        self.identity = ClusterIdentity()
        self._identity_checks = 0
        self._name = name
        self._settings = settings
        self._clock = clock
        self._listener = listener
        self._narrow = credentials.rights is Rights.NARROW
        self.home = credentials.home
        self.pod_security = credentials.pod_security
        """The pod security standard of created namespaces."""
        connection = credentials.connection
        self._token = HeldToken(connection.token or "")
        if connection.token:
            connection = replace(connection, token=None, token_source=self._token)
        self.client = self._client(connection, settings.connections)
        self.serving = False
        self.search_due: float | None = None
        """When the member is searched again for what is ours; None before the first time."""
        self.absent: set[tuple[str, str]] = set()
        """The kinds, as (apiVersion, kind), that the member was found to lack."""
        self._lease = HubLease(
            self.client, home=self.home, holder=holder, before_write=before_write, clock=clock
        )
        self.probe = Probe(
            self.client,
            settings=settings,
            clock=clock,
            health=health,
            seen=listener.facts,
            members=members,
        )
        self.capacity = CapacityLedger()
        self.pod_index = PodIndex(clock=clock)
        self._nodes: Informer[Object] = Informer(
            self.client,
            NODES,
            WireNode,
            transform=slim_node,
            clock=clock,
            kept_bytes=NODE_BYTES,
        )
        self._pods: Informer[Object] = Informer(
            self.client,
            PODS,
            WirePod,
            field_selector=UNFINISHED,
            transform=slim_pod,
            clock=clock,
            kept_bytes=POD_BYTES,
        )
        self.informers: InformerPool[Informer[Any], Any] = InformerPool(lambda informer: informer)
        """They run while the member answers."""
        self.budgets = DisruptionBudgets(self.client, begin=self._begin, clock=clock)
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        self.watches = Watches(
            client_for=self.client_for,
            apart=CONFIDENTIAL if self._narrow else (),
            begin=self._begin,
            end=lambda informer: self.informers.drop(informer, self._name),
            changed=listener.managed,
            clock=clock,
        )
        self.tenants: Tenants | None = None
        """The namespaces that may be written to; None: all that the credential allows."""
        if self._narrow:
            self.tenants = Tenants(
                self.client,
                member=name,
                home=self.home,
                watches=self.watches,
                clock=clock,
                notify=listener.facts,
            )
        self.kinds = KindsOfMember(self.client, clock=clock, notify=listener.facts, members=members)
        self.quotas = QuotasOfMember(
            self.client, begin=self._begin, clock=clock, notify=listener.facts
        )
        tenants = [self.tenants.informer] if self.tenants else []
        for informer in (self._nodes, self._pods, *tenants):
            self._begin(informer)
        for resource in resources:
            if not self.watches.is_apart(resource):  # those follow from the tenants
                self.watches.track(resource, EVERYWHERE)

    @property
    def pods(self) -> Informer[Object]:
        """Without pods that have ended."""
        return self._pods

    @property
    def counted(self) -> bool:
        """Whether every pod is listed."""
        return self._pods.trusted

    @property
    def counting(self) -> bool:
        """Whether there may be pods that are not listed yet; not where the member forbids it."""
        return not self.counted and self._pods.refused is None

    @property
    def measured(self) -> bool:
        """Whether every node and pod is listed: otherwise, room would be overstated."""
        return self._nodes.trusted and self._pods.trusted

    @property
    def hub_went_back(self) -> bool:
        """Whether the Lease on the member was later than the hub, until that has been judged."""
        return self._lease.was_later

    @property
    def went_back_to(self) -> int | None:
        """The resourceVersion to which the hub went back; None if it did not, or nobody knows."""
        version = self._lease.went_back_to if self._lease.was_later else ""
        return int(version) if version else None

    def settled(self) -> None:
        """Note that what the member holds is judged that the hub has forgotten, or knows older."""
        self._lease.settled()

    @property
    def obstacle(self) -> str:
        """Empty if nodes and pods can be read, or if that is not known yet."""
        for informer in (self._nodes, self._pods):
            if not informer.trusted and informer.last_error is not None:
                return str(informer.last_error)
        return ""

    @property
    def provider(self) -> str:
        """`unknown` if it cannot be known, empty until then."""
        if self._nodes.synced:
            return provider_of(self.capacity.nodes)
        return UNKNOWN_PROVIDER if self.obstacle else ""

    def client_for(self, namespace: str) -> Verbs:
        """On a narrow member a namespace's client acts as its account."""
        if not self._narrow or not namespace:
            return self.client
        return Acting(self.client, account(namespace, TENANT_ACCOUNT))

    @property
    def cluster_id(self) -> str:
        """Its ID in its ClusterSet, else the UID of its kube-system, or ""."""
        return self.identity.id

    def note(self, cluster: MemberCluster) -> dict[str, str]:
        return self._identities.note(cluster, self.identity)

    def use_token(self, token: str) -> None:
        self._token.change(token)  # a header of the next request; no connection ends

    def answered(self, kind: tuple[str, str], *, namespaces: Collection[str]) -> bool:
        """As `Watches.answered`, once the tenants are listed."""
        if kind in self.absent:
            return True
        listed = self.tenants is None or self.tenants.listed
        return listed and self.watches.answered(*kind, namespaces=namespaces)

    def where(self, resource: Resource, namespaces: Collection[str]) -> list[str]:
        if self.tenants is None or not self.watches.is_apart(resource):
            return [EVERYWHERE]
        return [name for name in namespaces if name in self.tenants]

    def published(self, placed: Placed, version: int | None) -> None:
        """From that MemberCluster version on the hub's capacity counts these pods."""
        touched = self.pod_index.publish(placed, version)
        if touched:
            self._listener.pods(touched)

    async def run(self) -> None:
        """Closes the client at the end."""
        try:
            while True:
                answer = await self.probe.until_answered(self._listener.verdict)
                self._identity_checks = 0
                refused = await self._refused()
                if refused is None:
                    await self._serve(answer)
                self._identities.release(self._name)
                if refused is not None:
                    self._listener.verdict(refused)
                    await self._clock.sleep(self.probe.period)
        finally:
            self.serving = False
            self._identities.release(self._name)
            self.watches.close()
            for informer in self.informers:
                informer.discard()
            await self.client.close()

    async def _serve(self, answer: MemberHealth) -> None:
        # A write whose answer was lost may have arrived: only a new list shows it reliably.
        self.watches.renew()
        self.pod_index.restart()
        async with asyncio.TaskGroup() as group:
            facts = (self.kinds.run(), self.quotas.run())
            works = (self.informers.run(), self._open(answer), self._tidy(), *facts)
            # In an empty context, on behalf of no Workload (`lanes.working_for`).
            tasks = [group.create_task(work, context=Context()) for work in works]
            try:
                lost = await self.probe.until_lost(self._refused)
            finally:
                self.serving = False
                await end(tasks)
        self._listener.verdict(lost)

    async def _refused(self) -> MemberHealth | None:
        """Return why the cluster is not served, or None."""
        if self._identity_checks % IDENTITY_EVERY == 0:
            fault = await self._asked(self._identify(), "which cluster it is")
            if fault is not None and not self.serving:  # a served cluster stays what it was so far
                return fault
        self._identity_checks += 1
        try:
            await self._identities.note_first(self._name, self.identity)
        except (LeaseLost, TransportError) as fault:
            if not self.serving:
                return unreachable(f"the hub takes no note of which cluster it is: {fault}")
        refused = self._identities.refusal(self._name, self.identity)
        return refused or await self._check_lease()

    async def _identify(self) -> None:
        uid = await cluster_id(self.client)
        self.identity = ClusterIdentity(uid, *await set_identity(self.client))

    async def _check_lease(self) -> MemberHealth | None:
        """A failed read ends no serving link."""
        held: list[MemberHealth | None] = []

        async def check() -> None:
            held.append(await self._lease.check())

        fault = await self._asked(check(), "which hub has it")
        return held[0] if held else None if self.serving else fault

    async def let_go(self) -> None:
        """Raises TransportError."""
        await self._lease.let_go()

    async def unheld(self) -> str:
        """Return why a removal has to wait, or "". Call it right before. Raises TransportError."""
        why = await self._lease.unheld()
        if why:
            self.probe.ask_now()
        return why

    async def _asked(self, question: Coroutine[Any, Any, None], what: str) -> MemberHealth | None:
        """Return None if the member answered."""
        seconds = self._settings.probe_timeout
        try:
            async with asyncio.timeout(seconds):
                await question
        except TimeoutError:
            server = self.client.connection.server
            return unreachable(f"{server}: it does not say {what} within {seconds:g} s")
        except TransportError as fault:
            verdict = verdict_of(fault)  # some faults are signs of life, such as 429
            return unreachable(str(fault)) if verdict.ready else verdict
        return None

    def _begin(self, informer: Informer[Any]) -> None:
        self.informers.need(informer, self._name)

    async def _tidy(self) -> None:
        while True:
            await self._clock.sleep(min(_TIDY_SECONDS, self._settings.idle_watch))
            self.watches.end_idle(self._settings.idle_watch)
            if self.tenants is not None:
                await self.tenants.check()

    async def _open(self, answer: MemberHealth) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.request_timeout):
                while waiting := [each for each in self.informers if not each.tried]:
                    await waiting[0].wait_tried()
                if self.tenants is not None:
                    await self.tenants.check()
        self.serving = True
        self._listener.verdict(answer)
        for informer, notify in (
            (self._pods, self._listener.counted),
            (self._nodes, self._listener.facts),
        ):
            if not informer.trusted:
                await informer.wait_trusted()
                notify()

    def _client(self, connection: Connection, limit: int) -> ApiClient:
        return ApiClient(
            connection,
            clock=self._clock,
            name=self._name,
            limit=limit,
            timeout=self._settings.request_timeout,
            user_agent=user_agent(self._settings.process),
            before_write=self._before_write,
            pace=ServerBudget(self._clock, burst=BURST_SECONDS),
            holding=BudgetShare(MEMBERS),
            mark=self._mark,
            writes=self._writes,
        )

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        self.capacity.replace_node(cast("Node | None", old), cast("Node | None", new))
        self._listener.facts()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = cast("Pod | None", old), cast("Pod | None", new)
        touched = self.pod_index.replace(before, after)
        if before is not None and after is not None and before.facts == after.facts:
            return
        self.capacity.replace_pod(before, after)
        if touched:
            self._listener.pods(touched)
        self._listener.facts()
