"""All that a propagator does: sessions read without the lease, writes end with the term.

The Manager is created when the lease is first won, so a standby holds no session, watch or Secret.
Between two terms sessions continue to probe and watch; those of one of several shards end. If
another instance has led in between, the term waits for its writes, and drops records of own ones.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from crds.names import LABEL_REGISTER
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from propagator.hub.agent_accounts import AgentAccounts
from propagator.hub.cluster_status import ClusterStatusWriter
from propagator.hub.registration import Registrar
from propagator.hub.token_renewal import Renewer
from propagator.members.cluster_identity import Identities
from propagator.members.context import ControllerContext, HubIdentity
from propagator.members.hub_lease import HubHolder
from propagator.members.registry import MemberRegistry
from propagator.members.restored import RestoredHub
from propagator.settings import PropagatorSettings
from propagator.shards.election import ShardElection
from propagator.shards.membership import Membership, Resigned
from propagator.types.cluster import MemberCluster, Secret, bounded, lean
from propagator.workload_controller import WorkloadController

LOG = logs.get(__name__)


class Manager:
    """`hub` and every client of a member call `election` before each attempt of a write."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        settings: PropagatorSettings,
        recorder: EventRecorder,
        clock: Clock,
        election: ShardElection,
        membership: Membership,
    ) -> None:
        self._hub = hub
        self._settings = settings
        self._clock = clock
        self._led = False
        self._identity = HubIdentity(hub)
        self._election = election
        self._membership = membership
        self._restored = RestoredHub(
            hub,
            uid=self._identity.uid,
            namespace=settings.namespace,
            clock=clock,
            went_back_to=lambda: membership.went_back_to,
        )
        self._clusters: Informer[MemberCluster] = Informer(
            hub, MEMBER_CLUSTERS, MemberCluster, transform=lean, clock=clock
        )
        secrets: Informer[Secret] = Informer(
            hub,
            SECRETS,
            Secret,
            namespace=settings.namespace,
            label_selector=f"{LABEL_REGISTER}=true",
            transform=bounded,
            clock=clock,
        )
        self.registry = MemberRegistry(
            settings=settings.sessions,
            clock=clock,
            before_write=election.check,
            identities=Identities(hub, self._clusters, membership, clock=clock),
            holder=self._holder,
            mark=lambda: membership.mark,
        )
        context = ControllerContext(
            hub=hub,
            registry=self.registry,
            clusters=self._clusters,
            recorder=recorder,
            clock=clock,
            namespace=settings.namespace,
            identity=self._identity,
            restored=self._restored,
            fresh=self.hub_fresh,
            membership=membership,
        )
        self.workloads = WorkloadController(context)
        self._informers: list[Informer[Any]] = [
            self._clusters,
            secrets,
            *self.workloads.informers,
        ]
        self._registrar = Registrar(context, secrets=secrets)
        self._renewer = Renewer(context, secrets=secrets, settings=settings.renewal)
        self._publisher = ClusterStatusWriter(context)
        self._agents = AgentAccounts(context)
        for informer in (*self._informers, *self.workloads.optional):
            informer.crowded = lambda: membership.several
        membership.serve(self.registry.names, self.registry.hand_over, self.workloads.coverage)

    def stale(self) -> str:
        """Return why the view of the hub is outdated; empty if it is not."""
        kinds = self.workloads.kinds.informer
        # What a kind is decides what is written. An older hub does not have them.
        without = isinstance(kinds.last_error, NotFound)
        for informer in (*self._informers, *(() if without else (kinds,))):
            plural, silence = informer.resource.plural, informer.staleness()
            if not informer.synced:
                return f"{plural} are not listed yet"
            if math.isinf(silence):
                return f"the watch of {plural} has not been resumed yet"
            if silence > self._settings.hub_staleness:
                return f"nothing heard of {plural} for {silence:.0f} s"
        return ""

    def hub_fresh(self) -> bool:
        """Whether the informers may prove that an object is gone, read by the present profiles."""
        return not self.stale() and not self.workloads.kinds.rereading.due

    async def lead(self, *, alone: bool) -> None:
        """`alone`: no other instance has led since the last term.

        Returns when the shard is no more.
        """
        self._membership.begin()
        await self._part()
        with suppress(Resigned):
            try:
                await self._lead(alone=alone)
            except* Resigned:
                raise Resigned from None
            finally:
                await self._part()

    async def _part(self) -> None:
        """Between terms of one of several shards another may serve any of its members."""
        if self._membership.several:
            await asyncio.gather(*map(self.registry.drop, self.registry.names()))

    async def _lead(self, *, alone: bool) -> None:
        led_before, self._led = self._led, True
        reading = (*self._informers, *self.workloads.optional)
        async with asyncio.TaskGroup() as tasks:
            for informer in reading:
                informer.mistrust()
                tasks.create_task(informer.run())
            if led_before:
                await self._catch_up(reading, alone=alone)
            self._identity.forget()
            self._restored.begin()
            self.workloads.begin(alone=alone)
            tasks.create_task(self._membership.run())
            tasks.create_task(self._registrar.run())
            tasks.create_task(self._renewer.run())
            tasks.create_task(self._publisher.run())
            tasks.create_task(self._agents.run())
            tasks.create_task(self.workloads.run())
            tasks.create_task(self.registry.work(self.workloads.reconciler.reconcile))

    async def close(self) -> None:
        await self.registry.close()
        await self._hub.close()

    async def _holder(self) -> HubHolder:
        """Raises TransportError, of the hub."""
        elector, version = self._election.elector, self._election.elector.found
        # Of a set-back that others saw, one may have followed that nobody has seen.
        if self._hub.history.ended and (told := self._membership.went_back_to) is not None:
            version = str(told)
        return HubHolder(
            uid=await self._identity.uid(),
            address=self._hub.connection.server,
            instance=elector.identity,
            moment=elector.moment,
            past=elector.past,
            shard=self._membership.shard,
            history=self._membership.history,
            version=version,
            former=self._restored.former,
        )

    async def _catch_up(self, reading: Sequence[Informer[Any]], *, alone: bool) -> None:
        for informer in self._informers:
            await informer.wait_trusted()
        if not alone:
            LOG.info("another instance has led meanwhile: what it wrote is awaited")
            known = [informer for informer in reading if informer.synced]
            await caught_up(self._hub, known, clock=self._clock, within=math.inf)
