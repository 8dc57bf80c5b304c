"""From which version of its cluster on the units of a share count: what is written, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from machinery.api.resources import DEPLOYMENTS, MEMBER_CLUSTERS
from machinery.kinds.builtin import DEPLOYMENT
from machinery.runtime.informer import Informer
from machinery.types.metadata import Meta
from propagator.hub.cluster_status import PERIOD, ClusterStatusWriter
from propagator.members.capacity.kept import Node, Pod
from propagator.members.capacity.ledger import CapacityLedger
from propagator.members.health import CONNECTED, Contact, HealthProbe
from propagator.members.objects import managed
from propagator.members.pod_index import PodCounts, PodIndex
from propagator.members.pods import Main, PodClaim
from propagator.outcome import DesiredShare
from propagator.status.cluster_share import share_of
from propagator.status.observed_share import ObservedShare
from propagator.types.cluster import MemberCluster
from tests.fakeclock import FakeClock
from tests.memoryhub import MemoryHub
from tests.propagator.contexts import Context

pytestmark = pytest.mark.proves("L12")
MAIN = Main("u1", "demo", "apps", "Deployment", "web")
ROOM = (("cpu", 8000), ("memory", 2**35), ("pods", 110))


def claim(digest: str = "one") -> PodClaim:
    return PodClaim("u1", "demo", "apps", "ReplicaSet", f"web-{digest}", digest)


def pod(name: str, digest: str = "one") -> Pod:
    asks = (("cpu", 500),)
    return Pod(metadata=Meta(name=name), claim=claim(digest), node="n1", requests=asks)


class Units(PodIndex):
    """Pods come and go by name."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock())
        self.pods: dict[str, Pod] = {}

    def run(self, *names: str, digest: str = "one") -> None:
        for name in names:
            self.pods[name] = pod(name, digest)
            self.replace(None, self.pods[name])

    def end(self, *names: str) -> None:
        for name in names:
            self.replace(self.pods.pop(name), None)

    def told(self, version: int | None) -> tuple[int | None, int | None]:
        """(scheduled, since which version) when the hub has the capacity as it is now."""
        self.publish(self.placed(), version)
        counts = self.counts(MAIN)
        return counts.scheduled, counts.capacity_version


def test_the_version_is_the_first_that_counts_so_many() -> None:
    units = Units()
    assert units.counts(MAIN).capacity_version is None, "no capacity has been told of"
    units.run("a", "b")
    assert units.told(10) == (2, 10)
    assert units.told(11) == (2, 10), "another version, the same pods"
    units.run("c")
    assert units.counts(MAIN).capacity_version == 10, "the third is in no capacity yet"
    assert units.told(12) == (3, 12)
    units.end("a")
    assert units.told(13) == (2, 12), "one less was counted before too"
    units.run("d", digest="two")
    assert units.told(14) == (3, 14), "the newest of all templates"
    units.end("b", "c", "d")
    assert units.told(15) == (0, None), "nothing is counted from any version on"
    units.run("e")
    assert units.told(16) == (1, 16)


def test_a_hub_that_was_set_back_or_whose_versions_are_no_numbers() -> None:
    units = Units()
    units.run("a")
    assert units.told(1000) == (1, 1000)
    assert units.told(20) == (1, 20), "no version that the hub has not come to"
    assert units.told(None) == (1, None)
    assert units.told(30) == (1, 30)


SAID: Mapping[str, Any] = {
    "name": "m1",
    "replicas": 3,
    "scheduled": 3,
    "capacityVersion": 10,
    "ready": 3,
    "unschedulable": 0,
    "updated": 3,
    "current": 0,
    "finished": 0,
    "observedGeneration": 1,
    "state": "Running",
    "health": "Healthy",
    "message": "",
}


def entry(before: Mapping[str, Any], units: PodCounts | None, *, ready: int = 3) -> Any:
    status = {"readyReplicas": ready, "updatedReplicas": 3}
    seen = ObservedShare(
        name="m1",
        desired=DesiredShare("u1", 1, 3),
        leaving=False,
        contact=Contact.SERVING,
        main=managed(DEPLOYMENTS, {"metadata": {"name": "web"}, "status": status}),
        pods=units,
    )
    return share_of(seen, DEPLOYMENT, before, said=1).entry


def test_the_entry_tells_it_with_the_units() -> None:
    before = {**SAID, "scheduled": 1}
    assert entry(before, PodCounts(3, capacity_version=20)) == {**SAID, "capacityVersion": 20}
    gone = entry(SAID, PodCounts(0))
    assert gone["scheduled"] == 0
    assert "capacityVersion" not in gone


@pytest.mark.parametrize("units", [None, PodCounts(None)])
def test_of_units_that_are_not_known_it_stands(units: PodCounts | None) -> None:
    assert entry(SAID, units, ready=2)["capacityVersion"] == 10


@pytest.mark.parametrize(
    "before",
    [SAID, {key: value for key, value in SAID.items() if key != "capacityVersion"}],
    ids=["after a restart", "of an older propagator, or on a hub with an older schema"],
)
def test_another_version_alone_is_no_news(before: Mapping[str, Any]) -> None:
    now = PodCounts(3, capacity_version=99)
    assert entry(before, now) == before
    assert entry(before, now, ready=2)["capacityVersion"] == 99, "with news it goes along"


@asynccontextmanager
async def publishing(
    hub: MemoryHub, clock: FakeClock, units: Units
) -> AsyncIterator[Callable[[], Any]]:
    """A publisher of one member with those units; what is yielded has it look, and is awaited."""
    capacity = CapacityLedger()
    capacity.replace_node(None, Node(metadata=Meta(name="n1"), allocatable=ROOM, usable=True))
    counted: dict[str, Pod] = {}
    link = SimpleNamespace(
        pod_index=units,
        counted=True,
        measured=True,
        kinds=SimpleNamespace(asked=False),
        quotas=SimpleNamespace(known=False),
        obstacle="",
        provider="kind",
        capacity=capacity,
        probe=SimpleNamespace(version="v1.36.3"),
        cluster_id="c1",
        note=lambda _cluster: {"clusterID": "c1"},
        tenants=None,
        published=units.publish,
    )
    session = SimpleNamespace(
        name="m1",
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
    facts: list[Callable[[str], None]] = []
    clusters = Informer(hub, MEMBER_CLUSTERS, MemberCluster, clock=clock)
    hub.put(MEMBER_CLUSTERS, {"metadata": {"name": "m1"}, "spec": {}})
    context: Any = Context(
        hub=hub,
        clusters=clusters,
        registry=SimpleNamespace(
            on_facts=facts.append, get=lambda name: session, names=lambda: ["m1"]
        ),
        recorder=SimpleNamespace(event=lambda *_, **__: None),
        clock=clock,
    )
    publisher = ClusterStatusWriter(context)

    async def look() -> None:
        for name in counted.keys() | units.pods.keys():
            old, new = counted.pop(name, None), units.pods.get(name)
            capacity.replace_pod(old, new)
            if new is not None:
                counted[name] = new
        facts[0]("m1")
        await clock.advance(2 * PERIOD)

    running = [asyncio.create_task(each.run()) for each in (clusters, publisher)]
    try:
        yield look
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_it_is_the_version_of_the_write_that_tells_the_capacity() -> None:
    clock, units = FakeClock(), Units()
    hub = MemoryHub(clock=clock, admission=False)

    def stored() -> tuple[int, str]:
        body = hub.read(MEMBER_CLUSTERS, "m1")
        (group,) = body["status"]["nodeGroups"]
        return int(body["metadata"]["resourceVersion"]), group["free"]["cpu"]

    async with publishing(hub, clock, units) as look:
        units.run("a", "b")
        await look()
        first, free = stored()
        assert free == "7"
        assert units.counts(MAIN) == PodCounts(2, current=2, capacity_version=first)
        writes = len(hub.writes())
        await look()
        hub.edit(MEMBER_CLUSTERS, "m1", {"metadata": {"labels": {"tier": "gold"}}})
        await look()
        assert len(hub.writes()) == writes, "nothing new costs no write"
        assert units.counts(MAIN).capacity_version == first
        units.run("c")
        assert units.counts(MAIN) == PodCounts(2, current=3, capacity_version=first)
        await look()
        second, free = stored()
        assert (free, second > first) == ("6500m", True)
        assert units.counts(MAIN) == PodCounts(3, current=3, capacity_version=second)
        assert len(hub.writes()) == writes + 1
