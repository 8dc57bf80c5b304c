"""Informers run from their first user to their last, and a fault of one ends the run."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from machinery.runtime.informers import InformerPool
from tests.fakeclock import settle


class Fake:
    """An informer of which the test says when it is refused, or ends by a fault."""

    resource = SimpleNamespace(plural="secrets")

    def __init__(self) -> None:
        self.refused: object = None
        self.fault: Exception | None = None
        self.synced = False
        self.discarded = self.mistrusted = self.running = 0
        self.ready = asyncio.Event()

    def mistrust(self) -> None:
        self.mistrusted += 1

    def discard(self) -> None:
        self.discarded += 1

    async def step(self) -> None:
        self.running += 1
        try:
            await asyncio.sleep(0)
            if self.fault is not None:
                raise self.fault
        finally:
            self.running -= 1

    async def wait_synced(self) -> None:
        await self.ready.wait()


class World:
    def __init__(self) -> None:
        self.made: list[Fake] = []
        self.told: list[str] = []
        self.shown: list[str] = []
        self.pool: InformerPool[str, Any] = InformerPool(
            self._make, told=self.told.append, shown=self.shown.append
        )

    def _make(self, _key: str) -> Any:
        self.made.append(Fake())
        return cast("Any", self.made[-1])


async def test_an_informer_runs_from_its_first_user_to_its_last() -> None:
    world = World()
    world.pool.need("a", 1)
    running = asyncio.create_task(world.pool.run())
    await settle()
    world.pool.need("a", 2)
    world.pool.need("b", 1)
    await settle()
    assert [each.mistrusted for each in world.made] == [1, 1]
    world.pool.drop("a", 1)
    assert world.pool.get("a") is world.made[0]
    world.pool.drop("a", 2)
    world.pool.drop("a", 2)
    await settle()
    assert world.pool.get("a") is None
    assert [(each.discarded, each.running) for each in world.made] == [(1, 0), (0, 1)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert world.made[1].running == 0, "the run ended"
    assert world.pool.get("b") is world.made[1], "and what was seen stays for the next"


async def test_what_the_server_shows_and_refuses_is_told_once() -> None:
    world = World()
    world.pool.need("a", 1)
    running = asyncio.create_task(world.pool.run())
    await settle()
    assert (world.told, world.shown) == ([], [])
    world.made[0].ready.set()
    world.made[0].refused = object()
    await settle()
    world.made[0].refused = None
    await settle()
    assert (world.told, world.shown) == (["a", "a"], ["a"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_fault_of_one_ends_the_run_and_all_that_runs() -> None:
    world = World()
    for key in ("a", "b"):
        world.pool.need(key, 1)
    running = asyncio.create_task(world.pool.run())
    await settle()
    world.made[0].fault = LookupError("a bug")
    with pytest.raises(LookupError):
        await running
    assert world.made[1].running == 0
    world.pool.clear()
    assert [each.discarded for each in world.made[:2]] == [1, 1]
    assert world.pool.get("a") is world.made[2], "its users need another"
