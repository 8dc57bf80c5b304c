"""Reservations on a real hub: room is held, used by its owners, and given back."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from controller.features.reservation import status as books
from crds.names import SYSTEM_NAMESPACE
from machinery import metrics
from machinery.api.resources import LEASES, RESERVATIONS
from machinery.clock import SystemClock, parse_timestamp, timestamp
from stowage.report.features import RESERVATIONS as LISTED
from stowage.report.findings import Report
from tests.controller.features.reservation.reserving import (
    owner,
    phase,
    pods,
    ready,
    reserve,
    stored,
    told,
    within,
)
from tests.controller.live import (
    World,
    condition,
    deciding,
    placements,
    policy,
)
from tests.controller.make import REQUIRED
from tests.patience import until

pytestmark = pytest.mark.long


@pytest.fixture
async def one(world: World) -> World:
    """One cluster of 4 cpu."""
    await world.cluster("a", cpu="4")
    return world


@pytest.mark.proves("E29")
async def test_it_expires_and_its_room_comes_back(one: World) -> None:
    async with deciding(one):
        await reserve(one, ttl="1h")
        await phase(one, "Available")
        await one.workload("stranger", cpu="1")
        await one.refused("stranger", "InsufficientCapacity")
        born = parse_timestamp((await stored(one))["metadata"]["creationTimestamp"])
        ttl = math.ceil((datetime.now(UTC) - born).total_seconds()) + 2
        await one.client.merge_patch(
            RESERVATIONS, "room", {"spec": {"ttl": f"{ttl}s"}}, namespace=one.namespace
        )
        assert await one.placed("stranger") == {"a": 1}
        placed = (await one.get("stranger"))["status"]["decision"]["time"]
        assert parse_timestamp(placed) - born >= timedelta(seconds=ttl)
        said = await phase(one, "Failed")
        assert ready(said) == ("False", "Expired")
        (note,) = await told(one, "Expired")
        assert "it held until" in note
        assert said["observedGeneration"] == 2


class _Wrong(SystemClock):
    """A clock that was set."""

    ahead = timedelta(hours=1)

    def now(self) -> datetime:
        return super().now() + self.ahead


async def _says(world: World, reason: str) -> None:
    """Return once Ready has that reason."""

    async def so() -> bool:
        status = (await stored(world)).get("status", {})
        return bool(status.get("conditions")) and ready(status)[1] == reason

    await until(so)


@pytest.mark.proves("N13")
async def test_nothing_ends_for_good_while_the_clocks_differ(
    one: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "CLOCKS_SECONDS", 0.2)
    clock = _Wrong()
    async with deciding(one, clock=clock):
        await reserve(one, ttl="30m")  # as the hub counts, whose clock is the leader's as well
        await _says(one, "Available")
        soon = timestamp(datetime.now(UTC) + timedelta(seconds=2))
        spec = {"spec": {"expires": soon}}
        await one.client.merge_patch(RESERVATIONS, "room", spec, namespace=one.namespace)
        await _says(one, "ClocksDiffer")
        said = (await stored(one))["status"]
        assert said["phase"] == "Available"
        assert placements({"status": said}) == {"a": 1}
        (note,) = await told(one, "ClocksDiffer")
        assert "the controller's clock is more than 30 s ahead of the hub's" in note
        ahead = metrics.REGISTRY.get_sample_value("stowage_hub_clock_ahead_seconds")
        assert ahead == pytest.approx(3600, abs=30)
        report = Report()
        told_of = msgspec.convert(await stored(one), LISTED.type_)
        LISTED.take(report, [told_of], datetime.now(UTC))
        assert [m.state for m in report.findings[LISTED.name] if m.urgent] == ["ClocksDiffer"]

        clock.ahead = timedelta()
        assert ready(await phase(one, "Failed")) == ("False", "Expired")


async def test_who_waits_is_looked_at_when_a_reservation_comes(world: World) -> None:
    await world.cluster("a", cpu="4")
    apart = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "stowage.dev/cluster"}
    async with deciding(world):
        await world.workload("db")
        await world.placed("db")
        await world.workload("demo", cpu="1", workloadAntiAffinity={REQUIRED: [apart]})
        await world.refused("demo", "FailedToSchedule")
        await reserve(world, requests={"cpu": "1"}, owners=[owner("other")])
        await phase(world, "Available")
        await world.client.merge_patch(
            RESERVATIONS, "room", {"spec": {"owners": [owner()]}}, namespace=world.namespace
        )
        await within(world, "demo", a=1)


@pytest.mark.proves("E26")
async def test_a_cluster_that_is_used_up_by_others_is_told(one: World) -> None:
    async with deciding(one):
        await reserve(one)
        await phase(one, "Available")
        await one.report("a", cpu="1")
        (note,) = await told(one, "Short")
        assert note == "a has 1 cpu free where 4 is held"
        assert ready((await stored(one))["status"]) == ("False", "Short")
        await one.report("a", cpu="4")
        await until(lambda: _ready(one))


async def _ready(world: World) -> bool:
    return ready((await stored(world))["status"]) == ("True", "Available")


async def test_a_policy_counts_what_is_reserved(world: World) -> None:
    zone = {"topology.kubernetes.io/zone": "host"}
    await world.cluster("a", cpu="8", labels=zone)
    await policy(world, {"matchLabels": {"team": "x"}}, host=3)
    bound = {"stowage.dev/workload-policy": "demo", "team": "x"}
    template = {**pods(cpu="1"), "metadata": {"labels": bound}}
    async with deciding(world):
        await reserve(world, replicas=5, template=template)
        said = await phase(world, "Available", assigned=3, pending=2)
        assert condition(said, "Scheduled")["reason"] == "ReplicasReached"


async def _leader(world: World) -> str:
    about = {"namespace": SYSTEM_NAMESPACE}
    lease = await world.client.get(LEASES, "stowage-controller", **about)
    return str(lease["spec"]["holderIdentity"])
