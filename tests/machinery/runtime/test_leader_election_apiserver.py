"""Electors as processes on a real API server: killed, stopped, and with the server frozen."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, NAMESPACES
from tests.patience import until


class Elector:
    """A process of `elector_process`; `acts` are (fence, moment)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acts: list[tuple[int, float]] = []
        self.contends = False
        self._reading = asyncio.create_task(self._read())

    @staticmethod
    async def start(kubeconfig: str, namespace: str, identity: str) -> Elector:
        module = ["-m", "tests.machinery.runtime.elector_process"]
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

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading


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


@pytest.mark.long
@pytest.mark.proves("W22")
async def test_killed_and_hung_leaders_are_followed_and_never_doubled(elector, client, namespace):
    """How soon, is held on a clock of the test's own: these processes share a machine with others."""
    a = await elector("a")
    await until(lambda: a.acts)
    b = await elector("b")

    a.send(signal.SIGSTOP)
    await until(lambda: b.acts)
    a.send(signal.SIGCONT)
    after = len(a.acts) + len(b.acts)
    await until(lambda: len(a.acts) + len(b.acts) >= after + 10)
    b.send(signal.SIGKILL)
    before = len(a.acts)
    await until(lambda: len(a.acts) > before)

    fences = [fence for fence, _ in sorted([*a.acts, *b.acts], key=lambda act: act[1])]
    assert fences == sorted(fences), "nobody acts once another does"
    assert not {fence for fence, _ in a.acts} & {fence for fence, _ in b.acts}
    assert len(set(fences)) >= 3
    lease = await client.get(LEASES, "lease", namespace=namespace)
    assert lease["spec"]["leaseTransitions"] == fences[-1]
    assert lease["spec"]["holderIdentity"] == "a"
