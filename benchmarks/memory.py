"""Memory of both processes for each Workload that they carry, on real API servers.

    uv run python -m benchmarks.memory [--workloads 1000] [--members 3] [--kept]

Starts a playground, runs both processes, and compares their resident memory before and after so
many Workloads are Running. With `benchmarks.sessions` (memory for each member session) it gives the
need of any number of members; fifty API servers do not fit beside each other on one machine, so the
printed figure for 50 members is the sum of the two.

With `--kept` no server is started: the figures are what the propagator's informer keeps of a
Workload that runs on one member, with its indexes, and what the controller keeps of it in its
informer, its cache and the ledgers of its features.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from benchmarks.ground import SPACE, Process, clients, playground, workload
from controller.app import Controller, ControllerSettings
from controller.model.objects import MemberCluster
from controller.model.objects import Workload as DecidedWorkload
from controller.model.unit import workload_info
from crds.names import FINALIZER
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.clock import SystemClock
from machinery.config.kubeconfig import Connection
from machinery.types import conditions
from machinery.types.metadata import Meta
from propagator.hub.workloads import HubWorkloads
from propagator.shares import ShareTable
from propagator.types.kept import kept
from propagator.types.workload import Workload

ROLES = ("controller", "propagator")
CREATORS = 16
SESSION_KIB = 390
"""The last result of `benchmarks.sessions` for one member session."""
FLEET = 50


def resident(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def settled(hub: ApiClient, members: int, count: int) -> None:
    """Return once all members are ready and so many Workloads are Running."""
    while True:
        clusters = (await hub.list(MEMBER_CLUSTERS))["items"]
        ready = sum(conditions.holds(each.get("status", {}), "Ready") for each in clusters)
        workloads = (await hub.list(WORKLOADS, namespace=SPACE))["items"]
        running = sum(w.get("status", {}).get("state") == "Running" for w in workloads)
        if ready >= members and running >= count:
            return
        await asyncio.sleep(2)


async def measure(directory: Path, count: int) -> None:
    """Measure each process before and after."""
    gate = asyncio.Semaphore(CREATORS)
    async with clients(directory) as (hub, others):
        members = len(others)

        async def create(number: int) -> None:
            async with gate:
                await hub.create(WORKLOADS, workload(f"load-{number}"))

        with Process("controller", directory) as first, Process("propagator", directory) as second:
            pids = dict(zip(ROLES, (first.pid, second.pid), strict=True))
            await settled(hub, members, 0)
            await asyncio.sleep(5)
            before = {role: resident(pid) for role, pid in pids.items()}
            started = time.perf_counter()
            await asyncio.gather(*(create(number) for number in range(count)))
            await settled(hub, members, count)
            took = time.perf_counter() - started
            after = {role: resident(pid) for role, pid in pids.items()}
    print(f"{count} Workloads Running on {members} members after {took:.0f} s")
    for role in ROLES:
        each = (after[role] - before[role]) * 1024 / count
        print(f"  {role:<11}{before[role]:7.1f} MiB, then {after[role]:7.1f}: {each:.1f} KiB each")
    fleet = after["propagator"] + (FLEET - members) * SESSION_KIB / 1024
    print(f"  reckoned for {FLEET} members: propagator {fleet:.0f} MiB")


def running(number: int) -> dict[str, Any]:
    """Return a Workload as the hub has it when it runs on one member."""
    body, since = (
        workload(f"load-{number}"),
        f"2026-01-01T{number // 60 % 24:02}:{number % 60:02}:00Z",
    )
    member = f"member-{number % 3}"
    share = {"name": member, "replicas": 1, "ready": 1, "updated": 1, "scheduled": 1}
    share |= {"current": 0, "unschedulable": 0, "finished": 0, "state": "Running"}
    share |= {"message": "", "observedGeneration": 1, "capacityVersion": number}
    condition = {"status": "True", "observedGeneration": 1, "lastTransitionTime": since}
    body["metadata"] |= {
        "uid": f"7f0c3b1a-9d2e-4c55-8a3e-{number:012}",
        "resourceVersion": str(100_000 + number),
        "generation": 1,
        "creationTimestamp": since,
        "finalizers": [FINALIZER],
    }
    body["status"] = {
        "state": "Running",
        "desired": 1,
        "ready": 1,
        "readySummary": "1/1",
        "clusterSummary": f"{member}=1",
        "placements": [{"cluster": member, "replicas": 1}],
        "footprint": {"clusters": member, "kinds": "apps/v1/Deployment"},
        "clusters": [share],
        "conditions": [
            {"type": kind, "reason": kind, "message": f"1 of 1 on {member}", **condition}
            for kind in ("Scheduled", "Propagated", "Ready")
        ],
    }
    return body


def measure_kept(count: int) -> None:
    """Measure a Workload in the propagator's informer."""
    answers = [msgspec.json.encode(running(number)) for number in range(count)]
    hub = ApiClient(Connection(server="https://hub.invalid"), name="hub")
    registry = SimpleNamespace(holders=lambda _: ())
    context: Any = SimpleNamespace(
        hub=hub, registry=registry, clusters=None, clock=SystemClock(), shares=ShareTable()
    )
    informer, decoder = HubWorkloads(context).informer, msgspec.json.Decoder(Workload)
    gc.collect()
    tracemalloc.start()
    for answer in answers:
        informer.observe(kept(decoder.decode(answer)))
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    print(f"{count} Workloads in the propagator's informer: {size / 1024 / count:.2f} KiB each")


def measure_decided(count: int) -> None:
    """Measure a Workload in the controller's informer, cache and ledgers."""
    hub = ApiClient(Connection(server="https://hub.invalid"), name="hub")
    controller = Controller(ControllerSettings(connection=hub.connection), hub)
    for number in range(3):
        meta = Meta(name=f"member-{number}", uid=f"m{number}", resource_version=str(10**9))
        controller.clusters.observe(MemberCluster(metadata=meta))
    answers = []
    for number in range(count):
        body = running(number)
        read = msgspec.json.decode(msgspec.json.encode(body), type=DecidedWorkload)
        decided = workload_info(read).hash
        body["status"]["decision"] = {"id": f"d-{number}", "hash": decided}
        answers.append(msgspec.json.encode(body))
    decoder = msgspec.json.Decoder(DecidedWorkload)
    gc.collect()
    tracemalloc.start()
    for answer in answers:
        controller.workloads.upsert(decoder.decode(answer))
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    print(f"{count} Workloads in the controller's cache: {size / 1024 / count:.2f} KiB each")


def main(members: int, count: int) -> None:
    """Start the playground, measure, end it."""
    with playground(members=members) as folder:
        asyncio.run(measure(folder, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--kept", action="store_true", help="what an informer keeps, alone")
    arguments = parser.parse_args()
    if arguments.kept:
        measure_kept(arguments.workloads)
        tracemalloc.stop()
        measure_decided(arguments.workloads)
    else:
        main(arguments.members, arguments.workloads)
