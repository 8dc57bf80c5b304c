"""WorkloadGroups on a real hub, as the commands and the endpoints tell them: denied, held, released."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowage.cli import cli
from tests.controller.features.workloadgroup.grouping import group
from tests.controller.features.workloadgroup.test_live import begin, member, says, told
from tests.controller.framework.test_services import ask
from tests.controller.live import World, deciding, world_on

pytestmark = pytest.mark.proves("G5", "E9")

GANGS = "/apis/v1/plugins/Coscheduling"


@pytest.fixture
async def world(controller_hub: Any) -> AsyncIterator[World]:
    async with world_on(controller_hub, "shop") as world:
        await world.cluster("a", cpu="9")
        yield world


async def run(world: World, *args: str) -> Result:
    """The command in a thread: it has an event loop of its own."""
    hub = ("--kubeconfig", str(world.hub.kubeconfig), "-n", "shop")
    return await asyncio.to_thread(CliRunner().invoke, cli, [args[0], *hub, *args[1:]])


@pytest.mark.long
@pytest.mark.proves("G4", "G13", "U3", "U4")
async def test_one_that_lacks_room_is_told_alike_by_every_command(
    world: World, tmp_path: Path
) -> None:
    async with deciding(world) as controller:
        await begin(world)
        await member(world, "driver", replicas=1)
        await member(world, "worker", replicas=5)
        await says(world, lambda each: "resource gap" in str(each["conditions"]))
        code, shown = await ask(controller, f"{GANGS}/gang/shop/batch")
        here = ("--controller", f"http://127.0.0.1:{controller.port}")
        asked = json.loads((await run(world, "explain", "wg/batch", *here, "-o", "json")).stdout)
    assert code == 200
    assert (shown["min"], shown["assigned"], shown["waiting"]) == (4, 0, 0)
    assert "resource gap: cpu 3 more" in shown["message"]
    assert asked["controller"]["missing"] == 4
    assert asked["recorded"]["reason"] == "GroupDenied"
    assert "resource gap: cpu 3 more" in asked["message"]
    about = (await run(world, "explain", "wg/batch")).stdout
    assert about.startswith("shop/wg/batch: Scheduling, 0 replicas have a cluster, 4 are needed\n")
    assert "Decided now, nothing more of it would be placed:" in about
    of = (await run(world, "explain", "wl/worker")).stdout.splitlines()
    assert of[1] == "in wg/batch: Scheduling, 0 replicas have a cluster, 4 are needed"
    assert "resource gap: cpu 3 more" in of[2]
    status = await run(world, "status", "-o", "json")
    assert status.exit_code == 1
    seen = json.loads(status.stdout)
    assert seen["workloadGroups"] == {"Scheduling": 1}
    assert [each["urgent"] for each in seen["groups"]] == [True]
    assert len(seen["pending"]) == 2
    assert not any("urgent" in each for each in seen["pending"]), "it is told with the group"
    file = tmp_path / "more.yaml"
    smaller = group("batch", 3)
    file.write_text(yaml.safe_dump(smaller))
    made = json.loads((await run(world, "plan", "-f", str(file), "-o", "json")).stdout)
    [planned] = made["groups"]
    assert (planned["outcome"], planned["assigned"]) == ("placed", 3)


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
