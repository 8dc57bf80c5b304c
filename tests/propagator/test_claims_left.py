"""Claims that a share left stand in status.kept until their member shows that they are gone.

Whoever looks at the member by then: another shard, or the same cluster under another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from crds.names import ANNOTATION_UNJOIN, GIVEN_UP, RENAMED, SYSTEM_NAMESPACE
from machinery.api.resources import MEMBER_CLUSTERS, SECRETS, WORKLOADS
from machinery.types import conditions
from machinery.types.shards import owner
from propagator.agent import assigned, carrier
from tests.propagator.fleet import HERE, THERE, Fleet
from tests.propagator.memory import SPACE, World
from tests.propagator.pulling import PullWorld
from tests.propagator.test_one_shard import propagated
from tests.propagator.test_pull import reason, uid_of
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


async def to_pull(world: PullWorld, member: str) -> None:
    """The member is served by its agent from now on, which runs."""
    world.invite_pushed(member)
    await world.until(lambda: reason(world, member) == "Connected")


@pytest.mark.proves("A7", "KD47", "PL23")
@pytest.mark.parametrize("placed", [True, False])
async def test_an_agent_looks_at_claims_that_were_left_before_there_was_one(
    *, placed: bool
) -> None:
    world = PullWorld("m1", "m2", pulled=())
    told: list[bool] = []

    def says(*names: str) -> bool:
        told.append(propagated(world, "db") == "Propagated")
        return left(world) == [f"m1/{name}" for name in names]

    async with world.propagating():
        await leave(world, "m1", "m2")
        await world.calm(5)
        if not placed:
            world.place("db")
            await world.calm(5)
        async with world.agent("m1"):
            await to_pull(world, "m1")
            await world.until(lambda: world.assignment(uid_of(world, "db"), "m1") is not None)
            await world.calm(30)
            assert says("data-db-0", "data-db-1")
            del claims(world, "m1")[SPACE, "data-db-0"]
            await world.until(lambda: says("data-db-1"))
            await world.calm(15)
            assert says("data-db-1")
        async with world.agent("m1", identity="agent-2"):
            await world.until(lambda: reason(world, "m1") == "Connected")
            await world.calm(15)
            assert says("data-db-1")
            claims(world, "m1").clear()
            await world.until(lambda: not left(world))
            if not placed:
                world.place("db", m2=2)
            await world.until(lambda: world.assignment(uid_of(world, "db"), "m1") is None)
            assert stands(world, "m2")
        assert not placed or all(told), "nothing runs there"


@pytest.mark.proves("A7", "KD47", "PL20")
async def test_an_agent_that_cannot_look_at_claims_loses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one of an earlier release, which knows neither `rules.kept` nor `looked`."""
    world = PullWorld("m1", "m2", pulled=())
    monkeypatch.setattr(assigned, "kept_of", lambda *_: [])
    tells = assigned.status_of

    def as_it_was(*args: Any, **named: Any) -> dict[str, Any]:
        return {key: value for key, value in tells(*args, **named).items() if key != "looked"}

    monkeypatch.setattr(carrier, "status_of", as_it_was)
    async with world.propagating():
        await leave(world, "m1", "m2")
        async with world.agent("m1"):
            await to_pull(world, "m1")
            await world.until(lambda: world.assignment(uid_of(world, "db"), "m1") is not None)
            await world.calm(30)
            assert left(world) == named("m1", 0, 1)
            assert propagated(world, "db") == "Propagated"
        monkeypatch.undo()
        async with world.agent("m1", identity="agent-2"):
            claims(world, "m1").clear()
            await world.until(lambda: not left(world))


@pytest.mark.proves("A7", "KD47", "PL14")
@pytest.mark.parametrize("mode", ["Push", "Pull", "Push, then Pull"])
async def test_the_end_of_a_workload_waits_for_no_member_that_is_lost_and_has_claims_alone(
    mode: str,
) -> None:
    member = "paris" if mode == "Pull" else "m1"
    world = PullWorld("m1", "m2", pulled=("paris",) if mode == "Pull" else ())
    async with world.propagating():
        if mode != "Pull":
            await leave(world, member, "m2")
        async with world.agent(member) if mode != "Push" else nullcontext():
            if mode == "Pull":
                await leave(world, member, "m2")
            elif mode == "Push, then Pull":
                await to_pull(world, member)
            await world.calm(15)
            assert left(world) == named(member, 0, 1)
        uid, has = uid_of(world, "db"), world.assignment(uid_of(world, "db"), member)
        assert bool(has) is ("Pull" in mode)
        if mode == "Push":
            world.away.add(member)
        lost = "Unreachable" if mode == "Push" else "AgentSilent"
        await world.until(lambda: reason(world, member) == lost, seconds=75, step=0.5)
        world.delete("db")
        await world.until(lambda: not world.hub.all(WORKLOADS), seconds=30)
        # What is left on the hub goes when it is back.
        async with world.agent(member) if mode != "Push" else nullcontext():
            world.away.clear()
            await world.until(lambda: reason(world, member) != lost)
            await world.until(lambda: world.assignment(uid, member) is None)
        assert len(claims(world, member)) == 2
