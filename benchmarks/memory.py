"""Memory of both processes for each Workload that they carry, on real API servers.

    uv run python -m benchmarks.memory [--workloads 1000] [--members 3]

Starts a playground, runs both processes, and compares their resident memory before and after so
many Workloads are Running. With `benchmarks.sessions` (memory for each member session) it gives the
need of any number of members; fifty API servers do not fit beside each other on one machine, so the
printed figure for 50 members is the sum of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path

from benchmarks.ground import SPACE, Process, clients, playground, workload
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types import conditions

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


def main(members: int, count: int) -> None:
    """Start the playground, measure, end it."""
    with playground(members=members) as folder:
        asyncio.run(measure(folder, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--workloads", type=int, default=1000)
    arguments = parser.parse_args()
    main(arguments.members, arguments.workloads)
