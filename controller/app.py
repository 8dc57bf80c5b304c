"""The controller process: informers, the lease, the queue and its workers, and the HTTP face.

Every instance keeps the world up to date, so that a standby decides at once when its turn comes.
Only the leader decides, and it asks the elector right before each write.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from controller import config, insight, services
from controller.access import Guard
from controller.admission import Admission
from controller.config import SchedulerConfiguration
from controller.cycle import decide
from controller.framework.registry import Registry
from controller.model import MemberCluster, Workload, WorkloadPolicy
from controller.queue import Change, SchedulingQueue
from controller.quotas import Quotas
from controller.reconciler import Reconciler
from controller.services import Flags
from controller.world import World, known
from crds.names import ADMISSION_POLICY, DEFAULT_SCHEDULER, SYSTEM_NAMESPACE
from machinery import logs, metrics
from machinery.clock import Clock, SystemClock
from machinery.errors import NotFound
from machinery.events import EventRecorder
from machinery.http import HttpServer
from machinery.informer import Informer
from machinery.kubeconfig import Connection
from machinery.lease import LeaderElector
from machinery.objects import Key, Object
from machinery.queue import work
from machinery.resources import (
    MEMBER_CLUSTERS,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    WORKLOAD_POLICIES,
    WORKLOADS,
)
from machinery.transport import ApiClient

LOG = logs.get(__name__)
LEASE = "stowage-controller"
WORKERS = 32
"""Status writes under way at once; decisions themselves are made one after the other."""
OTHER_REQUESTS = 16
"""What the lease, Events and reviews may have under way beside them."""
STALENESS_SECONDS = 150.0
"""The hub sends a bookmark a minute: silent for longer than this, its view is not acted on."""
TROUBLE_SECONDS = 10.0
"""So long a broken watch may take to come back before its view is not acted on."""
RESYNC_SECONDS = 600.0
"""The net under the triggers: whatever waits is looked at again about that often."""

PENDING = metrics.gauge("stowage_pending_workloads", "Workloads that wait for a change")
LEADER = metrics.gauge("stowage_controller_leader", "1 while this instance decides")

_decoder = msgspec.json.Decoder(Workload)


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """What may be set about one controller process."""

    connection: Connection
    config_file: Path | None = None
    debug_scores: int = 0
    http_host: str = "127.0.0.1"
    http_port: int = 10251
    """0 chooses a free one."""
    namespace: str = SYSTEM_NAMESPACE
    """Where the Lease lies."""
    identity: str | None = None
    """The name in the Lease; None means host name, process id and a random part."""


class Controller:
    """One instance, standby or leader. `port` is where HTTP listens, once it does."""

    def __init__(
        self, settings: ControllerSettings, client: ApiClient, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock or SystemClock()
        self._config = _configuration(settings)
        self._profiles = self._config.profiles
        self.flags = Flags(debug_scores=settings.debug_scores)
        self.identity = settings.identity or identity()
        self.port = 0
        self.leading = False
        self._informers()
        self._recorder = EventRecorder(
            client, controller="stowage.dev/controller", instance=self.identity, clock=self._clock
        )
        self._elector = LeaderElector(
            client,
            namespace=settings.namespace,
            name=lease_name(self._config),
            identity=self.identity,
            clock=self._clock,
        )

    def _informers(self) -> None:
        """What is kept of the hub, and who is told of its changes."""
        client, clock = self._client, self._clock
        self.workloads = Informer(client, WORKLOADS, Workload, transform=known, clock=clock)
        self.clusters = Informer(client, MEMBER_CLUSTERS, MemberCluster, clock=clock)
        self.policies = Informer(client, WORKLOAD_POLICIES, WorkloadPolicy, clock=clock)
        self.bindings = [
            Informer(
                client,
                resource,
                Object,
                field_selector=f"metadata.name={ADMISSION_POLICY}",
                metadata_only=True,
                clock=clock,
            )
            for resource in (
                MUTATING_ADMISSION_POLICY_BINDINGS,
                VALIDATING_ADMISSION_POLICY_BINDINGS,
            )
        ]
        self._admission = Admission(
            client,
            installed=lambda: all(len(informer) > 0 for informer in self.bindings),
            learn=lambda answer: self.workloads.upsert(_decoder.decode(answer)),
        )
        self.world = World(
            self._profiles.keys(),
            sort=next(iter(self._profiles.values())).queue_sort,
            reviewed=self._admission.reviewed,
        )
        self.workloads.add_handler(self.world.workload_changed)
        self.workloads.add_handler(self._admission.workload_changed)
        self.clusters.add_handler(self.world.cluster_changed)
        self.policies.add_handler(self.world.policy_changed)

    def unready(self) -> str:
        """Why the view of the hub cannot be acted on; empty when it can."""
        kinds: list[Informer[Any]] = [self.workloads, self.clusters]
        if not isinstance(self.policies.last_error, NotFound):  # a hub from before there were any
            kinds.append(self.policies)
        for informer in kinds:
            plural, silence = informer.resource.plural, informer.staleness()
            if not informer.synced:
                return f"{plural} are not listed yet"
            if silence > (TROUBLE_SECONDS if informer.last_error else STALENESS_SECONDS):
                return f"nothing heard of {plural} for {silence:.0f} s"
        # An older hub does not know the resource, and so has no policies either.
        if all(i.synced or isinstance(i.last_error, NotFound) for i in self.bindings):
            return ""
        return "admission policies are not listed yet"

    def cluster(self, name: str) -> dict[str, Any] | None:
        """What the next decision will read of a cluster, in numbers."""
        return insight.of_cluster(self.world, name)

    def diagnosis(self, key: Key) -> dict[str, Any] | None:
        """What would be decided now, in full."""
        unit = self.world.unit(key)
        profile = self._profiles.get(unit.scheduler_name) if unit else None
        if unit is None or profile is None:
            return None
        now = self._clock.now()
        return decide(self.world.fleet(), unit, self.world.index, profile, now).to_dict()

    async def run(self) -> None:
        """Serve until cancelled."""
        server = HttpServer()
        guard = None if services.loopback(self._settings.http_host) else Guard(self._client)
        services.install(server, insight=self, flags=self.flags, guard=guard)
        self.port = await server.start(self._settings.http_host, self._settings.http_port)
        LOG.info("listening on %s:%d", self._settings.http_host, self.port)
        try:
            async with asyncio.TaskGroup() as group:
                informers: list[Informer[Any]] = [self.workloads, self.clusters, self.policies]
                informers += self.bindings
                for informer in informers:
                    group.create_task(informer.run())
                group.create_task(self._recorder.run())
                group.create_task(self._serve())
        finally:
            await server.stop()

    async def _serve(self) -> None:
        if self._config.leader_elect:
            await self._elector.run(self.lead)
        else:
            await self.lead()

    async def lead(self) -> None:
        """Decide until cancelled."""
        while self.unready():
            await self._clock.sleep(0.05)
        queue = SchedulingQueue(clock=self._clock)
        LOG.info("deciding as %s", self.identity)
        self.leading = True
        LEADER.set(1)
        PENDING.set_function(lambda: queue.parked)
        try:
            self.world.lead(queue, self.workloads.values())
            await self._decide(queue)
        finally:
            self.world.rest()
            queue.active.shut_down()
            self.leading = False
            LEADER.set(0)
            PENDING.set_function(lambda: 0)

    async def _decide(self, queue: SchedulingQueue) -> None:
        quotas = Quotas(
            self._client,
            policies=self.policies,
            world=self.world,
            holder=self.identity,
            clock=self._clock,
            check=self._check,
        )
        reconciler = Reconciler(
            self._client,
            queue=queue,
            workloads=self.workloads,
            world=self.world,
            profiles=self._profiles,
            admission=self._admission,
            quotas=quotas,
            recorder=self._recorder,
            clock=self._clock,
            flags=self.flags,
            check=self._check,
            fresh=lambda: not self.unready(),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(queue.run())
            group.create_task(self._resync(queue))
            group.create_task(quotas.run())
            group.create_task(work(queue.active, reconciler.reconcile, workers=WORKERS, log=LOG))

    async def _resync(self, queue: SchedulingQueue) -> None:
        while True:
            spread = 0.8 + 0.4 * random.random()  # noqa: S311 - so that instances drift apart
            await self._clock.sleep(RESYNC_SECONDS * spread)
            queue.announce(Change.any())

    def _check(self) -> None:
        if self._config.leader_elect:
            self._elector.check()


def _configuration(settings: ControllerSettings) -> SchedulerConfiguration:
    registry = Registry().with_installed()
    if settings.config_file is not None:
        return config.load(settings.config_file, registry)
    return SchedulerConfiguration({DEFAULT_SCHEDULER: config.default_profile(registry)})


def lease_name(configuration: SchedulerConfiguration) -> str:
    """The Lease of all who serve these scheduler names: schedulers of other names run beside."""
    names = sorted(configuration.profiles)
    return LEASE if DEFAULT_SCHEDULER in names else "-".join((LEASE, *names)).lower()[:253]


def identity() -> str:
    """A name for this process that no other one has."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


async def run(settings: ControllerSettings) -> None:
    """The process, until cancelled. Raises ConfigurationError for a wrong configuration file."""
    limit = WORKERS + OTHER_REQUESTS
    async with ApiClient(settings.connection, name="hub", limit=limit) as client:
        await Controller(settings, client).run()
