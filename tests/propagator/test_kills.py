"""A propagator as a process of its own: killed at a bad moment, and measured while it waits."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from crds.names import PROPAGATOR_LEASE, SYSTEM_NAMESPACE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, USUAL
from machinery.errors import NotFound
from stowage.playground.cluster import Cluster
from tests.examples import window
from tests.patience import PATIENCE

from .stage import CONFIGMAPS, MakeStage, Stage, configmap, counted

MEASURED_SECONDS = window(8.0, short=4.0)
MOST_OF_A_CORE = 0.2
"""Ten times what is asked for, and a third of what a loop that burns gets beside others: the machine
is busy with other tests, and their caches are cold."""


class Outside:
    """The propagator of a hub, as `stowage propagator` runs it."""

    def __init__(self, hub: Cluster, client: ApiClient, log: Path) -> None:
        self._client = client
        self._args = [sys.executable, "-m", "stowage", "propagator", "--http-port=0"]
        self._args.append(f"--kubeconfig={hub.kubeconfig}")
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Whoever held the lease is dead: nobody need wait until it falls free."""
        free = {"spec": {"holderIdentity": ""}}
        with suppress(NotFound):
            await self._client.merge_patch(
                LEASES, PROPAGATOR_LEASE, free, namespace=SYSTEM_NAMESPACE
            )
        self.spawn()

    def spawn(self) -> None:
        """Beside whoever holds the lease."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._args, stdout=log, stderr=log)

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30 * PATIENCE)
            self._process = None

    def end(self) -> None:
        """Ask it to end: it gives up its lease, so that nobody waits until that falls free."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60 * PATIENCE)
            finally:
                self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu(self) -> float:
        """Seconds that it has computed."""
        assert self._process is not None
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def outside(stage: Stage, hub: Cluster, tmp_path: Path) -> AsyncIterator[Outside]:
    """That process instead of the one within the test; it has served a Workload when this begins."""
    await stage.stop()
    process = Outside(hub, stage.hub, tmp_path / "propagator.log")
    await process.start()
    try:
        await stage.push("first", within=60)
        yield process
    finally:
        await asyncio.to_thread(process.end)
        stage.start()


@pytest.mark.long
@pytest.mark.proves("R1", "C30")
async def test_what_our_scheduler_placed_is_known_without_a_write_of_the_propagator(
    stage_on: MakeStage, hub: Cluster, m1: Cluster, tmp_path: Path
):
    """Killed with its first request under way; placed elsewhere meanwhile; deleted."""
    async with stage_on() as stage, outside(stage, hub, tmp_path) as process:
        m1.freeze()
        try:
            await stage.create("demo")
            await stage.place("demo", footprint="m1", m1=1)
            await asyncio.sleep(2)  # its request lies in the server that stands still
            process.kill()
            before = await stage.workload("demo")
            assert before is not None
            assert "annotations" not in before["metadata"]
            await stage.place("demo", footprint="m1,m2", m2=1)
            await process.start()
            await stage.appears("m2", "web")
            process.kill()
            await stage.delete("demo")
            await process.start()
            await stage.goes("m2", "web")  # it is at work by then
            await asyncio.sleep(1)
            assert await stage.workload("demo"), "m1 has not said that nothing is left there"
        finally:
            m1.thaw()
        await stage.gone("demo", within=90)
        for member in ("m1", "m2"):
            assert await stage.on(member) is None


@pytest.mark.perf
@pytest.mark.proves("R15", "R4")
async def test_waiting_for_somebody_elses_finalizer_costs_no_time(
    stage_on: MakeStage, hub: Cluster, tmp_path: Path
):
    async with stage_on() as stage, outside(stage, hub, tmp_path) as process:
        await stage.push("demo", manifests=[configmap("held")])
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        member = stage.members["m1"]
        await member.merge_patch(CONFIGMAPS, "held", held, namespace=stage.namespace)
        await stage.delete("demo")
        await stage.refused("demo", "Propagating", "example.com/hold")
        before = process.cpu()
        await asyncio.sleep(MEASURED_SECONDS)
        assert process.cpu() - before < MOST_OF_A_CORE * MEASURED_SECONDS
        free = {"metadata": {"finalizers": None}}
        await member.merge_patch(CONFIGMAPS, "held", free, namespace=stage.namespace)
        await stage.gone("demo")


KILLS = 30
READ = frozenset({"nodes", "pods", *(resource.plural for resource in USUAL)})
"""What a propagator lists on a member."""


@pytest.mark.long
@pytest.mark.usefixtures("steady")
@pytest.mark.proves("N6")
async def test_of_two_replicas_whose_leader_is_killed_each_write_is_made_once(
    stage_on: MakeStage, hub: Cluster, tmp_path: Path
):
    """Who leads lists a member once; who waits, never."""
    async with stage_on() as stage, outside(stage, hub, tmp_path) as first:
        await stage.run("demo", {"m1": 1})
        await stage.becomes("m1", "web", 1, "replicas")
        replicas = {await leader(stage): first}
        before = {name: await asked(client) for name, client in stage.members.items()}
        standby = Outside(hub, stage.hub, tmp_path / "propagator.log")
        standby.spawn()
        try:
            for number in range(KILLS):
                led = await leader(stage)
                replicas.pop(led).kill()
                await stage.place("demo", m1=2 + number)
                next_, standby = standby, Outside(hub, stage.hub, tmp_path / "propagator.log")
                standby.spawn()
                await stage.becomes("m1", "web", 2 + number, "replicas", within=60)
                holder = await leader(stage)
                assert holder != led
                own = next_ if holder.split("_")[1] == str(next_.pid) else standby
                standby = standby if own is next_ else next_
                replicas = {holder: own}
            after = {name: await asked(client) for name, client in stage.members.items()}
        finally:
            for each in (standby, *replicas.values()):
                await asyncio.to_thread(each.end)
        made = {name: after[name] - before[name] for name in stage.members}
        assert {of: n for of, n in made["m1"].items() if of[0] != "LIST"} == {
            ("APPLY", "deployments"): KILLS
        }
        assert {of: n for of, n in made["m2"].items() if of[0] != "LIST"} == {}
        for name in stage.members:
            for kind in ("nodes", "pods"):
                # A watch that is cut asks for the member's moment, by a list of one object.
                assert KILLS <= made[name]["LIST", kind] <= 2 * KILLS


async def asked(client: ApiClient) -> Counter[tuple[str, str]]:
    """What was listed and written there so far."""
    found = await counted(client, READ)
    return Counter({of: n for of, n in found.items() if of[0] not in ("GET", "WATCH")})


async def leader(stage: Stage) -> str:
    """The identity of who holds the lease."""
    lease = await stage.hub.get(LEASES, PROPAGATOR_LEASE, namespace=SYSTEM_NAMESPACE)
    return str(lease["spec"]["holderIdentity"])
