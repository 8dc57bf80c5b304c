"""A kind of somebody else's on a real hub: its objects get clusters as Workloads do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from controller import catalogue
from crds.names import GIVEN_UP
from machinery.api.resources import CRDS, EVENTS
from machinery.errors import NotFound
from tests import inforce
from tests.letting_go import let_go
from tests.patience import until

from .berths import BERTHS, CRD, Berths, berth
from .live import World, condition, deciding, placements


class Harbour:
    """A hub that has Berths, and what is asked of them."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self, name: str, **spec: Any) -> dict[str, Any]:
        return await self.world.client.create(BERTHS, berth(name, **spec))

    async def get(self, name: str) -> dict[str, Any]:
        return await self.world.client.get(BERTHS, name, namespace="shop")

    async def edit(self, name: str, **spec: Any) -> None:
        await self.world.client.merge_patch(BERTHS, name, {"spec": spec}, namespace="shop")

    async def delete(self, name: str) -> None:
        await self.world.client.delete(BERTHS, name, namespace="shop")

    async def until(self, name: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        latest: dict[str, Any] = {}

        async def so() -> bool:
            latest.clear()
            latest.update((await self.get(name)).get("status", {}))
            with suppress(KeyError, IndexError):
                return bool(holds(latest))
            return False

        await until(so, what=lambda: latest)
        return latest

    async def placed(self, name: str) -> dict[str, int]:
        said = await self.until(name, lambda s: s["placements"] and s["pending"] == 0)
        return placements({"status": said})

    async def refused(self, name: str) -> str:
        said = await self.until(name, lambda s: condition(s, "Scheduled")["status"] == "False")
        return str(condition(said, "Scheduled")["message"])

    async def versions(self) -> dict[str, str]:
        items = (await self.world.client.list(BERTHS))["items"]
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in items}

    async def calm(self) -> dict[str, str]:
        before = None
        while before != (before := await self.versions()):  # noqa: ASYNC110 - silence is no event
            await asyncio.sleep(0.5)
        return before


@pytest.fixture
async def harbour(world: World) -> AsyncIterator[Harbour]:
    """Berths on the world's hub, none left afterwards."""
    await world.client.apply(CRDS, CRD, name=CRD["metadata"]["name"], force=True)
    await inforce.served(world.client, BERTHS)
    yield Harbour(world)
    for each in (await world.client.list(BERTHS))["items"]:
        with suppress(NotFound):
            await world.client.delete(BERTHS, each["metadata"]["name"], namespace="shop")


def working(world: World, **settings: Any) -> Any:
    """A controller that has Berths beside everything else."""
    return deciding(world, features=[*catalogue.features(), Berths()], **settings)


async def test_the_reason_is_in_its_status_and_an_event_names_it(harbour: Harbour) -> None:
    world = harbour.world
    await world.cluster("one", cpu="2")
    async with working(world) as controller:
        made = await harbour.make("wide", cpu="4")
        assert "1 insufficient cpu" in await harbour.refused("wide")
        events = []

        async def noted() -> bool:
            items = (await world.client.list(EVENTS, namespace="shop"))["items"]
            events[:] = [e for e in items if e["regarding"].get("uid") == made["metadata"]["uid"]]
            return bool(events)

        await until(noted)
        about = events[0]["regarding"]
        assert (about["apiVersion"], about["kind"], about["name"]) == (
            "harbour.example/v1", "Berth", "wide",
        )  # fmt: skip
        await world.report("one", cpu="8")
        assert await harbour.placed("wide") == {"one": 1}
        async with aiohttp.ClientSession() as session:
            at = f"http://127.0.0.1:{controller.port}/apis/v1/diagnosis/shop/berths/wide"
            told = await (await session.get(at)).json()
        assert (told["name"], told["assigned"]) == ("berths/wide", 1)
        await harbour.edit("wide", replicas=3, distribution="Divided", cpu="2")
        await harbour.until("wide", lambda s: s["desired"] == 3 and s["assigned"] == 3)
        await harbour.edit("wide", closed=True)
        await world.workload("demo", cpu="8")
        assert await world.placed("demo") == {"one": 1}, "it takes part no more"


@pytest.mark.proves("C23")
async def test_a_restart_writes_nothing_and_a_lost_cluster_is_replaced(harbour: Harbour) -> None:
    world = harbour.world
    await world.cluster("one", cpu="4")
    async with working(world):
        for number in range(3):
            await harbour.make(f"b{number}")
        await harbour.make("wide", cpu="9")
        for number in range(3):
            await harbour.placed(f"b{number}")
        await harbour.refused("wide")
        before = await harbour.calm()
    async with working(world, identity="two"):
        await world.workload("demo")
        await world.placed("demo")
        assert await harbour.calm() == before
        await world.cluster("two", cpu="4")
        await let_go(world.client, "one", GIVEN_UP)
        for number in range(3):
            await harbour.until(f"b{number}", lambda s: s["quay"] == "two")


async def test_one_that_its_feature_cannot_read_harms_itself_alone(harbour: Harbour) -> None:
    world = harbour.world
    await world.cluster("one", cpu="4")
    async with working(world):
        await harbour.make("sound")
        await harbour.placed("sound")
        for flaw in ("raises", "nonsense", "stranger"):
            await harbour.make(flaw, flaw=flaw)
        await harbour.make("told", flaw="told")
        assert await harbour.refused("told") == "spec.flaw: it must be mended"
        await harbour.edit("sound", flaw="raises", cpu="4")
        assert "this berth is rotten" in await harbour.refused("sound")
        assert placements(await harbour.get("sound")) == {"one": 1}, "it stays as it was"
        await world.workload("demo", cpu="3")
        assert await world.placed("demo") == {"one": 1}, "of the berth counts what it had"
        await harbour.edit("sound", flaw="", cpu="1")
        await harbour.placed("sound")
        for flaw in ("raises", "nonsense", "stranger"):
            assert "status" not in await harbour.get(flaw)


async def test_a_hub_without_the_kind_is_served(world: World) -> None:
    with suppress(NotFound):
        await world.client.delete(CRDS, CRD["metadata"]["name"])
    await world.cluster("one")
    async with working(world):
        await world.workload("demo")
        assert await world.placed("demo") == {"one": 1}
