"""Reservations on a real hub, as the commands tell them: the same before, with and without a controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowage.cli import cli
from tests.controller.features.reservation.reserving import owner, phase, reserve
from tests.controller.live import World, deciding, world_on

pytestmark = pytest.mark.proves("E26")


@pytest.fixture
async def world(controller_hub: Any) -> AsyncIterator[World]:
    async with world_on(controller_hub, "shop") as world:
        for name in "ab":
            await world.cluster(name, cpu="4")
        yield world


async def run(world: World, *args: str, namespace: str | None = "shop") -> Result:
    """The command in a thread: it has an event loop of its own."""
    within = () if namespace is None else ("-n", namespace)
    hub = ("--kubeconfig", str(world.hub.kubeconfig), *within)
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


@pytest.mark.long
@pytest.mark.proves("E28", "U1", "U3")
async def test_whose_room_it_is_is_told_by_every_command(world: World) -> None:
    async with deciding(world) as controller:
        cpu = {"cpu": "2"}
        await reserve(world, replicas=2, requests=cpu, allocateOnce=False)
        await phase(world, "Available", assigned=2)
        await world.workload("demo", replicas=3, cpu="1", distribution="Divided")
        await world.until("demo", lambda s: units(s) == 3)
        await phase(world, "Available", owners=1)
        here = ("--controller", f"http://127.0.0.1:{controller.port}")
        asked = json.loads((await run(world, "explain", "rsv/room", *here, "-o", "json")).stdout)
        assert asked["kind"] == "Reservation"
        assert "notes" not in asked, "the controller itself said what would be decided now"
    explained = (await run(world, "explain", "wl/demo")).stdout.splitlines()
    assert explained[:2] == [
        "shop/demo: 3 of 3 replicas placed (Scheduled)",
        "3 replicas inside rsv/room",
    ]
    about = (await run(world, "explain", "rsv/room")).stdout
    assert about.startswith(
        "shop/rsv/room: 2 of 2 replicas placed (Scheduled)\n\nAvailable, until "
    )
    assert "cpu 4 reserved, cpu 3 of it used by owners, cpu 1 kept free for them" in about
    assert "Decided now, every replica would stay where it is:" in about
    told = json.loads((await run(world, "explain", "rsv/room", "-o", "json")).stdout)["recorded"]
    assert told["reservation"]["unused"]["cpu"] == "1"
    used = [n for each in told["reservation"]["clusters"] for n in each["currentOwners"]]
    assert {each["name"] for each in used} == {"demo"}
    assert sum(each["replicas"] for each in used) == 3
    history = (await run(world, "history", "rsv/room")).stdout
    assert history.startswith("shop/rsv/room: one change of placement\n")
    assert "placed: 2 of 2 replicas have a cluster" in history


def units(status: Mapping[str, Any]) -> int:
    """How many are inside of reservations."""
    return sum(each["replicas"] for each in status.get("reservations", []))


@pytest.mark.long
@pytest.mark.proves("N4c")
async def test_status_names_who_holds_most(world: World) -> None:
    async with deciding(world):
        await world.workload("demo", cpu="1")
        assert await world.placed("demo")
        await reserve(world, "least", requests={"memory": "1Mi"})
        await phase(world, "Available", "least")
        assert "held by" not in (await run(world, "status")).stdout
        elsewhere = await world.space("elsewhere")
        await reserve(world, "little", requests={"cpu": "1"})
        for name in ("some", "more"):
            await reserve(elsewhere, name, requests={"cpu": "2"}, owners=[owner()])
        await phase(world, "Available", "little")
        for name in ("some", "more"):
            await phase(elsewhere, "Available", name)
        here = (await run(world, "status")).stdout
        everywhere = (await run(world, "status", namespace=None)).stdout
    assert "\nMost is held by shop: cpu 1, 12% of what the clusters offer\n" in here
    assert "\nMost is held by elsewhere: cpu 4, 50% of what the clusters offer\n" in everywhere
