"""WorkloadQuotas: what they cost a decision, and what happens when one of them gives way.

    uv run python -m benchmarks.quotas

A thousand clusters. The first lines are one decision each, the median and the 99th percentile in
milliseconds: without any quota, beside a thousand quotas of other namespaces, in a namespace with
one that lets it in, with ten, and with one that keeps it out. The ratio is that to the first line.

Then a whole controller on a hub in memory: 10,000 Workloads of one namespace wait for its quota
while 1,000 of another wait for theirs. The first quota is raised for one more Workload, and then
for all of them. Told are the seconds until these have clusters, how many of the other namespace
were decided meanwhile, and the longest step of the event loop, in processor time: those of the hub
in memory are left out, which shares the loop here and nowhere else.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec

from benchmarks.decide import times
from benchmarks.fleets import clusters
from benchmarks.reservations import workload
from controller.app import Controller, ControllerSettings
from controller.config import default_profile
from controller.features.workloadquota.objects import WorkloadQuota
from controller.features.workloadquota.plugin import WorkloadQuota as Plugin
from crds.names import DEFAULT_SCHEDULER
from machinery import loopwatch
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_QUOTAS, WORKLOADS
from machinery.clock import SystemClock
from machinery.config.member_kubeconfig import Connection
from stowage.planning.simulator import Rehearsal
from tests.memoryhub import MemoryHub

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZE, ROUNDS = 1000, 300
WAITING = {"shop": 10_000, "apart": 1_000}
MANY = WAITING["shop"]
STEP_SECONDS = 0.05
CONFIGURATION = """
apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
leaderElection: {leaderElect: false}
"""
"""Without a lease: the hub in memory may hold the loop for longer than one lasts."""


def quota(name: str, namespace: str, **hard: int) -> WorkloadQuota:
    """One of these amounts."""
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    amounts = {each.replace("_", "."): str(n) for each, n in hard.items()}
    return msgspec.convert({"metadata": meta, "spec": {"hard": amounts}}, WorkloadQuota)


def line(title: str, quotas: list[WorkloadQuota], base: float = 0.0) -> float:
    """One decision of a Workload of the namespace shop; the median."""
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
    """The lines of one decision."""
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
    """A hub in memory with a fleet, and Workloads that wait for the quotas of two namespaces."""

    def __init__(self, folder: Path) -> None:
        (folder / "scheduler.yaml").write_text(CONFIGURATION)
        self.hub = MemoryHub(clock=SystemClock())
        for each in clusters(SIZE):
            self.hub.put(MEMBER_CLUSTERS, msgspec.to_builtins(each))
        for namespace in WAITING:
            self.hub.put(WORKLOAD_QUOTAS, _document(quota("team", namespace, units=0)))
        settings = ControllerSettings(
            connection=Connection(server="http://memory"),
            config_file=folder / "scheduler.yaml",
            http_port=0,
            identity="one",
        )
        self.controller = Controller(settings, cast("ApiClient", self.hub))
        self.apart = 0
        self.longest: tuple[float, str] = (0.0, "")

    def placed(self) -> int:
        """The Workloads of the first namespace that have a cluster, as stored."""
        return sum(bool(each.placements) for each in self.controller.workloads.values())

    def said(self) -> int:
        """The Workloads whose refusal is stored."""
        return sum(bool(each.status.conditions) for each in self.controller.workloads.values())

    async def fill(self) -> None:
        """Create the Workloads, by and by: the hub in memory has no pages to list them by."""
        for namespace, waiting in WAITING.items():
            for number in range(waiting):
                self.hub.put(WORKLOADS, _workload(f"w-{number}", namespace))
                if number % 50 == 0:
                    self.hub.bookmark()
                    await asyncio.sleep(0.01)

    async def until(self, holds: Callable[[], bool]) -> float:
        """Seconds until it holds."""
        began = time.perf_counter()
        while not holds():  # noqa: ASYNC110 - what it waits for is many objects' doing
            await asyncio.sleep(0.25)
            self.hub.bookmark()
        return time.perf_counter() - began

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the longest step of the controller, and decisions of the other namespace."""
        self.longest, self.apart = (0.0, ""), 0
        real = Plugin.pre_filter

        def counted(plugin: Plugin, state: Any, unit: Any, fleet: Any, bound: Any) -> Any:
            self.apart += unit.namespace == "apart"
            return real(plugin, state, unit, fleet, bound)

        def told(handle: asyncio.Handle, seconds: float) -> None:
            name = loopwatch.name(handle)
            if "benchmarks" not in name and "memoryhub" not in name:
                self.longest = max(self.longest, (seconds, name))

        setattr(Plugin, "pre_filter", counted)  # noqa: B010 - a method for the time of a measure
        try:
            with loopwatch.steps(told, now=time.thread_time):
                yield
        finally:
            setattr(Plugin, "pre_filter", real)  # noqa: B010 - as above

    async def raised(self, units: int, many: int) -> None:
        """The quota lets in so many units: the line of what follows, until so many are placed."""
        with self.watched():
            self.hub.edit(WORKLOAD_QUOTAS, "team", {"spec": {"hard": {"units": str(units)}}})
            took = await self.until(lambda: self.placed() >= many)
            await asyncio.sleep(2)
        seconds, name = self.longest
        print(
            f"{MANY:6} wait, the quota lets in {many:6}: placed after {took:6.2f} s, "
            f"{self.apart} decisions of the other namespace, "
            f"longest step {seconds * 1000:5.1f} ms ({name[:80]})"
        )
        if seconds > STEP_SECONDS:
            print(f"longer than {STEP_SECONDS * 1000:.0f} ms")


async def giving_way(folder: Path) -> None:
    """The lines of a quota that gives way."""
    ground = Ground(folder)
    gc.collect()
    gc.freeze()
    running = asyncio.create_task(ground.controller.run())
    try:
        await ground.until(lambda: running.done() or ground.controller.leading)
        await ground.fill()
        took = await ground.until(lambda: running.done() or ground.said() >= sum(WAITING.values()))
        print(f"{MANY:6} Workloads are refused {took:6.2f} s after the last of them came")
        await asyncio.sleep(12)
        await ground.raised(1, 1)
        await ground.raised(MANY, MANY)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _document(stored: WorkloadQuota) -> dict[str, Any]:
    meta = stored.metadata
    return {
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "spec": stored.spec,
    }


def _workload(name: str, namespace: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}}}
    pods = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": DEFAULT_SCHEDULER,
            "replicas": 1,
            "targetDeployment": {**body, "spec": {"template": pods}},
        },
    }


def main() -> None:
    """Print the lines."""
    decisions()
    with TemporaryDirectory() as folder:
        asyncio.run(giving_way(Path(folder)))


if __name__ == "__main__":
    main()
