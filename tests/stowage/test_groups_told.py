"""WorkloadGroups on a real hub, as the commands and the endpoints tell them: denied, held, released."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowage.cli import cli
from tests.controller.features.workloadgroup.test_live import begin, member, says, told
from tests.controller.live import World, deciding, world_on

pytestmark = pytest.mark.proves("G5", "E9")


@pytest.fixture
async def world(hub: Any) -> AsyncIterator[World]:
    async with world_on(hub, "shop") as world:
        await world.cluster("a", cpu="9")
        yield world


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig), "-n", "shop")
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


@pytest.mark.proves("G6", "G16")
async def test_what_is_held_is_told_from_the_hub_and_needs_nobody(world: World) -> None:
    await world.cluster("b", cpu="20")
    async with deciding(world) as controller:
        await begin(world, least=10, scheduleTimeoutSeconds=60)
        await member(world, "worker", replicas=10)
        await says(world, lambda each: each["waiting"] == 9)
        here = ("--controller", f"http://127.0.0.1:{controller.port}")
        live = (await run(world, "explain", "wg/batch", *here)).stdout
        status = json.loads((await run(world, "status", "-o", "json")).stdout)
        assert (await told(world))["waiting"] == 9
    assert "0 replicas have a cluster, 9 held, 10 are needed" in live
    assert "The controller counts 9 replicas, 9 of them held." in live
    assert "Held for 60 s at most" in live
    [matter] = status["groups"]
    assert (matter["units"], matter["state"]) == ("9 of 10", "WaitingForGroup")
    assert "urgent" not in matter
