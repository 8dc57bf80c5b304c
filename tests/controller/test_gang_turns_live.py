"""Gangs that want the same room, and gangs in one domain, on a real hub."""

from __future__ import annotations

import pytest

from .live import World, condition, deciding, placements
from .make import ZONE
from .test_gangs_live import begin, member


async def gang(world: World, name: str, units: int, **spec: object) -> None:
    """A group of one Workload of that name, all of whose units it needs."""
    await begin(world, name, units, **spec)
    await member(world, name, of=name, replicas=units, cpu="1")


async def units(world: World, name: str) -> int:
    return sum(placements(await world.get(name)).values())


async def says(world: World, name: str, text: str) -> None:
    await world.until(name, lambda s: text in condition(s, "Scheduled")["message"])


@pytest.mark.proves("G4", "G7", "G8")
async def test_two_gangs_that_each_need_more_than_half_run_one_after_the_other(
    world: World,
) -> None:
    for name in ("a", "b"):
        await world.cluster(name, cpu="4")
    await gang(world, "one", 5)
    await gang(world, "two", 5)
    async with deciding(world):
        await world.until("one", lambda s: s["assigned"] == 5)
        await says(world, "two", "resource gap: cpu")
        assert not placements(await world.get("two"))
        await world.delete("one")
        await world.until("two", lambda s: s["assigned"] == 5)


@pytest.mark.proves("G16")
async def test_a_later_gang_gives_back_what_it_holds_for_a_more_important_one(
    world: World,
) -> None:
    await world.cluster("a", cpu="10")
    await gang(world, "late", 11)
    async with deciding(world):
        await says(world, "late", "10 of 11")
        await begin(world, "early", 10)
        await member(world, "early", of="early", replicas=10, cpu="1", priority=10)
        await world.until("early", lambda s: s["assigned"] == 10)
        assert not placements(await world.get("late"))


@pytest.mark.proves("G15")
async def test_a_gang_and_who_joins_it_later_stay_in_one_zone(world: World) -> None:
    for name, zone, cpu in (("a", "x", "3"), ("b", "x", "3"), ("c", "y", "5")):
        await world.cluster(name, cpu=cpu, labels={ZONE: zone})
    await gang(world, "crew", 6, topology={"topologyKey": ZONE, "mode": "Required"})
    async with deciding(world):
        found = await world.until("crew", lambda s: s["assigned"] == 6)
        assert placements(found) == {"a": 3, "b": 3}
        await member(world, "more", of="crew", replicas=1, cpu="1")
        text = f"1 outside zone x, where WorkloadGroup {world.namespace}/crew is"
        await says(world, "more", text)
        await world.label("c", **{ZONE: "x"})
        await world.until("more", lambda s: s["assigned"] == 1)
        assert placements(await world.get("crew")) == {"a": 3, "b": 3}


async def test_a_key_that_no_cluster_has_is_refused_with_what_to_do(world: World) -> None:
    await world.cluster("a", cpu="8")
    await gang(world, "crew", 2, topology={"topologyKey": "tier", "mode": "Required"})
    async with deciding(world):
        await says(world, "crew", "no cluster has that label: label MemberClusters, or change")
        await world.label("a", tier="gold")
        await world.until("crew", lambda s: s["assigned"] == 2)
