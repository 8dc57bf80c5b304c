"""A peer's hub, ours and members in memory, and the steps of a migration over them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from controller.config import SchedulerConfiguration
from machinery.api.resources import (
    CONFIG_MAPS,
    MEMBER_CLUSTERS,
    NAMESPACES,
    SECRETS,
    WORKLOADS,
    Resource,
)
from machinery.api.verbs import Verbs
from machinery.errors import NotFound, Unreachable
from stowage.fleet import inventory
from stowage.fleet.manifests import Document
from stowage.migrating import plan as planning
from stowage.migrating import steps
from stowage.migrating.members import Members
from stowage.migrating.outcomes import Outcome
from stowage.migrating.peers import karmada, kubefleet, ocm
from stowage.migrating.survey import Asked, World
from stowage.simulation.plan import Where
from tests.memoryhub import MemoryHub, _merged
from tests.stowage.importing import cluster, deployment
from tests.stowage.migrating.smallkarmada import SmallKarmada
from tests.stowage.migrating.smallkubefleet import SmallKubeFleet
from tests.stowage.migrating.smallocm import SmallOcm
from tests.stowage.test_import_karmada import names, policy, select

Body = dict[str, Any]
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
SERVICES = Resource("", "v1", "services", "Service")
HPAS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
_RECORDS = (SmallKubeFleet.record, SmallOcm.record)
"""What agents note of their own on members."""
_KINDS = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    SERVICES,
    HPAS,
    CONFIG_MAPS,
    SECRETS,
    NAMESPACES,
    *karmada.PEER.resources,
    *ocm.PEER.resources,
    *kubefleet.PEER.resources,
    *_RECORDS,
)
KINDS = {(each.api_version, each.kind): each for each in _KINDS}


class Killed(BaseException):
    """A process ends in the middle of a step."""


class Clock:
    """Sleeps pass at once, and `during` runs meanwhile: the peer's turn."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.during: Any = None
        self._turn: asyncio.Future[None] | None = None

    def now(self) -> Any:
        from datetime import UTC, datetime, timedelta  # noqa: PLC0415

        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        """Return after a turn of the peer, which is one for all that sleep meanwhile."""
        if self._turn is None or self._turn.done():
            self.elapsed += seconds
            self._turn = asyncio.ensure_future(self._peers())
        await self._turn

    async def _peers(self) -> None:
        if self.during is not None:
            await self.during()


class Server(MemoryHub):
    """An API server that knows the kinds of these tests, and tries applies as a dry run."""

    def __init__(self, clock: Any, uid: str = "") -> None:
        """`uid` is that of its kube-system."""
        super().__init__(clock=clock, admission=False)
        self.uid = uid

    async def resource(self, api_version: str, kind: str) -> Resource:
        if (api_version, kind) not in KINDS:
            raise NotFound(code=404, reason="NotFound", message=f"no {kind}")
        return KINDS[api_version, kind]

    async def version(self) -> str:
        await self.request("GET", "/version")
        return "v1.36.3"

    def _answer(self, method: str, path: str, params: Mapping[str, str], body: Any) -> Body:
        if path == "/version":
            return {}
        if path == "/api/v1/namespaces/kube-system":
            return {"metadata": {"name": "kube-system", "uid": self.uid, "resourceVersion": "1"}}
        return super()._answer(method, path, params, body)

    async def apply(self, res: Resource, obj: Any, **how: Any) -> Body:
        assert how["dry_run"], "a migration applies nothing"
        stored = await self.get(res, how["name"], namespace=how["namespace"])
        return _merged(stored, msgspec.json.decode(msgspec.json.encode(obj)))

    def state(self) -> dict[str, Body]:
        """All objects, by path."""
        return dict(self._objects)


class Profiled(Where):
    """The hub with the default profile, which is made once for all tests."""

    def configuration(self) -> SchedulerConfiguration:
        return _configuration()


@cache
def _configuration() -> SchedulerConfiguration:
    return Where("default").configuration()


class Fleet:
    """Our hub, Karmada's and members; `m1` is the MemberCluster `paris`, `m2` is `tokyo`."""

    def __init__(self, members: Mapping[str, str] | None = None) -> None:
        self.clock = Clock()
        self.named = members or {"m1": "paris", "m2": "tokyo"}
        self.hub, self.theirs = Server(self.clock), Server(self.clock, "uid-theirs")
        self.members = {name: Server(self.clock, f"uid-{name}") for name in self.named}
        self.peer = SmallKarmada(self.theirs, self.members)
        self.unreachable: set[str] = set()
        self.system = karmada.PEER
        self.beside: list[Body] = []
        """Further objects of the peer that an import reads."""
        for name, ours in self.named.items():
            body = cluster(ours)
            body["status"] |= {"clusterUID": f"uid-{name}", "clusterID": f"uid-{name}"}
            self.hub.put(MEMBER_CLUSTERS, body)
            self.theirs.put(karmada.CLUSTERS, {
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name}, "spec": {"id": f"uid-{name}", "syncMode": "Push"},
            })  # fmt: skip
        for server in (self.hub, self.theirs):
            self.put(
                server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
            )
        self.clock.during = self.peer.sync

    def put(self, server: Server, body: Body) -> None:
        server.put(KINDS[body["apiVersion"], body["kind"]], body)

    def run(self, name: str = "web", replicas: int = 6, **where: int) -> None:
        """Have Karmada run a Deployment on clusters, by a policy of its own."""
        body = deployment(replicas=replicas, labels={"app": name})
        body["metadata"] = {"name": name, "namespace": "shop"}
        body["spec"]["selector"] = {"matchLabels": {"app": name}}
        weights = [{"targetCluster": names(at), "weight": weight} for at, weight in where.items()]
        placement = {
            "clusterAffinity": names(*where),
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"staticWeightList": weights},
            },
        }
        self.put(self.theirs, body)
        self.put(self.theirs, policy(select(name=name), name=name, placement=placement))
        self.peer.where["Deployment", name] = where

    def follow(self, name: str, conf: str, **where: int) -> None:
        """Have Karmada run a Deployment that needs a ConfigMap, which follows it."""
        self.run(name, sum(where.values()), **where)
        volumes = [{"name": "conf", "configMap": {"name": conf}}]
        patch = {"spec": {"template": {"spec": {"volumes": volumes}}}}
        self.theirs.edit(DEPLOYMENTS, name, patch)
        self.theirs.edit(karmada.POLICIES, name, {"spec": {"propagateDeps": True}})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
        body["metadata"] = {"name": conf, "namespace": "shop"}
        if not [each for each in self.theirs.all(CONFIG_MAPS) if each["metadata"]["name"] == conf]:
            self.put(self.theirs, body)

    def world(self, **how: Any) -> World:
        async def member(name: str) -> Verbs:
            if name in self.unreachable:
                raise Unreachable(f"{name} does not answer")
            return self.members[{ours: at for at, ours in self.named.items()}[name]]

        return World(
            peer=self.system,
            hub=self.hub,
            theirs=self.theirs,
            member=Members(self.hub, member),
            documents=self.documents,
            inputs=lambda: inventory.of_hub(Stored(self.hub)),  # type: ignore[arg-type]
            where=Profiled("default"),
            clock=self.clock,  # type: ignore[arg-type]
            **how,
        )

    def documents(self, namespace: str) -> list[Document]:
        wanted = (*karmada.PEER.resources[:3], DEPLOYMENTS, STATEFUL_SETS, SERVICES)
        found = [Document("beside", n, body) for n, body in enumerate(self.beside)]
        for res in (*wanted, CONFIG_MAPS):
            for each in self.theirs.all(res):
                if each["metadata"].get("namespace", namespace) == namespace or not namespace:
                    body = {**each, "apiVersion": res.api_version, "kind": res.kind}
                    found.append(Document("karmada", len(found) + 1, body))
        return found

    def step(self, name: str, *names_: str, **asked: Any) -> dict[str, Outcome]:
        """Run a step; return the outcomes by the names of the Workloads."""
        asked = {"namespace": "shop", "names": names_, **asked}
        done = asyncio.run(self._step(name, Asked(**asked)))
        return {each.key[1]: each for each in done}

    async def _step(self, name: str, asked: Asked) -> list[Outcome]:
        return await steps.STEPS[name](self.world(), asked)

    def plan(self, **asked: Any) -> planning.MigrationPlan:
        return asyncio.run(planning.plan(self.world(), Asked(**{"namespace": "shop", **asked})))

    def sync(self) -> None:
        asyncio.run(self.peer.sync())

    def workload(self, name: str = "web") -> Body:
        return self.hub.read(WORKLOADS, name)

    def on_members(self) -> dict[str, dict[str, Body]]:
        """All objects on members, but for records of the peer's own."""
        return {
            name: {at: body for at, body in server.state().items() if not _record(at)}
            for name, server in self.members.items()
        }

    def member_writes(self) -> list[tuple[str, str]]:
        return [
            (method, path)
            for server in self.members.values()
            for method, path, _ in server.requests
            if method != "GET" and not _record(path)
        ]


def _record(path: str) -> bool:
    return any(f"/{each.plural}" in path for each in _RECORDS)


class Stored:
    """Reads a hub in memory as the plan reads one."""

    def __init__(self, hub: Server) -> None:
        self._hub = hub

    def each(self, res: Resource, as_: Any, namespace: str | None = None) -> Iterator[Any]:
        del namespace
        try:
            listed = self._hub.all(res)
        except NotFound:
            listed = []
        return (
            msgspec.convert(each, as_) if as_ is not dict[str, Any] else each for each in listed
        )
