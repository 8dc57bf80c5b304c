"""The controller process: informers, the Lease, the queue and its workers, and HTTP.

Every instance keeps its cache up to date, so a standby can take over at once.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from controller import catalogue, config, fleet_metrics
from controller.admission import Admission, Reviewer
from controller.binding.decision_traces import DecisionTraces
from controller.binding.statusupdater import StatusUpdater
from controller.eventhandlers import SchedulerCache, known, read_anew
from controller.explain.record import record
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime import framework as runtime
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.controllers import Controllers
from controller.framework.runtime.feature import Feature, Term, placed_kinds, told_of_placed
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import services
from controller.http.server import Flags, Guard, install
from controller.model.objects import MemberCluster, Workload
from controller.model.placed import PlacedKind, PlacedObjects, SchedulableLister
from controller.queue.scheduling_queue import WORKERS, MessageRefresher, SchedulingQueue
from controller.scheduler import Scheduler
from crds.names import ANNOTATION_RELEASE, DEFAULT_SCHEDULER, SYSTEM_NAMESPACE
from machinery import logs, loopwatch, metrics, otlp, tracing
from machinery.api.acting import Fenced
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    WORKLOAD_KINDS,
    WORKLOADS,
    Resource,
    group_of,
)
from machinery.api.server_time import ServerClock
from machinery.clock import Clock, SystemClock
from machinery.config.address import loopback
from machinery.config.kubeconfig import Connection
from machinery.discovery import enforcement
from machinery.discovery.schema import Schema
from machinery.errors import NotFound
from machinery.http_server import HttpServer
from machinery.kinds.workloadkinds import Follower, Rereading, WorkloadKind
from machinery.release import release, user_agent
from machinery.runtime.consistent_read import caught_up
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer
from machinery.runtime.leader_election import LeaderElector
from machinery.runtime.workqueue import work
from machinery.tracing import TraceSettings
from machinery.types.metadata import Key

LOG = logs.get(__name__)
OTHER_REQUESTS = 16
"""Concurrent requests for Lease, Events and reviews, in addition to the writes."""
STALENESS_SECONDS = 150.0
"""The hub sends a bookmark a minute. A view silent for longer is stale."""
TROUBLE_SECONDS = 10.0
"""Seconds that a broken watch may take to return before its view is stale."""
SURRENDER_SECONDS = 30.0
"""Seconds of a stale view after which a leader gives up the Lease."""
RESYNC_SECONDS = 600.0
"""Average seconds between rounds that requeue what needs a decision: a trigger may be missed."""

PENDING = metrics.gauge("stowage_pending_workloads", "Workloads that wait for a change")
LEADER = metrics.gauge("stowage_controller_leader", "1 while this instance decides")

_decoder = msgspec.json.Decoder(Workload)


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    connection: Connection
    config_file: Path | None = None
    plugins: Sequence[str] = ()
    """In addition to the installed ones, as `module:factory`."""
    controller_plugins: str = "*"
    """Separated by commas: `*`, names, `-Name` to exclude."""
    debug_scores: int = 0
    http_host: str = "127.0.0.1"
    http_port: int = 10251
    """0 chooses a free port."""
    namespace: str = SYSTEM_NAMESPACE
    identity: str | None = None
    """None for host name, process id and a random part."""
    traces: TraceSettings = field(default_factory=TraceSettings)


class Controller:
    """One instance, standby or leader. `port` is the HTTP port once it listens.

    `configuration` replaces the settings' file, `features` the catalogue's; `plugins` are added.
    Raises ConfigurationError.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        client: ApiClient,
        *,
        clock: Clock | None = None,
        configuration: SchedulerConfiguration | None = None,
        features: Sequence[Feature] | None = None,
        plugins: Mapping[str, Factory] | None = None,
    ) -> None:
        self._settings = settings
        self._client = client
        # The moments that are read here were written by processes with other clocks.
        self._clock = ServerClock(clock or SystemClock(), client.server_time)
        self._features = catalogue.features() if features is None else features
        self.identity = settings.identity or identity()
        self._recorder = EventRecorder(
            client, controller="stowage.dev/controller", instance=self.identity, clock=self._clock
        )
        self._handle = Handle(
            clock=self._clock,
            holder=self.identity,
            client=client,
            recorder=self._recorder,
            check=self._check,
        )
        self._config = configuration or self._configuration(plugins or {})
        self._profiles = self._config.profiles
        self.flags = Flags(debug_scores=settings.debug_scores)
        self.port = 0
        self.leading = self._behind = False
        self._scheduler: Scheduler | None = None
        self._reviewer: Reviewer | None = None
        self._informers()
        self._elector = LeaderElector(
            client,
            namespace=settings.namespace,
            name=config.lease_name(self._config),
            identity=self.identity,
            clock=self._clock,
            annotations={ANNOTATION_RELEASE: release()},
        )

    def _configuration(self, plugins: Mapping[str, Factory]) -> SchedulerConfiguration:
        """Raises ConfigurationError."""
        registry = catalogue.registry(self._features).with_installed()
        for name, factory in plugins.items():
            registry.with_plugin(name, factory)
        registry.with_modules(self._settings.plugins)
        if self._settings.config_file is not None:
            return config.load(self._settings.config_file, registry, self._handle)
        profile = config.default_profile(registry, self._handle)
        return SchedulerConfiguration({DEFAULT_SCHEDULER: profile})

    def _informers(self) -> None:
        client, clock = self._client, self._clock
        self.workloads = Informer(client, WORKLOADS, Workload, transform=known, clock=clock)
        self.clusters = Informer(client, MEMBER_CLUSTERS, MemberCluster, clock=clock)
        where: Any = {"clock": clock, "namespace": self._settings.namespace}
        self._normalises = enforcement.mutating(client, **where)
        self._refuses = enforcement.validating(client, **where, changed=self._rules_changed)
        self._admission = Admission(
            client,
            normalises=self._normalises,
            refuses=self._refuses,
            learn=lambda answer: self.workloads.upsert(_decoder.decode(answer)),
        )
        self.cache = SchedulerCache(
            self._profiles.keys(),
            sort=runtime.Ranking(next(iter(self._profiles.values()))),
            reviewed=self._admission.reviewed,
            ledgers=[ledger for each in self._features for ledger in each.ledgers],
            fields=runtime.telling(self._profiles),
            now=clock.now,
        )
        self._handle.begin(self.cache, self._config)
        self.workloads.add_handler(self.cache.workload_changed)
        self.workloads.add_handler(self._admission.workload_changed)
        self.workloads.add_handler(self._workload_changed)
        self._counts = fleet_metrics.WorkloadCounts(self.cache.ours)
        self.workloads.add_handler(self._counts.workload_changed)
        self.clusters.add_handler(self.cache.cluster_changed)
        self._kinds: dict[Resource, Informer[Any]] = {
            WORKLOADS: self.workloads,
            MEMBER_CLUSTERS: self.clusters,
        }
        self.profiles = profiles = self._informer(WORKLOAD_KINDS, WorkloadKind)
        self._rereading = Rereading(self.workloads.values, self._read_anew)
        profiles.add_handler(Follower(profiles.values, self._rereading.changed).kind_changed)
        for each in self._features:
            each.attach(self._handle)
            for watch in each.watches:
                self._informer(watch.resource, watch.type_).add_handler(watch.handler)
        self._schema = Schema(client, self._kinds, clock=clock)
        self.placed = SchedulableLister(
            self.workloads, map(self._place, placed_kinds(self._features))
        )
        self.cache.reads(self.placed.get)
        chosen, theirs = self._settings.controller_plugins, self._handle.plugins
        self._controllers = Controllers(self._features, theirs, chosen, clock=clock)
        self._handle.choose(self._controllers.run)

    def _informer(self, resource: Resource, type_: type[Any]) -> Informer[Any]:
        """Handlers run in the order they were added."""
        if resource not in self._kinds:
            self._kinds[resource] = Informer(self._client, resource, type_, clock=self._clock)
        return self._kinds[resource]

    def _place(self, kind: PlacedKind) -> PlacedObjects:
        # The feature's own watch was added before, so its handler runs first.
        objects = PlacedObjects(kind, self._informer(kind.resource, kind.type_), known)
        ours = (self.cache.workload_changed, self._placed_changed)
        for handler in (*ours, *told_of_placed(self._features)):
            objects.add_handler(handler)
        return objects

    def unready(self) -> str:
        """Return why the view of the hub is stale, or empty."""
        for informer in self._kinds.values():
            optional = informer.resource not in (WORKLOADS, MEMBER_CLUSTERS)
            if optional and isinstance(informer.last_error, NotFound):
                continue  # an older hub does not have the kind
            plural, silence = informer.resource.plural, informer.staleness()
            if not informer.synced:
                return f"{plural} are not listed yet"
            if silence > (TROUBLE_SECONDS if informer.last_error else STALENESS_SECONDS):
                return f"nothing heard of {plural} for {silence:.0f} s"
        if self._rereading.due:
            return "Workloads are read anew, as a WorkloadKind has changed"
        if not self.cache.renames_read:
            return "the shares of a cluster that was renamed are not read yet"
        if self._normalises.known and self._refuses.known:
            return self._schema.obstacle
        return "admission policies are not listed yet"

    async def diagnosis(self, key: Key) -> dict[str, Any] | None:
        if self._scheduler is None:
            return None
        decision = await self._scheduler.diagnosis(key)
        return None if decision is None else record(decision)

    async def run(self) -> None:
        server = HttpServer()
        guard = None if loopback(self._settings.http_host) else Guard(self._client)
        theirs = services(self._handle.plugins)
        install(
            server,
            cache=self.cache,
            leading=lambda: self.leading,
            unready=self.unready,
            diagnosis=self.diagnosis,
            flags=self.flags,
            guard=guard,
            services=theirs,
        )
        self.port = await server.start(self._settings.http_host, self._settings.http_port)
        LOG.info("listening on %s:%d", self._settings.http_host, self.port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._rereading.run())
                group.create_task(self.profiles.run())
                for informer in self._kinds.values():
                    if informer is not self.profiles:
                        group.create_task(self._follow(informer))
                for known in (self._normalises, self._refuses, self._schema):
                    group.create_task(known.run())
                group.create_task(self._recorder.run())
                group.create_task(self.cache.run())
                group.create_task(self._serve())
        finally:
            await server.stop()

    async def _follow(self, informer: Informer[Any]) -> None:
        await self.profiles.wait_tried()  # by what a Workload is read, as far as the hub tells it
        await informer.run()

    async def _serve(self) -> None:
        while True:
            await self._ready()  # an instance with a stale view leaves the Lease to others
            if self._behind:
                await self._caught_up(within=math.inf)
            if self._config.leader_elect:
                await self._elector.run(self.lead)
            else:
                await self.lead()
            LOG.warning("leads no more: %s", self.unready() or "its view was stale for too long")

    async def _ready(self, *, within: float = math.inf) -> bool:
        until = self._clock.monotonic() + within
        while self.unready():
            if self._clock.monotonic() >= until:
                return False
            await self._clock.sleep(0.05)
        return True

    async def _caught_up(self, *, within: float) -> bool:
        return await caught_up(self._client, self._kinds.values(), clock=self._clock, within=within)

    async def _stale_for_long(self) -> None:
        since = self._clock.monotonic()
        while self._clock.monotonic() - since < SURRENDER_SECONDS:
            await self._clock.sleep(1.0)
            if not self.unready():
                since = self._clock.monotonic()

    async def lead(self) -> None:
        """Decide until cancelled, or stale for `SURRENDER_SECONDS`."""
        if not await self._ready(within=SURRENDER_SECONDS):
            return  # the view may have gone stale during the wait for the Lease
        self._behind = not await self._caught_up(within=SURRENDER_SECONDS)
        if self._behind:
            return
        queue = SchedulingQueue(clock=self._clock)
        LOG.info("deciding as %s", self.identity)
        self.leading = True
        LEADER.set(1)
        PENDING.set_function(lambda: queue.unschedulable)
        fleet_metrics.begin(counts=self._counts, snapshot=self.cache.snapshot)
        try:
            self.cache.lead(queue)
            await self._decide(queue)
        finally:
            if self._scheduler is not None:
                self._scheduler.close()
            self.cache.stop()
            self._scheduler = self._reviewer = None
            self._controllers.end()
            queue.active.shut_down()
            self.leading = False
            LEADER.set(0)
            PENDING.set_function(lambda: 0)
            fleet_metrics.end()

    async def _decide(self, queue: SchedulingQueue) -> None:
        hub = Fenced(self._client, self._check)
        term = Term(
            hub,
            self._clock,
            self._check,
            self._kinds.__getitem__,
            self._recorder,
            self._settings.namespace,
        )
        running = self._controllers.begin(term, self._elector.forsake)
        status_updater = StatusUpdater(
            hub,
            workloads=self.placed,
            recorder=self._recorder,
            clock=self._clock,
            check=self._check,
        )
        self._scheduler = scheduler = Scheduler(
            status_updater,
            queue=queue,
            workloads=self.placed,
            cache=self.cache,
            profiles=self._profiles,
            admission=self._admission,
            clock=self._clock,
            flags=self.flags,
            fresh=lambda: not self.unready(),
        )
        self._reviewer = reviewer = Reviewer(
            hub,
            workloads=self.workloads,
            admission=self._admission,
            needed=lambda: not self._refuses(),
            clock=self._clock,
            check=self._check,
        )
        await self.cache.begin(queue, self.placed.values())
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(queue.run()),
                group.create_task(MessageRefresher(queue, clock=self._clock).run()),
                group.create_task(self._resync(queue)),
                *(group.create_task(run()) for run in running),
                group.create_task(reviewer.run()),
                group.create_task(
                    work(queue.active, self._traced(scheduler, queue), workers=WORKERS, log=LOG)
                ),
            ]
            await self._stale_for_long()
            for task in tasks:
                task.cancel()

    def _traced(
        self, scheduler: Scheduler, queue: SchedulingQueue
    ) -> Callable[[Key], Awaitable[float | None]]:
        tracer, decide = tracing.tracer(), scheduler.schedule_one
        if tracer is None:
            return decide
        traces = DecisionTraces(decide, queue=queue, workloads=self.placed, tracer=tracer)
        return traces.schedule_one

    def _placed_changed(self, old: Workload | None, new: Workload | None) -> None:
        if self._scheduler is not None:
            self._scheduler.workload_changed(old, new)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self._placed_changed(old, new)
        if self._reviewer is not None:
            self._reviewer.changed(old, new)

    def _read_anew(self, key: Key, changed: AbstractSet[tuple[str, str]]) -> None:
        held = self.workloads.get(key)
        if held is None or (group_of(held.info.api_version), held.info.kind) not in changed:
            return
        self.workloads.renew(now := read_anew(held))
        if self.cache.needs_decision(now):
            self.cache.activate([key])

    def _rules_changed(self) -> None:
        # The policy may be gone: review what the hub has admitted.
        if self._reviewer is not None:
            self._reviewer.add(self.workloads.values())

    async def _resync(self, queue: SchedulingQueue) -> None:
        while True:
            spread = 0.8 + 0.4 * random.random()  # noqa: S311 - so that instances drift apart
            await self._clock.sleep(RESYNC_SECONDS * spread)
            await self.cache.resync(queue, self.placed.values(), clock=self._clock)

    def _check(self) -> float | None:
        return self._elector.check() if self._config.leader_elect else None


def identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


async def run(settings: ControllerSettings) -> None:
    """Run until cancelled. Raises ConfigurationError for a wrong configuration file."""
    limit = WORKERS + OTHER_REQUESTS
    agent = user_agent("stowage-controller")
    async with ApiClient(settings.connection, name="hub", limit=limit, user_agent=agent) as client:
        with loopwatch.watching(), otlp.exporting(settings.traces, service="stowage-controller"):
            await Controller(settings, client).run()
