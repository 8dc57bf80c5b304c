"""Two controllers, the leader killed again and again while owners come to their reservations and go.

Nobody reports from the members here, so every unit that is placed is in flight, and the numbers of
a cluster can be added up from what is stored alone: what reservations hold unused, what Workloads
have, and what is free are all that there is to allocate.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from machinery.api.resources import RESERVATIONS, WORKLOADS
from machinery.types import quantities
from tests.controller.live import World, placements
from tests.controller.pairs import Pair, pair
from tests.patience import until

KILLS = 30
CLUSTERS = ("a", "b", "c")
NODES, NODE_CPU = 2, 8
GROUPS = ("red", "green", "blue", "once")
"""The last one's reservation serves once."""
ROOM, UNITS = 1000, 4
"""Of each reservation: thousandths of cpu a unit, and its units."""
OWN = 400
"""Thousandths of cpu a unit of an owner: two find room in a unit of the reservation."""


def pod(cpu: int) -> dict[str, Any]:
    """One container that asks for so many thousandths of cpu."""
    asked = {"requests": {"cpu": f"{cpu}m"}}
    return {"containers": [{"name": "main", "image": "example/app:1", "resources": asked}]}


def reservation(world: World, group: str) -> dict[str, Any]:
    """Room over all clusters for whoever has the label."""
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": "Reservation",
        "metadata": {"name": group, "namespace": world.namespace},
        "spec": {
            "template": {
                "metadata": {"labels": {"room": group}},
                "spec": pod(ROOM),
            },
            "replicas": UNITS,
            "owners": [{"labelSelector": {"matchLabels": {"group": group}}}],
            "allocateOnce": group == "once",
            "ttl": "0",
        },
    }


class Owners:
    """Workloads that come, grow, shrink and go, some of them owners of a reservation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(4)
        self._number = 0
        self.names: list[str] = []

    async def edit(self, *, new: bool = False) -> None:
        """One step of a user; with `new` another Workload comes."""
        what = self._chance.random()
        if new or what < 0.4 or len(self.names) < 4:
            self._number += 1
            name = f"w{self._number}"
            group = self._chance.choice((*GROUPS, "stranger"))
            how = {"distribution": self._chance.choice(("Single", "Divided"))}
            labels = {"app": name}
            body = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": pod(OWN),
                    },
                },
            }
            units = self._chance.randint(1, 5)
            await self._world.workload(
                name, replicas=units, labels={"group": group}, targetDeployment=body, **how
            )
            self.names.append(name)
        elif what < 0.75:
            name = self._chance.choice(self.names)
            await self._world.edit(name, {"spec": {"replicas": self._chance.randint(0, 6)}})
        else:
            name = self.names.pop(self._chance.randrange(len(self.names)))
            await self._world.delete(name)


async def stored(world: World) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The Workloads, and the reservations by name."""
    workloads = (await world.client.list(WORKLOADS, namespace=world.namespace))["items"]
    rsv = (await world.client.list(RESERVATIONS, namespace=world.namespace))["items"]
    return workloads, {each["metadata"]["name"]: each for each in rsv}


def inside(workloads: list[dict[str, Any]], name: str, uid: str) -> Counter[str]:
    """Units by cluster that Workloads say they have inside a reservation."""
    found: Counter[str] = Counter()
    for each in workloads:
        for share in each.get("status", {}).get("reservations") or ():
            if (share["name"], share["uid"]) == (name, uid):
                assert share["replicas"] <= placements(each).get(share["cluster"], 0), each
                found[share["cluster"]] += share["replicas"]
    return found


def unused(workloads: list[dict[str, Any]], rsv: Mapping[str, Mapping[str, Any]]) -> Counter[str]:
    """Thousandths of cpu that reservations must hold of each cluster, from what is stored alone."""
    held: Counter[str] = Counter()
    for name, each in rsv.items():
        users = inside(workloads, name, each["metadata"]["uid"])
        if name == "once" and (users or each.get("status", {}).get("phase") == "Succeeded"):
            continue
        for cluster, units in placements(each).items():
            held[cluster] += max(ROOM * units - OWN * users[cluster], 0)
    return +held


def used(workloads: list[dict[str, Any]]) -> Counter[str]:
    """Thousandths of cpu that Workloads have on each cluster."""
    found: Counter[str] = Counter()
    for each in workloads:
        for cluster, units in placements(each).items():
            found[cluster] += OWN * units
    return found


async def uneven(world: World, both: Pair) -> str:
    """Where reserved + used + free == allocatable does not hold, as the leader tells it."""
    workloads, rsv = await stored(world)
    held, taken = unused(workloads, rsv), used(workloads)
    for cluster in CLUSTERS:
        told = await both.ask(f"/apis/v1/clusters/{cluster}")
        cpu = {
            what: quantities.amount("cpu", told[what].get("cpu", "0"))
            for what in ("allocatable", "requested", "remaining", "reserved")
        }
        assert cpu["remaining"] == cpu["allocatable"] - cpu["requested"], (cluster, told)
        if cpu["reserved"] != held[cluster] or cpu["requested"] != held[cluster] + taken[cluster]:
            return f"{cluster} tells {cpu}; {held[cluster]} is held, {taken[cluster]} taken"
    return ""


def right(workloads: list[dict[str, Any]], rsv: Mapping[str, Mapping[str, Any]]) -> str:
    """What the reservations tell that is not so; empty where all is."""
    for name, each in rsv.items():
        status = each.get("status", {})
        users = inside(workloads, name, each["metadata"]["uid"])
        if name == "once":
            owners = {o["name"] for o in status.get("currentOwners") or ()}
            if len(owners) > 1:
                return f"{name} serves {owners}"
            if users and status.get("phase") != "Succeeded":
                return f"{name} has an owner, and is {status.get('phase')}"
            continue
        reserved = sum(ROOM * units for units in placements(each).values())
        by_cluster = placements(each)
        taken = sum(min(ROOM * by_cluster.get(c, 0), OWN * n) for c, n in users.items())
        told = status.get("allocated", {}).get("cpu", "0")
        if quantities.amount("cpu", told) != taken:
            return f"{name} tells of {told}, and {taken} are: {dict(users)}"
        if quantities.amount("cpu", status.get("allocatable", {}).get("cpu", "0")) != reserved:
            return f"{name} tells of {status.get('allocatable')}, placed are {by_cluster}"
        if status.get("owners", 0) != sum(
            any(s["name"] == name for s in w.get("status", {}).get("reservations") or ())
            for w in workloads
        ):
            return f"{name} tells of {status.get('owners')} owners"
    return ""


@pytest.mark.proves("E25", "E28", "E29")
@pytest.mark.xdist_group("reservation-kills")  # it waits for minutes, and not behind others
@pytest.mark.long
async def test_no_room_is_lost_however_often_the_leader_dies(world: World, tmp_path: Path) -> None:
    for cluster in CLUSTERS:
        await world.cluster(cluster, cpu=str(NODE_CPU), nodes=NODES)
    for group in GROUPS:
        await world.client.create(RESERVATIONS, reservation(world, group))
    owners, chance = Owners(world), random.Random(7)
    async with pair(world, tmp_path) as both:
        for _ in range(KILLS):
            await both.leader()
            before = {w["metadata"]["resourceVersion"] for w in (await stored(world))[0]}
            for number in range(3):
                await owners.edit(new=not number)

            async def decided(known: frozenset[str] = frozenset(before)) -> bool:
                workloads, _ = await stored(world)
                return any(
                    w["metadata"]["resourceVersion"] not in known and w["status"].get("decision")
                    for w in workloads
                )

            await until(decided, seconds=60)
            await asyncio.sleep(chance.uniform(0, 0.05))
            await both.kill()

        said = ""

        async def at_rest() -> bool:
            nonlocal said
            said = right(*await stored(world)) or await uneven(world, both)
            return not said

        await until(at_rest, seconds=60, every=0.1, what=lambda: said)
        for name in owners.names:
            await world.delete(name)
        for group in GROUPS:
            await world.client.delete(RESERVATIONS, group, namespace=world.namespace)

        async def empty() -> bool:
            nonlocal said
            told = [await both.ask(f"/apis/v1/clusters/{c}") for c in CLUSTERS]
            said = str([(t["requested"], t["reserved"]) for t in told])
            return all(not any(map(_cpu, (t["requested"], t["reserved"]))) for t in told)

        await until(empty, seconds=20, every=0.1, what=lambda: said)


def _cpu(amounts: Mapping[str, str]) -> int:
    return quantities.amount("cpu", amounts.get("cpu", "0"))
