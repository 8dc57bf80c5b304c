"""How long until the units of a full subset run in the next one: with simulation and without.

    uv run python -m benchmarks.spread_moves [--count 20] [--seconds 2] [--dir PLAYGROUND]

The nodes of member-1 are cordoned, so that its scheduler places no pod. Each Workload has a
WorkloadSpread that fills member-1 first and member-2 then. With simulation the first decision
avoids member-1; without it units go to member-1, wait there for the critical seconds, and are
moved. Beside both stands the same Workload without a spread, sent to member-2 by name. A
measurement ends when a watch on member-2 shows the Deployment with all units ready.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.ground import (
    RUN,
    SPACE,
    Body,
    Process,
    Tally,
    clients,
    playground,
    watched,
    workload,
)
from machinery.api.client import ApiClient
from machinery.api.resources import DEPLOYMENTS, MEMBER_CLUSTERS, WORKLOAD_SPREADS, WORKLOADS
from stowage.toolchain import binaries

UNITS = 2
ZONE = "topology.kubernetes.io/zone"
Way = Callable[[str], Awaitable[object]]


def spread(name: str, *, simulates: bool, seconds: int) -> Body:
    """Return a spread over zone 1 first, then zone 2."""
    subsets = [
        {"name": zone, "requiredNodeSelectorTerm": {"matchLabels": {ZONE: zone}}}
        for zone in ("zone-1", "zone-2")
    ]
    adaptive = {"rescheduleCriticalSeconds": seconds, "disableSimulationSchedule": not simulates}
    target = {"apiVersion": "stowage.dev/v1alpha1", "kind": "Workload", "name": name}
    return {
        "apiVersion": "stowage.dev/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "targetRef": target,
            "subsets": subsets,
            "scheduleStrategy": {"type": "Adaptive", "adaptive": adaptive},
        },
    }


def by_name(hub: ApiClient) -> Way:
    """Return a way without a spread, to the member that has room."""
    return lambda name: hub.create(WORKLOADS, workload(name, "member-2", replicas=UNITS))


def by_spread(hub: ApiClient, *, simulates: bool, seconds: int) -> Way:
    """Return a way behind a spread that the controller has read."""

    async def send(name: str) -> float:
        await hub.create(WORKLOAD_SPREADS, spread(name, simulates=simulates, seconds=seconds))
        while True:
            found = await hub.get(WORKLOAD_SPREADS, name, namespace=SPACE)
            if found["status"]["observedGeneration"] > 0:
                break
            await asyncio.sleep(0.05)
        began = asyncio.get_running_loop().time()
        await hub.create(WORKLOADS, workload(name, replicas=UNITS))
        return began

    return send


async def times(send: Way, tally: Tally, count: int) -> list[float]:
    """Return seconds from the POST until the units are ready on member-2, shortest first."""
    took = []
    for number in range(count):
        name, began = f"{tally.prefix}{number}", asyncio.get_running_loop().time()
        sent = await send(name)
        await tally.reaches(number + 1)
        took.append(tally.times[name] - (sent if isinstance(sent, float) else began))
    return sorted(took)


def runs(deployment: Body) -> bool:
    ready: int = deployment.get("status", {}).get("readyReplicas", 0)
    return ready >= UNITS


def cordon(directory: Path) -> None:
    """Cordon all nodes of member-1."""
    kubectl = [str(binaries.path("kubectl")), f"--kubeconfig={directory / 'member-1.kubeconfig'}"]
    asked = subprocess.run(
        [*kubectl, "get", "nodes", "-o", "name"], check=True, capture_output=True
    )
    names = [line.removeprefix("node/") for line in asked.stdout.decode().split()]
    subprocess.run([*kubectl, "cordon", *names], check=True, capture_output=True)


async def known(hub: ApiClient) -> None:
    """Return once the hub shows no nodes of member-1, and nodes of member-2."""
    while True:
        listed = (await hub.list(MEMBER_CLUSTERS))["items"]
        said = {each["metadata"]["name"]: each.get("status", {}) for each in listed}
        full = "capacity" in said.get("member-1", {}) and not _nodes(said["member-1"])
        if full and _nodes(said.get("member-2", {})):
            return
        await asyncio.sleep(0.2)


def _nodes(status: Body) -> int:
    return sum(group["count"] for group in status.get("nodeGroups", []))


async def measure(directory: Path, count: int, seconds: int) -> None:
    """Measure all ways, one after the other."""
    async with clients(directory) as (hub, members):
        ways = {
            "without a spread": by_name(hub),
            "with simulation": by_spread(hub, simulates=True, seconds=seconds),
            f"without, critical after {seconds} s": by_spread(
                hub, simulates=False, seconds=seconds
            ),
        }
        tallies = [Tally(f"moves-{RUN}-{number}-", runs) for number in range(len(ways))]
        async with watched(members[1:2], DEPLOYMENTS, *tallies):
            with Process("propagator", directory), Process("controller", directory):
                await asyncio.to_thread(cordon, directory)
                await known(hub)
                base = 0.0
                for (what, send), tally in zip(ways.items(), tallies, strict=True):
                    took = await times(send, tally, count)
                    middle = took[len(took) // 2]
                    base = base or middle
                    told = f"p50 {middle * 1e3:.0f} ms, slowest {took[-1] * 1e3:.0f} ms"
                    print(f"{what}, n={count}: {told}, {middle / base:.1f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--dir", type=Path, help="a playground that is up")
    given = parser.parse_args()
    with playground(given.dir) as directory:
        asyncio.run(measure(directory, given.count, given.seconds))


if __name__ == "__main__":
    main()
