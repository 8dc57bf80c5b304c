"""From apply on the hub to the Deployment on the member, beside the plain requests that it takes.

    uv run python -m benchmarks.latency [--count 100] [--dir PLAYGROUND]

One Workload after the other, unloaded, seen by a watch on the member. Beside it this process sends
the same requests one after the other: the POST of a Workload, the status that places it, the apply.
The difference is the cost of a scheduler, two watches and two other processes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.ground import (
    RUN,
    SPACE,
    Body,
    Process,
    Tally,
    clients,
    deployment,
    playground,
    watched,
    workload,
)
from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, WORKLOADS

Way = Callable[[str], Awaitable[object]]
MEMBER = "member-1"


def ours(hub: ApiClient) -> Way:
    """Return a way that sends what a user sends; our processes do the rest."""
    return lambda name: hub.create(WORKLOADS, workload(name, MEMBER))


def plain(hub: ApiClient, member: ApiClient) -> Way:
    """Return a way that sends the same requests to the same servers, and nothing else."""

    async def send(name: str) -> None:
        await hub.create(WORKLOADS, workload(name, MEMBER, schedulerName="nobody"))
        placements = [{"cluster": MEMBER, "replicas": 0}]
        status = {"placements": placements, "desired": 0, "assigned": 0, "pending": 0}
        where: Body = {"namespace": SPACE, "subresource": "status"}
        await hub.merge_patch(WORKLOADS, name, {"status": status}, **where)
        await member.apply(DEPLOYMENTS, deployment(name), name=name, namespace=SPACE)

    return send


async def times(send: Way, tally: Tally, count: int) -> list[float]:
    """Return seconds from sending to the watch's Deployment, shortest first."""
    took = []
    for number in range(len(tally.times), len(tally.times) + count):
        name, started = f"{tally.prefix}{number}", asyncio.get_running_loop().time()
        await send(name)
        await tally.reaches(number + 1)
        took.append(tally.times[name] - started)
    return sorted(took)


async def remove(hub: ApiClient, name: str) -> None:
    """Delete a Workload, so that no process of ours reads it."""
    await hub.merge_patch(WORKLOADS, name, {"metadata": {"finalizers": []}}, namespace=SPACE)
    await hub.delete(WORKLOADS, name, namespace=SPACE)


async def measure(directory: Path, count: int) -> None:
    """Measure both ways, one after the other."""
    async with clients(directory) as (hub, members):
        naive, way = Tally(f"plain-{RUN}-"), Tally(f"way-{RUN}-")
        async with watched(members[:1], DEPLOYMENTS, naive, way):
            alone = await times(plain(hub, members[0]), naive, count)
            told("the same requests alone", alone)
            for name in naive.times:
                await remove(hub, name)
            with Process("propagator", directory), Process("controller", directory):
                await times(ours(hub), way, 1)
                took = await times(ours(hub), way, count)
        told("apply on the hub to Deployment on the member", took)


def told(what: str, took: list[float]) -> None:
    p50, p99 = took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3
    print(f"{what}, n={len(took)}: p50 {p50:.0f} ms, p99 {p99:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--dir", type=Path, help="a playground that is up")
    given = parser.parse_args()
    with playground(given.dir) as directory:
        asyncio.run(measure(directory, given.count))


if __name__ == "__main__":
    main()
