"""The hub of the live tests: a real API server, and MemberClusters that the test writes.

No propagator runs here. What it would report (readiness, room, labels) the test patches into the
status, so that each change comes exactly when the test means it to: what is written to a cluster
has been heard by the controllers of this process when the call returns. Each kind of object comes
on a stream of its own, and a Workload that is written next could be decided first.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import crds
from controller.app import WORKERS, Controller, ControllerSettings
from controller.framework.runtime.feature import Feature
from crds import names
from crds.names import GIVEN_UP
from machinery.api.client import ApiClient
from machinery.api.resources import (
    CRDS,
    EVENTS,
    MEMBER_CLUSTERS,
    RESERVATIONS,
    WORKLOAD_GROUPS,
    WORKLOAD_POLICIES,
    WORKLOAD_QUOTAS,
    WORKLOAD_SPREADS,
    WORKLOADS,
    Resource,
)
from machinery.clock import Clock
from machinery.config.kubeconfig import Connection
from machinery.errors import NotFound
from stowage.setup import install as installer
from tests import inforce
from tests.letting_go import let_go
from tests.patience import PATIENCE, until

READY = {"type": "Ready", "status": "True", "reason": "Connected", "message": ""}
UNREADY = {"type": "Ready", "status": "False", "reason": "Unreachable", "message": "no route"}
SINCE = "2026-01-01T00:00:00Z"
EVENTS_EVERY = 0.1
"""A server reads all Events for each look, and keeps none in mind."""
_CLEARED_AT_ONCE = 4


class World:
    """A hub with what a test does to it, and waits for."""

    def __init__(self, client: ApiClient, cluster: Any, namespace: str) -> None:
        self.client = client
        self.hub = cluster
        self.namespace = namespace
        self.controllers: list[Controller] = []
        """Those at work in this process."""
        self.processes: dict[str, Path] = {}
        """The logs of those in processes of their own; a failure shows how they end."""

    def logs(self) -> Iterator[tuple[str, Path]]:
        yield from self.processes.items()

    async def cluster(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        nodes: int = 1,
        ready: bool = True,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A MemberCluster as registrar and probe would have made it."""
        member = {
            "apiVersion": MEMBER_CLUSTERS.api_version,
            "kind": "MemberCluster",
            "metadata": {
                "name": name,
                "labels": {"stowage.dev/cluster": name, **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": {"secretRef": {"namespace": "stowage-system", "name": name}, **spec},
        }
        await self.client.create(MEMBER_CLUSTERS, member)
        await self.report(name, cpu=cpu, memory=memory, pods=pods, nodes=nodes, ready=ready)

    async def report(
        self,
        name: str,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        nodes: int = 1,
        ready: bool = True,
    ) -> None:
        """Write as the propagator does after a probe: readiness, and free room of each node."""
        free = {"cpu": cpu, "memory": memory, "pods": pods}
        status = {
            "conditions": [{**(READY if ready else UNREADY), "lastTransitionTime": SINCE}],
            "version": "v1.36.3",
            "provider": "kwok",
            "nodeGroups": [{"count": nodes, "labels": {}, "taints": [], "free": free}],
            "capacity": {"nodes": nodes, "allocatable": free, "requested": {}},
        }
        written = await self.client.merge_patch(
            MEMBER_CLUSTERS, name, {"status": status}, subresource="status"
        )
        await self._heard(written)

    async def label(self, name: str, **labels: str | None) -> None:
        """kubectl label membercluster."""
        await self.edit_cluster(name, {"metadata": {"labels": labels}})

    async def edit_cluster(self, name: str, patch: Mapping[str, Any]) -> None:
        """A merge patch of a MemberCluster."""
        await self._heard(await self.client.merge_patch(MEMBER_CLUSTERS, name, patch))

    async def _heard(self, cluster: Mapping[str, Any]) -> None:
        """Return once all controllers know this version of a cluster, or a later one."""
        version = int(cluster["metadata"]["resourceVersion"])

        def known(controller: Controller) -> bool:
            return int(controller.clusters.version or 0) >= version

        await until(lambda: all(map(known, self.controllers)))

    def manifest(self, name: str, **how: Any) -> dict[str, Any]:
        """A Workload around a Deployment, of this world's namespace."""
        return self.manifest_in(self.namespace, name, **how)

    @staticmethod
    def manifest_in(
        namespace: str,
        name: str,
        *,
        replicas: int = 1,
        cpu: str = "100m",
        labels: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """A Workload around a Deployment; `spec` overrides and adds."""
        return {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"app": name, **(labels or {})},
            },
            "spec": {
                "replicas": replicas,
                **({} if "template" in spec else {"targetDeployment": deployment(name, cpu)}),
                **spec,
            },
        }

    async def workload(self, name: str, **how: Any) -> dict[str, Any]:
        """Create `manifest(name, …)`."""
        return await self.client.create(WORKLOADS, self.manifest(name, **how))

    async def edit(self, name: str, patch: Mapping[str, Any], *, status: bool = False) -> None:
        """A merge patch of somebody else's."""
        await self.client.merge_patch(
            WORKLOADS,
            name,
            patch,
            namespace=self.namespace,
            subresource="status" if status else None,
        )

    async def get(self, name: str) -> dict[str, Any]:
        """The Workload as stored."""
        return await self.client.get(WORKLOADS, name, namespace=self.namespace)

    async def until(
        self, name: str, holds: Callable[[dict[str, Any]], Any], *, seconds: float = 15
    ) -> dict[str, Any]:
        """The Workload, as soon as `holds(status)` is true."""
        began = asyncio.get_running_loop().time()
        while True:
            found = await self.get(name)
            with suppress(KeyError, IndexError):
                if holds(found.get("status", {})):
                    return found
            waited = asyncio.get_running_loop().time() - began
            if waited > PATIENCE * seconds:
                raise AssertionError(
                    f"after {PATIENCE * seconds:g} s: {json.dumps(found.get('status'), indent=1)}"
                )
            await asyncio.sleep(min(0.02 + waited / 20, 0.25))  # a look costs the hub something

    async def placed(self, name: str, *, seconds: float = 15) -> dict[str, int]:
        """{cluster: units}, as soon as there are any and none is pending."""
        found = await self.until(
            name,
            lambda status: status["placements"] and status["pending"] == 0,
            seconds=seconds,
        )
        return placements(found)

    async def refused(self, name: str, reason: str, *, seconds: float = 15) -> dict[str, Any]:
        """The condition Scheduled=False, as soon as it has that reason."""
        found = await self.until(
            name,
            lambda status: condition(status, "Scheduled")["reason"] == reason,
            seconds=seconds,
        )
        return condition(found["status"], "Scheduled")

    async def events(self, name: str, note: str = "", *, least: int = 1) -> list[dict[str, Any]]:
        """The Events about a Workload as it is now, a moment after there are that many of them.

        One of them has that note, where one is given.
        """
        uid = (await self.get(name))["metadata"]["uid"]

        async def told() -> bool:
            found = await self.events_about(uid)
            noted = not note or any(each["note"] == note for each in found)
            return noted and len(found) >= least

        await until(told, every=EVENTS_EVERY)
        await asyncio.sleep(0.5)  # another one could follow
        return await self.events_about(uid)

    async def events_about(self, uid: str) -> list[dict[str, Any]]:
        """The Events about the object of that uid: those of all tests before are there, too."""
        about = f"regarding.uid={uid}"
        found = await self.client.list(EVENTS, namespace=self.namespace, field_selector=about)
        return list(found["items"])

    async def settle(self) -> None:
        """Return when nothing was written to a Workload for half a second.

        The controllers of this process know all of it by then, and have no Workload to decide.
        """
        before = None
        while before != (before := await self._versions()):  # noqa: ASYNC110 - silence is no event
            await asyncio.sleep(0.5)

    async def _versions(self) -> list[str]:
        """The versions of all Workloads, once no work on earlier ones is left."""
        await until(lambda: all(map(_idle, self.controllers)))
        listed = await self.client.list(WORKLOADS)
        stored = [item["metadata"]["resourceVersion"] for item in listed["items"]]
        newest = max(map(int, stored), default=0)

        def known(controller: Controller) -> bool:
            return int(controller.workloads.version or 0) >= newest

        await until(lambda: all(map(known, self.controllers)))
        await until(lambda: all(map(_idle, self.controllers)))
        return stored

    async def delete(self, name: str) -> None:
        """The end of a Workload, released at once as by a propagator that has put it nowhere."""
        await self._delete(WORKLOADS, {"name": name, "namespace": self.namespace})

    async def _delete(self, res: Resource, meta: Mapping[str, Any]) -> None:
        name, namespace = meta["name"], meta.get("namespace")
        with suppress(NotFound):
            if res == MEMBER_CLUSTERS:
                await let_go(self.client, name, GIVEN_UP)
                return
            await self.client.delete(res, name, namespace=namespace)
            if not meta.get("finalizers", True):
                return
            free = {"metadata": {"finalizers": None}}
            await self.client.merge_patch(res, name, free, namespace=namespace)

    async def clear(self) -> None:
        """No Workload, no MemberCluster, nothing that divides Workloads.

        A few at a time: of sixty wide ones at once a busy API server ends some with a time-out.
        """
        gate = asyncio.Semaphore(_CLEARED_AT_ONCE)

        async def cleared(res: Resource, meta: Mapping[str, Any]) -> None:
            async with gate:
                await self._delete(res, meta)

        beside = (WORKLOAD_POLICIES, WORKLOAD_SPREADS, WORKLOAD_GROUPS, WORKLOAD_QUOTAS)
        for res in (RESERVATIONS, WORKLOADS, MEMBER_CLUSTERS, *beside):
            items = (await self.client.list(res, metadata_only=True))["items"]
            kept = ({"finalizers": [], **each["metadata"]} for each in items)
            await asyncio.gather(*(cleared(res, meta) for meta in kept))

    async def space(self, name: str) -> World:
        """The same hub, seen from another namespace."""
        await installer.ensure_namespace(self.client, name)
        other = World(self.client, self.hub, name)
        other.controllers = self.controllers
        return other


def _idle(controller: Controller) -> bool:
    """Whether no Workload is to be decided or woken, and no decision is being written."""
    scheduler = controller._scheduler
    if scheduler is None:
        return True
    queue = scheduler._queue
    return queue.idle and not queue.active._in_work


def deployment(name: str, cpu: str) -> dict[str, Any]:
    """A Deployment of one container that asks for that much."""
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The condition of that type; KeyError without."""
    for each in status.get("conditions", []):
        if each["type"] == kind:
            return dict(each)
    raise KeyError(kind)


def placements(workload: Mapping[str, Any]) -> dict[str, int]:
    """{cluster: units}."""
    listed = workload.get("status", {}).get("placements", [])
    return {share["cluster"]: share["replicas"] for share in listed}


async def install(cluster: Any, *, policies: bool) -> None:
    """Our kinds on a hub, with or without the admission policies."""
    kinds = [each for each in crds.manifests() if policies or each["kind"] == CRDS.kind]
    async with ApiClient(cluster.connection(), name="install", timeout=120) as client:
        await installer.apply(client, kinds, say=lambda _: None)
        await installer.ensure_namespace(client, names.SYSTEM_NAMESPACE)
        beside = (WORKLOAD_POLICIES, WORKLOAD_SPREADS, WORKLOAD_GROUPS, WORKLOAD_QUOTAS)
        await inforce.served(client, WORKLOADS, MEMBER_CLUSTERS, RESERVATIONS, *beside)
        found = {each.kind for each in await client.discover(installer.ADMISSION)}
        if policies and "MutatingAdmissionPolicy" in found:
            await inforce.completed(client)


@asynccontextmanager
async def world_on(hub: Any, namespace: str) -> AsyncIterator[World]:
    """An empty world on that hub, emptied again afterwards."""
    async with ApiClient(hub.connection(), name="test", limit=64, timeout=120) as client:
        await installer.ensure_namespace(client, namespace)
        world = World(client, hub, namespace)
        await world.clear()
        yield world
        await world.clear()


@asynccontextmanager
async def deciding(
    world: World,
    *,
    standby: bool = False,
    features: Sequence[Feature] | None = None,
    clock: Clock | None = None,
    connection: Connection | None = None,
    **settings: Any,
) -> AsyncIterator[Controller]:
    """A controller at work on the world's hub, in this process; it leads, or listens, by then.

    It has these features, or those that come with it, and goes by this clock, or the machine's. It
    has an administrator's rights, or those of the connection.
    """
    given = {"http_port": 0, "identity": "one", **settings}
    asked = ControllerSettings(connection=connection or world.hub.connection(), **given)
    limit = WORKERS + 16
    async with ApiClient(asked.connection, name="hub", limit=limit, clock=clock) as client:
        controller = Controller(asked, client, features=features, clock=clock)
        if not standby:
            _alone(controller)
        running = asyncio.create_task(controller.run())
        try:
            await until(
                lambda: running.done() or (controller.port if standby else controller.leading)
            )
            world.controllers.append(controller)
            yield controller
        finally:
            if controller in world.controllers:
                world.controllers.remove(controller)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def _alone(controller: Controller) -> None:
    """No test loses its term because the machine stood still for a while: no other process contends."""
    controller._elector._renew_deadline = 50.0
    controller._elector._request_seconds = 20.0


@contextmanager
def process(world: World, log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`stowage controller` on the world's hub, in a process of its own; ended with the block.

    It is asked first: one that is killed keeps its lease, and the next one waits for it.
    """
    kubeconfig = log.with_suffix(".kubeconfig")
    kubeconfig.write_text(world.hub.admin_kubeconfig)
    command = [sys.executable, "-m", "stowage", "controller", "--http-port=0", *options]
    command.append(f"--kubeconfig={kubeconfig}")
    world.processes[log.stem] = log
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE * 20)
            except subprocess.TimeoutExpired:
                process.kill()


async def policy(
    world: World, selector: Any = None, *, kind: str = "Required", **domains: int
) -> None:
    """A policy of that name, Required if not another `kind`; another one of the name is replaced."""
    body = {
        "apiVersion": WORKLOAD_POLICIES.api_version,
        "kind": "WorkloadPolicy",
        "metadata": {"name": "demo", "namespace": world.namespace},
        "spec": {
            "topologyKey": "topology.kubernetes.io/zone",
            "labelSelector": selector or {},
            "allocationPolicy": [{"name": n, "replicas": r} for n, r in domains.items()],
            "allocationType": kind,
        },
    }
    await world.client.apply(
        WORKLOAD_POLICIES, body, name="demo", namespace=world.namespace, force=True
    )


async def shown(world: World, summary: str, *, policy: str = "demo") -> dict[str, Any]:
    """The status of a policy, as soon as its column says so."""
    latest: dict[str, Any] = {}

    async def says() -> bool:
        nonlocal latest
        found = await world.client.get(WORKLOAD_POLICIES, policy, namespace=world.namespace)
        latest = found.get("status", {})
        return bool(latest.get("summary") == summary)

    await until(says, what=lambda: latest)
    return latest


def configured(
    folder: Path, *plugins: Mapping[str, Any], names: Sequence[str] = ("stowage",)
) -> Path:
    """A configuration file with a profile for each scheduler name, with these plugins by point."""
    profiles = [
        {"schedulerName": name, "plugins": dict(chosen)}
        for name, chosen in zip(names, plugins or [{}] * len(names), strict=True)
    ]
    document = {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "SchedulerConfiguration",
        "profiles": profiles,
    }
    file = folder / f"{'-'.join(names)}.yaml"
    file.write_text(json.dumps(document))
    return file
