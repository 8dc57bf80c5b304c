"""A hub that is away for a while, beside a propagator that begins: what both cost members and hub.

    uv run python -m benchmarks.outage [--members 200] [--away 15]

The hub is a real API server, the members are simulated (`benchmarks.simulated_members`), one
Workload on each. The hub's API server is frozen for so many seconds; when it goes on, each Workload
gets another number of replicas, and the measurement ends when the last one has arrived. Then the
propagator ends, each Workload gets another number again, and a new propagator starts. Prints for
both the seconds and the requests until then, and their ratios. After `--away 600` the hub may have
forgotten its history.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchmarks.ground import SPACE, Process, spent, workload
from benchmarks.members import POLICIES_SECONDS, Fleet, fleet, resident, until
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from propagator.hub.watched_kinds import LATE_SECONDS
from tests.propagator.stage import counted

HUB_RESOURCES = frozenset({"workloads", "memberclusters", "workloadgroups", "secrets"})
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 900.0
CREATORS = 16
SETTLE_SECONDS = LATE_SECONDS + 15.0
"""The wait after all is Ready until the propagator has written all statuses, and has searched each
member for the second time: that lists the usual kinds, with an outage and without one."""


@dataclass(frozen=True)
class Asked:
    """The requests that members and hub have answered so far, by verb and resource."""

    members: Counter[str]
    hub: Counter[str]

    def __sub__(self, other: Asked) -> Asked:
        return Asked(self.members - other.members, self.hub - other.hub)


class Ground:
    """The servers, and the requests and writes of this benchmark."""

    def __init__(self, servers: Fleet, hub: ApiClient, count: int) -> None:
        self.servers, self.hub, self.count = servers, hub, count

    async def members(self) -> Counter[str]:
        """Return the requests that all members have answered so far."""
        url = f"https://127.0.0.1:{self.servers.port}/"
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.get(url) as answer,
        ):
            return Counter(json.loads(await answer.read()))

    async def asked(self) -> Asked:
        """Return all requests, without this benchmark's reads of single objects."""
        hub = await counted(self.hub, HUB_RESOURCES)
        return Asked(
            await self.members(), Counter({" ".join(of): number for of, number in hub.items()})
        )

    async def place(self, units: int) -> None:
        """Give each Workload so many replicas."""
        gate = asyncio.Semaphore(CREATORS)

        async def one(number: int) -> None:
            async with gate:
                placements = [{"cluster": f"m{number}", "replicas": units}]
                patch = {"status": {"placements": placements}}
                where: dict[str, Any] = {"namespace": SPACE, "subresource": "status"}
                await self.hub.merge_patch(WORKLOADS, f"w-{number}", patch, **where)

        await asyncio.gather(*(one(number) for number in range(self.count)))

    async def well(self, before: Asked) -> float:
        """Return the seconds until each member was written to once more."""
        started, written = time.monotonic(), before.members["WRITE deployments"] + self.count
        while (await self.members())["WRITE deployments"] < written:
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise SystemExit("not all members were written to in time")
            await asyncio.sleep(LOOK_SECONDS)
        return time.monotonic() - started


async def measure(servers: Fleet, members: int, away: float) -> None:
    """Measure both, one after the other."""
    async with ApiClient(servers.hub.connection(), timeout=60) as hub:
        ground = Ground(servers, hub, members)
        await asyncio.sleep(POLICIES_SECONDS)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        await hub.create(NAMESPACES, space)
        for number in range(members):
            await hub.create(SECRETS, servers.secret(f"m{number}"))
            await hub.create(WORKLOADS, workload(f"w-{number}", schedulerName="benchmark"))
        with Process("propagator", servers.folder) as process:
            await until(hub, MEMBER_CLUSTERS, "Ready", members)
            await ground.place(1)
            await until(hub, WORKLOADS, "Ready", members)
            await asyncio.sleep(SETTLE_SECONDS)
            print(f"{members} members, a Workload on each: {resident(process):.0f} MiB")
            outage = await back(ground, process, away)
        cold = await begun(ground)
    tell(f"a hub that was away for {away:g} s", outage)
    tell("a propagator that begins", cold)
    for name in ("LIST", "WATCH", "GET"):
        ratio(f"{name} of members", outage[1].members, cold[1].members, name)
        ratio(f"{name} of the hub", outage[1].hub, cold[1].hub, name)


async def back(ground: Ground, process: Process, away: float) -> tuple[float, Asked, float]:
    """Freeze the hub, and thaw it; return seconds, requests and CPU from then on."""
    before = await ground.asked()
    ground.servers.hub.freeze()
    await asyncio.sleep(away)
    meanwhile = await ground.members() - before.members
    print(f"while it was away members were asked {dict(kinds(meanwhile))}")
    own = spent(process.pid)
    before = Asked(await ground.members(), before.hub)
    ground.servers.hub.thaw()
    await ground.place(2)
    seconds = await ground.well(before)
    return seconds, await ground.asked() - before, spent(process.pid) - own


async def begun(ground: Ground) -> tuple[float, Asked, float]:
    """Start a propagator; return the same."""
    before = await ground.asked()
    await ground.place(3)
    with Process("propagator", ground.servers.folder) as process:
        seconds = await ground.well(before)
        return seconds, await ground.asked() - before, spent(process.pid)


def kinds(asked: Counter[str]) -> Counter[str]:
    """Return the requests by verb alone."""
    found: Counter[str] = Counter()
    for name, number in asked.items():
        found[name.partition(" ")[0]] += number
    return found


def tell(what: str, found: tuple[float, Asked, float]) -> None:
    seconds, asked, own = found
    print(f"{what}: all is well after {seconds:.1f} s, {own:.1f} s of CPU")
    print(f"  members {dict(kinds(asked.members))}")
    print(f"  hub     {dict(kinds(asked.hub))}")


def ratio(what: str, outage: Counter[str], cold: Counter[str], verb: str) -> None:
    one, other = kinds(outage)[verb], kinds(cold)[verb]
    part = f"{one / other:.3f}" if other else "-"
    print(f"  {what:<18}{one:6} of {other:6}: {part}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--away", type=float, default=15.0, help="seconds")
    given = parser.parse_args()
    with fleet() as servers:
        asyncio.run(measure(servers, given.members, given.away))


if __name__ == "__main__":
    main()
