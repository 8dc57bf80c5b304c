"""Claims that a share left stand in status.kept until their member shows that they are gone.

Whoever looks at the member by then: another shard, or the same cluster under another name.
"""

from __future__ import annotations

import pytest

from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS
from machinery.types import conditions
from tests.propagator.fleet import HERE, THERE, Fleet
from tests.propagator.memory import SPACE, World
from tests.propagator.test_one_shard import starts
from tests.propagator.test_pull_alike import claims, left, stands, with_claims


async def leave(world: World, member: str, other: str) -> None:
    """A StatefulSet moves from one member to the other, and leaves its claims."""
    world.put(WORKLOADS, with_claims(world, member))
    world.place("db", **{member: 2})
    await world.until(lambda: stands(world, member))
    world.place("db", **{other: 2})
    both = [f"{member}/data-db-{n}" for n in (0, 1)]
    await world.until(lambda: stands(world, other) and left(world) == both)


@pytest.mark.proves("A7", "KD47")
@pytest.mark.parametrize("restarts", [False, True])
async def test_the_shard_of_a_member_alone_says_which_claims_stand_there(
    steady: None, *, restarts: bool
) -> None:
    world = Fleet(HERE, THERE)
    async with world.shared(2, "a", "b"):
        await leave(world, THERE, HERE)
        await world.calm(5)
        if not restarts:
            del claims(world, THERE)[SPACE, "data-db-0"]
            await world.until(lambda: left(world) == [f"{THERE}/data-db-1"])
            # The other shard has seen both.
            world.hub.edit(WORKLOADS, "db", {"spec": {"suspend": None, "manifests": []}})
            await world.calm(15)
            assert left(world) == [f"{THERE}/data-db-1"]
    if restarts:
        async with world.shared(2, "a", "b"):
            await world.calm(15)
            assert len(left(world)) == 2
            claims(world, THERE).clear()
            await world.until(lambda: not left(world))
