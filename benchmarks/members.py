"""A fleet of simulated members: time to ready, rates, memory, and what restarts cost.

    uv run python -m benchmarks.members [--members 200] [--workloads 50]

The hub is a real API server, the members are simulated (`benchmarks.simulated_members`), as two
hundred real ones fit on no machine. So many Workloads for each member, one Deployment each, are on
the hub when the controller starts, alone; when all are placed it ends, and the propagator starts.
Prints the seconds until all members are Ready, until all Workloads are placed, and until they are
Ready, the memory of both processes, and the CPU time that they and the hub spend on an object. Then
both restart: the writes of a propagator for which nothing changed, and the seconds until a
controller's first right decision, on a Workload that has to go to the one cluster that holds
another.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ground import SPACE, Process, Tally, deployment, spent, watched, workload
from crds.names import LABEL_CLUSTER as CLUSTER
from crds.names import LABEL_REGISTER, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from stowage.playground.controlplanes import Cluster, ControlPlanes, Parts
from stowage.playground.pki import Authority
from stowage.toolchain import build
from tests.conftest import install_kinds
from tests.propagator.stage import changes

CREATORS = 16
POLICIES_SECONDS = 15.0
"""The wait until a hub's API server enforces policies that were just installed."""
PATIENCE_SECONDS = 3600.0
QUIET_SECONDS = 75.0
"""The wait until a restarted propagator has written all; a latency is written after a minute."""


@dataclass(frozen=True)
class Fleet:
    """A hub, and the server that acts as all members."""

    hub: Cluster
    authority: Authority
    port: int
    folder: Path

    def secret(self, name: str) -> dict[str, Any]:
        """Return the Secret that registers a member of that name."""
        data = {
            "endpoint": f"https://127.0.0.1:{self.port}/{name}".encode(),
            "clusterCA": self.authority.certificate,
            "token": b"none",
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": SYSTEM_NAMESPACE,
                "labels": {LABEL_REGISTER: "true"},
            },
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }


@contextmanager
def fleet() -> Iterator[Fleet]:
    """Yield both servers, which end with the block."""
    build.ensure()
    with tempfile.TemporaryDirectory() as name:
        folder, authority = Path(name), Authority("simulated")
        pair = authority.server()
        (folder / "cert").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        planes = ControlPlanes(folder / "hub")
        command = [sys.executable, "-m", "benchmarks.simulated_members", f"--keys={folder}"]
        members = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            planes.start()
            hub = planes.create("hub", Parts())
            install_kinds(hub)
            (folder / "hub.kubeconfig").write_text(hub.admin_kubeconfig)
            assert members.stdout is not None
            yield Fleet(hub, authority, int(members.stdout.readline()), folder)
        finally:
            members.kill()
            members.wait()
            planes.stop()


def resident(process: Process) -> float:
    """Return the resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def having(hub: ApiClient, resource: Any, condition: str) -> int:
    """Return the number of objects of which that condition holds."""
    listed = await hub.list(resource)
    told = (c for each in listed["items"] for c in each.get("status", {}).get("conditions", ()))
    return sum((c["type"], c["status"]) == (condition, "True") for c in told)


async def until(hub: ApiClient, resource: Any, condition: str, count: int) -> float:
    """Return the seconds until that condition holds of so many objects."""
    started = time.monotonic()
    while (there := await having(hub, resource, condition)) < count:
        if time.monotonic() - started > PATIENCE_SECONDS:
            raise SystemExit(f"{condition} of {there} of {count} {resource.plural} in time")
        await asyncio.sleep(1)
    return time.monotonic() - started


async def create(hub: ApiClient, members: int, workloads: int) -> None:
    """Create `workloads` Workloads for each member, on members with unbounded room."""
    gate = asyncio.Semaphore(CREATORS)

    async def one(member: str, name: str) -> None:
        async with gate:
            template = {"targetDeployment": deployment(name, 1)}
            await hub.create(WORKLOADS, workload(name, member, **template))

    for number in range(members):
        await hub.merge_patch(MEMBER_CLUSTERS, f"m{number}", {"spec": {"virtual": True}})

    names = [(f"m{m}", f"w-{m}-{w}") for m in range(members) for w in range(workloads)]
    await asyncio.gather(*(one(*each) for each in names))


async def placed(hub: ApiClient, count: int) -> float:
    """Return the seconds until so many Workloads have a cluster."""
    started = time.monotonic()
    tally = Tally("w-", lambda found: bool(found.get("status", {}).get("placements")))
    async with watched([hub], WORKLOADS, tally):
        await tally.reaches(count)
    return time.monotonic() - started


async def decide_again(hub: ApiClient, fleet: Fleet, members: int) -> None:
    """Start a controller for a waiting Workload, and print the time of its decision."""
    beside, cluster = f"w-{members - 1}-0", f"m{members - 1}"
    labels = {"metadata": {"labels": {"benchmark": "this"}}}
    await hub.merge_patch(WORKLOADS, beside, labels, namespace=SPACE)
    term = {"labelSelector": {"matchLabels": labels["metadata"]["labels"]}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term | {"topologyKey": CLUSTER}]}
    body = workload("seeker", workloadAffinity=rule)
    await hub.create(WORKLOADS, body)
    tally = Tally("seeker", lambda found: bool(found.get("status", {}).get("placements")))
    started = time.monotonic()
    async with watched([hub], WORKLOADS, tally):
        with Process("controller", fleet.folder) as process:
            await tally.reaches(1)
            seconds, own = time.monotonic() - started, spent(process.pid)
            print(f"restart of the controller: first decision after {seconds:.1f} s")
            print(f"  CPU {own:.1f} s, memory {resident(process):.0f} MiB")
    (share,) = (await hub.get(WORKLOADS, "seeker", namespace=SPACE))["status"]["placements"]
    if share["cluster"] != cluster:
        raise SystemExit(f"decided for {share['cluster']}, and {beside} is on {cluster}")


async def measure(fleet: Fleet, members: int, workloads: int) -> None:
    """Take all measurements, one after the other."""
    total = members * workloads
    server = fleet.hub.processes["kube-apiserver"].pid()
    async with ApiClient(fleet.hub.connection(), timeout=60) as hub:
        await asyncio.sleep(POLICIES_SECONDS)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        await hub.create(NAMESPACES, space)
        for number in range(members):
            await hub.create(SECRETS, fleet.secret(f"m{number}"))
        with Process("propagator", fleet.folder) as process:
            seconds = await until(hub, MEMBER_CLUSTERS, "Ready", members)
            bare = resident(process)
            print(f"{members} members Ready after {seconds:.1f} s, {bare:.0f} MiB")
        await create(hub, members, workloads)
        before = spent(server)
        with Process("controller", fleet.folder) as process:
            seconds = await placed(hub, total)
            own, theirs = spent(process.pid) / total, (spent(server) - before) / total
            print(f"{total} Workloads placed after {seconds:.1f} s: {total / seconds:.0f} a second")
            print(f"  CPU for each: controller {own * 1e3:.1f} ms, hub {theirs * 1e3:.1f} ms")
            print(f"  memory of the controller {resident(process):.0f} MiB")
        before = spent(server)
        with Process("propagator", fleet.folder) as process:
            await until(hub, MEMBER_CLUSTERS, "Ready", members)
            seconds = await until(hub, WORKLOADS, "Ready", total)
            own, theirs = spent(process.pid) / total, (spent(server) - before) / total
            print(f"{total} Workloads Ready after {seconds:.1f} s: {total / seconds:.0f} a second")
            print(f"  CPU for each: propagator {own * 1e3:.1f} ms, hub {theirs * 1e3:.1f} ms")
            print(f"  memory of the propagator {resident(process):.0f} MiB")
            await asyncio.sleep(QUIET_SECONDS)
        written = await changes(hub)
        with Process("propagator", fleet.folder) as process:
            await asyncio.sleep(QUIET_SECONDS + 0.01 * total)
            again = await changes(hub) - written
            print(f"restart of the propagator: {dict(again)} changes on the hub (aim none)")
            print(f"  CPU {spent(process.pid):.1f} s, memory {resident(process):.0f} MiB")
            await decide_again(hub, fleet, members)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--workloads", type=int, default=50, help="for each member")
    given = parser.parse_args()
    with fleet() as servers:
        asyncio.run(measure(servers, given.members, given.workloads))


if __name__ == "__main__":
    main()
