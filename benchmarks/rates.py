"""Decisions, applies and whole Workloads a second, each beside raw requests of the same run.

    uv run python -m benchmarks.rates [--count 300] [--burst 500] [--dir PLAYGROUND]

Raw requests are those that one loop of this process sends to the same servers, many at once. Two
figures stand beside each rate of ours. The raw one is of the one request that the process makes in
the end: a status patch, or an apply on a member. The chain is of all requests that the process
cannot do without, with the bodies that ours have and with the watches open; the rest is our own
cost.

- decisions: the controller alone finds everything waiting; beside status patches on the hub.
- objects applied: the propagator alone finds everything placed; beside applies on the members, and
  beside an apply and the status write that reports it.
- at once: both run, and that many Workloads are created; beside the POST, both statuses and the
  apply. With the CPU time of every process, by object, until the last Deployment exists.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ground import (
    RUN,
    SPACE,
    Bill,
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
from machinery.types.conditions import find

AT_ONCE = 32
CONTROLLERS = frozenset(
    {
        *("placements", "desired", "assigned", "pending", "observed", "selector"),
        *("clusterSummary", "clusterRef", "decision", "reasons", "history", "footprint"),
    }
)
"""The fields of the status that the controller writes, beside its condition."""
Send = Callable[[int], Awaitable[Any]]


async def at_once(send: Send, count: int) -> float:
    """Return the requests, or chains of them, a second."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await send(number)

    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(*(one(number) for number in range(count)))
    return count / (loop.time() - started)


def placed(body: Body) -> bool:
    """Return whether the controller has placed it."""
    return bool(body.get("status", {}).get("placements"))


def propagated(body: Body) -> bool:
    """Return whether the propagator has reported its first write."""
    conditions = body.get("status", {}).get("conditions", ())
    return (
        find(body.get("status", {}), "Propagated").get("status") == "True" if conditions else False
    )


class Raw:
    """Plain requests, by a loop that decides nothing and keeps nothing."""

    def __init__(self, hub: ApiClient, members: Sequence[ApiClient], like: Body) -> None:
        self._hub = hub
        self._members = members
        status = like["status"]
        conditions = status["conditions"]
        self._decision = {key: value for key, value in status.items() if key in CONTROLLERS}
        self._decision["conditions"] = [c for c in conditions if c["type"] == "Scheduled"]
        self._report = {key: value for key, value in status.items() if key not in CONTROLLERS}

    async def post(self, name: str) -> None:
        """Create a Workload that no scheduler of ours decides."""
        await self._hub.create(WORKLOADS, workload(name, schedulerName="nobody"))

    async def decide(self, name: str) -> None:
        """Write a status as the controller writes it."""
        await self._status(name, self._decision)

    async def report(self, name: str) -> None:
        """Write a status as the propagator writes it."""
        await self._status(name, self._report)

    async def apply(self, name: str, number: int) -> None:
        """Apply a new Deployment on the members in turn."""
        member = self._members[number % len(self._members)]
        await member.apply(DEPLOYMENTS, deployment(name), name=name, namespace=SPACE)

    async def remove(self, kind: str, number: int) -> None:
        """Delete the Workload of that number, so that no process of ours reads it."""
        name = f"{kind}-{RUN}-{number}"
        await self._hub.merge_patch(
            WORKLOADS, name, {"metadata": {"finalizers": []}}, namespace=SPACE
        )
        await self._hub.delete(WORKLOADS, name, namespace=SPACE)

    async def _status(self, name: str, status: Body) -> None:
        where: Body = {"namespace": SPACE, "subresource": "status"}
        await self._hub.merge_patch(WORKLOADS, name, {"status": status}, **where)


def told(what: str, rate: float, raw: float, raw_name: str, chain: float, chain_name: str) -> None:
    """Print a rate beside the raw one and the chain."""
    print(f"{what}: {rate:.0f}/s")
    print(f"  {rate / raw:.2f} of {raw:.0f} raw {raw_name}/s")
    print(f"  {rate / chain:.2f} of {chain:.0f} plain chains/s ({chain_name})")


async def billed(directory: Path, tally: Tally, count: int, **own: int) -> str:
    """Return the CPU times by process from the first object to the last."""
    bill = Bill(directory)
    await tally.reaches(1)
    bill.begin(**own)
    before = len(tally.times)
    await tally.reaches(count)
    return bill.split(max(count - before, 1))


async def example(hub: ApiClient, directory: Path) -> Body:
    """Return a Workload as it is when both processes are done with it."""
    name = f"example-{RUN}"
    done = Tally(name, propagated)
    async with watched([hub], WORKLOADS, done):
        with Process("propagator", directory), Process("controller", directory):
            await hub.create(WORKLOADS, workload(name))
            await done.reaches(1)
    return await hub.get(WORKLOADS, name, namespace=SPACE)


async def waiting(
    hub: ApiClient, members: Sequence[ApiClient], raw: Raw, directory: Path, count: int
) -> None:
    """Measure each process when everything waits for it at its start."""
    await at_once(lambda n: raw.post(f"raw-{RUN}-{n}"), count)
    patches = await at_once(lambda n: raw.decide(f"raw-{RUN}-{n}"), count)
    applies = await at_once(lambda n: raw.apply(f"raw-{RUN}-{n}", n), count)

    async def write_and_tell(number: int) -> None:
        await raw.apply(f"rawer-{RUN}-{number}", number)
        await raw.report(f"raw-{RUN}-{number}")

    sink = Tally("none")
    async with watched([hub], WORKLOADS, sink), watched(members, DEPLOYMENTS, sink):
        await at_once(lambda n: raw.post(f"rawer-{RUN}-{n}"), count)
        decided = await at_once(lambda n: raw.decide(f"rawer-{RUN}-{n}"), count)
        written = await at_once(write_and_tell, count)
        for kind in ("raw", "rawer"):
            await at_once(partial(raw.remove, kind), count)
    await at_once(lambda n: hub.create(WORKLOADS, workload(f"load-{RUN}-{n}")), count)
    decisions, objects = Tally(f"load-{RUN}-", placed), Tally(f"load-{RUN}-")
    async with watched([hub], WORKLOADS, decisions):
        with Process("controller", directory) as process:
            decided_by = await billed(directory, decisions, count, controller=process.pid)
    told("decisions", decisions.rate(), patches, "status patches", decided, "and a watch")
    print(f"  {decided_by}")
    async with watched(members, DEPLOYMENTS, objects):
        with Process("propagator", directory) as process:
            applied_by = await billed(directory, objects, count, propagator=process.pid)
    told("objects applied", objects.rate(), applies, "applies", written, "an apply and a status")
    print(f"  {applied_by}")


async def burst(
    hub: ApiClient, members: Sequence[ApiClient], raw: Raw, directory: Path, count: int
) -> None:
    """Measure so many Workloads at once, while both processes run."""

    async def chain(number: int) -> None:
        name = f"chain-{RUN}-{number}"
        await raw.post(name)
        await raw.decide(name)
        await raw.apply(name, number)
        await raw.report(name)

    sink = Tally("none")
    async with watched([hub, hub], WORKLOADS, sink), watched(members, DEPLOYMENTS, sink):
        chains = await at_once(chain, count)
        await at_once(partial(raw.remove, "chain"), count)
    loop = asyncio.get_running_loop()
    warm, there, done = (
        Tally(f"warm-{RUN}-"),
        Tally(f"burst-{RUN}-"),
        Tally(f"burst-{RUN}-", propagated),
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(watched(members, DEPLOYMENTS, warm, there))
        await stack.enter_async_context(watched([hub], WORKLOADS, done))
        propagator = stack.enter_context(Process("propagator", directory))
        controller = stack.enter_context(Process("controller", directory))
        for number in range(1, len(members) + 1):
            await hub.create(WORKLOADS, workload(f"warm-{RUN}-{number}", f"member-{number}"))
        await warm.reaches(len(members))
        bill = Bill(directory)
        await bill.rest()
        bill.begin(controller=controller.pid, propagator=propagator.pid)
        started = loop.time()
        await at_once(lambda n: hub.create(WORKLOADS, workload(f"burst-{RUN}-{n}")), count)
        posted = loop.time() - started
        await there.reaches(count)
        took = loop.time() - started
        print(f"{count} at once: {count / took:.0f}/s; all posted after {posted:.1f} s")
        print(f"  {count / took / chains:.2f} of {chains:.0f} plain chains/s")
        print(f"  {bill.split(count)}")
        await done.reaches(count)
        print(f"  all told after {loop.time() - started:.1f} s: {bill.split(count)}")


async def measure(directory: Path, count: int, at_a_time: int) -> None:
    """Take all measurements, one after the other."""
    async with clients(directory) as (hub, members):
        raw = Raw(hub, members, await example(hub, directory))
        await waiting(hub, members, raw, directory, count)
        await burst(hub, members, raw, directory, at_a_time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--burst", type=int, default=500)
    parser.add_argument("--dir", type=Path, help="a playground that is up")
    given = parser.parse_args()
    with playground(given.dir) as directory:
        asyncio.run(measure(directory, given.count, given.burst))


if __name__ == "__main__":
    main()
