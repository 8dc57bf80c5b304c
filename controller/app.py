"""The controller process: informers, the lease, the queue and its workers, and the HTTP face.

Every instance keeps the world up to date, so that a standby decides at once when its turn comes.
Only the leader decides, and it asks the elector right before each write.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller import config, services
from controller.access import Guard
from controller.admission import Admission
from controller.framework.registry import Registry
from controller.model import MemberCluster, Workload
from controller.queue import SchedulingQueue
from controller.reconciler import Reconciler
from controller.services import Flags
from controller.world import World, known
from crds.names import ADMISSION_POLICY, SYSTEM_NAMESPACE
from machinery import logs, metrics, quantities
from machinery.clock import Clock, SystemClock
from machinery.events import EventRecorder
from machinery.http import HttpServer
from machinery.informer import Informer
from machinery.kubeconfig import Connection
from machinery.lease import LeaderElector
from machinery.objects import Key, Object
from machinery.queue import work
from machinery.resources import (
    MEMBER_CLUSTERS,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    WORKLOADS,
)
from machinery.transport import ApiClient

LOG = logs.get(__name__)
LEASE = "stowage-controller"
WORKERS = 32
"""Status writes under way at once; decisions themselves are made one after the other."""
STALENESS_SECONDS = 150.0
"""The hub sends a bookmark a minute: silent for longer than this, its view is not acted on."""

PENDING = metrics.gauge("stowage_pending_workloads", "Workloads that wait for a change")
LEADER = metrics.gauge("stowage_controller_leader", "1 while this instance decides")


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """What may be set about one controller process."""

    connection: Connection
    config_file: Path | None = None
    debug_scores: int = 0
    http_host: str = "127.0.0.1"
    http_port: int = 10251
    namespace: str = SYSTEM_NAMESPACE
    identity: str | None = None
    """The name in the Lease; None means host name, process id and a random part."""


class Controller:
    """One instance, standby or leader."""

    def __init__(
        self, settings: ControllerSettings, client: ApiClient, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        registry = Registry().with_installed()
        self._config = (
            config.load(settings.config_file, registry)
            if settings.config_file
            else config.SchedulerConfiguration({"stowage": config.default_profile(registry)})
        )
        self.flags = Flags(debug_scores=settings.debug_scores)
        self.identity = settings.identity or identity()
        self.world = World(self._config.profiles)
        self.workloads: Informer[Workload] = Informer(
            client, WORKLOADS, Workload, transform=known, clock=self._clock
        )
        self.clusters: Informer[MemberCluster] = Informer(
            client, MEMBER_CLUSTERS, MemberCluster, clock=self._clock
        )
        self.bindings: Informer[Object] = Informer(
            client,
            VALIDATING_ADMISSION_POLICY_BINDINGS,
            Object,
            field_selector=f"metadata.name={ADMISSION_POLICY}",
            metadata_only=True,
            clock=self._clock,
        )
        self.workloads.add_handler(self.world.workload_changed)
        self.clusters.add_handler(self.world.cluster_changed)
        self._recorder = EventRecorder(
            client, controller="stowage.dev/controller", instance=self.identity, clock=self._clock
        )
        self._elector = LeaderElector(
            client,
            namespace=settings.namespace,
            name=LEASE,
            identity=self.identity,
            clock=self._clock,
        )
        self.reconciler = Reconciler(
            client,
            workloads=self.workloads,
            world=self.world,
            profiles=self._config.profiles,
            admission=Admission(client, installed=lambda: bool(len(self.bindings))),
            recorder=self._recorder,
            clock=self._clock,
            flags=self.flags,
            check=self._check,
            fresh=lambda: not self.unready(),
        )
        self._leading = False

    @property
    def leading(self) -> bool:
        """True while this instance decides."""
        return self._leading

    def unready(self) -> str:
        """Why the view of the hub cannot be acted on; empty when it can."""
        for informer in (self.workloads, self.clusters):
            plural = informer.resource.plural
            if not informer.synced:
                return f"{plural} are not listed yet"
            if informer.staleness() > STALENESS_SECONDS:
                return f"nothing heard of {plural} for {informer.staleness():.0f} s"
        return "" if self.bindings.synced else "admission policies are not listed yet"

    def cluster(self, name: str) -> dict[str, Any] | None:
        """What the next decision will read of a cluster, in numbers."""
        fleet = self.world.fleet()
        row = fleet.row.get(name)
        if row is None:
            return None
        resources = sorted({*fleet.allocatable, *fleet.requested, *fleet.assumed})

        def amounts(*columns: Any) -> dict[str, int]:
            return {
                r: sum(sign * int(c[r][row]) for sign, c in columns if r in c) for r in resources
            }

        texts = {
            "allocatable": amounts((1, fleet.allocatable)),
            "requested": amounts((1, fleet.requested), (1, fleet.assumed)),
            "remaining": amounts(
                (1, fleet.allocatable), (-1, fleet.requested), (-1, fleet.assumed)
            ),
        }
        cluster = fleet.clusters[row]
        return {
            "name": name,
            "labels": cluster.metadata.labels,
            "generation": cluster.metadata.generation,
            **{
                kind: {r: quantities.render(r, n) for r, n in values.items()}
                for kind, values in texts.items()
            },
            "shares": {
                "/".join(key): self.world.units[key].present.get(name, 0)
                for key in self.world.holders(name)
                if key in self.world.units
            },
        }

    def diagnosis(self, key: Key) -> dict[str, Any] | None:
        """What would be decided now, in full."""
        decision = self.reconciler.diagnose(key)
        return None if decision is None else decision.to_dict()

    async def run(self) -> None:
        """Serve until cancelled."""
        server = HttpServer()
        local = services.loopback(self._settings.http_host)
        guard = None if local else Guard(self.reconciler.client)
        services.install(server, insight=self, flags=self.flags, guard=guard)
        port = await server.start(self._settings.http_host, self._settings.http_port)
        LOG.info("listening on %s:%d", self._settings.http_host, port)
        try:
            async with asyncio.TaskGroup() as group:
                for informer in (self.workloads, self.clusters, self.bindings):
                    group.create_task(informer.run())
                group.create_task(self._recorder.run())
                if self._config.leader_elect:
                    group.create_task(self._elector.run(self.lead))
                else:
                    group.create_task(self.lead())
        finally:
            await server.stop()

    async def lead(self) -> None:
        """Decide until cancelled."""
        for informer in (self.workloads, self.clusters, self.bindings):
            await informer.wait_synced()
        queue = SchedulingQueue(clock=self._clock)
        LOG.info("deciding as %s", self.identity)
        self.reconciler.queue, self._leading = queue, True
        LEADER.set(1)
        PENDING.set_function(lambda: queue.parked)
        try:
            self.world.lead(queue)
            async with asyncio.TaskGroup() as group:
                group.create_task(queue.run())
                group.create_task(
                    work(queue.active, self.reconciler.reconcile, workers=WORKERS, log=LOG)
                )
        finally:
            self.world.lead(None)
            self.reconciler.queue, self._leading = None, False
            queue.active.shut_down()
            LEADER.set(0)

    def _check(self) -> None:
        if self._config.leader_elect:
            self._elector.check()


def identity() -> str:
    """A name for this process that no other one has."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


async def run(settings: ControllerSettings) -> None:
    """The process, until cancelled. Raises ConfigurationError for a wrong configuration file."""
    async with ApiClient(settings.connection, name="hub", limit=WORKERS + 16) as client:
        await Controller(settings, client).run()
