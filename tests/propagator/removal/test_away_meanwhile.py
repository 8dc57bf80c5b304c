"""A member that stops answering, or shows a kind no more, while its share is being lowered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from machinery.api.resources import WORKLOADS
from propagator.app import Propagator
from tests.propagator.memory import SPACE, World
from tests.propagator.test_in_memory import not_ready
from tests.propagator.test_one_shard import ready, runs, start

pytestmark = pytest.mark.usefixtures("steady")


def asked(world: World) -> int:
    (found,) = world.deployments("m1")
    return int(found["spec"]["replicas"])


async def lost(world: World, _process: Propagator) -> None:
    """The member answers writes again before a probe has told so."""
    world.away.add("m1")
    await world.until(lambda: not_ready(world))
    world.away.clear()


async def listed_anew(_world: World, process: Propagator) -> None:
    """As when the profile of a kind changes."""
    assert process.manager is not None
    session = process.manager.registry.get("m1")
    assert session is not None
    assert session.link is not None
    session.link.watches.judge_anew("apps", "Deployment")


@pytest.mark.proves("M20")
@pytest.mark.parametrize("happens", [lost, listed_anew])
async def test_what_is_not_seen_for_a_moment_keeps_its_ready_replicas(
    happens: Callable[[World, Propagator], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's answer to the note before a write takes long, and the member is not the same."""
    world = World("m1", "m2")
    async with world.propagating() as process:
        await ready(world)
        await start(world, m1=4)
        await world.calm(3)
        answer, held = world.hub.request, asyncio.Event()

        async def request(method: str, path: str, **how: Any) -> bytes:
            found: bytes = await answer(method, path, **how)
            if method == "PATCH" and path == WORKLOADS.path(SPACE, "web"):
                await held.wait()
            return found

        monkeypatch.setattr(world.hub, "request", request)
        world.place("web", m1=1, m2=3)
        await world.calm(1)
        world.away.add("m2")  # nothing replaces anything
        await happens(world, process)
        world.away.add("m2")
        held.set()
        await world.calm(10)
        assert asked(world) == 4
        world.away.clear()
        await world.until(lambda: runs(world, "web", m1=1, m2=3))
