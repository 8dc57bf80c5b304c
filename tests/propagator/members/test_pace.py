"""A large fleet costs its hub and its process no more requests a second than a middling one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crds.membercluster import ReadyReason, SweepHeldReason
from machinery import metrics
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.runtime.informer import Informer
from machinery.tasks import end
from machinery.types.conditions import find
from machinery.types.metadata import Meta
from propagator.hub.cluster_status import WRITES_PER_SECOND, Cause, ClusterStatusWriter
from propagator.members.capacity.kept import Node
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.health import CONNECTED, Contact, HealthProbe, Probe, unreachable
from propagator.members.held_sweep import HeldSweep
from propagator.members.pod_index import PodIndex
from propagator.members.served_kinds import KindsOfMember
from propagator.settings import SessionSettings, paced
from propagator.types.cluster import MemberCluster
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context

MEMBERS = 200
CHANGES = 10
"""Of the capacity of each member, in a second."""
STEP = 0.1


class Fleet:
    """Members whose capacity changes all the time, and what is written of them."""

    def __init__(self, members: int) -> None:
        self.clock = FakeClock()
        self.hub = MemoryHub(clock=self.clock, admission=False)
        self.names = [f"m{number}" for number in range(members)]
        self.cpus = Counter[str]()
        self.capacity = {name: CapacityLedger() for name in self.names}
        self.sessions = {name: self._session(name) for name in self.names}
        self.told: list[Callable[[str], None]] = []
        for name in self.names:
            self.hub.put(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": {}})

    def _session(self, name: str) -> Any:
        units = PodIndex(clock=self.clock)
        link = SimpleNamespace(
            pod_index=units,
            counted=True,
            measured=True,
            kinds=SimpleNamespace(asked=False),
            quotas=SimpleNamespace(known=False),
            obstacle="",
            provider="kind",
            capacity=self.capacity[name],
            probe=SimpleNamespace(version="v1.36.3"),
            cluster_id=name,
            note=lambda _cluster: {"clusterID": link.cluster_id},
            tenants=None,
            published=units.publish,
        )
        return SimpleNamespace(
            name=name,
            link=link,
            allows=lambda _namespace: True,
            verdict=CONNECTED,
            contact=Contact.SERVING,
            generation=1,
            health=HealthProbe(),
            held=None,
            next_status=0.0,
            has_turn=False,
        )

    @asynccontextmanager
    async def reported(self) -> AsyncIterator[None]:
        clusters = Informer(self.hub, MEMBER_CLUSTERS, MemberCluster, clock=self.clock)
        context: Any = Context(
            hub=self.hub,
            clusters=clusters,
            registry=SimpleNamespace(
                on_facts=self.told.append, get=self.sessions.get, names=lambda: self.names
            ),
            recorder=SimpleNamespace(event=lambda *_, **__: None),
            clock=self.clock,
        )
        publisher = ClusterStatusWriter(context)
        running = [asyncio.create_task(each.run()) for each in (clusters, publisher)]
        try:
            await self.clock.advance(STEP)
            yield
        finally:
            await end(running)

    def change(self, name: str) -> None:
        """Give the member another core."""
        before, self.cpus[name] = self.cpus[name], self.cpus[name] + 1
        self.capacity[name].replace_node(_node(before), _node(before + 1))
        self.told[0](name)

    async def churn(self, seconds: float) -> list[int]:
        """Change all members all the time; the writes of each second."""
        written = []
        for _ in range(round(seconds)):
            before = len(self.hub.writes())
            for _ in range(CHANGES):
                for name in self.names:
                    self.change(name)
                await self.clock.advance(1 / CHANGES)
            written.append(len(self.hub.writes()) - before)
        return written

    async def pass_(self, seconds: float) -> None:
        """Let so much time pass, in small steps."""
        for _ in range(round(seconds / STEP)):
            await self.clock.advance(STEP)

    def stored(self, name: str) -> Any:
        return self.hub.read(MEMBER_CLUSTERS, name)["status"]


def _node(cpus: int) -> Node | None:
    room = (("cpu", cpus * 1000), ("memory", 2**35), ("pods", 110))
    return Node(metadata=Meta(name="n1"), allocatable=room, usable=True) if cpus else None


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(MEMBERS)


def reports() -> Counter[str]:
    """How many a scrape tells, by their cause."""
    name = "stowage_capacity_reports_total"
    return Counter(
        {
            each.value: int(metrics.REGISTRY.get_sample_value(name, {"cause": each.value}) or 0)
            for each in Cause
        }
    )


@pytest.mark.proves("SC23")
async def test_the_capacity_of_all_members_takes_fifty_writes_a_second(fleet: Fleet) -> None:
    async with fleet.reported():
        for name in fleet.names:
            fleet.change(name)
        await fleet.clock.advance(1)
        assert all("nodeGroups" in fleet.stored(name) for name in fleet.names), "at once: Ready"
        written = await fleet.churn(12)
        assert sum(written) <= len(written) * WRITES_PER_SECOND
        assert max(written) <= WRITES_PER_SECOND + 1, "one more at both ends of a second"
        assert sum(written[4:]) >= 8 * WRITES_PER_SECOND * 0.9, "and no less is told than may be"
        last = [int(fleet.stored(name)["capacity"]["allocatable"]["cpu"]) for name in fleet.names]
        assert min(last) >= max(fleet.cpus.values()) - CHANGES * (MEMBERS / WRITES_PER_SECOND + 2)
        await fleet.pass_(3 * MEMBERS / WRITES_PER_SECOND)
        now = {fleet.stored(name)["capacity"]["allocatable"]["cpu"] for name in fleet.names}
        assert now == {str(max(fleet.cpus.values()))}, "the last change of each comes too"


@pytest.mark.proves("SC23")
async def test_what_a_decision_hangs_on_waits_for_nobody(fleet: Fleet) -> None:
    async with fleet.reported():
        for name in fleet.names:
            fleet.change(name)
        await fleet.churn(3)
        lost, moved, held = (fleet.sessions[name] for name in ("m7", "m8", "m9"))
        lost.verdict = unreachable("no answer")
        moved.link.cluster_id = "another"
        held.held = HeldSweep(next(iter(SweepHeldReason)), "many would go", 12)
        before = reports()
        for each in (lost, moved, held):
            fleet.told[0](each.name)
        await fleet.clock.advance(0)
        at_once = reports() - before
        assert at_once == Counter({"Ready": 1, "Identity": 1, "SweepHeld": 1})
        assert find(fleet.stored("m7"), "Ready")["reason"] == ReadyReason.UNREACHABLE
        assert fleet.stored("m8")["clusterID"] == "another"
        assert find(fleet.stored("m9"), "SweepHeld")["status"] == "True"


async def test_a_quiet_member_of_a_large_fleet_is_told_of_at_once() -> None:
    fleet = Fleet(MEMBERS)
    async with fleet.reported():
        for name in fleet.names:
            fleet.change(name)
        await fleet.pass_(3 * MEMBERS / WRITES_PER_SECOND)
        fleet.told[0]("m3")  # a probe was answered
        await fleet.pass_(1.5)
        before = fleet.cpus["m3"]
        fleet.change("m3")
        await fleet.clock.advance(STEP)
        assert fleet.stored("m3")["capacity"]["allocatable"]["cpu"] == str(before + 1)


@pytest.mark.proves("SC23")
@pytest.mark.parametrize(("members", "seconds"), [(1, 5.0), (250, 5.0), (1000, 20.0)])
def test_members_are_looked_at_so_that_many_cost_little(members: int, seconds: float) -> None:
    assert paced(5.0, members) == seconds
    assert SessionSettings().noticed_within(members) == pytest.approx(seconds * 1.2 + 11)


class Member:
    """Answers each probe, and has no kind of its own."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def request(self, _method: str, path: str, **_: Any) -> bytes:
        self.asked[path] += 1
        return b"" if path == "/apis" else b"ok"

    async def version(self) -> str:
        return "v1.36.3"


@pytest.mark.proves("SC23")
@pytest.mark.parametrize(("members", "least", "most"), [(1, 50, 75), (1000, 12, 19)])
async def test_the_pause_follows_the_number_of_members(members: int, least: int, most: int) -> None:
    clock, member = FakeClock(), Member()
    probe = Probe(
        cast("Any", member),
        settings=SessionSettings(),
        clock=clock,
        health=HealthProbe(),
        seen=lambda: None,
        members=lambda: members,
    )
    kinds = KindsOfMember(
        cast("Any", member), clock=clock, notify=lambda: None, members=lambda: members
    )

    async def nothing() -> None:
        return None

    running = [asyncio.create_task(probe.until_lost(nothing)), asyncio.create_task(kinds.run())]
    await clock.advance(300)
    await end(cast("Any", running))
    assert least <= member.asked["/readyz"] <= most
    assert least <= member.asked["/apis"] <= most
