"""Claims that a share left stand in status.kept until their member shows that they are gone.

Whoever looks at the member by then: another shard, or the same cluster under another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from crds.names import ANNOTATION_UNJOIN, GIVEN_UP, RENAMED, SYSTEM_NAMESPACE
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS
from machinery.types import conditions
from machinery.types.shards import owner
from tests.propagator.fleet import HERE, THERE, Fleet
from tests.propagator.memory import SPACE, World
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


def end(world: World, member: str, as_: str) -> Mapping[str, Any]:
    """The registration ends; return its Secret."""
    marked = {"metadata": {"annotations": {ANNOTATION_UNJOIN: as_}}}
    world.hub.edit(MEMBER_CLUSTERS, member, marked)
    secret: Mapping[str, Any] = world.hub.read(SECRETS, member, SYSTEM_NAMESPACE)
    world.hub.remove(SECRETS, member, SYSTEM_NAMESPACE)
    world.hub.remove(MEMBER_CLUSTERS, member)
    return secret


def register(world: World, name: str, secret: Mapping[str, Any]) -> None:
    metadata = {key: secret["metadata"][key] for key in ("namespace", "labels")}
    world.put(SECRETS, {**secret, "metadata": metadata | {"name": name}})


def named(member: str, *numbers: int) -> list[str]:
    return [f"{member}/data-db-{n}" for n in numbers]


NEW = next(f"rome{n}" for n in range(9) if owner(f"rome{n}", 2) == 0)


@pytest.mark.proves("A7", "A8", "KD47")
@pytest.mark.parametrize("shards", [1, 2])
async def test_claims_that_were_left_follow_the_name_of_their_cluster(
    steady: None, shards: int
) -> None:
    """To another shard, too, which looks at them then."""
    world = Fleet(HERE, THERE)
    async with world.shared(shards, "a", "b"):
        await leave(world, THERE, HERE)
        await world.calm(5)
        found = world.hub.read(MEMBER_CLUSTERS, THERE)
        spec = {**found["spec"], "formerNames": [THERE]}
        spec["secretRef"] = {"namespace": SYSTEM_NAMESPACE, "name": NEW}
        world.put(MEMBER_CLUSTERS, {**found, "metadata": {"name": NEW}, "spec": spec})
        register(world, NEW, world.hub.read(SECRETS, THERE, SYSTEM_NAMESPACE))
        end(world, THERE, RENAMED)
        await world.until(lambda: conditions.holds(world.cluster(NEW), "Ready"))
        await world.until(lambda: left(world) == named(NEW, 0, 1))
        del claims(world, THERE)[SPACE, "data-db-1"]
        await world.until(lambda: left(world) == named(NEW, 0))
        await world.calm(15)
        assert left(world) == named(NEW, 0)


@pytest.mark.proves("A7", "KD47")
async def test_claims_that_were_left_are_known_by_their_cluster_when_it_is_registered_anew() -> (
    None
):
    """Nobody renamed it: it was given up, and the process that knew it by that name has ended."""
    world = Fleet("m1", "m2")
    async with world.propagating():
        await leave(world, "m1", "m2")
        await world.calm(5)
        secret = end(world, "m1", GIVEN_UP)
        await world.calm(15)
        assert left(world) == named("m1", 0, 1), "nobody has seen them go"
    async with world.propagating():
        await world.calm(5)
        register(world, "rome", secret)
        await world.until(lambda: left(world) == named("rome", 0, 1))
        claims(world, "m1").clear()
        await world.until(lambda: not left(world))
