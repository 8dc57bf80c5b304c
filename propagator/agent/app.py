"""The agent process: from its credential to the hub, over the Lease on the member, to its work.

- It asks the hub first. Without the hub's UID and whole lists it writes nothing on the member.
- The Lease `stowage-hub` on the member says who writes there: this agent, another one, or a shard
  of the propagator. Its holder writes, whether the hub answers or not.
- Only that holder contends for the Lease `agent` on the hub, whose renewals tell the hub that the
  member is served, and only while the member answers. What is told is written by its holder alone.
- A member that is no more in mode Pull is let go of at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import msgspec

from crds.membercluster import MemberMode
from crds.names import (
    AGENT,
    AGENT_LEASE,
    ANNOTATION_RELEASE,
    HUB_CONFIG,
    MEMBER_NAMESPACE_PREFIX,
    SYSTEM_NAMESPACE,
)
from machinery import logs, metrics
from machinery.api.client import ApiClient
from machinery.api.resources import ASSIGNMENTS, CONFIG_MAPS, DEPLOYMENTS, SECRETS
from machinery.api.server_time import ServerClock
from machinery.clock import Clock, SystemClock
from machinery.config.hub_config import hub_connection
from machinery.config.kubeconfig import Connection
from machinery.errors import StowageError
from machinery.http_messages import Request, Response
from machinery.http_server import HttpServer
from machinery.release import release, user_agent
from machinery.runtime.backoff import KeyedBackoff
from machinery.runtime.event_recorder import EventRecorder, ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.leader_election import LeaderElector
from machinery.tasks import end
from machinery.types.metadata import Object
from machinery.types.pull import HubFacts
from propagator.agent.carrier import Carrier
from propagator.agent.context import (
    NeverRestored,
    NoClusters,
    NoEvents,
    OneMember,
    OwnIdentity,
)
from propagator.agent.member_report import MemberReporter
from propagator.credentials.agent_credential import (
    WEEK,
    AgentCredential,
    HubAccess,
    InviteUsed,
    WrongHub,
)
from propagator.credentials.agent_image import follow_image
from propagator.credentials.agent_secret import AgentSecret
from propagator.credentials.credentials import Credentials
from propagator.credentials.member_token import MemberToken, member_credentials
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.hub_lease import AGENT_MARK, HUB_LEASE
from propagator.members.registry import MemberRegistry
from propagator.members.session import MemberSession
from propagator.pull.assignments import LABEL_ASSIGNMENT
from propagator.settings import SessionSettings
from propagator.types.assignment import BY_WORKLOAD, Assignment
from propagator.types.cluster import Secret, bounded

LOG = logs.get(__name__)
NAME = "stowage-agent"
USER_AGENT = user_agent(NAME)
FIRST_RETRY, LAST_RETRY = 2.0, 60.0
"""Seconds between two attempts to reach the hub."""
CHECK_SECONDS = 1.0
IMAGE_SECONDS = 30.0
"""Seconds between two looks at the image that the hub names."""

SERVING = metrics.gauge("stowage_agent_serving", "1 while this agent writes on its member")
WRONG_HUB = metrics.gauge(
    "stowage_agent_wrong_hub", "1 while another hub answers at the address of this agent's hub"
)


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    kubeconfig: str | None = None
    """The path of the member's kubeconfig; None means the usual places, then in-cluster."""
    context: str | None = None
    namespace: str = SYSTEM_NAMESPACE
    """That of the agent's Secret and of the Lease `stowage-hub`, on the member."""
    http_host: str = "127.0.0.1"
    http_port: int = 10253
    token_seconds: int = WEEK
    identity: str | None = None
    """The name in the Leases; None means host name, process id and a random part."""
    member_lease: tuple[float, float, float] = (60.0, 45.0, 10.0)
    """Of the Lease on the member: how long others wait, how long we go on, and between renewals."""
    hub_lease: tuple[float, float, float] = (60.0, 50.0, 20.0)
    """The same of the Lease on the hub."""
    sessions: SessionSettings = field(default_factory=lambda: SessionSettings(process=NAME))


class MemberSecret:
    """The credentials as they lie in the Secret `stowage-agent` on the member."""

    def __init__(self, own: ApiClient, *, settings: AgentSettings, clock: Clock) -> None:
        self._own = own
        self._clock = clock
        self._home = settings.namespace
        self._hub = AgentCredential(
            own, clock=clock, home=settings.namespace, seconds=settings.token_seconds
        )

    async def obtain(self) -> HubAccess:
        return await self._hub.obtain()

    async def keep(self) -> None:
        await self._hub.keep()

    async def learn(self, facts: HubFacts) -> HubAccess | None:
        return await self._hub.learn(facts)

    async def follow_image(self, image: str) -> str:
        return await follow_image(self._own, image, home=self._home)

    async def member(self) -> Credentials:
        token = MemberToken(self._own, clock=self._clock, home=self._home)
        connection = replace(
            self._own.connection, token=None, client_cert=None, client_key=None, token_source=token
        )
        stored = await AgentSecret(self._own, home=self._home).read()
        return member_credentials(stored.data, connection, home=self._home)


class _ConfigMap(Object, frozen=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class Agent:
    """One instance. `source` gives its credentials, `recorder` tells Events on the member."""

    def __init__(
        self,
        source: MemberSecret,
        *,
        settings: AgentSettings,
        identity: str,
        clock: Clock | None = None,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._source = source
        self._recorder = recorder
        self.settings = settings
        self.identity = identity
        self.clock = clock or SystemClock()
        self._obstacle = "its hub was not reached yet"
        self._facts: HubFacts | None = None
        self.upgrade = ""
        self.changed: Callable[[], None] = lambda: None
        """Called when `upgrade` changes."""
        self.session: MemberSession | None = None
        """None unless this agent writes on the member."""
        self.port = 0

    def unready(self) -> str:
        """Return why the agent does not serve its member; empty if it does, or stands by."""
        return self._obstacle

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError if the port is taken."""
        server = HttpServer()
        server.route("GET", "/healthz", self._healthz)
        server.route("GET", "/readyz", self._readyz)
        server.serve_metrics()
        self.port = await server.start(self.settings.http_host, self.settings.http_port)
        LOG.info("listening on %s:%d", self.settings.http_host, self.port)
        try:
            async with asyncio.TaskGroup() as tasks:
                if self._recorder is not None:
                    tasks.create_task(self._recorder.run())
                access = await self._obtain()
                tasks.create_task(self._source.keep())
                while True:
                    access = await self._serve(access)
        finally:
            await server.stop()

    async def _obtain(self) -> HubAccess:
        pauses: KeyedBackoff[str] = KeyedBackoff(clock=self.clock, base=FIRST_RETRY, cap=LAST_RETRY)
        while True:
            try:
                access = await self._source.obtain()
            except StowageError as fault:
                self._tell(fault)
                self._obstacle = f"{type(fault).__name__}: {fault}"
                LOG.warning("the hub is not reached: %s", self._obstacle)
                await self.clock.sleep(pauses.failed("hub", self._obstacle))
                continue
            self._obstacle = ""
            WRONG_HUB.set(0)
            return access

    def _tell(self, fault: StowageError) -> None:
        """Tell on the member what its hub cannot be told."""
        WRONG_HUB.set(1 if isinstance(fault, WrongHub) else 0)
        if self._recorder is not None and isinstance(fault, WrongHub | InviteUsed):
            api, home = DEPLOYMENTS.api_version, self.settings.namespace
            self._recorder.event(
                ObjectRef(api, DEPLOYMENTS.kind, home, AGENT),
                type="Warning",
                reason=type(fault).__name__,
                note=str(fault),
                action="Connect",
            )

    async def _serve(self, access: HubAccess) -> HubAccess:
        """Serve by that way to the hub; return the next one."""
        connection, namespace = access.connection, access.namespace
        self._facts = access.facts
        following: asyncio.Queue[HubAccess] = asyncio.Queue()
        async with (
            self.client(connection, "hub") as plain,
            _Reads(plain, namespace, clock=self.clock) as reads,
        ):
            reads.config.add_handler(
                lambda _old, new: self._told(new.data) if new is not None else None
            )
            working = [
                asyncio.create_task(self._follow(access, following)),
                asyncio.create_task(self._follow_image()),
                asyncio.create_task(self._contend(access, plain, reads)),
            ]
            try:
                waiting = asyncio.create_task(following.get())
                done, _ = await asyncio.wait(
                    [waiting, *working], return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                return waiting.result()
            finally:
                await end([*working, waiting])

    def _told(self, data: dict[str, str]) -> None:
        try:
            facts = HubFacts.of(data)
        except ValueError as fault:
            LOG.warning("what the hub tells of itself is not believed: %s", fault)
            return
        self._facts = facts

    async def _follow(self, access: HubAccess, following: asyncio.Queue[HubAccess]) -> None:
        taken = access.facts
        while True:
            await self.clock.sleep(CHECK_SECONDS)
            facts = self._facts
            if facts is None or facts == taken:
                continue
            try:
                found = await self._source.learn(facts)
                WRONG_HUB.set(0)
            except StowageError as fault:
                self._tell(fault)
                LOG.warning("the new way to the hub is not taken: %s", fault)
                await self.clock.sleep(FIRST_RETRY)
                continue
            taken = facts
            if found is not None:
                following.put_nowait(found)

    async def _follow_image(self) -> None:
        while True:
            await self.clock.sleep(IMAGE_SECONDS)
            image = self._facts.image if self._facts is not None else ""
            try:
                why = await self._source.follow_image(image) if image else ""
            except StowageError as fault:
                why = str(fault)
            if why == self.upgrade:
                continue
            self.upgrade = why
            if why:
                LOG.warning("the image that the hub names does not run: %s", why)
            self.changed()

    @property
    def pulls(self) -> bool:
        return self._facts is not None and self._facts.mode == MemberMode.PULL

    async def _contend(self, access: HubAccess, plain: ApiClient, reads: _Reads) -> None:
        """Contend for the member while it is in mode Pull and the hub was listed once."""
        credentials = await self._source.member()
        lease, deadline, retry = self.settings.member_lease
        server = access.connection.server
        async with self.client(credentials.connection, "member") as member:
            elector = LeaderElector(
                member,
                namespace=credentials.home,
                name=HUB_LEASE,
                identity=f"{access.facts.uid} {server} {AGENT_MARK}{self.identity}",
                clock=self.clock,
                annotations={ANNOTATION_RELEASE: release()},
                lease_seconds=lease,
                renew_deadline=deadline,
                retry_seconds=retry,
            )
            holder: str | None = None
            while True:
                await reads.wait_listed()
                while not self.pulls:
                    await self.clock.sleep(CHECK_SECONDS)
                term = _Term(self, access, plain, reads, credentials, elector)
                if not await elector.attempt():
                    if elector.leader != holder:
                        holder = elector.leader
                        LOG.info("the Lease %s on the member is held by %s", HUB_LEASE, holder)
                    await self.clock.sleep(elector.patience())
                    continue
                await elector.term(term.run)

    def client(self, connection: Connection, name: str, **how: Any) -> ApiClient:
        return ApiClient(connection, clock=self.clock, name=name, user_agent=USER_AGENT, **how)

    async def _healthz(self, _request: Request) -> Response:
        return Response(200, b"ok", "text/plain; charset=utf-8")

    async def _readyz(self, _request: Request) -> Response:
        reason = self.unready()
        return Response(
            503 if reason else 200, reason.encode() or b"ok", "text/plain; charset=utf-8"
        )


class _Reads:
    def __init__(self, hub: ApiClient, namespace: str, *, clock: Clock) -> None:
        where: dict[str, Any] = {"namespace": namespace, "clock": clock}
        self.assignments: Informer[Assignment] = Informer(hub, ASSIGNMENTS, Assignment, **where)
        self.assignments.add_index(BY_WORKLOAD, lambda each: ("/".join(each.workload),))
        self.secrets: Informer[Secret] = Informer(
            hub, SECRETS, Secret, label_selector=LABEL_ASSIGNMENT, transform=bounded, **where
        )
        self.config: Informer[_ConfigMap] = Informer(
            hub, CONFIG_MAPS, _ConfigMap, field_selector=f"metadata.name={HUB_CONFIG}", **where
        )
        for informer in (self.assignments, self.secrets, self.config):
            informer.crowded = lambda: True  # by other agents
        self._tasks: list[asyncio.Task[None]] = []
        self.carrier: Carrier | None = None
        """Who is told of changes; None between two terms."""
        self.assignments.add_handler(self._assignment_changed)
        self.secrets.add_handler(self._secret_changed)

    def _assignment_changed(self, old: Assignment | None, new: Assignment | None) -> None:
        if self.carrier is not None:
            self.carrier.assignment_changed(old, new)

    def _secret_changed(self, _old: Secret | None, new: Secret | None) -> None:
        if self.carrier is not None and new is not None:
            self.carrier.secret_changed(new)

    async def __aenter__(self) -> Self:
        informers = (self.assignments, self.secrets, self.config)
        self._tasks = [asyncio.create_task(each.run()) for each in informers]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._tasks)

    async def wait_listed(self) -> None:
        for informer in (self.config, self.secrets, self.assignments):
            await informer.wait_synced()

    @property
    def listed(self) -> bool:
        return self.assignments.synced and self.secrets.synced and self.config.synced


class _Term:
    """One term of the Lease on the member."""

    def __init__(
        self,
        agent: Agent,
        access: HubAccess,
        plain: ApiClient,
        reads: _Reads,
        credentials: Credentials,
        elector: LeaderElector,
    ) -> None:
        self._agent = agent
        self._access = access
        self._reads = reads
        self._credentials = credentials
        self._elector = elector
        # What is told has the hub's time: it is read there, and by other clocks.
        self._clock = ServerClock(agent.clock, plain.server_time)
        lease, deadline, retry = agent.settings.hub_lease
        self._telling = LeaderElector(
            plain,
            namespace=access.namespace,
            name=AGENT_LEASE,
            identity=agent.identity,
            clock=agent.clock,  # the hub sees by it how far the clock here is off
            annotations={ANNOTATION_RELEASE: release()},
            lease_seconds=lease,
            renew_deadline=deadline,
            retry_seconds=retry,
        )

    async def run(self) -> None:
        name = member_of(self._access.namespace)
        registry = MemberRegistry(
            settings=self._agent.settings.sessions,
            clock=self._clock,
            before_write=self._elector.check,
            identities=_any(OneMember()),
        )
        connection = self._access.connection
        try:
            async with self._agent.client(
                connection, "hub", before_write=self._telling.check
            ) as hub:
                await self._serve(hub, registry, registry.admit(name))
        finally:
            self._agent.session = self._reads.carrier = None
            SERVING.set(0)
            await registry.close()

    async def _serve(
        self, hub: ApiClient, registry: MemberRegistry, session: MemberSession
    ) -> None:
        namespace, facts = self._access.namespace, self._access.facts
        context = ControllerContext(
            hub=hub,
            registry=registry,
            clusters=_any(NoClusters()),
            recorder=_any(NoEvents()),
            clock=self._clock,
            namespace=self._agent.settings.namespace,
            identity=_any(OwnIdentity(lambda: facts.uid)),
            restored=_any(NeverRestored()),
            fresh=lambda: True,
        )
        carrier = Carrier(
            context,
            session,
            namespace=namespace,
            assignments=self._reads.assignments,
            secrets=self._reads.secrets,
            hub=lambda: facts.uid,
            may_act=self._may_act,
        )
        report = MemberReporter(
            hub,
            session,
            namespace=namespace,
            unassigned=carrier.unassigned,
            upgrade=lambda: self._agent.upgrade,
            clock=self._clock,
        )
        self._reads.carrier = carrier
        carrier.begin()
        registry.on_facts(lambda _: report.changed())
        self._agent.changed = report.changed
        session.use(self._credentials)
        self._agent.session = session
        SERVING.set(1)
        async with asyncio.TaskGroup() as tasks:
            works = [
                carrier.run(),
                report.run(),
                self._tell(session),
                registry.work(carrier.reconcile),
            ]
            running = [tasks.create_task(each) for each in works]
            while self._agent.pulls:
                await self._clock.sleep(CHECK_SECONDS)
            LOG.info("the member is in mode Pull no more: it is let go of")
            for task in running:
                task.cancel()

    def _may_act(self) -> bool:
        return self._reads.listed and self._agent.pulls

    async def _tell(self, session: MemberSession) -> None:
        """Hold the Lease on the hub while the member answers."""

        async def answering() -> None:
            while session.contact is not Contact.AWAY:
                await self._clock.sleep(CHECK_SECONDS)

        while True:
            while session.contact is not Contact.SERVING:
                await self._clock.sleep(CHECK_SECONDS)
            await self._telling.run(answering)


def member_of(namespace: str) -> str:
    """Return the name of the member whose namespace on the hub that is."""
    return namespace.removeprefix(MEMBER_NAMESPACE_PREFIX).rpartition("-")[0] or namespace


def _any(part: Any) -> Any:
    return part


async def run(settings: AgentSettings, identity: str) -> None:
    """Run the process until cancelled. Raises ConfigurationError without a way to the member."""
    connection = hub_connection(kubeconfig=settings.kubeconfig, context=settings.context)
    async with ApiClient(connection, name="member", user_agent=USER_AGENT) as own:
        clock = SystemClock()
        source = MemberSecret(own, settings=settings, clock=clock)
        recorder = EventRecorder(
            own, controller="stowage.dev/agent", instance=identity, clock=clock
        )
        await Agent(
            source, settings=settings, identity=identity, clock=clock, recorder=recorder
        ).run()
