"""Many processes that watch one kind of a real API server, as it restarts and as the kind changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from machinery.api.client import ApiClient
from machinery.api.lanes import LEASE
from machinery.api.resources import CRDS, LEASES, Resource
from machinery.clock import SystemClock, microtime
from machinery.errors import ApiError, TooManyRequests, TransportError
from machinery.runtime.informer import CROWD_PAGE, CROWD_SECONDS, Informer
from machinery.tasks import end
from machinery.types.metadata import Object
from stowage.playground.controlplanes import Cluster
from tests.patience import until

CROWD = 104
CLIENTS = 13
OBJECTS = 60
CLOCK = SystemClock()
THINGS = Resource("example.com", "v1", "things", "Thing")
SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Client(ApiClient):
    """Notes when each list began, and its limit."""

    begun: list[tuple[float, int]]

    def pages(self, res: Resource, *, limit: int = 0, **chosen: Any) -> Any:
        self.begun.append((CLOCK.monotonic(), limit))
        return super().pages(res, limit=limit, **chosen)


def kind(description: str) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {**SCHEMA, "description": description}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "things.example.com"}
    return {"apiVersion": CRDS.api_version, "kind": CRDS.kind, "metadata": meta, "spec": spec}


async def renew(client: ApiClient, refused: list[ApiError]) -> None:
    """Renew a Lease each half second; note what the server's queues turn away."""
    while True:
        spec = {"holderIdentity": "us", "renewTime": microtime(CLOCK.now())}
        with suppress(TransportError):
            try:
                where: dict[str, Any] = {"namespace": "default", "errand": LEASE}
                await client.merge_patch(LEASES, "ours", {"spec": spec}, **where)
            except TooManyRequests as fault:
                refused.append(fault)
        await asyncio.sleep(0.5)


@pytest.mark.long
@pytest.mark.proves("SC33")
async def test_lists_after_a_restart_and_after_a_change_of_the_kind_are_spread(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster("crowd")
    cluster.kubectl("apply", "-f", "-", input=json.dumps(kind("one")))
    cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", "crd/things.example.com"
    )
    things = [
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": f"t{number}"}}
        for number in range(OBJECTS)
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": things}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(listed))
    begun, refused = list[tuple[float, int]](), list[ApiError]()
    async with AsyncExitStack() as stack:
        made = [Client(cluster.connection(), limit=20) for _ in range(CLIENTS)]
        clients = [await stack.enter_async_context(each) for each in made]
        for client in clients:
            client.begun = begun
        crowd = [Informer(clients[n % CLIENTS], THINGS, Object) for n in range(CROWD)]
        for each in crowd:
            each.crowded = lambda: True
        plain = await stack.enter_async_context(ApiClient(cluster.connection()))
        lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "ours"}}
        await plain.create(LEASES, lease, namespace="default")
        running = [asyncio.create_task(each.run()) for each in crowd]
        running.append(asyncio.create_task(renew(plain, refused)))

        async def synced() -> bool:
            return all(len(each) == OBJECTS for each in crowd)

        await until(synced)
        refused.clear()  # all began at once here
        begun.clear()
        await asyncio.to_thread(cluster.restart)
        await asyncio.sleep(CROWD_SECONDS + 15)
        after_restart = list(begun)
        begun.clear()
        await plain.merge_patch(CRDS, "things.example.com", {"spec": kind("two")["spec"]})
        await asyncio.sleep(CROWD_SECONDS + 15)
        await end(running)
    assert not refused
    assert len(begun) >= CROWD, "each has lost its watch"
    for lists in (after_restart, begun):
        if len(lists) >= CROWD:
            times = sorted(at for at, _ in lists)
            assert times[-1] - times[0] >= 20
        assert {limit for _, limit in lists} <= {CROWD_PAGE}
    assert all(len(each) == OBJECTS for each in crowd)
