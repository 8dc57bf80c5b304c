"""A hostile member costs only itself: each way of being one, beside an honest member, and fifty of them.

The propagator runs as a process of its own, and so does the hostile server; hub and honest member
are real. What passes is said by conditions, by memory and by the process's own steps; how long it took
beside an undisturbed member is printed, and held where it would be many times as long.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, MEMBER_CLUSTERS, NAMESPACES, SECRETS, WORKLOADS
from machinery.errors import AlreadyExists, NotFound
from stowage.playground.controlplanes import Cluster
from tests import patience
from tests.examples import window
from tests.letting_go import let_go
from tests.propagator.conftest import clean, secret
from tests.propagator.members.hostile import Hostile, Mode, hostile
from tests.propagator.stage import DEPLOYMENTS, deployment
from tests.propagator.waits import until

pytestmark = pytest.mark.perf
MIB = 1024 * 1024
MOST_MEMORY = 600
SPACE = "hostile-tests"
AT_ONCE = 4
"""Kinds of hostile members at the same time."""
WORST = (Mode.BOMB, Mode.FLOOD, Mode.HANG, Mode.WORDS)
"""One that fills memory, one that keeps us busy, one that keeps us waiting, one that says too much.
Each kind by itself is in `test_hostile_link`."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def villain() -> Iterator[Hostile]:
    with hostile() as running:
        yield running


@dataclass
class Scene:
    """The running process, and what is measured of it."""

    hub: ApiClient
    honest: ApiClient
    process: subprocess.Popen[bytes]
    log: Path
    stalls: Stalls
    port: int = 0

    @property
    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text()

    @property
    def listens(self) -> bool:
        """Whether it does; from then on its port is known."""
        found = LISTENING.search(self.said)
        self.port = int(found[1]) if found else 0
        return found is not None

    @property
    def peak(self) -> float:
        """The most memory that it ever had, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    async def lease(self) -> tuple[str, int]:
        spec = (await self.hub.get(LEASES, "stowage-propagator", namespace=SYSTEM_NAMESPACE))[
            "spec"
        ]
        return spec.get("holderIdentity", ""), spec.get("leaseTransitions", 0)

    async def register(self, name: str, data: dict[str, Any]) -> None:
        await self.hub.create(SECRETS, secret(name, data))

    async def unregister(self, name: str) -> None:
        await self.hub.delete(SECRETS, name, namespace=SYSTEM_NAMESPACE)
        with suppress(NotFound):
            await let_go(self.hub, name)

    async def ready(self, name: str) -> dict[str, Any]:
        """The condition Ready, empty before it is there."""
        with suppress(NotFound):
            status = (await self.hub.get(MEMBER_CLUSTERS, name)).get("status", {})
            return next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
        return {}

    async def latency(self, *also: str) -> float:
        """Seconds from the decision to the Deployment on the honest member, the median of some."""
        return statistics.median([await self._one(*also) for _ in range(5)])

    async def _one(self, *also: str) -> float:
        name = f"w{next(_numbers)}"  # whatever an earlier scene left has another one
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"schedulerName": "the-test", "targetDeployment": deployment(name)},
        }
        await self.hub.create(WORKLOADS, body)
        shares = [{"cluster": each, "replicas": 1} for each in ("honest", *also)]
        patch = {"status": {"placements": shares}}
        await self.hub.merge_patch(WORKLOADS, name, patch, namespace=SPACE, subresource="status")
        started = time.monotonic()

        async def there() -> bool:
            with suppress(NotFound):
                await self.honest.get(DEPLOYMENTS, name, namespace=SPACE)
                return True
            return False

        await patience.until(there, seconds=30, every=0.01)  # looked at as often all the time
        took = time.monotonic() - started
        await self.hub.delete(WORKLOADS, name, namespace=SPACE)
        return took

    async def place(self, name: str, namespace: str, cluster: str, **spec: Any) -> None:
        """A Workload on that cluster."""
        body = {
            "apiVersion": "stowage.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulerName": "x", "targetDeployment": deployment(name), **spec},
        }
        await self.hub.create(WORKLOADS, body)
        patch = {"status": {"placements": [{"cluster": cluster, "replicas": 1}]}}
        await self.hub.merge_patch(
            WORKLOADS, name, patch, namespace=namespace, subresource="status"
        )

    async def propagated(self, name: str, namespace: str) -> float:
        """Seconds until the hub is told that all of a new Workload is on the member `same`."""
        started = time.monotonic()
        await self.place(name, namespace, "same")

        async def said() -> bool:
            found = await self.hub.get(WORKLOADS, name, namespace=namespace)
            conditions = found["status"].get("conditions", [])
            return any(c["type"] == "Propagated" and c["status"] == "True" for c in conditions)

        await until(said, seconds=60, every=0.05)
        took = time.monotonic() - started
        await self.hub.delete(WORKLOADS, name, namespace=namespace)
        return took

    async def longest_step(self) -> float:
        """For how long one step of its loop held up all others, in the last minute or two."""
        return max((value for name, value in await self._metrics() if name == STEP), default=0.0)

    async def refused(self) -> dict[str, float]:
        """What was not taken, by kind."""
        about = "stowage_refused_input_total"
        return {
            name.removeprefix(about): value
            for name, value in await self._metrics()
            if name.startswith(f"{about}{{")
        }

    async def _metrics(self) -> list[tuple[str, float]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/metrics") as answer,
        ):
            lines = (await answer.text()).splitlines()
        read = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return [(name, float(value)) for name, _, value in read]


LISTENING = re.compile(r"listening on \S+:(\d+)")
STEP = "stowage_loop_longest_step_seconds"
MOST_SILENCE = 5.0
MOST_STALL = 2.0
"""On a machine where this test stood still for longer itself, nobody can be blamed for a lease."""


class Stalls:
    """How long this test's own loop was held up: as long as anybody's may be on this machine."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.02)
            self.longest = max(self.longest, time.monotonic() - began)


@contextmanager
def running(hub: Cluster, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Asked to end, it does so by itself."""
    command = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
    env = {**os.environ, "KUBECONFIG": str(hub.kubeconfig)}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=120)
            finally:
                process.kill()


@asynccontextmanager
async def scene(hub: Cluster, m1: Cluster, log: Path) -> AsyncIterator[Scene]:
    """The propagator with one honest member, ready. It leads from then on to the end."""
    clean(hub)
    async with ApiClient(hub.connection()) as client, ApiClient(m1.connection()) as honest:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        with suppress(AlreadyExists):
            await client.create(NAMESPACES, space)
        with running(hub, log) as process:
            there = Scene(client, honest, process, log, Stalls())
            await until(lambda: there.listens, seconds=60)
            await there.register("honest", {"kubeconfig": m1.admin_kubeconfig})
            await until(_ready(there, "honest"), seconds=60)
            await there.latency()  # warm
            held, watching = await there.lease(), asyncio.create_task(there.stalls.watch())
            try:
                yield there
            finally:
                watching.cancel()
                print(there.said[-2000:])
            kept = await there.lease() == held
            assert kept or there.stalls.longest > MOST_STALL, "the lease is kept"
            assert there.peak < MOST_MEMORY
            said = there.said
            assert [line for line in said.splitlines() if "Traceback" in line][:1] == []
            assert "\x1b" not in said
            assert len(said) < 5 * MIB
    clean(hub)


@pytest.mark.proves("S5", "S10")
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(WORST, id="worst"),
        pytest.param(tuple(Mode), id="all"),
    ],
)
async def test_each_kind_of_hostile_member_costs_only_itself(
    hub: Cluster, m1: Cluster, villain: Hostile, tmp_path: Path, kinds: tuple[Mode, ...]
) -> None:
    """A few kinds at a time; HOSTILE=bomb,flood tries these, one after the other."""
    asked = [[Mode(each)] for each in os.environ.get("HOSTILE", "").split(",") if each]
    ratios, besides = [], []
    async with scene(hub, m1, tmp_path / "log") as there:
        for modes in asked or batched(kinds, AT_ONCE):
            before = await there.latency()
            for mode in modes:
                await there.register(mode.value, villain.secret_data(mode))
            for mode in modes:
                await until(_told(there, mode.value), seconds=60)
            beside = await there.latency(*modes)
            step, own = await there.longest_step(), there.stalls.longest
            besides.append(beside)
            print(
                f"{', '.join(modes)}: {before * 1000:.0f} ms, {beside / before:.2f} x, longest step"
                f" {step * 1000:.0f} ms beside {own * 1000:.0f} ms, peak {there.peak:.0f} MiB"
            )
            for mode in modes:
                print(f"  {mode}: {(await there.ready(mode.value)).get('message', '')[:90]}")
                await there.unregister(mode.value)
            assert step < max(MOST_SILENCE, 5 * own), modes
            # A machine that others have begun to use meanwhile is as slow without them.
            ratios.append(beside / max(before, await there.latency()))
        print(await there.refused())
        near = statistics.median(ratios) < 4 or statistics.median(besides) < 1.0
        assert near, "printed: mostly near 1"


def batched(modes: Iterable[Mode], size: int) -> list[list[Mode]]:
    each = list(modes)
    return [each[start : start + size] for start in range(0, len(each), size)]


@pytest.mark.proves("S3", "R7")
async def test_what_hangs_of_one_tenant_holds_up_no_other_on_the_same_member(
    hub: Cluster, m1: Cluster, villain: Hostile, tmp_path: Path
) -> None:
    """Every request for the namespace `evil`, and every question for its kinds, hangs there."""
    evil = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}}
    async with scene(hub, m1, tmp_path / "log") as there:
        with suppress(AlreadyExists):
            await there.hub.create(NAMESPACES, evil)
        await there.register("same", villain.secret_data(Mode.SELECTIVE))
        await until(_ready(there, "same"), seconds=30)
        before = await there.propagated("good-0", SPACE)
        for number in range(40):
            more = [
                {
                    "apiVersion": f"evil-{number}.example/v1",
                    "kind": "Odd",
                    "metadata": {"name": "a"},
                },
                *(
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{n}"}}
                    for n in range(60)
                ),
            ]
            await there.place(f"evil-{number}", "evil", "same", manifests=more)
        await asyncio.sleep(window(5, short=2))
        took = [await there.propagated(f"good-{n}", SPACE) for n in range(1, 6)]
        print(f"beside what hangs: {before:.2f} s, then {statistics.median(took):.2f} s")
        assert max(took) < 60, "it took minutes where all connections could be held"
        await asyncio.sleep(window(10, short=2))
        assert (await there.ready("same"))["status"] == "True"
        for number in range(40):
            await there.hub.delete(WORKLOADS, f"evil-{number}", namespace="evil")
        await there.unregister("same")

        async def gone() -> bool:
            return not (await there.hub.list(WORKLOADS, namespace="evil"))["items"]

        await until(gone, seconds=60)


@pytest.mark.proves("S5")
async def test_fifty_members_whose_lists_never_end_fill_no_memory(
    hub: Cluster, m1: Cluster, villain: Hostile, tmp_path: Path
) -> None:
    async with scene(hub, m1, tmp_path / "log") as there:
        before = await there.latency()
        for number in range(50):
            await there.register(f"pages-{number}", villain.secret_data(Mode.ENDLESS_PAGES))

        async def full() -> bool:
            return any(n and "list" in kind for kind, n in (await there.refused()).items())

        # On a busy machine probes wait behind the pages until links end, and the lists with them.
        with suppress(TimeoutError):
            async with asyncio.timeout(120):
                await until(full, seconds=150)
        await asyncio.sleep(window(60, short=5))
        beside, refused = await there.latency(), await there.refused()
        print(
            f"pages: {before * 1000:.0f} ms, {beside / before:.2f} x, peak {there.peak:.0f} MiB,"
            f" {refused}"
        )


def _told(there: Scene, name: str) -> Callable[[], Any]:
    """Until its MemberCluster says anything."""

    async def told() -> bool:
        return bool(await there.ready(name))

    return told


def _ready(there: Scene, name: str) -> Callable[[], Any]:
    """Until its MemberCluster is ready."""

    async def ready() -> bool:
        return (await there.ready(name)).get("status") == "True"

    return ready
