"""One member of a fleet is lost: the decisions about what ran there, beside raw status patches.

    uv run python -m benchmarks.loss [--members 100] [--workloads 1000] [--rest 60]

The hub is a real API server, the members are simulated (`benchmarks.simulated_members`); both
processes run. So many Workloads of ten units and three priorities run on one member, the others
then take them as well. First nothing happens for a while: prints the writes on the hub and the part
of a core that each process takes. Then the registration of that member names a port where nothing
listens. Prints the seconds from the first new placement to the last and the rate of these, beside
the rate of plain patches that write the same statuses; the decisions that came before one of a
higher priority; and the longest steps of the controller's loop.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import re
from typing import Any

from benchmarks.ground import SPACE, Body, Process, Tally, deployment, spent, watched, workload
from benchmarks.members import POLICIES_SECONDS, Fleet, fleet, until
from benchmarks.rates import CONTROLLERS, at_once
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from tests.propagator.stage import changes

CONFIGURATION = """\
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
movement: {notReadyTolerationSeconds: 5, maxMoving: 100%}
"""
LOST, UNITS, PRIORITIES = "m0", 10, 3
SETTLE_SECONDS = 75.0
"""Both processes have written all by then; a latency is written after a minute."""
_HELD = re.compile(r"the event loop was held for (\d+\.\d+) s by ([\w.]+)")


def elsewhere(body: Body) -> bool:
    """Return whether all of a Workload has a place, and none on the lost member."""
    status = body.get("status", {})
    placed = {share["cluster"]: share["replicas"] for share in status.get("placements", ())}
    return LOST not in placed and sum(placed.values()) == UNITS


class Ground:
    def __init__(self, servers: Fleet, hub: ApiClient, members: int, workloads: int) -> None:
        self.servers, self.hub = servers, hub
        self.others = [f"m{number}" for number in range(1, members)]
        self.count = workloads

    async def registered(self) -> None:
        await self.hub.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        )
        for name in (LOST, *self.others):
            await self.hub.create(SECRETS, self.servers.secret(name))

    async def open(self, *, others: bool) -> None:
        """Have all members offer any room, the others only where that is said."""
        for name in (LOST, *self.others):
            spec = {"virtual": True, "unschedulable": name != LOST and not others}
            await self.hub.merge_patch(MEMBER_CLUSTERS, name, {"spec": spec})

    async def run(self) -> None:
        """Create the Workloads."""

        async def one(number: int) -> None:
            name = f"w-{number}"
            body = workload(name, replicas=UNITS, priority=number % PRIORITIES)
            body["spec"]["targetDeployment"] = deployment(name, UNITS)
            await self.hub.create(WORKLOADS, body)

        await at_once(one, self.count)

    async def lose(self) -> None:
        endpoint = base64.b64encode(b"https://127.0.0.1:9").decode()
        where: dict[str, Any] = {"namespace": self.servers.secret(LOST)["metadata"]["namespace"]}
        await self.hub.merge_patch(SECRETS, LOST, {"data": {"endpoint": endpoint}}, **where)

    async def raw(self) -> float:
        """Return the plain patches a second that write what the controller wrote."""
        listed = (await self.hub.list(WORKLOADS, namespace=SPACE))["items"]
        bodies = []
        for each in listed:
            status = {k: v for k, v in each["status"].items() if k in CONTROLLERS}
            # Each of them changes something, as the controller's does.
            status["placements"] = [{"cluster": LOST, "replicas": UNITS}]
            bodies.append((each["metadata"]["name"], {"status": status}))

        async def one(number: int) -> None:
            name, body = bodies[number]
            where: dict[str, Any] = {"namespace": SPACE, "subresource": "status"}
            await self.hub.merge_patch(WORKLOADS, name, body, **where)

        async with watched([self.hub], WORKLOADS, Tally("none")):
            return await at_once(one, len(bodies))


async def at_rest(ground: Ground, seconds: float, **processes: int) -> None:
    """Print what an unchanged fleet costs."""
    own = {name: spent(pid) for name, pid in processes.items()}
    before = await changes(ground.hub)
    await asyncio.sleep(seconds)
    written = await changes(ground.hub) - before
    print(f"at rest for {seconds:g} s: {dict(written)} changes on the hub (aim none)")
    for name, pid in processes.items():
        print(f"  {name} {100 * (spent(pid) - own[name]) / seconds:.1f} % of a core")


def inversions(times: dict[str, float]) -> int:
    """Return the Workloads that came before one of a higher priority."""
    found, highest = 0, -1
    for name in sorted(times, key=lambda each: -times[each]):
        priority = int(name.rpartition("-")[2]) % PRIORITIES
        found += priority < highest
        highest = max(highest, priority)
    return found


async def measure(servers: Fleet, given: argparse.Namespace) -> None:
    config = servers.folder / "scheduler.yaml"
    config.write_text(CONFIGURATION)
    async with ApiClient(servers.hub.connection(), timeout=60) as hub:
        ground = Ground(servers, hub, given.members, given.workloads)
        await asyncio.sleep(POLICIES_SECONDS)
        await ground.registered()
        with (
            Process("propagator", servers.folder) as propagator,
            Process("controller", servers.folder, f"--config={config}") as controller,
        ):
            await until(hub, MEMBER_CLUSTERS, "Ready", given.members)
            await ground.open(others=False)
            await ground.run()
            await until(hub, WORKLOADS, "Ready", given.workloads)
            await ground.open(others=True)
            await asyncio.sleep(SETTLE_SECONDS)
            await at_rest(ground, given.rest, controller=controller.pid, propagator=propagator.pid)
            tally, before = Tally("w-", elsewhere), spent(controller.pid)
            log = servers.folder / "bench-controller.log"
            held_before = len(_HELD.findall(log.read_text()))
            async with watched([hub], WORKLOADS, tally):
                await ground.lose()
                await tally.reaches(given.workloads)
            own = (spent(controller.pid) - before) / given.workloads
            held = _HELD.findall(log.read_text())[held_before:]
        raw = await ground.raw()
    first, last = min(tally.times.values()), max(tally.times.values())
    print(f"{given.workloads} Workloads, {given.workloads * UNITS} units: {last - first:.1f} s")
    print(f"  {tally.rate():.0f}/s: {tally.rate() / raw:.2f} of {raw:.0f} raw status patches/s")
    print(f"  CPU for each: controller {own * 1e3:.1f} ms")
    print(f"  before one of a higher priority: {inversions(tally.times)}")
    longest = sorted(held, key=lambda each: -float(each[0]))[:3]
    print(f"  the loop held: {', '.join(' s by '.join(each) for each in longest) or 'never'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds")
    given = parser.parse_args()
    with fleet() as servers:
        asyncio.run(measure(servers, given))


if __name__ == "__main__":
    main()
