"""The propagator process: the hub's client, the lease, and an HTTP server for health and metrics.

Only the holder of a shard works (`leadership`, `shards`). If the hub is away, the term ends.
Sessions with members outlive it until another instance has led for `kept_sessions` seconds.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import uuid
from collections.abc import Callable, Mapping

from crds.names import ANNOTATION_RELEASE
from machinery import logs, loopwatch, metrics, otlp
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    WORKLOAD_GROUPS,
    WORKLOAD_KINDS,
    WORKLOADS,
)
from machinery.api.server_time import ServerClock
from machinery.clock import Clock, SystemClock
from machinery.config.hub_config import hub_connection
from machinery.discovery.schema import Schema
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from machinery.release import release, user_agent
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.leader_election import Annotations, LeaderElector
from machinery.runtime.lease_reader import LeaseReader
from propagator import telemetry
from propagator.leadership import Manager
from propagator.members.session import MemberSession
from propagator.settings import PropagatorSettings
from propagator.shards.election import ShardElection
from propagator.shards.membership import Membership
from propagator.shards.number import ShardNumber

LOG = logs.get(__name__)
CHECK_SECONDS = 1.0
"""Seconds between two checks of who leads."""
NAME = "stowage-propagator"
AGENT = user_agent(NAME)

LEADER = metrics.gauge("stowage_propagator_leader", "1 while this instance propagates")
MEMBERS = metrics.gauge("stowage_member_sessions", "Sessions with members", ("ready",))

SHARD = metrics.GaugeFunc(
    "stowage_shard",
    "1 for the shard that this instance holds, or for a spare",
    ("shard", "state"),
    zero=[("", "Held"), ("", "Spare")],
)
SHARD_MEMBERS = metrics.gauge("stowage_shard_members", "Members that this instance serves")


class Propagator:
    """`hub` carries the lease and the events."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        settings: PropagatorSettings,
        clock: Clock | None = None,
    ) -> None:
        self._hub = hub
        self._settings = settings
        # Other processes, with other clocks, wrote the times that are read here.
        self._clock = ServerClock(clock or SystemClock(), hub.server_time)
        self._identity = settings.identity or identity()
        self._recorder = EventRecorder(
            hub, controller="stowage.dev/propagator", instance=self._identity, clock=self._clock
        )
        self._number = ShardNumber(hub, namespace=settings.namespace, clock=self._clock)
        self._election = ShardElection(
            self._elector, number=self._number, history=hub.history, clock=self._clock
        )
        leases = LeaseReader(
            hub,
            namespace=settings.namespace,
            clock=self._clock,
            lease_seconds=settings.lease_seconds,
            blind_seconds=settings.renew_deadline - settings.lease_retry,
        )
        self._membership = Membership(self._election, self._number, leases, clock=self._clock)
        kinds = (WORKLOADS, MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOAD_KINDS)
        self._schema = Schema(hub, kinds, clock=self._clock)
        self.manager: Manager | None = None
        """None before the first term, and once another instance has led for `kept_sessions`."""
        self._leads = False
        self.port = 0
        """0 until the HTTP server listens."""
        MEMBERS.labels("true").set_function(functools.partial(self._members, ready=True))
        MEMBERS.labels("false").set_function(functools.partial(self._members, ready=False))
        SHARD.set_function(self._shard)
        SHARD_MEMBERS.set_function(lambda: len(self._sessions()) if self._leads else 0)
        telemetry.begin(self._sessions, clock=self._clock)

    @property
    def term(self) -> Manager | None:
        """None on a standby."""
        return self.manager if self._leads else None

    def unready(self) -> str:
        """Return why this instance is not ready; empty if it is. A standby is ready."""
        if self._schema.obstacle:
            return self._schema.obstacle
        if self.term is not None:
            return self.term.stale()
        return "" if self._election.leader else "nobody is known to hold the lease"

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if the port is taken."""
        server = HttpServer()
        server.route("GET", "/healthz", self._healthz)
        server.route("GET", "/readyz", self._readyz)
        server.serve_metrics()
        self.port = await server.start(self._settings.http_host, self._settings.http_port)
        LOG.info("listening on %s:%d", self._settings.http_host, self.port)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._recorder.run())
                tasks.create_task(self._schema.run())
                tasks.create_task(self._number.run())
                tasks.create_task(self._serve())
                tasks.create_task(self._watch_successor())
        finally:
            await self._let_go()
            await server.stop()

    async def _serve(self) -> None:
        await self._schema.settled()
        await self._election.run(self._lead)

    async def _lead(self) -> None:
        """The term has its own connections: a renewal never waits behind its work."""
        LOG.info("propagating as %s", self._identity)
        if self.manager is None:
            self.manager = Manager(
                self._client(),
                settings=self._settings,
                recorder=self._recorder,
                clock=self._clock,
                election=self._election,
                membership=self._membership,
            )
        self._leads = True
        LEADER.set(1)
        try:
            await self.manager.lead(alone=self._election.alone)
        finally:
            self._leads = False
            LEADER.set(0)

    async def _watch_successor(self) -> None:
        """End the sessions of a former leader once another has led for long enough."""
        since: float | None = None
        while True:
            await self._clock.sleep(CHECK_SECONDS)
            if self.manager is None or self._leads or self._election.leader is None:
                since = None
                continue
            now = self._clock.monotonic()
            since = now if since is None else since
            if now - since >= self._settings.kept_sessions:
                LOG.info("%s leads: the sessions with members end", self._election.leader)
                await self._let_go()

    async def _let_go(self) -> None:
        manager, self.manager = self.manager, None
        if manager is not None:
            await manager.close()

    def _elector(
        self, name: str, taking: Callable[[Mapping[str, str]], Annotations]
    ) -> LeaderElector:
        return LeaderElector(
            self._hub,
            namespace=self._settings.namespace,
            name=name,
            identity=self._identity,
            clock=self._clock,
            annotations={ANNOTATION_RELEASE: release()},
            taking=taking,
            lease_seconds=self._settings.lease_seconds,
            renew_deadline=self._settings.renew_deadline,
            retry_seconds=self._settings.lease_retry,
        )

    def _client(self) -> ApiClient:
        return ApiClient(
            self._hub.connection,
            clock=self._clock,
            name=self._hub.name,
            limit=self._settings.hub_connections,
            user_agent=AGENT,
            before_write=self._election.check,
            history=self._hub.history,
            mark=lambda: self._membership.mark,
        )

    def _shard(self) -> metrics.Samples:
        if self._leads:
            return {(str(self._election.shard), "Held"): 1.0}
        return {("", "Spare"): 1.0}

    def _members(self, *, ready: bool) -> int:
        return sum(session.ready is ready for session in self._sessions())

    def _sessions(self) -> list[MemberSession]:
        registry = self.manager.registry if self.manager else None
        sessions = [registry.get(name) for name in registry.names()] if registry else []
        return [session for session in sessions if session is not None]

    async def _healthz(self, _request: Request) -> Response:
        return Response(200, b"ok", "text/plain; charset=utf-8")

    async def _readyz(self, _request: Request) -> Response:
        reason = self.unready()
        body = reason.encode() or b"ok"
        return Response(503 if reason else 200, body, "text/plain; charset=utf-8")


def identity() -> str:
    """Return a name that no other process has."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


async def run(settings: PropagatorSettings) -> None:
    """Run the process until cancelled. Raises ConfigurationError if no hub is configured."""
    connection = hub_connection(kubeconfig=settings.kubeconfig, context=settings.context)
    async with ApiClient(connection, name="hub", user_agent=AGENT) as hub:
        with loopwatch.watching(), otlp.exporting(settings.traces, service=NAME):
            await Propagator(hub, settings=settings).run()
