"""Several at work on one hub: profiles in one process, and processes that must not both decide."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from machinery.errors import Unreachable
from tests.patience import until

from .live import World, deciding, process

MANY, FEW = 120, 20


@pytest.mark.long
@pytest.mark.proves("C23")
async def test_one_that_was_frozen_writes_no_second_decision(world: World, tmp_path: Path) -> None:
    """The leader stops in the middle of a burst, another one takes over, the first one wakes."""
    await world.cluster("one", cpu="1000", pods="10000")
    async with _decisions(world) as decisions:
        with process(world, tmp_path / "first.log") as first:
            await world.workload("warm")
            await world.placed("warm", seconds=90)
            async with deciding(world, standby=True, identity="two") as second:
                burst = asyncio.gather(*(world.workload(f"load-{n}") for n in range(MANY)))
                await until(lambda: len(decisions) > FEW)
                os.kill(first.pid, signal.SIGSTOP)  # with others decided, and under way
                try:
                    await burst
                    await until(lambda: second.leading, seconds=90)
                    await until(lambda: len(decisions) > MANY, seconds=90)
                finally:
                    os.kill(first.pid, signal.SIGCONT)
                log = tmp_path / "first.log"
                await until(
                    lambda: "leads no more" in log.read_text(),
                    seconds=90,
                    what=lambda: f"{first.poll()}: {log.read_text()[-6000:]}",
                )
                await world.settle()
                assert second.leading
    assert {name: len(made) for name, made in decisions.items()} == dict.fromkeys(decisions, 1)


@asynccontextmanager
async def _decisions(world: World) -> AsyncIterator[dict[str, list[Any]]]:
    """Every decision that is written to a Workload, by its name, one after the other."""
    found: dict[str, list[Any]] = {}

    def note(seen: dict[str, Any]) -> None:
        status = seen.get("status", {})
        if not status.get("placements"):
            return
        made = found.setdefault(seen["metadata"]["name"], [])
        decision = (status["decision"], status["placements"])
        if decision not in made:
            made.append(decision)

    async def look() -> None:
        version = (await world.client.list(WORKLOADS))["metadata"]["resourceVersion"]
        while True:  # the API server ends a watch that cannot keep up
            with suppress(Unreachable):
                async with world.client.watch(WORKLOADS, resource_version=version) as lines:
                    async for line in lines:
                        seen = json.loads(line)["object"]
                        version = seen["metadata"]["resourceVersion"]
                        note(seen)

    task = asyncio.create_task(look())
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
