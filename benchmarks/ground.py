"""Shared parts of the benchmarks on a playground: objects, processes, and CPU times.

On a shared machine, seconds on the clock say little. So each rate stands beside a raw one of the
same run, and beside the CPU time of every process that took part.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from machinery.api.client import ApiClient
from machinery.api.resources import NAMESPACES, Resource
from machinery.config.kubeconfig import parse_kubeconfig
from machinery.errors import TransportError
from stowage.playground.local import load_planes

SPACE = "benchmark"
RUN = format(os.getpid(), "x")
"""A part of the names of a run's objects: a playground may serve several runs."""
REST_SECONDS = 5.0
Body = dict[str, Any]


def deployment(name: str, replicas: int = 0) -> Body:
    """Return a small Deployment, by default without pods."""
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


def workload(name: str, cluster: str | None = None, **spec: Any) -> Body:
    """Return a Workload around it, on one cluster or placed anywhere."""
    target = {"targetCluster": {"name": cluster}} if cluster else {}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"targetDeployment": deployment(name), **target, **spec},
    }


class Process:
    """`stowage controller` or `stowage propagator` on the hub of a playground."""

    def __init__(self, role: str, directory: Path, *flags: str) -> None:
        log = (directory / f"bench-{role}.log").open("wb")
        command = [sys.executable, "-m", "stowage", role, "--http-port=0"]
        self._process = subprocess.Popen(
            [*command, f"--kubeconfig={directory / 'hub.kubeconfig'}", *flags],
            stdout=log,
            stderr=log,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


@contextmanager
def playground(given: Path | None = None, *, members: int = 3) -> Iterator[Path]:
    """Yield a local playground in a temporary folder; or `given`, which stays as it is."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "stowage", "playground"]
        try:
            up = ["up", "--provider=local", "--no-run", f"--members={members}", f"--dir={folder}"]
            subprocess.run([*command, *up], check=True)
            yield Path(folder)
        finally:
            subprocess.run([*command, "down", f"--dir={folder}"], check=True)


@asynccontextmanager
async def clients(directory: Path) -> AsyncIterator[tuple[ApiClient, list[ApiClient]]]:
    """Yield clients of the hub and of the members; the benchmarks' namespace exists there."""
    async with AsyncExitStack() as stack:
        found = {}
        for path in _kubeconfigs(directory):
            client = ApiClient(parse_kubeconfig(path.read_bytes()), name=path.stem, timeout=60)
            found[path.stem] = await stack.enter_async_context(client)
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
            await client.apply(NAMESPACES, space, name=SPACE)
        hub = found.pop("hub")
        yield hub, list(found.values())


def _kubeconfigs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.kubeconfig"))


def spent(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bill:
    """CPU times of this process, of the API servers and of others, less their idle use."""

    def __init__(self, directory: Path) -> None:
        planes = load_planes(directory)
        self._pids: dict[str, list[int]] = {}
        for cluster in planes.clusters.values():
            whose = "the hub's" if cluster.name == "hub" else "the members'"
            for program, process in cluster.processes.items():
                part = "API server" if program == "kube-apiserver" else "controllers"
                self._pids.setdefault(f"{whose} {part}", []).append(process.pid())
        if planes.etcd is not None:
            self._pids["etcd of all"] = [planes.etcd.pid()]
        self._pids["the benchmark"] = [os.getpid()]
        self._murmur: dict[str, float] = {}
        self.begin()

    def _now(self) -> dict[str, float]:
        return {part: sum(map(spent, pids)) for part, pids in self._pids.items()}

    async def rest(self) -> None:
        """Measure the idle use of all processes."""
        self.begin()
        await asyncio.sleep(REST_SECONDS)
        now = self._now()
        self._murmur = {part: (now[part] - self._before[part]) / REST_SECONDS for part in now}

    def begin(self, **own: int) -> None:
        """Begin to measure, with further processes of ours by name."""
        self._pids.update({name: [pid] for name, pid in own.items()})
        self._before, self._began = self._now(), time.monotonic()

    def split(self, count: int) -> str:
        """Return milliseconds an object, in all and by process, the largest first."""
        now, took = self._now(), time.monotonic() - self._began
        each = {
            part: 1e3 * (now[part] - self._before[part] - took * self._murmur.get(part, 0)) / count
            for part in now
        }
        ordered = sorted(each.items(), key=lambda item: -item[1])
        told = ", ".join(f"{part} {value:.1f}" for part, value in ordered)
        return f"{sum(each.values()):.1f} ms of CPU an object: {told}"


_events = msgspec.json.Decoder(Body)


async def following(
    client: ApiClient, resource: Resource, seen: Callable[[Body], None], version: str = ""
) -> None:
    """Call `seen` with each object of the benchmark now and at each change; until cancelled.

    A watch that ends continues from its version, or begins with a new list if that is forgotten.
    """
    while True:
        if not version:
            listed = await client.list(resource, namespace=SPACE)
            version = listed["metadata"]["resourceVersion"]
            for each in listed["items"]:
                seen(each)
        try:
            version = await _followed(client, resource, seen, version)
        except TransportError:
            version = ""


async def _followed(
    client: ApiClient, resource: Resource, seen: Callable[[Body], None], version: str
) -> str:
    """Run one watch to its end; return the version to continue from, empty if unknown."""
    async with client.watch(resource, namespace=SPACE, resource_version=version) as lines:
        async for line in lines:
            event = _events.decode(line)
            found = event["object"]
            if event["type"] == "ERROR":
                return ""
            version = found["metadata"]["resourceVersion"]
            if event["type"] in ("ADDED", "MODIFIED"):
                seen(found)
    return version


class Tally:
    """The objects with that prefix that came so far, and when each did."""

    def __init__(self, prefix: str, holds: Callable[[Body], bool] = lambda _: True) -> None:
        self.prefix = prefix
        self._holds = holds
        self._changed = asyncio.Event()
        self.times: dict[str, float] = {}

    def seen(self, body: Body) -> None:
        name = body["metadata"].get("name", "")
        if name.startswith(self.prefix) and name not in self.times and self._holds(body):
            self.times[name] = asyncio.get_running_loop().time()
            self._changed.set()

    async def reaches(self, count: int) -> None:
        """Return once there are so many."""
        while len(self.times) < count:
            self._changed.clear()
            await self._changed.wait()

    def rate(self) -> float:
        """Return objects a second between the first one and the last."""
        return (len(self.times) - 1) / (max(self.times.values()) - min(self.times.values()))


@asynccontextmanager
async def watched(
    clients: Sequence[ApiClient], resource: Resource, *tallies: Tally
) -> AsyncIterator[None]:
    """Give the tallies each object that these servers show, until the block ends."""

    def seen(body: Body) -> None:
        for tally in tallies:
            tally.seen(body)

    tasks = [asyncio.create_task(following(each, resource, seen)) for each in clients]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
