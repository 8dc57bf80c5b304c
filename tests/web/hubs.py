"""A hub for the page: real API server, worked from a thread of its own, and accounts with few rights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from machinery.api.resources import Resource
from machinery.config.kubeconfig import Connection
from tests.controller.live import World, deciding, world_on
from tests.inforce import until_may

T = TypeVar("T")


class Hub:
    """A hub that is worked from another thread."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.world: World
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def begin(self) -> None:
        self._thread.start()
        self._stack = AsyncExitStack()
        self.do(self._begin())

    async def _begin(self) -> None:
        self.world = await self._stack.enter_async_context(world_on(self.cluster, "shop"))

    async def decide(self) -> None:
        """Two clusters, a controller, and one Workload of two units."""
        await self.world.cluster("m1")
        await self.world.cluster("m2")
        await self._stack.enter_async_context(deciding(self.world))
        await self.world.workload("web", replicas=2)
        await self.world.placed("web")

    def end(self) -> None:
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def put(hub: Hub, res: Resource, body: dict[str, Any]) -> None:
    """Make an object with its status, as the two processes would have left it."""
    body = {"apiVersion": res.api_version, "kind": res.kind, **body}
    status = body.pop("status", None)
    client, metadata = hub.world.client, body["metadata"]
    await client.create(res, body)
    if status:
        await client.merge_patch(
            res,
            metadata["name"],
            {"status": status},
            namespace=metadata.get("namespace"),
            subresource="status",
        )


def reading_as(hub: Hub, name: str, *rights: str) -> Connection:
    """A connection of a service account that may do these things: `list memberclusters.stowage.dev`."""
    kubectl = hub.cluster.kubectl
    kubectl("create", "serviceaccount", name, "-n", "shop")
    user = f"system:serviceaccount:shop:{name}"
    for n, right in enumerate(rights):
        verbs, resources, *space = right.split()
        kind = "role" if space else "clusterrole"
        scope = ("-n", space[0]) if space else ()
        kubectl("create", kind, f"{name}-{n}", f"--verb={verbs}", f"--resource={resources}", *scope)
        kubectl(
            "create",
            f"{kind}binding",
            f"{name}-{n}",
            f"--{kind}={name}-{n}",
            f"--serviceaccount=shop:{name}",
            *scope,
        )
        until_may(hub.cluster, user, f"list {resources}" + (f" -n {space[0]}" if space else ""))
    token = kubectl("create", "token", name, "-n", "shop").strip()
    admin = hub.cluster.connection()
    return Connection(server=admin.server, ca=admin.ca, token=token)
