"""The framework carries a feature that it does not know: licence pools, on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from controller import catalogue
from controller.app import Controller
from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.record import record
from controller.planner.webster import MAX_REPLICAS
from controller.scheduling.cycle import decide
from machinery.api.resources import WORKLOADS
from stowage.setup import install as installer
from tests import inforce
from tests.controller.licencepool.feature import (
    NAME,
    PARTNER_LABEL,
    POOL_LABEL,
    POOLS,
    LicencePool,
    LicencePools,
    LicenceSeats,
    Seats,
)
from tests.controller.live import World, condition, deciding, placements
from tests.controller.make import NOW, cluster, info, snapshot
from tests.definitions import definition
from tests.patience import until

CRD = definition(POOLS)
POOL = {POOL_LABEL: "cad"}


@pytest.fixture
async def offices(world: World) -> AsyncIterator[World]:
    """A hub that has the kind, and two clusters."""
    await installer.apply(world.client, [CRD], say=lambda _: None)
    await inforce.served(world.client, POOLS)
    for name in ("a", "b"):
        await world.cluster(name)
    yield world
    for each in (await world.client.list(POOLS, namespace=world.namespace))["items"]:
        await world.client.delete(POOLS, each["metadata"]["name"], namespace=world.namespace)


async def pool(world: World, seats: int, **spec: int) -> None:
    """A pool of so many seats, new or with another number."""
    meta = {"name": "cad", "namespace": world.namespace}
    body = {"apiVersion": POOLS.api_version, "kind": POOLS.kind, "metadata": meta}
    about: dict[str, Any] = {"name": "cad", "namespace": world.namespace, "force": True}
    await world.client.apply(POOLS, {**body, "spec": {"seats": seats, **spec}}, **about)


async def books(world: World) -> dict[str, Any]:
    """What the pool says of itself."""
    found = await world.client.get(POOLS, "cad", namespace=world.namespace)
    return dict(found.get("status", {}))


async def told(world: World, taken: int) -> dict[str, Any]:
    """The books, as soon as so many seats are taken."""
    latest: dict[str, Any] = {}

    async def so_many() -> bool:
        nonlocal latest
        latest = await books(world)
        return bool(latest.get("taken") == taken)

    await until(so_many, what=lambda: latest)
    return latest


def features() -> list[Any]:
    """Ours and theirs."""
    return [*catalogue.features(), LicencePools()]


async def diagnosis(controller: Controller, name: str) -> dict[str, Any]:
    found = await controller.diagnosis(("shop", name))
    assert found is not None
    return found


@pytest.mark.long
async def test_a_pool_keeps_its_seats_makes_partners_wait_and_tells_who_sits_where(
    offices: World,
) -> None:
    async with deciding(offices, features=features()) as controller:
        await offices.workload("first", labels=POOL)
        said = await offices.until("first", lambda s: condition(s, "Scheduled"))
        assert (
            "licence pool cad does not exist" in condition(said["status"], "Scheduled")["message"]
        )
        await pool(offices, 4)  # the news wakes it
        await offices.until("first", lambda s: condition(s, "Scheduled")["status"] == "True")

        both = {**POOL, PARTNER_LABEL: "right"}
        await offices.workload("left", replicas=2, labels=both)
        said = await offices.until(
            "left", lambda s: condition(s, "Scheduled")["reason"] == "WaitingOnPermit"
        )
        assert "right has no seat yet" in condition(said["status"], "Scheduled")["message"]
        assert placements(said) == {}
        await offices.workload("right", labels={**POOL, PARTNER_LABEL: "left"})
        for name in ("left", "right"):
            await offices.until(name, lambda s: condition(s, "Scheduled")["status"] == "True")
        counts = {"a": 0, "b": 0}
        for name in ("first", "left", "right"):
            for where, units in placements(await offices.get(name)).items():
                counts[where] += units
        expected = [{"name": n, "seats": units} for n, units in counts.items() if units]
        assert (await told(offices, 4))["clusters"] == expected

        await offices.workload("late", replicas=2, labels=POOL)
        said = await offices.until(
            "late", lambda s: condition(s, "Scheduled")["reason"] == "ReplicasReached"
        )
        assert (
            "0 seats free in licence pool cad" in condition(said["status"], "Scheduled")["message"]
        )
        notes = [each["text"] for each in (await diagnosis(controller, "late"))["remedies"]]
        assert "more seats in spec.seats of LicencePool cad" in notes
        await pool(offices, 5)  # one is free, two are wanted
        await offices.client.delete(WORKLOADS, "first", namespace="shop")
        await offices.until("late", lambda s: condition(s, "Scheduled")["status"] == "True")
        assert (await told(offices, 5))["taken"] == 5


@pytest.mark.long
@pytest.mark.proves("E1", "E13")
async def test_what_it_tells_of_a_workload_stands_there_and_is_explained(offices: World) -> None:
    async with deciding(offices, features=features()) as controller:
        await pool(offices, 9, each=1)
        await offices.workload("wide", replicas=4, labels=POOL, distribution="Divided")
        found = await offices.until("wide", lambda s: s.get("pending") == 2)
        assert found["status"]["plugins"] == {NAME: {"pool": "cad", "seats": 2}}
        message = condition(found["status"], "Scheduled")["message"]
        assert message.endswith("2 clusters have no seat left of licence pool cad")
        said = await diagnosis(controller, "wide")
        assert [(each["name"], each["text"]) for each in said["pendingReasons"]] == [
            (NAME, "2 clusters: all seats of licence pool cad there are taken")
        ]
        (note,) = said["remedies"]
        assert note == {
            "kind": "Quota",
            "number": 2,
            "name": "cad",
            "text": "2 more in spec.each of LicencePool cad",
        }
        await pool(offices, 9, each=2)  # the news wakes it
        found = await offices.until("wide", lambda s: s.get("pending") == 0)
        assert found["status"]["plugins"] == {NAME: {"pool": "cad", "seats": 4}}
        assert found["status"]["history"][-1]["cause"] == "SeatsFound"
        version = found["metadata"]["resourceVersion"]
    # Who does not have the plugin takes away what it said, and leaves the rest as it is.
    async with deciding(offices, identity="two") as controller:
        await until(lambda: controller.leading)
        found = await offices.until("wide", lambda s: not s.get("plugins"))
        assert placements(found) == {"a": 2, "b": 2}
        assert found["metadata"]["resourceVersion"] != version


async def test_without_the_feature_nobody_asks_for_seats(offices: World) -> None:
    await pool(offices, 0)
    async with deciding(offices):
        await offices.workload("first", labels=POOL)
        await offices.until("first", lambda s: condition(s, "Scheduled")["status"] == "True")
    assert await books(offices) == {}


@pytest.mark.long
async def test_the_books_are_kept_by_the_next_leader(offices: World) -> None:
    await pool(offices, 3)
    async with deciding(offices, features=features()):
        await offices.workload("first", replicas=2, labels=POOL)
        await told(offices, 2)
    lost = {"status": {"taken": 9, "clusters": []}}
    await offices.client.merge_patch(
        POOLS, "cad", lost, namespace=offices.namespace, subresource="status"
    )
    async with deciding(offices, identity="two", features=features()) as controller:
        await until(lambda: controller.leading)
        await told(offices, 2)


def test_only_more_seats_are_a_hint() -> None:
    (changed, _) = LicenceSeats().events_to_register()
    few, many = (msgspec.convert({"spec": {"seats": n}}, LicencePool) for n in (1, 2))
    wanting = info("late", labels=POOL)
    assert changed.about(wanting) == ("shop", "cad")
    assert changed.hint(wanting, few, many)
    assert changed.hint(wanting, None, few)
    assert not changed.hint(wanting, many, few)


def test_a_set_that_is_tried_elsewhere_sits_in_the_overlay_alone() -> None:
    seats = Seats()
    seats.seats["shop", "cad"], seats.each["shop", "cad"] = 2, MAX_REPLICAS
    world = PlacementIndex([seats])
    first, late = info("first", replicas=2, labels=POOL), info("late", replicas=1, labels=POOL)
    over = world.overlay({first.key: (first, {"a": 2})})
    profile = default_profile(catalogue.registry(features()))
    found = snapshot(cluster("a"))
    assert decide(found, late, world, profile, NOW).scheduled
    refused = decide(found, late, over, profile, NOW)
    assert not refused.scheduled
    first_of = record(refused)["remedies"][0]
    assert first_of["text"] == "more seats in spec.seats of LicencePool cad"
    assert seats.on(("shop", "cad")).total() == 0
