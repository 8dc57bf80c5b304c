"""A propagator on a real hub with real members, and a test that plays scheduler and kubelet."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from machinery.errors import NotFound
from machinery.resources import NAMESPACES, SECRETS, WORKLOADS, Resource
from machinery.transport import ApiClient
from propagator.app import Propagator
from propagator.kinds import USUAL
from propagator.placements import WorkloadPlacements
from propagator.settings import PropagatorSettings
from stowage.playground.controlplanes import Cluster

from .conftest import QUICK, clean, secret, until

KINDS = {resource.kind: resource for resource in USUAL}
DEPLOYMENTS, SERVICES, CONFIGMAPS = KINDS["Deployment"], KINDS["Service"], KINDS["ConfigMap"]
_numbers = itertools.count(1)


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    """A small template."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            },
            **spec,
        },
    }


def configmap(name: str, **data: str) -> dict[str, Any]:
    """A manifest."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@dataclass
class Stage:
    """What a test does and sees. One namespace for each."""

    hub: ApiClient
    members: Mapping[str, ApiClient]
    process: Propagator
    task: asyncio.Task[None]
    namespace: str

    async def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """A Workload that another scheduler than ours places."""
        if "template" not in spec:
            spec.setdefault("targetDeployment", deployment())
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"schedulerName": "the-test", **spec},
        }
        return await self.hub.create(WORKLOADS, body)

    async def place(self, name: str, **shares: int) -> None:
        """Decide."""
        placements = [{"cluster": c, "replicas": n} for c, n in shares.items()]
        await self.patch(name, {"status": {"placements": placements}}, subresource="status")

    async def patch(self, name: str, patch: Mapping[str, Any], **how: str) -> dict[str, Any]:
        return await self.hub.merge_patch(WORKLOADS, name, patch, namespace=self.namespace, **how)

    async def workload(self, name: str) -> dict[str, Any] | None:
        with suppress(NotFound):
            return await self.hub.get(WORKLOADS, name, namespace=self.namespace)
        return None

    async def status(self, name: str) -> dict[str, Any]:
        return (await self.workload(name) or {}).get("status", {})

    async def condition(self, name: str, kind: str) -> dict[str, Any]:
        conditions = (await self.status(name)).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    async def share(self, name: str, member: str) -> dict[str, Any]:
        shares = (await self.status(name)).get("clusters", [])
        return next((s for s in shares if s["name"] == member), {})

    async def refused(self, name: str, reason: str) -> str:
        """Wait until Propagated says so; its message."""

        async def said() -> bool:
            return (await self.condition(name, "Propagated")).get("reason") == reason

        await until(said)
        return str((await self.condition(name, "Propagated"))["message"])

    async def propagated(self, name: str) -> None:
        await self.refused(name, "Propagated")

    async def on(
        self,
        member: str,
        name: str = "web",
        *,
        kind: Resource = DEPLOYMENTS,
        namespace: str | None = None,
    ) -> dict[str, Any] | None:
        """The object on a member."""
        with suppress(NotFound):
            return await self.members[member].get(kind, name, namespace=namespace or self.namespace)
        return None

    async def appears(self, member: str, name: str = "web", **where: Any) -> dict[str, Any]:
        async def there() -> bool:
            return await self.on(member, name, **where) is not None

        await until(there)
        found = await self.on(member, name, **where)
        assert found is not None
        return found

    async def goes(self, member: str, name: str = "web", **where: Any) -> None:
        async def away() -> bool:
            return await self.on(member, name, **where) is None

        await until(away)

    async def gone(self, name: str) -> None:
        """Wait until the hub has no such Workload."""

        async def away() -> bool:
            return await self.workload(name) is None

        await until(away)

    async def delete(self, name: str) -> None:
        await self.hub.delete(WORKLOADS, name, namespace=self.namespace)

    async def make_ready(self, member: str, name: str = "web") -> None:
        """Say what the controllers of a member would say."""
        found = await self.appears(member, name)
        units = found["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), units)
        counts["observedGeneration"] = found["metadata"]["generation"]
        await self.members[member].merge_patch(
            DEPLOYMENTS, name, {"status": counts}, namespace=self.namespace, subresource="status"
        )

    async def space_on(self, member: str) -> None:
        """Make the namespace there before the propagator does."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.members[member].create(NAMESPACES, body)

    async def ready(self) -> None:
        """Wait until all members are."""

        def there() -> bool:
            term = self.process.term
            sessions = [term.fleet.get(name) for name in self.members] if term else [None]
            return all(session is not None and session.ready for session in sessions)

        await until(there)

    async def restart(self) -> None:
        """End the process, as politely as a cancellation is, and begin another one."""
        await self.stop()
        self.start()

    def start(self) -> None:
        settings = PropagatorSettings(http_port=0, sessions=QUICK, lease_retry=0.3)
        self.process = Propagator(self.hub, WorkloadPlacements, settings=settings)
        self.task = asyncio.create_task(self.process.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        assert self.task.cancelled()


@asynccontextmanager
async def staged(hub: Cluster, members: Mapping[str, Cluster]) -> AsyncIterator[Stage]:
    """Everything, with these members registered and ready."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(ApiClient(hub.connection()))
        clients = {
            name: await stack.enter_async_context(
                ApiClient(each.connection(), user_agent="somebody-else")
            )
            for name, each in members.items()
        }
        namespace = f"placements-{next(_numbers)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, body)
        for name, each in members.items():
            await client.create(SECRETS, secret(name, {"kubeconfig": each.admin_kubeconfig}))
        idle = asyncio.create_task(asyncio.sleep(0))
        stage = Stage(client, clients, None, idle, namespace)  # type: ignore[arg-type] # start sets it
        stage.start()
        try:
            await stage.ready()
            yield stage
            await _empty(stage)
        finally:
            await stage.stop()


async def _empty(stage: Stage) -> None:
    """Nothing of a test may be left for the next one."""
    listed = await stage.hub.list(WORKLOADS, namespace=stage.namespace)
    names = [item["metadata"]["name"] for item in listed["items"]]
    for name in names:
        with suppress(NotFound):
            await stage.delete(name)
    for name in names:
        await stage.gone(name)


@contextmanager
def swept(hub: Cluster) -> Iterator[None]:
    """A hub without members before and after."""
    clean(hub)
    try:
        yield
    finally:
        clean(hub)
