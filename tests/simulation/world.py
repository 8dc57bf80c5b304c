"""Controllers, propagators, a hub and members in one loop, by one clock that a simulation moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, cast
from unittest import mock
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec

from controller.app import Controller, ControllerSettings
from controller.config import default_profile
from controller.framework.profile import SchedulerConfiguration
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.api.status_errors import refusal
from machinery.config.kubeconfig import Connection
from machinery.errors import Unreachable
from propagator.app import AGENT, Propagator
from propagator.members.health import HealthProbe
from propagator.settings import PropagatorSettings
from tests.controller.memory import _Clock
from tests.propagator import memory
from tests.propagator.memory import HUB, PROCESS, World

from .cluster import NODE, Refused, SimCluster

Json = dict[str, Any]
PROCESSES = ("controller-a", "controller-b", "propagator-a", "propagator-b")
_LISTED = {"namespaced": True, "verbs": ["get", "list", "watch", "patch", "delete"]}
_KINDS = {
    "v1": {
        "configmaps": "ConfigMap",
        "persistentvolumeclaims": "PersistentVolumeClaim",
        "pods": "Pod",
        "secrets": "Secret",
    },
    "apps/v1": {"deployments": "Deployment", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job"},
}
"""By group and version, what a member serves, but what is always asked for by its path."""
_CONTROLLERS_SECONDS = 0.5


class SimWorld(World):
    """The members are clusters with controllers; a process is cut off as a whole."""

    processes = PROCESSES

    def __init__(self, seed: int, *members: str) -> None:
        with mock.patch.object(memory, "FakeClock", _Clock):
            super().__init__(*members)
        self.clusters = {name: SimCluster(name, self.clock) for name in members}
        for name, cluster in self.clusters.items():
            node = {"apiVersion": "v1", "kind": "Node", "status": memory._NODE["status"]}
            meta = {"name": NODE, "labels": zone_of(name)}
            cluster.create("nodes", "", {**node, "metadata": meta})
        self.running: dict[str, asyncio.Task[None]] = {}
        self.flaky = 0.0
        """The part of the writes to the hub that it loses, or whose answers."""
        self._chance = random.Random(f"world {seed}")
        self.hub.faults.append(self._of_cut)

    def put(self, res: Any, body: Json) -> None:
        self.hub.put(res, body)

    def stamp(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    @asynccontextmanager
    async def living(self) -> AsyncIterator[asyncio.Task[None]]:
        """Have members and all processes run; yields the task of the members' controllers."""
        with self._wired(), self._seeded():
            ticking = asyncio.create_task(self._tick())
            for name in PROCESSES:
                self.run(name)
            try:
                yield ticking
            finally:
                for name in list(self.running):
                    await self.kill(name)
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                while any(not task.done() for task in others):
                    await self.clock.advance(1)

    def zoned(self) -> bool:
        """Whether each MemberCluster is there; they get the labels of their zones."""
        there = {each["metadata"]["name"] for each in self.hub.stored(MEMBER_CLUSTERS)}
        for name in there:
            self.hub.edit(MEMBER_CLUSTERS, name, {"metadata": {"labels": zone_of(name)}})
        return there == {*self.clusters}

    def run(self, name: str) -> None:
        self.cut.discard(name)
        before = PROCESS.set(name)
        start = self._controller if name.startswith("controller") else self._propagator
        self.running[name] = asyncio.create_task(start(name))
        PROCESS.reset(before)

    async def kill(self, name: str, *, gently: bool = False) -> None:
        """End the process, which says goodbye only if it is ended gently."""
        if not gently:
            self.cut.add(name)
        task = self.running.pop(name)
        task.cancel()
        while not task.done():
            await self.clock.advance(0.1)
        with suppress(asyncio.CancelledError):
            task.result()

    async def _propagator(self, name: str) -> None:
        given = PropagatorSettings(http_port=0, identity=name)
        async with ApiClient(Connection(server=HUB), user_agent=AGENT, clock=self.clock) as hub:
            await Propagator(hub, settings=given, clock=self.clock).run()

    async def _controller(self, name: str) -> None:
        profile, connection = default_profile(), Connection(server="http://memory")
        settings = ControllerSettings(connection=connection, http_port=0, identity=name)
        configuration = SchedulerConfiguration({profile.scheduler_name: profile}, True)
        hub = cast("ApiClient", self.hub)
        await Controller(settings, hub, clock=self.clock, configuration=configuration).run()

    async def _tick(self) -> None:
        while True:
            await self.clock.sleep(_CONTROLLERS_SECONDS)
            self.hub.bookmark()
            for cluster in self.clusters.values():
                cluster.step()

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """UIDs come of the seed, and members answer as fast each time."""
        record = HealthProbe.record

        def steadily(
            self: HealthProbe, *, answered: bool, seconds: float, cold: bool = False
        ) -> None:
            record(self, answered=answered, seconds=0.005 if answered else seconds, cold=cold)

        def uid() -> UUID:
            return UUID(int=self._chance.getrandbits(128), version=4)

        with (
            mock.patch.object(HealthProbe, "record", steadily),
            mock.patch("uuid.uuid4", uid),
            mock.patch("tests.simulation.cluster.uuid4", uid),
        ):
            yield

    # The wires.

    async def _of_cut(self, _method: str, _path: str, _body: Any) -> None:
        if PROCESS.get() in self.cut:
            raise Unreachable("the hub is away")

    async def _attempt(self, client: ApiClient, call: Any, token: str | None) -> bytes:
        url = call.url if call.method == "GET" else client._ending(call)
        body = msgspec.json.decode(call.body) if call.body else None
        server = url.host.removesuffix(".invalid")
        await asyncio.sleep(0)
        if server in self.away or PROCESS.get() in self.cut:
            raise Unreachable(f"{server} is away")
        if server == "hub":
            return await self._of_hub(call.method, url, body)
        self.sent.append((server, call.method, url.path, "", None))
        try:
            answer = _of_member(self.clusters[server], call.method, url, body)
        except Refused as e:
            told = {"kind": "Status", "code": e.code, "reason": e.reason, "message": str(e)}
            raise refusal(e.code, {}, msgspec.json.encode(told)) from None
        return answer.encode() if isinstance(answer, str) else msgspec.json.encode(answer)

    async def _of_hub(self, method: str, url: Any, body: Any) -> bytes:
        lost = method != "GET" and "/leases/" not in url.path
        lost = lost and self._chance.random() < self.flaky
        if lost and self._chance.random() < 0.5:
            raise Unreachable("the connection broke before it arrived")
        params = dict(parse_qsl(url.query_string))
        answer = await self.hub.request(method, url.path, params=params, body=body)
        meta = msgspec.json.decode(answer).get("metadata", {})
        if method == "PATCH" and meta.get("deletionTimestamp") and not meta.get("finalizers"):
            with suppress(Exception):  # it went with another write
                self.hub._delete(url.path.removesuffix("/status"))
        if lost:
            raise Unreachable("the connection broke after it arrived")
        return answer

    async def _watch(self, client: ApiClient, res: Any, how: Json) -> AsyncIterator[bytes]:
        server = client._base.removeprefix("https://").removesuffix(".invalid")
        if server == "hub":
            lines = super()._watch(client, res, how)
        else:
            since, namespace = int(how["resource_version"]), how.get("namespace") or ""
            lines = self.clusters[server].watch(res.plural, namespace, since)
        async for line in lines:
            if server in self.away or PROCESS.get() in self.cut:
                raise Unreachable(f"{server} is away")
            yield line


def zone_of(member: str) -> dict[str, str]:
    """Return the label of its zone, which has its number."""
    return {"topology.kubernetes.io/zone": member.replace("member", "zone")}


def _of_member(cluster: SimCluster, method: str, url: Any, body: Any) -> Any:
    match url.path.strip("/").split("/"):
        case ["readyz"]:
            return "ok"
        case ["version"]:
            return {"gitVersion": "v1.36.0"}
        case ["api"]:
            return {"versions": ["v1"]}
        case ["apis"]:
            return {"groups": [], "items": []}
        case ["api", "v1"]:
            return _resources("v1")
        case ["apis", group, version]:
            return _resources(f"{group}/{version}")
        case ["api", "v1", "namespaces", "kube-system"]:
            return {"metadata": {"name": "kube-system", "uid": cluster.uid}}
        case ["api", _, *rest] | ["apis", _, _, *rest]:
            return _of_kind(cluster, method, rest, body, url.query)
    raise Refused(404, "NotFound", url.path)


def _resources(group_version: str) -> Json:
    if group_version not in _KINDS:
        raise Refused(404, "NotFound", f"there is no {group_version}")
    kinds = _KINDS[group_version].items()
    return {"resources": [{"name": name, "kind": kind} | _LISTED for name, kind in kinds]}


def _of_kind(cluster: SimCluster, method: str, rest: list[str], body: Any, query: Any) -> Any:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, key = rest[0], (namespace, rest[1] if len(rest) > 1 else "")
    dry_run = "dryRun" in query
    match method:
        case "GET" if not key[1]:
            return cluster.list(plural, namespace)
        case "GET" if key in cluster.objects[plural]:
            return cluster.objects[plural][key]
        case "POST":
            return cluster.create(plural, namespace, body)
        case "PATCH" if "kind" in body and "apiVersion" in body:
            manager = query.get("fieldManager", "")
            return cluster.apply(plural, key, body, dry_run=dry_run, manager=manager)
        case "PATCH":
            return cluster.patch(plural, key, body, dry_run=dry_run)
        case "DELETE":
            return cluster.delete(plural, key, body)
    raise Refused(404, "NotFound", f"{plural} {key} not found")
