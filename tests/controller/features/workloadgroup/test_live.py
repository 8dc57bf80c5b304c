"""Gangs on a real hub: conflicts of two writers, and each phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from crds.groups.gate import decision_of
from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import Conflict
from tests.controller.features.workloadgroup.grouping import group
from tests.controller.live import World, condition, deciding, placements
from tests.patience import until

DRIVER, WORKER = "driver", "worker"
BOTH = {DRIVER, WORKER}


async def begin(world: World, name: str = "batch", least: int = 4, **spec: Any) -> None:
    """Create a group of the world's namespace."""
    body = group(name, least, **spec)
    body["metadata"]["namespace"] = world.namespace
    await world.client.create(WORKLOAD_GROUPS, body)


async def member(
    world: World, name: str, *, of: str = "batch", label: str = LABEL_GROUP, **how: Any
) -> None:
    """Create a Workload of a group, whose units of 3 cpu are divided."""
    given = {"cpu": "3", "distribution": "Divided", "labels": {label: of}, **how}
    await world.workload(name, **given)


async def told(world: World, name: str = "batch") -> dict[str, Any]:
    """The status of a group."""
    found = await world.client.get(WORKLOAD_GROUPS, name, namespace=world.namespace)
    status: dict[str, Any] = found.get("status", {})
    return status


async def says(
    world: World,
    holds: Callable[[dict[str, Any]], Any],
    name: str = "batch",
    *,
    seconds: float = 15,
    every: float = 0.02,
) -> dict[str, Any]:
    """The status of a group, as soon as `holds(status)` is true."""
    latest: dict[str, Any] = {}

    async def true() -> bool:
        nonlocal latest
        latest = await told(world, name)
        with suppress(KeyError):
            return bool(holds(latest))
        return False

    await until(true, seconds=seconds, every=every, what=lambda: latest)
    return latest


async def released(
    world: World, *names: str, seconds: float = 15, every: float = 0.02
) -> dict[str, Any]:
    """The status, as soon as these and no others are released at the placements they have."""
    wanted = set(names) or BOTH
    found: set[str] = set()

    async def all_of_them() -> bool:
        nonlocal found
        status, found = await told(world), set()
        decisions = dict(status.get("decisions", {}))
        listed = await world.client.list(WORKLOADS, namespace=world.namespace)
        for each in listed["items"]:
            if decisions.pop(each["metadata"]["uid"], "") == decision_of(placements(each)):
                found.add(each["metadata"]["name"])
        found.update(decisions)
        return found == wanted and status.get("gate") == "Open"

    await until(all_of_them, seconds=seconds, every=every, what=lambda: found)
    return await told(world)


async def report(world: World, name: str, state: str = "Running", **counts: int) -> None:
    """What the propagator says of a Workload where it has units."""
    entries = [
        {
            "name": cluster,
            "replicas": units,
            "state": state,
            **({"ready": units} if state == "Running" else {}),
            **{field: min(number, units) for field, number in counts.items()},
        }
        for cluster, units in placements(await world.get(name)).items()
    ]
    await world.edit(name, {"status": {"clusters": entries}}, status=True)


def reason(status: Mapping[str, Any]) -> str:
    return str(condition(status, "Scheduled")["reason"])


def message(status: Mapping[str, Any]) -> str:
    return str(condition(status, "Scheduled")["message"])


@pytest.fixture
async def two(world: World) -> World:
    """Two clusters with room for two units each."""
    for name in ("m1", "m2"):
        await world.cluster(name, cpu="7")
    return world


@pytest.mark.long
@pytest.mark.proves("G20")
async def test_two_writers_lose_nothing_of_each_other(two: World):
    """Somebody adds conditions as fast as he can; each of his and each word of ours stands."""
    other = {"status": "True", "reason": "Mine", "message": ""}
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    written: list[str] = []

    async def write(number: int) -> None:
        kind = f"Other{number}"
        while kind not in written:
            found = await two.client.get(WORKLOAD_GROUPS, "batch", namespace=two.namespace)
            before = found.get("status", {}).get("conditions", [])
            patch = {
                "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
                "status": {"conditions": [*before, {"type": kind, **other, **at}]},
            }
            with suppress(Conflict):
                await two.client.merge_patch(
                    WORKLOAD_GROUPS, "batch", patch, namespace=two.namespace, subresource="status"
                )
                written.append(kind)

    async with deciding(two):
        await begin(two)
        writing = asyncio.gather(*(write(number) for number in range(20)))
        await member(two, DRIVER, replicas=1)
        await member(two, WORKER, replicas=5)
        await released(two)
        for name in BOTH:
            await report(two, name)
        await writing
        status = await says(two, lambda each: each["phase"] == "Running")
        kinds = {each["type"] for each in status["conditions"]}
        assert kinds - {"Ready", "Reconciling", "Stalled"} == {"Scheduled", *written}
        assert len(written) == 20
        assert (status["scheduled"], status["running"], status["gate"]) == (4, 4, "Open")
