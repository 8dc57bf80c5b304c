"""WorkloadQuotas: their cost for a decision, and the decisions after one of them is raised.

    uv run python -m benchmarks.quotas

A thousand clusters. The first lines are one decision each, the median and the 99th percentile in
milliseconds: without any quota, beside a thousand quotas of other namespaces, in a namespace with
one that lets it in, with ten, and with one that keeps it out. The ratio is that to the first line.
Then the queue, the ledgers and the plugins of a controller, with 100 clusters and without a hub:
10,000 Workloads of one namespace wait for its quota while 1,000 of another wait for theirs. The
first quota is raised for one Workload, and then for all of them. The lines give the processor time
until these have clusters, the number of decisions on the other namespace meanwhile, and the longest
step of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import msgspec

from benchmarks.decide import times
from benchmarks.fleets import clusters
from benchmarks.reservations import workload
from controller import catalogue
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.eventhandlers import known
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import WorkloadQuota, compile_quota
from controller.features.workloadquota.feature import WorkloadQuotas
from controller.framework.events import Action
from controller.model.objects import Workload
from controller.queue.scheduling_queue import Rank, SchedulingQueue
from controller.queue.unschedulable import Hints
from controller.scheduling.cycle import decide
from controller.snapshot.builder import SnapshotBuilder
from crds.names import DEFAULT_SCHEDULER
from machinery import loopwatch
from machinery.clock import SystemClock
from machinery.types.metadata import Key
from stowage.simulation.rehearsal import Rehearsal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE, ROUNDS = 1000, 300
WAITING = {"shop": 10_000, "apart": 1_000}
MANY = WAITING["shop"]
FLEET = clusters(100)


def quota(name: str, namespace: str, **hard: int) -> WorkloadQuota:
    """Return a quota of these amounts."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    amounts = {each.replace("_", "."): str(n) for each, n in hard.items()}
    return msgspec.convert({"metadata": meta, "spec": {"hard": amounts}}, WorkloadQuota)


def line(title: str, quotas: list[WorkloadQuota], base: float = 0.0) -> float:
    """Print one decision on a Workload of the namespace shop; return the median."""
    rehearsal = Rehearsal(
        {DEFAULT_SCHEDULER: default_profile()},
        clusters=clusters(SIZE),
        workloads=[workload("demo", 10)],
        objects=quotas,
        now=NOW,
    )
    p50, p99 = times(partial(rehearsal.once, ("shop", "demo")), ROUNDS)
    ratio = f"  ratio {p50 / base:5.2f}" if base else ""
    print(f"{SIZE:5} clusters  {title:44}  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms{ratio}")
    return p50


def decisions() -> None:
    base = line("no quota in the fleet", [])
    others = [quota("team", f"tenant-{n}", units=5, requests_cpu=9) for n in range(SIZE)]
    line("1,000 quotas of other namespaces", others, base)
    own = quota("team", "shop", units=500, requests_cpu=900)
    line("a quota that lets it in, beside these", [*others, own], base)
    ten = [quota(f"team-{n}", "shop", units=500 + n, requests_cpu=900) for n in range(10)]
    line("ten quotas of its namespace, beside these", [*others, *ten], base)
    line("a quota that keeps half of it out", [*others, quota("team", "shop", units=5)], base)
    line("a quota that keeps all of it out", [*others, quota("team", "shop", units=0)], base)


class Ground:
    """The queue, the ledgers and the plugins of a controller, without a hub to write to.

    Its Workloads are refused by the quotas of two namespaces, and wait as unschedulable.
    """

    holder, clock = "one", SystemClock()

    def __init__(self) -> None:
        self.feature = WorkloadQuotas()
        self.queue = SchedulingQueue(clock=self.clock)
        self._index = PlacementIndex([ReservationLedger(), self.feature.usage])
        builder = SnapshotBuilder()
        for each in FLEET:
            builder.upsert(each)
        self._snapshot = builder.snapshot()
        self.profile = default_profile(catalogue.registry([self.feature]), cast("Any", self))
        self.plugins = self.profile.plugins.values()
        self.feature.attach(cast("Any", self))
        self.hints = Hints(self.profile)
        self.units = {each.info.key: each.info for each in _waiting()}
        self.placed, self.apart, self.longest = 0, 0, 0.0
        for namespace in WAITING:
            self.feature.usage.put_quota(compile_quota(quota("team", namespace, units=0)))
        for info in self.units.values():
            self._index.put(info, {})
            self.decide(info.key)

    def index(self) -> PlacementIndex:
        """Implement `Handle`."""
        return self._index

    def announce(self, kind: str, key: Key, action: Action, old: Any, new: Any) -> None:
        """Implement `Handle`."""
        self.queue.announce(kind, key, action, old, new)

    def controls(self, _plugin: str) -> bool:
        """Implement `Handle`."""
        return True

    def decide(self, key: Key) -> None:
        """Decide one Workload as a worker does, without the write."""
        info = self.units[key]
        self.apart += key[0] == "apart"
        rank = Rank((info.created, key), key, 0)
        found = decide(self._snapshot, info, self._index, self.profile, NOW)
        if found.placements:
            self.units[key] = info.with_present(found.placements)
            self._index.put(info, found.placements)
            self.queue.forget(key)
            self.placed += 1
        else:
            awaits = self.hints.of(found.kept_out_by(), changed=False)
            self.queue.add_unschedulable(rank, info, awaits)

    async def work(self) -> None:
        """Make one decision a step, as workers take turns."""
        while True:
            key = await self.queue.active.get()
            self.decide(key)
            self.queue.active.done(key)
            await asyncio.sleep(0)

    async def raised(self, units: int) -> None:
        """Raise the quota to `units`, and print a line when so many are placed."""
        self.apart, self.longest = 0, 0.0

        def told(_handle: asyncio.Handle, seconds: float) -> None:
            self.longest = max(self.longest, seconds)

        began = time.thread_time()
        with loopwatch.steps(told, now=time.thread_time):
            self.feature.usage.put_quota(compile_quota(quota("team", "shop", units=units)))
            while self.placed < units:  # noqa: ASYNC110 - what it waits for are many decisions
                await asyncio.sleep(0.05)
        print(
            f"{len(FLEET):5} clusters, {MANY} Workloads wait, the quota lets in {units:6}: placed "
            f"in {time.thread_time() - began:6.2f} s of processor time, {self.apart} decisions of "
            f"the other namespace, longest step {self.longest * 1000:5.1f} ms"
        )


async def giving_way() -> None:
    ground = Ground()
    gc.collect()
    gc.freeze()
    tasks = [asyncio.create_task(ground.queue.run()), asyncio.create_task(ground.work())]
    await asyncio.sleep(0.5)
    await ground.raised(1)
    await ground.raised(MANY)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _waiting() -> Iterator[Workload]:
    for namespace, waiting in WAITING.items():
        for number in range(waiting):
            made = workload(f"w-{number}", 1)
            meta = msgspec.structs.replace(made.metadata, namespace=namespace)
            yield known(msgspec.structs.replace(made, metadata=meta, info=None))


def main() -> None:
    decisions()
    asyncio.run(giving_way())


if __name__ == "__main__":
    main()
