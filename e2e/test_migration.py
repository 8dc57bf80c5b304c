"""A migration from Karmada on real API servers: what runs on two members runs on, untouched.

The peer is the small one of `tests/stowage/migrating/smallkarmada.py`, on an API server of its own
with Karmada's kinds. It syncs all the time, as its controllers would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from crds.names import OWNER_PREFIX
from e2e.harness import Failed, Kubectl, Playground, at_rest, deployment, stowage, wait
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, PODS, Resource
from machinery.errors import TransportError
from stowage.hub import connection
from stowage.migrating.peers.karmada import MANAGED, PEER
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from tests.definitions import definition
from tests.stowage.migrating.smallkarmada import SmallKarmada
from tests.stowage.test_import_karmada import names, policy, select

pytestmark = pytest.mark.long
_MEMBERS = ("member-1", "member-2")
_WATCHED = (
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("", "v1", "services", "Service"),
    PODS,
)


@pytest.fixture(scope="module")
def karmada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The hub of the peer, which is a process of this machine on kind as well."""
    planes = ControlPlanes(tmp_path_factory.mktemp("karmada"))
    try:
        planes.start()
        hub = planes.create("karmada", Parts())
        kinds = [definition(each) for each in PEER.resources]
        listed = {"apiVersion": "v1", "kind": "List", "items": kinds}
        hub.kubectl("apply", "-f", "-", input=json.dumps(listed))
        for each in kinds:
            name = each["metadata"]["name"]
            hub.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
        for name in ("m1", "m2"):
            hub.kubectl("create", "namespace", f"karmada-es-{name}")
        yield hub
    finally:
        planes.stop()


class Stand:
    """The servers of one test, and the peer that syncs beside it."""

    def __init__(self, playground: Playground, karmada: Cluster, space: str) -> None:
        self.playground, self.karmada, self.space = playground, karmada, space
        self.peer: SmallKarmada
        self.clients: dict[str, ApiClient] = {}
        self.passes = 0
        self._task: asyncio.Task[None]

    async def begin(self, stack: AsyncExitStack) -> None:
        for name, member in zip(("m1", "m2"), _MEMBERS, strict=True):
            file = str(self.playground.directory / f"{member}.kubeconfig")
            client = ApiClient(connection(file, None), name=member)
            self.clients[name] = await stack.enter_async_context(client)
            uid = (await self.clients[name].get(NAMESPACES, "kube-system"))["metadata"]["uid"]
            body = {
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {"id": uid, "syncMode": "Push"},
            }
            self.apply(body)
        hub = await stack.enter_async_context(ApiClient(self.karmada.connection(), name="karmada"))
        self.peer = SmallKarmada(hub, self.clients)
        self._task = asyncio.create_task(self._sync())
        stack.push_async_callback(self.stop)

    async def stop(self) -> None:
        assert not self._task.done(), self._task.exception()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _sync(self) -> None:
        while True:
            with suppress(TransportError):
                await self.peer.sync()
                self.passes += 1
            await asyncio.sleep(0.5)

    async def synced(self) -> None:
        """Return once the peer has synced twice since now."""
        at = self.passes
        while self.passes < at + 3:
            assert not self._task.done(), self._task.exception()
            await asyncio.sleep(0.2)

    def apply(self, *bodies: Any) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        self.karmada.kubectl("apply", "-f", "-", input=json.dumps(listed))

    def member(self, name: str) -> Kubectl:
        return self.playground.members[dict(zip(("m1", "m2"), _MEMBERS, strict=True))[name]]

    async def migrate(self, step: str, *more: str) -> str:
        return await asyncio.to_thread(
            stowage,
            "migrate",
            step,
            "--from=karmada",
            f"--from-kubeconfig={self.karmada.kubeconfig}",
            f"--kubeconfig={self.playground.directory / 'hub.kubeconfig'}",
            f"--member-kubeconfigs={self.playground.directory}",
            f"--namespace={self.space}",
            *more,
        )

    async def versions(self) -> dict[str, str]:
        """The versions of the lists of each member now."""
        return {
            f"{name} {res.plural}": await client.latest(res, namespace=self.space)
            for name, client in self.clients.items()
            for res in _WATCHED
        }

    async def written(self) -> dict[str, str]:
        """The version of each object on the members, but of pods."""
        return {
            f"{name} {res.kind} {each['metadata']['name']}": each["metadata"]["resourceVersion"]
            for name, client in self.clients.items()
            for res in _WATCHED
            if res != PODS
            for each in (await client.list(res, namespace=self.space))["items"]
        }

    async def events_since(self, versions: dict[str, str]) -> list[tuple[str, str, str]]:
        """What happened on members since then: type, kind, name."""
        found = []
        for name, client in self.clients.items():
            for res in _WATCHED:
                since = versions[f"{name} {res.plural}"]
                async with client.watch(
                    res, resource_version=since, timeout_seconds=2, namespace=self.space
                ) as lines:
                    async for line in lines:
                        event = json.loads(line)
                        meta = event["object"].get("metadata", {})
                        found.append((event["type"], f"{name} {res.kind}", meta.get("name", "")))
        return found

    async def identities(self) -> dict[str, Any]:
        """UIDs of all objects, restarts and hashes of pods, addresses of Services."""
        found: dict[str, Any] = {}
        for name, client in self.clients.items():
            for res in _WATCHED:
                for each in (await client.list(res, namespace=self.space))["items"]:
                    meta = each["metadata"]
                    key = f"{name} {res.kind} {meta['name']}"
                    found[key] = meta["uid"]
                    if res == PODS:
                        restarts = [
                            c.get("restartCount", 0)
                            for c in each["status"].get("containerStatuses") or ()
                        ]
                        labels = meta.get("labels", {})
                        found[f"{key} runs"] = (restarts, labels.get("pod-template-hash"))
                    if res.kind == "Service":
                        found[f"{key} address"] = each["spec"]["clusterIP"]
        return found


@asynccontextmanager
async def standing(playground: Playground, karmada: Cluster, space: str) -> AsyncIterator[Stand]:
    """Yield the servers, with a Deployment on both members and a StatefulSet on one."""
    async with AsyncExitStack() as stack:
        stand = Stand(playground, karmada, space)
        await stand.begin(stack)
        web, stateful = deployment("web", replicas=3), deployment("db", replicas=2)
        stateful |= {"kind": "StatefulSet"}
        stateful["spec"] |= {"serviceName": "db", "ordinals": {"start": 3}}
        stateful["spec"].pop("strategy", None)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
        for each in (web, stateful, service):
            each["metadata"]["namespace"] = space
        divided = {
            "clusterAffinity": names("m1", "m2"),
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {
                    "staticWeightList": [
                        {"targetCluster": names("m1"), "weight": 1},
                        {"targetCluster": names("m2"), "weight": 1},
                    ]
                },
            },
        }
        rules = [
            policy(select(name="web"), select("Service", "v1"), name="web", placement=divided),
            policy(
                select("StatefulSet", name="db"),
                name="db",
                placement={**divided, "clusterAffinity": names("m2")},
            ),
        ]
        for each in rules:
            each["metadata"]["namespace"] = space
        stand.peer.where |= {
            ("Deployment", "web"): {"m1": 1, "m2": 2},
            ("Service", "web"): {"m1": 1, "m2": 1},
            ("StatefulSet", "db"): {"m2": 2},
        }
        stand.karmada.kubectl("create", "namespace", space)
        stand.apply(web, stateful, service, *rules)
        await asyncio.to_thread(_until_running, stand, 5)
        yield stand


def _until_running(stand: Stand, pods: int) -> None:
    def running() -> bool:
        found = [
            each for name in ("m1", "m2") for each in stand.member(name).items("pods", stand.space)
        ]
        phases = [each["status"].get("phase") for each in found]
        return len(phases) == pods and set(phases) == {"Running"}

    wait("the pods of the peer", running)


@pytest.mark.proves("IM19", "IM22", "IM23", "IM28", "IM29")
def test_what_runs_is_taken_over_without_a_restart(
    playground: Playground, karmada: Cluster, namespace: str
) -> None:
    asyncio.run(_taken_over(playground, karmada, namespace))


async def _taken_over(playground: Playground, karmada: Cluster, space: str) -> None:
    async with standing(playground, karmada, space) as stand:
        before, began = await stand.identities(), await stand.versions()
        written = await stand.written()
        shown = await stand.migrate("plan")
        assert "2 of 2 Workloads can be migrated; nothing was written" in shown
        assert await stand.written() == written
        await stand.migrate("adopt")
        playground.handled()
        assert playground.placements(space, "web") == {"member-1": 1, "member-2": 2}
        assert playground.status(space, "db")["ordinals"] == [{"cluster": "member-2", "start": 3}]
        assert await stand.written() == written
        await stand.migrate("release")
        await stand.migrate("take")
        for name in ("web", "db"):
            await asyncio.to_thread(playground.until_running, space, name)
        assert await stand.identities() == before
        events = await stand.events_since(began)
        assert not [each for each in events if each[0] in ("DELETED", "ADDED")], events
        await asyncio.sleep(61)
        said = await stand.migrate("finish")
        assert "2 finished" in said
        await asyncio.sleep(3)
        assert await stand.identities() == before
        assert not [e for e in await stand.events_since(began) if e[0] in ("DELETED", "ADDED")]
        kinds = "deploy,sts,propagationpolicies,resourcebindings"
        assert not stand.karmada.kubectl("get", kinds, "-n", space, check=False)
        for name, client in stand.clients.items():
            body = await client.get(NAMESPACES, space)
            keys = {*body["metadata"].get("labels", {}), *body["metadata"].get("annotations", {})}
            assert MANAGED not in keys, name
            assert not [key for key in keys if "karmada.io" in key]
        spec = playground.hub.get("wl", "web", space)["spec"]
        assert spec.get("onDelete", "Delete") == "Delete"
        with pytest.raises(Failed):
            await stand.migrate("undo")


@pytest.mark.proves("IM22", "IM24", "IM26")
def test_the_peer_changes_nothing_any_more_and_undo_gives_it_all_back(
    playground: Playground, karmada: Cluster, namespace: str
) -> None:
    asyncio.run(_given_back(playground, karmada, namespace))


async def _given_back(playground: Playground, karmada: Cluster, space: str) -> None:
    async with standing(playground, karmada, space) as stand:
        before, began = await stand.identities(), await stand.versions()
        await stand.migrate("adopt")
        await asyncio.to_thread(_restarted, playground)
        assert playground.placements(space, "web") == {"member-1": 1, "member-2": 2}
        await stand.migrate("release")
        stand.peer.where["Deployment", "web"] = {"m2": 3}
        await stand.synced()
        await asyncio.to_thread(_restarted, playground)
        assert await stand.identities() == before
        stand.karmada.kubectl("delete", "propagationpolicy", "web", "-n", space)
        await stand.synced()
        assert await stand.identities() == before
        await stand.migrate("take")
        stand.karmada.kubectl("delete", "deployment,service", "web", "-n", space)
        await stand.synced()
        await asyncio.to_thread(_restarted, playground)
        for name in ("web", "db"):
            await asyncio.to_thread(playground.until_running, space, name)
        assert await stand.identities() == before
        events = await stand.events_since(began)
        assert not [each for each in events if each[0] in ("DELETED", "ADDED")], events
        await stand.migrate("undo", "wl/db")
        await asyncio.to_thread(_until_unmarked, stand)
        await stand.migrate("undo", "wl/db")
        member = stand.member("m2")
        member("-n", space, "scale", "sts", "db", "--replicas=1")
        await asyncio.to_thread(
            wait, "the peer to repair", lambda: _replicas(stand, "m2", "db") == 2
        )
        await stand.migrate("undo", "wl/db")
        assert not playground.hub.exists("-n", space, "wl", "db")


def _restarted(playground: Playground) -> None:
    with at_rest(playground):
        pass
    playground.handled()


def _until_unmarked(stand: Stand) -> None:
    def bare() -> bool:
        found = stand.member("m2").get("statefulsets", "db", stand.space)
        return not any(key.startswith(OWNER_PREFIX) for key in found["metadata"]["annotations"])

    wait("our marks to come off", bare)


def _replicas(stand: Stand, member: str, name: str) -> int:
    return int(stand.member(member).get("statefulsets", name, stand.space)["spec"]["replicas"])
