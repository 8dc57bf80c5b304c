"""A hub, members, and the propagator's half that talks to members, run within the test's loop."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import yaml

from crds.names import LABEL_REGISTER, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import (
    MEMBER_CLUSTERS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
    WORKLOAD_GROUPS,
    WORKLOADS,
    Resource,
)
from machinery.clock import SystemClock
from machinery.errors import AlreadyExists, NotFound
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue
from machinery.types.metadata import Key
from propagator.hub.cluster_status import ClusterStatusWriter
from propagator.hub.registration import ANNOTATION_REGISTERED, Registrar
from propagator.members import inventory
from propagator.members.cluster_identity import Identities
from propagator.members.health import HealthProbe
from propagator.members.registry import MemberRegistry
from propagator.members.session import MemberSession
from propagator.settings import SessionSettings
from propagator.types.cluster import MemberCluster, Secret, bounded
from stowage.playground.controlplanes import Cluster
from tests.inforce import review_of
from tests.letting_go import let_go
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context

from . import waits
from .waits import until

T = TypeVar("T")
ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    namespaced=False,
)
QUICK = SessionSettings(probe_period=0.5, probe_timeout=1.5, probe_confirm=0.2, probe_backoff=1.0)
"""A member that stands still is noticed soon; for tests that stop one."""
CALM = SessionSettings(
    request_timeout=60.0, probe_period=0.5, probe_timeout=60.0, probe_backoff=1.0
)
"""A member that a busy machine holds up is no lost one. One that is gone is noticed as soon."""


class Recorder:
    """Stands in for the EventRecorder: what was told of whom."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, regarding: Any, *, reason: str, note: str, **more: str) -> None:
        assert more["type"] in ("Normal", "Warning")
        assert more["action"]
        self.events.append((regarding.name, reason, note))


@dataclass
class Rig:
    """The parts, and what tests ask of them."""

    hub: ApiClient
    clusters: Informer[MemberCluster]
    registry: MemberRegistry
    recorder: Recorder
    secrets: Informer[Secret]
    registrar: Registrar
    synced: list[tuple[str, Key]] = field(default_factory=list)
    changes: list[tuple[str, Key | None]] = field(default_factory=list)
    sync: Callable[[MemberSession, Key], Awaitable[float | None]] | None = None

    async def register(
        self, name: str, data: Mapping[str, str | bytes], *, labels: Mapping[str, str] | None = None
    ) -> None:
        await self.hub.create(SECRETS, secret(name, data, labels=labels))

    async def connect(self, name: str, member: Cluster) -> None:
        """Register a member by its administrator's kubeconfig, and wait until it is Connected."""
        await self.register(name, {"kubeconfig": member.admin_kubeconfig})
        await self.becomes(name, "Connected")

    async def change(self, name: str, data: Mapping[str, str | bytes]) -> None:
        patch = {"data": {"kubeconfig": None, **secret(name, data)["data"]}}
        await self.hub.merge_patch(SECRETS, name, patch, namespace=SYSTEM_NAMESPACE)

    async def cluster(self, name: str) -> dict[str, Any]:
        return await self.hub.get(MEMBER_CLUSTERS, name)

    async def ready(self, name: str) -> tuple[str, str, str]:
        """(status, reason, message) of Ready, empty before it is there."""
        with suppress(NotFound):
            for condition in (await self.cluster(name)).get("status", {}).get("conditions", []):
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    async def becomes(self, name: str, reason: str, *, within: float = 30.0) -> str:
        """Wait until Ready has that reason; its message."""
        said = "", "", ""

        async def there() -> bool:
            nonlocal said
            said = await self.ready(name)
            return said[1] == reason

        await until(there, seconds=within, what=lambda: said)
        assert said[0] == ("True" if reason == "Connected" else "False")
        return said[2]

    async def marked(self, name: str) -> None:
        """Wait until its Secret says that it was registered: a deletion is honoured from then on."""

        async def is_marked() -> bool:
            found = await self.hub.get(SECRETS, name, namespace=SYSTEM_NAMESPACE)
            return ANNOTATION_REGISTERED in found["metadata"].get("annotations", {})

        await until(is_marked)

    async def handled(self, **members: ApiClient) -> None:
        """The barrier `waits.handled`, with the streams of these members as well."""

        def following() -> Iterator[tuple[ApiClient, list[Informer[Any]]]]:
            yield self.hub, [self.clusters, self.secrets]
            for name, client in members.items():
                if (session := self.registry.get(name)) and session.ready and session.link:
                    yield client, [*session.link.informers]

        def queues() -> list[WorkQueue[Any]]:
            sessions = [self.registry.get(name) for name in self.registry.names()]
            return [self.registrar._queue, *(each.queue for each in sessions if each)]

        await waits.handled(following, queues)

    def told(self, name: str, reason: str) -> bool:
        """Whether an event said so of that member; it is told after the write that it tells of."""
        return (name, reason) in {event[:2] for event in self.recorder.events}


def secret(
    name: str,
    data: Mapping[str, str | bytes],
    *,
    namespace: str = SYSTEM_NAMESPACE,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A registration Secret."""
    values = {key: each.encode() if isinstance(each, str) else each for key, each in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {LABEL_REGISTER: "true", **(labels or {})},
        },
        "data": {key: base64.b64encode(each).decode() for key, each in values.items()},
    }


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members answer as fast each time: how fast they do on this host is no matter here."""
    record = HealthProbe.record

    def steadily(self: HealthProbe, *, answered: bool, seconds: float, cold: bool = False) -> None:
        record(self, answered=answered, seconds=0.005 if answered else seconds, cold=cold)

    monkeypatch.setattr(HealthProbe, "record", steadily)


def unregistered() -> Identities:
    """For a link without a MemberCluster: it serves whichever cluster it leads to."""
    hub = MemoryHub(clock=SystemClock(), admission=False)
    return Identities(hub, Informer(hub, MEMBER_CLUSTERS, MemberCluster), clock=hub.clock)


@asynccontextmanager
async def running(
    hub: Cluster, *, settings: SessionSettings = CALM, resources: tuple[Resource, ...] = ()
) -> AsyncIterator[Rig]:
    """Registrar, fleet and publisher against that hub until the block ends."""
    clock = SystemClock()
    recorder = Recorder()
    async with ApiClient(hub.connection()) as client:
        clusters = Informer(client, MEMBER_CLUSTERS, MemberCluster)
        secrets = Informer(
            client,
            SECRETS,
            Secret,
            namespace=SYSTEM_NAMESPACE,
            label_selector=f"{LABEL_REGISTER}=true",
            transform=bounded,
        )

        async def sync(session: MemberSession, key: Key) -> float | None:
            rig.synced.append((session.name, key))
            return await rig.sync(session, key) if rig.sync else None

        registry = MemberRegistry(
            settings=settings,
            clock=clock,
            before_write=lambda: None,
            identities=Identities(client, clusters, clock=clock),
        )
        context: Any = Context(
            hub=client,
            namespace=SYSTEM_NAMESPACE,
            clusters=clusters,
            registry=registry,
            recorder=recorder,
            clock=clock,
        )
        registrar = Registrar(context, secrets=secrets)
        rig = Rig(client, clusters, registry, recorder, secrets, registrar)

        def track(name: str, key: Key | None) -> None:
            session = registry.get(name)
            if key is None and session is not None and session.ready:
                for resource in resources:
                    session.track(resource)

        registry.on_change(track)
        registry.on_change(lambda name, key: rig.changes.append((name, key)))
        publisher = ClusterStatusWriter(context)
        loops = (
            clusters.run(),
            secrets.run(),
            registrar.run(),
            publisher.run(),
            registry.work(sync),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield rig
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await registry.close()
            assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


def clean(hub: Cluster) -> None:
    """Forget every MemberCluster, every registration Secret, and what another test left behind.

    A Workload that was left would be pushed to whatever the next test calls by its member's name.
    """
    beside(_cleaned(hub))


def beside(asking: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in a loop of its own: the caller may be within one, and blocks it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asking).result()


async def _cleaned(hub: Cluster) -> None:
    async with ApiClient(hub.connection()) as client:
        for kind, labels in (
            (WORKLOADS, None),
            (WORKLOAD_GROUPS, None),
            (SECRETS, LABEL_REGISTER),
            (MEMBER_CLUSTERS, None),
        ):
            listed = await client.list(kind, label_selector=labels, metadata_only=True)
            for each in listed["items"]:
                meta = each["metadata"]
                where = {"namespace": meta["namespace"]} if kind.namespaced else {}
                with suppress(NotFound):
                    if kind == MEMBER_CLUSTERS:
                        await let_go(client, meta["name"])
                        continue
                    await client.delete(kind, meta["name"], **where)
                    if meta.get("finalizers"):
                        released = {"metadata": {"finalizers": None}}
                        await client.merge_patch(kind, meta["name"], released, **where)


@pytest.fixture
def rig_on(hub: Cluster) -> Iterator[Callable[..., Any]]:
    """rig_on(settings=…, resources=…): the parts against a hub that had no members before."""
    clean(hub)
    yield lambda **how: running(hub, **how)
    clean(hub)


@pytest.fixture(scope="session")
def m1(hub: Cluster, make_cluster: Callable[..., Cluster]) -> Cluster:
    """A member of the hub."""
    return make_cluster("m1")


@pytest.fixture(scope="session")
def m2(m1: Cluster, make_cluster: Callable[..., Cluster]) -> Cluster:
    """Another member, beside `m1`."""
    return make_cluster("m2")


@pytest.fixture
def stage_on(
    hub: Cluster, m1: Cluster, m2: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """async with stage_on(…) as stage: a propagator with the members m1 and m2; as `staged`.

    A list that a busy machine holds up is waited for.
    """
    from .stage import staged, swept  # noqa: PLC0415 - it stands on this module

    monkeypatch.setattr(inventory, "LISTING_SECONDS", 120.0)
    with swept(hub):
        yield lambda **how: staged(hub, {"m1": m1, "m2": m2}, **how)


@pytest.fixture
async def stage(stage_on: Any) -> AsyncIterator[Any]:
    """The propagator of `stage_on` as it is by default."""
    async with stage_on() as made:
        yield made


def token_for(
    member: Cluster, name: str, *, role: str = "cluster-admin", seconds: int = 3600
) -> str:
    """A token of a service account, made if need be, with that role."""
    return beside(_token(member, name, role, seconds))


async def _token(member: Cluster, name: str, role: str, seconds: int) -> str:
    group = ROLE_BINDINGS.group
    account = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    binding = {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [account],
    }
    review = review_of(f"system:serviceaccount:default:{name}", "list nodes")
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    async with ApiClient(member.connection()) as client:

        async def may() -> bool:
            answer = await client.create(SUBJECT_ACCESS_REVIEWS, review)
            return bool(answer["status"]["allowed"])

        with suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, made, namespace="default")
            await client.create(ROLE_BINDINGS, binding)
            await until(may)
        path = SERVICE_ACCOUNTS.path("default", name, "token")
        answer = json.loads(await client.request("POST", path, body=asked))
        return str(answer["status"]["token"])


def kubeconfig(member: Cluster, **changes: Any) -> str:
    """A kubeconfig of that member with these keys of cluster or user set; None removes one."""
    document = yaml.safe_load(member.admin_kubeconfig)
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    for key, value in changes.items():
        name = key.replace("_", "-")
        at = cluster if name in CLUSTER_KEYS else user
        at.pop(name, None)
        if value is not None:
            at[name] = value
    return json.dumps(document)


CLUSTER_KEYS = (
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
)
