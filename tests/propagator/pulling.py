"""Members in mode Pull in the world of `tests.propagator.memory`, and their agents.

What `stowage invite` makes is put onto the hub, and the credential is given: what is tried is the
agent itself, and all that the propagator does of it.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import NAMESPACE_URL, uuid5

import crds
from crds.names import (
    AGENT_ACCOUNT,
    AGENT_LEASE,
    ANNOTATION_MEMBER_NAMESPACE,
    API_VERSION,
    HUB_CONFIG,
    LABEL_MEMBER_NAMESPACE,
    MEMBER_REPORT,
)
from machinery.api.resources import (
    ASSIGNMENTS,
    CONFIG_MAPS,
    CRDS,
    LEASES,
    MEMBER_CLUSTERS,
    MEMBER_REPORTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.types.pull import HubFacts
from propagator.agent.app import Agent, AgentSettings
from propagator.credentials.agent_credential import HubAccess
from propagator.credentials.credentials import Credentials, Rights
from propagator.pull.bundle import Bundle, unpacked
from tests.propagator.memory import HUB, PROCESS, World

Json = dict[str, Any]
HUB_UID = str(uuid5(NAMESPACE_URL, "Namespace/kube-system"))


class PullWorld(World):
    """`pulled` are members in mode Pull, `members` are in mode Push."""

    def __init__(self, *members: str, pulled: tuple[str, ...] = ("paris",)) -> None:
        super().__init__(*members, *pulled)
        for kind in ("Assignment", "MemberReport"):
            self.put(CRDS, crds.definition_of(kind))
        for name in pulled:
            self.hub.remove(SECRETS, name, "stowage-system")
            self.invite(name)

    def invite(self, name: str) -> None:
        """As `stowage invite` does."""
        namespace = self._namespace(name)
        meta = {"name": name, "annotations": {ANNOTATION_MEMBER_NAMESPACE: namespace}}
        body = {"apiVersion": API_VERSION, "kind": "MemberCluster", "metadata": meta}
        self.put(MEMBER_CLUSTERS, {**body, "spec": {"mode": "Pull"}})

    def _namespace(self, name: str) -> str:
        namespace = namespace_of(name)
        self.put(
            NAMESPACES,
            {
                "apiVersion": "v1",
                "metadata": {"name": namespace, "labels": {LABEL_MEMBER_NAMESPACE: name}},
            },
        )
        for kind, called, more in (
            (LEASES, AGENT_LEASE, {"spec": {}}),
            (SERVICE_ACCOUNTS, AGENT_ACCOUNT, {}),
            (MEMBER_REPORTS, MEMBER_REPORT, {}),
            (CONFIG_MAPS, HUB_CONFIG, {"data": facts().data()}),
        ):
            body = {"apiVersion": kind.api_version, "kind": kind.kind, **more}
            self.put(kind, {**body, "metadata": {"name": called, "namespace": namespace}})
        return namespace

    def invite_pushed(self, name: str) -> None:
        """As `stowage join --pull` does for a member in mode Push."""
        self._namespace(name)
        named = {ANNOTATION_MEMBER_NAMESPACE: namespace_of(name)}
        patch = {"metadata": {"annotations": named}, "spec": {"mode": "Pull"}}
        self.hub.edit(MEMBER_CLUSTERS, name, patch)

    def tell_mode(self, name: str, mode: str) -> None:
        """What the agent is told of itself."""
        data = {"data": {"mode": mode}}
        self.hub.edit(CONFIG_MAPS, HUB_CONFIG, data, namespace=namespace_of(name))

    def assignment(self, uid: str, member: str = "paris") -> Json | None:
        with suppress(KeyError):
            return self.hub.read(ASSIGNMENTS, uid, namespace_of(member))
        return None

    def tell(self, member: str, status: Json) -> None:
        """What somebody with the credential of an agent tells of its member."""
        where: Json = {"namespace": namespace_of(member), "status": True}
        self.hub.edit(MEMBER_REPORTS, MEMBER_REPORT, {"status": status}, **where)

    def report(self, member: str = "paris") -> Json:
        """What the agent tells of its member."""
        found = self.hub.read(MEMBER_REPORTS, MEMBER_REPORT, namespace_of(member))
        status: Json = found.get("status", {})
        return status

    def bundle(self, uid: str, member: str = "paris") -> Bundle:
        found = self.assignment(uid, member)
        assert found is not None
        return unpacked(found["spec"]["bundle"])

    def copies(self, member: str = "paris") -> list[Json]:
        """The Secrets that go along, as they lie on the hub."""
        namespace = namespace_of(member)
        return [s for s in self.hub.all(SECRETS) if s["metadata"]["namespace"] == namespace]

    @asynccontextmanager
    async def agent(
        self,
        member: str = "paris",
        identity: str = "agent-1",
        source: Any = None,
        ahead: float = 0,
        **more: Any,
    ) -> AsyncIterator[Agent]:
        """`ahead` are the seconds by which its clock is wrong."""
        settings = AgentSettings(http_port=0, identity=identity)
        given = source or Given(member)
        with self._wired():
            clock = Ahead(self.clock, ahead)
            process = Agent(
                cast("Any", given), settings=settings, identity=identity, clock=clock, **more
            )
            before = PROCESS.set(identity)
            running = asyncio.create_task(process.run())
            PROCESS.reset(before)
            try:
                yield process
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    def writes_of(self, agent: str = "stowage-agent") -> list[tuple[str, str, str]]:
        """Server, method and path of the writes of agents, but for those of Leases."""
        return [
            (server, method, path)
            for server, method, path, by, _ in self.sent
            if by.startswith(agent) and method not in ("GET", "WATCH") and "/leases/" not in path
        ]


class Ahead:
    """A clock whose wall is wrong."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class Given:
    """A credential that is there, and stays."""

    def __init__(self, member: str, *, uid: str = HUB_UID) -> None:
        self._member = member
        self._uid = uid

    async def obtain(self) -> HubAccess:
        return HubAccess(Connection(server=HUB), namespace_of(self._member), facts(self._uid))

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def learn(self, _facts: HubFacts) -> HubAccess | None:
        return None

    async def follow_image(self, _image: str) -> str:
        return ""

    async def member(self) -> Credentials:
        connection = Connection(server=f"https://{self._member}.invalid")
        return Credentials(connection, Rights.CLUSTER)


def facts(uid: str = HUB_UID) -> HubFacts:
    return HubFacts(uid=uid, servers=(HUB,))


def namespace_of(member: str) -> str:
    return f"stowage-member-{member}-x7k2p"


def contents_of(secret: Json) -> bytes:
    """What a copy of a Secret says."""
    return zlib.decompress(base64.b64decode(secret["data"]["contents"]))
