"""Electors as processes on a real API server: killed, stopped, and with the server frozen."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from machinery.clock import SystemClock
from machinery.lease import LeaderElector
from machinery.resources import LEASES, NAMESPACES
from machinery.tasks import end
from machinery.transport import ApiClient


class Elector:
    """A process of `elector_process`; `acts` are (fence, moment)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acts: list[tuple[int, float]] = []
        self.contends = False
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def start(kubeconfig: str, namespace: str, identity: str) -> Elector:
        module = ["-m", "tests.machinery.elector_process"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *module, kubeconfig, namespace, identity, stdout=asyncio.subprocess.PIPE
        )
        elector = Elector(process)
        await until(lambda: elector.contends)
        return elector

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            word, fence, moment = line.decode().split()
            self.contends = True
            if word == "acts":
                self.acts.append((int(fence), float(moment)))

    def send(self, number: signal.Signals) -> float:
        """The moment of the signal."""
        self.process.send_signal(number)
        return time.monotonic()

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading


async def until(condition: Callable[[], Any], seconds: float = 40.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.02)


async def new_namespace(client: ApiClient) -> str:
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "lease-"}})
    return str(made["metadata"]["name"])


@pytest.fixture
async def client(apiserver) -> AsyncIterator[ApiClient]:
    async with ApiClient(apiserver.connection(), name="direct") as client:
        yield client


@pytest.fixture
async def namespace(client) -> str:
    return await new_namespace(client)


@pytest.fixture
async def elector(apiserver, namespace):
    started = []

    async def start(identity: str) -> Elector:
        started.append(await Elector.start(str(apiserver.kubeconfig), namespace, identity))
        return started[-1]

    yield start
    for each in started:
        each.send(signal.SIGCONT) if each.process.returncode is None else None
        await each.stop()


@pytest.mark.proves("W22")
async def test_killed_and_hung_leaders_are_followed_in_time_and_never_doubled(
    elector, client, namespace
):
    a = await elector("a")
    await until(lambda: a.acts)
    b = await elector("b")

    stopped = a.send(signal.SIGSTOP)
    await until(lambda: b.acts)
    assert b.acts[0][1] - stopped < 15
    a.send(signal.SIGCONT)
    await asyncio.sleep(1)
    assert all(moment < stopped + 0.5 for _, moment in a.acts)  # what it had begun, nothing since

    killed = b.send(signal.SIGKILL)
    before = len(a.acts)
    await until(lambda: len(a.acts) > before)
    assert a.acts[before][1] - killed < 15
    assert a.acts[before][1] > b.acts[-1][1]

    turns = [a.acts[0][0], b.acts[0][0], a.acts[before][0]]
    assert turns == sorted(set(turns))
    lease = await client.get(LEASES, "lease", namespace=namespace)
    assert lease["spec"]["leaseTransitions"] == turns[-1]
    assert lease["spec"]["holderIdentity"] == "a"


async def test_a_clean_stop_hands_over_at_once(elector, client, namespace):
    clock = SystemClock()
    ours = LeaderElector(client, namespace=namespace, name="lease", identity="ours", clock=clock)
    leads = asyncio.Event()

    async def lead() -> None:
        leads.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(ours.run(lead))
    await leads.wait()
    b = await elector("b")
    await asyncio.sleep(1)
    assert not b.acts
    stopped = time.monotonic()
    await end([running])
    await until(lambda: b.acts)
    assert b.acts[0][1] - stopped < 4


async def test_a_frozen_server_ends_the_work_and_thawed_it_goes_on(make_cluster):
    cluster = make_cluster("lease-frozen")
    clock = SystemClock()
    terms: list[list[float]] = []

    async with ApiClient(cluster.connection(), name="lease") as client:
        elector = LeaderElector(
            client,
            namespace=await new_namespace(client),
            name="lease",
            identity="a",
            clock=clock,
        )

        async def lead() -> None:
            terms.append([elector.fence])
            try:
                await asyncio.Event().wait()
            finally:
                terms[-1].append(time.monotonic())

        running = asyncio.create_task(elector.run(lead))
        await until(lambda: terms)
        cluster.freeze()
        try:
            frozen = time.monotonic()
            await until(lambda: len(terms[0]) == 2)
            assert terms[0][1] - frozen <= 7.5
            assert not elector.leading
            await asyncio.sleep(4)
            assert len(terms) == 1
        finally:
            cluster.thaw()
        await until(lambda: len(terms) == 2)
        assert terms[1][0] > terms[0][0]
        await end([running])
