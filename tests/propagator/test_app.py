"""The process: one leads, the other waits, and an outage of the hub ends a term and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import aiohttp
import pytest

from crds.names import PROPAGATOR_LEASE
from machinery.api.client import ApiClient
from machinery.api.resources import LEASES, SECRETS, WORKLOAD_KINDS, WORKLOADS
from machinery.errors import LeaseLost
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key, Object
from propagator import leadership
from propagator.app import Propagator
from propagator.members.context import ControllerContext
from propagator.members.session import MemberSession
from propagator.settings import PropagatorSettings
from propagator.shards.concern import Concern
from stowage.playground.controlplanes import Cluster

from .conftest import CALM, clean, secret
from .waits import until

LONG: dict[str, Any] = {"lease_seconds": 60.0, "renew_deadline": 50.0}
"""A term that no busy machine ends; who gives it up has nobody wait for so long."""


class Watching:
    """A controller of Workloads that only looks."""

    made: ClassVar[list[Watching]] = []

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.workloads = Informer(context.hub, WORKLOADS, Object, clock=context.clock)
        self.kinds = SimpleNamespace(
            informer=Informer(
                context.hub, WORKLOAD_KINDS, Object, clock=context.clock, comes_and_goes=True
            ),
            rereading=SimpleNamespace(due=False),
        )
        self.coverage = Concern(lambda _: ())
        self.reconciler = self
        self.running = False
        self.begun: list[bool] = []
        """Of each term, whether nobody else led before it since the last one."""
        self.made.append(self)

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return [self.workloads]

    @property
    def optional(self) -> Sequence[Informer[Any]]:
        return [self.kinds.informer]

    def begin(self, *, alone: bool) -> None:
        self.begun.append(alone)

    async def reconcile(self, session: MemberSession, key: Key) -> float | None:
        return None

    async def run(self) -> None:
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


class Instance:
    """One propagator."""

    def __init__(self, client: ApiClient, **settings: Any) -> None:
        self.task: asyncio.Task[None]
        chosen = {"http_port": 0, "sessions": CALM, "lease_retry": 0.5} | settings
        self.process = Propagator(client, settings=PropagatorSettings(**chosen))

    @property
    def terms(self) -> list[Watching]:
        """The controllers of this propagator, the last one at the end."""
        return [each for each in Watching.made if each.context.recorder is self.process._recorder]

    @property
    def leads(self) -> bool:
        return self.process.term is not None and self.terms[-1].running

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.process.port}{path}") as response,
        ):
            return response.status, await response.text()


async def late_write(context: ControllerContext) -> None:
    await context.hub.delete(WORKLOADS, "nobody", namespace="default")


@asynccontextmanager
async def started(hub: Cluster, **settings: Any) -> AsyncIterator[Instance]:
    async with ApiClient(hub.connection()) as client:
        instance = Instance(client, **settings)
        instance.task = asyncio.create_task(instance.process.run())
        try:
            yield instance
        finally:
            await instance.stop()
            assert instance.task.cancelled()


@pytest.fixture(autouse=True)
def watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watching, "made", [])
    monkeypatch.setattr(leadership, "WorkloadController", Watching)


@pytest.fixture
def bare_hub(hub: Cluster) -> Cluster:
    clean(hub)
    yield hub
    clean(hub)


async def test_the_leader_works_and_tells_how_it_is(bare_hub: Cluster, m1: Cluster):
    """In the namespace of its settings, whose Lease and Secrets alone are its own."""
    bare_hub.kubectl("create", "namespace", "another")
    settings = {"namespace": "another", "identity": "me", **LONG}
    async with (
        started(bare_hub, **settings) as instance,
        ApiClient(bare_hub.connection()) as client,
    ):
        await until(lambda: instance.leads)
        lease = await client.get(LEASES, PROPAGATOR_LEASE, namespace="another")
        assert lease["spec"]["holderIdentity"] == "me"
        data = {"kubeconfig": m1.admin_kubeconfig}
        await client.create(SECRETS, secret("elsewhere", data))
        await client.create(SECRETS, secret("m1", data, namespace="another"))
        registry = instance.process.term.registry
        await until(lambda: registry.get("m1") is not None and registry.get("m1").ready)
        assert registry.names() == ["m1"]
        assert (await instance.get("/healthz"))[0] == 200
        assert await instance.get("/readyz") == (200, "ok")
        status, text = await instance.get("/metrics")
        assert status == 200
        assert "stowage_propagator_leader 1.0" in text
        assert 'stowage_member_sessions{ready="true"} 1.0' in text
        assert 'stowage_member_last_seen_timestamp_seconds{member_cluster="m1"} 1' in text
        assert 'stowage_certificate_expiry_seconds{member_cluster="m1",renewed="false"}' in text
        assert (await instance.get("/nothing"))[0] == 404


async def test_one_leads_and_the_other_takes_over(bare_hub: Cluster, m1: Cluster):
    async with started(bare_hub, **LONG) as first, ApiClient(bare_hub.connection()) as client:
        await client.create(SECRETS, secret("m1", {"kubeconfig": m1.admin_kubeconfig}))
        await until(lambda: first.leads)
        async with started(bare_hub, **LONG) as second:
            async with started(bare_hub, **LONG) as third:
                await until(lambda: second.process.port and third.process.port)

                async def ready() -> bool:
                    asked = [await each.get("/readyz") for each in (second, third)]
                    return asked == [(200, "ok")] * 2

                await until(ready)  # each has asked for the lease, and has seen a renewal
                assert not second.terms
                assert not third.terms
            # The first one stops cleanly and gives the lease up.
            context = first.terms[0].context
            await first.stop()
            assert not first.leads
            assert context.registry.names() == []
            with pytest.raises(LeaseLost):
                await late_write(context)
            await until(lambda: second.leads, seconds=15)
            registry = second.process.term.registry
            await until(lambda: registry.get("m1") is not None and registry.get("m1").ready)


async def test_a_silent_hub_is_not_taken_for_an_empty_one(bare_hub: Cluster):
    async with started(bare_hub, hub_staleness=0.5, **LONG) as instance:
        await until(lambda: instance.leads)
        context = instance.terms[0].context
        await until(lambda: instance.terms[0].workloads.synced)
        await until(lambda: not context.fresh())
        said: list[tuple[int, str]] = []

        async def unready() -> bool:
            said.append(await instance.get("/readyz"))
            return said[-1][0] == 503 and "nothing heard of" in said[-1][1]

        await until(unready, what=lambda: said[-1])
