"""From apply on the hub to the Deployment on the member, and both rates beside the raw ones.

Brings a playground up and takes it down again. Prints, measured in one run: p50 and p99 of the
way of one Workload, unloaded; Workloads placed per second beside raw status patches of the same
hub; objects applied per second beside raw server-side applies on the same members. Each rate is
that of one process at work alone, between its first object and its last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self

from machinery.errors import NotFound
from machinery.kubeconfig import parse_kubeconfig
from machinery.resources import NAMESPACES, WORKLOADS, Resource
from machinery.transport import ApiClient

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SPACE = "benchmark"
WAYS = 100


def deployment(name: str, replicas: int = 0) -> dict[str, Any]:
    """A small Deployment that starts no pods."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            },
        },
    }


def workload(name: str, cluster: str | None = None) -> dict[str, Any]:
    """A Workload around it, on one cluster or wherever it is placed."""
    target = {"targetCluster": {"name": cluster}} if cluster else {}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {**target, "targetDeployment": deployment(name)},
    }


async def one_way(hub: ApiClient, member: ApiClient, name: str) -> float:
    """Seconds until the Deployment can be read on the member."""
    started = time.perf_counter()
    await hub.create(WORKLOADS, workload(name, "member-1"))
    while True:
        try:
            await member.get(DEPLOYMENTS, name, namespace=SPACE)
        except NotFound:
            await asyncio.sleep(0.002)
        else:
            return time.perf_counter() - started


class Process:
    """`stowage controller` or `stowage propagator` on the hub of a playground."""

    def __init__(self, role: str, directory: Path) -> None:
        log = (directory / f"bench-{role}.log").open("wb")
        command = [sys.executable, "-m", "stowage", role, "--http-port=0"]
        self._process = subprocess.Popen(
            [*command, f"--kubeconfig={directory / 'hub.kubeconfig'}"], stdout=log, stderr=log
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


async def appearing(
    client: ApiClient,
    resource: Resource,
    holds: Callable[[dict[str, Any]], bool],
    times: list[float],
) -> None:
    """Note the moment at which each object of the benchmark first holds; until cancelled."""
    seen: set[str] = set()
    listed = await client.list(resource, namespace=SPACE)
    version = listed["metadata"]["resourceVersion"]
    async with client.watch(resource, namespace=SPACE, resource_version=version) as lines:
        async for line in lines:
            found = json.loads(line)["object"]
            name = found["metadata"].get("name", "")
            if name.startswith("load-") and name not in seen and holds(found):
                seen.add(name)
                times.append(time.perf_counter())


async def rate(
    watchers: Sequence[Coroutine[Any, Any, None]], times: list[float], count: int
) -> float:
    """Objects a second between the first one and the last."""
    tasks = [asyncio.create_task(each) for each in watchers]
    try:
        while len(times) < count:  # noqa: ASYNC110 - the watchers fill it
            await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return (count - 1) / (times[-1] - times[0])


async def raw_patches(hub: ApiClient, count: int) -> float:
    """Status patches a second of this hub, 32 at once."""
    names = [f"raw-{n}" for n in range(count)]
    for name in names:
        await hub.create(
            WORKLOADS,
            {**workload(name), "spec": {**workload(name)["spec"], "schedulerName": "nobody"}},
        )
    gate = asyncio.Semaphore(32)

    async def patch(name: str) -> None:
        async with gate:
            await hub.merge_patch(
                WORKLOADS,
                name,
                {"status": {"selector": "a=b"}},
                namespace=SPACE,
                subresource="status",
            )

    started = time.perf_counter()
    await asyncio.gather(*(patch(name) for name in names))
    return count / (time.perf_counter() - started)


async def raw_applies(members: list[ApiClient], count: int) -> float:
    """Server-side applies of a new Deployment a second, over all members, 8 at once on each."""
    gates = [asyncio.Semaphore(8) for _ in members]

    async def apply(n: int) -> None:
        which = n % len(members)
        async with gates[which]:
            await members[which].apply(
                DEPLOYMENTS, deployment(f"raw-{n}"), name=f"raw-{n}", namespace=SPACE
            )

    started = time.perf_counter()
    await asyncio.gather(*(apply(n) for n in range(count)))
    return count / (time.perf_counter() - started)


def clients(directory: Path) -> dict[str, ApiClient]:
    """A client of every cluster of a playground, by name."""
    return {
        path.stem: ApiClient(parse_kubeconfig(path.read_bytes()), name=path.stem, timeout=60)
        for path in sorted(directory.glob("*.kubeconfig"))
    }


async def ways(hub: ApiClient, member: ApiClient, directory: Path) -> None:
    """The way of one Workload after the other."""
    with Process("propagator", directory), Process("controller", directory):
        await one_way(hub, member, "way-first")
        took = sorted([await one_way(hub, member, f"way-{n}") for n in range(WAYS)])
    p50, p99 = took[WAYS // 2] * 1e3, took[WAYS * 99 // 100] * 1e3
    what = f"apply on the hub to Deployment on the member, n={WAYS}"
    print(f"{what}: p50 {p50:.0f} ms, p99 {p99:.0f} ms (aim 100, 500)")


async def rates(hub: ApiClient, members: list[ApiClient], directory: Path, count: int) -> None:
    """What each process writes in a second when it finds everything waiting at its start."""
    patches = await raw_patches(hub, count)
    applies = await raw_applies(members, count)
    gate = asyncio.Semaphore(16)

    async def create(n: int) -> None:
        async with gate:
            await hub.create(WORKLOADS, workload(f"load-{n}"))

    await asyncio.gather(*(create(n) for n in range(count)))
    times: list[float] = []
    watcher = appearing(
        hub, WORKLOADS, lambda w: bool(w.get("status", {}).get("placements")), times
    )
    with Process("controller", directory):
        decided = await rate([watcher], times, count)
    times = []
    watchers = [appearing(m, DEPLOYMENTS, lambda _: True, times) for m in members]
    with Process("propagator", directory):
        applied = await rate(watchers, times, count)
    for what, ours, raw, beside in (
        ("decisions", decided, patches, "status patches"),
        ("objects applied", applied, applies, "server-side applies"),
    ):
        print(f"{what} {ours:.0f}/s beside {raw:.0f} raw {beside}/s: {ours / raw:.2f} (aim 0.8)")


async def measure(directory: Path, count: int) -> None:
    """Everything, one after the other."""
    found = clients(directory)
    hub = found.pop("hub")
    members = list(found.values())
    try:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        for each in (hub, *members):
            await each.apply(NAMESPACES, space, name=SPACE)
        await ways(hub, members[0], directory)
        await rates(hub, members, directory, count)
    finally:
        for each in (hub, *members):
            await each.close()


def main(count: int) -> None:
    """Bring the playground up, measure, take it down."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "stowage", "playground"]
        try:
            subprocess.run(
                [*command, "up", "--provider=local", "--no-run", f"--dir={folder}"], check=True
            )
            asyncio.run(measure(Path(folder), count))
        finally:
            subprocess.run([*command, "down", f"--dir={folder}"], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    main(parser.parse_args().count)
