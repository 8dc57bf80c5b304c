"""The cost of one Workload to the hub's API server, beside that of a plain Deployment.

    uv run python -m benchmarks.hubcost [--count 300]

A control plane of its own, with our kinds and admission policies. Each number is the CPU time of
the kube-apiserver process for one request, over a few hundred of each, in rounds that take turns,
so that what else the machine does weighs on all alike; what the server does by itself meanwhile is
measured first and taken off. The ratios are of one run and may be compared between machines, the
milliseconds may not. Then the same of one status write of a Workload with many shares, when the
whole list is sent and when only the entry that changed is, with the bytes that each of them takes.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import crds
from benchmarks.ground import SPACE, deployment, spent, workload
from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, WORKLOADS, Resource
from machinery.api.verbs import MERGE_PATCH
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from stowage.toolchain import build

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JSON_PATCH = "application/json-patch+json"
ROUNDS = 6
AT_ONCE = 8
IDLE_SECONDS = 5.0
Act = Callable[[int], Awaitable[Any]]
"""Sends the n-th request of its sort."""


@contextmanager
def hub() -> Iterator[Cluster]:
    """Yield a control plane with our kinds and policies."""
    build.ensure()
    with tempfile.TemporaryDirectory() as directory:
        planes = ControlPlanes(Path(directory))
        try:
            planes.start()
            cluster = planes.create("hub", Parts())
            items = {"apiVersion": "v1", "kind": "List", "items": crds.manifests()}
            cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(items))
            cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
            time.sleep(5)  # until the API server has read the policies
            yield cluster
        finally:
            planes.stop()


class Meter:
    """CPU seconds of one API server, less its idle use."""

    def __init__(self, cluster: Cluster) -> None:
        process = cluster.processes["kube-apiserver"]
        self._pid = process.pid()
        self._idle = 0.0
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.asked: defaultdict[str, int] = defaultdict(int)

    def cpu(self) -> float:
        return spent(self._pid)

    async def rest(self) -> None:
        """Measure its idle use."""
        before = self.cpu()
        await asyncio.sleep(IDLE_SECONDS)
        self._idle = (self.cpu() - before) / IDLE_SECONDS

    async def measure(self, sort: str, act: Act, numbers: range) -> None:
        """Add the CPU time of these requests to their sort."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                await act(number)

        before, started = self.cpu(), time.perf_counter()
        await asyncio.gather(*(one(number) for number in numbers))
        took = time.perf_counter() - started
        self.spent[sort] += self.cpu() - before - took * self._idle
        self.asked[sort] += len(numbers)

    def milliseconds(self, sort: str) -> float:
        """Return milliseconds of one request of that sort."""
        return 1e3 * self.spent[sort] / self.asked[sort]


def requests(client: ApiClient) -> dict[str, Act]:
    """Return one request of each sort; its argument is the number of its object."""
    return {
        "POST Deployment": lambda n: client.create(
            DEPLOYMENTS, {**deployment(f"plain-{n}"), "metadata": _meta(f"plain-{n}")}
        ),
        "POST Workload": lambda n: client.create(WORKLOADS, workload(f"load-{n}")),
        "PATCH status": lambda n: client.merge_patch(
            WORKLOADS, f"load-{n}", {"status": _decided()}, namespace=SPACE, subresource="status"
        ),
        "PATCH finalizer": lambda n: client.merge_patch(
            WORKLOADS, f"load-{n}", {"metadata": {"finalizers": []}}, namespace=SPACE
        ),
    }


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": SPACE}


def _decided() -> dict[str, Any]:
    return {"placements": [{"cluster": "member-1", "replicas": 2}], "desired": 2, "assigned": 2}


def share(number: int, ready: int = 0) -> dict[str, Any]:
    """Return an entry of status.clusters as the propagator writes it."""
    counts = dict.fromkeys(("replicas", "scheduled", "updated"), 3)
    return {
        "name": f"cluster-{number:04d}.region-{number % 7}",
        **counts,
        "ready": ready,
        "finished": 0,
        "unschedulable": 0,
        "state": "Creating",
        "observedGeneration": 1,
        "message": "",
    }


def rewrites(client: ApiClient, shares: int) -> dict[str, tuple[Act, int]]:
    """Return (one status write of a Workload with many shares, its bytes) by the way of writing."""
    entries = [share(n) for n in range(shares)]
    at = WORKLOADS.path(SPACE, "wide", "status")

    def whole(number: int) -> Any:
        changed = copy.copy(entries)
        changed[number % shares] = share(number % shares, 1 + number % 3)
        return {"status": {"clusters": changed, "ready": number}}

    def entry(number: int) -> Any:
        which = number % shares
        value = share(which, 1 + number % 3)
        return [
            {"op": "replace", "path": f"/status/clusters/{which}", "value": value},
            {"op": "add", "path": "/status/ready", "value": number},
        ]

    async def send(body: Any, form: str) -> Any:
        return await client.request("PATCH", at, body=body, content_type=form)

    return {
        "the whole list": (lambda n: send(whole(n), MERGE_PATCH), len(json.dumps(whole(1)))),
        "the entry that changed": (lambda n: send(entry(n), JSON_PATCH), len(json.dumps(entry(1)))),
    }


async def measure(cluster: Cluster, count: int, shares: int) -> None:
    meter = Meter(cluster)
    async with ApiClient(cluster.connection(), timeout=60) as client:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        await client.apply(NAMESPACES, space, name=SPACE)
        acts = requests(client)
        for act in acts.values():
            await act(-1)
        await meter.rest()
        for turn in range(ROUNDS):
            numbers = range(turn * count // ROUNDS, (turn + 1) * count // ROUNDS)
            for sort, act in acts.items():
                await meter.measure(sort, act, numbers)
        plain = meter.milliseconds("POST Deployment")
        for sort in acts:
            each = meter.milliseconds(sort)
            print(f"{sort}: {each:.2f} ms of the API server, {each / plain:.2f} of a Deployment")
        await _wide(client, meter, shares)


async def _wide(client: ApiClient, meter: Meter, shares: int) -> None:
    await client.create(WORKLOADS, workload("wide"))
    first = {"status": {"clusters": [share(n) for n in range(shares)]}}
    await client.merge_patch(WORKLOADS, "wide", first, namespace=SPACE, subresource="status")
    ways = rewrites(client, shares)
    for turn in range(ROUNDS):
        for sort, (act, _) in ways.items():
            for number in range(
                turn * 5, turn * 5 + 5
            ):  # one after the other, as the propagator writes them
                await meter.measure(sort, act, range(number, number + 1))
    for sort, (_, size) in ways.items():
        each = meter.milliseconds(sort)
        print(f"{shares} shares, {sort}: {size / 1024:.1f} KiB a write, {each:.1f} ms")


def main(count: int, shares: int) -> None:
    """Start the hub, measure, end the hub."""
    with hub() as cluster:
        asyncio.run(measure(cluster, count, shares))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--shares", type=int, default=1000)
    arguments = parser.parse_args()
    main(arguments.count, arguments.shares)
