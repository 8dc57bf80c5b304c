"""The books of a WorkloadSpread on a real API server: what its schema takes, and real conflicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from machinery.api.resources import EVENTS, WORKLOAD_SPREADS
from tests.patience import until

from .live import World, deciding, placements
from .spreading import adaptive, subset


async def spread(world: World, *subsets: Mapping[str, Any], **spec: Any) -> None:
    body = {
        "apiVersion": WORKLOAD_SPREADS.api_version,
        "kind": "WorkloadSpread",
        "metadata": {"name": "ws", "namespace": world.namespace},
        "spec": {
            "targetRef": {
                "apiVersion": WORKLOAD_SPREADS.api_version,
                "kind": "Workload",
                "name": "demo",
            },
            "subsets": list(subsets or (subset("normal", 100), subset("elastic"))),
            **spec,
        },
    }
    await world.client.create(WORKLOAD_SPREADS, body)


async def shown(world: World, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The spread's status by the names of its subsets, as soon as that holds."""
    latest: dict[str, Any] = {}

    async def says() -> bool:
        nonlocal latest
        found = await world.client.get(WORKLOAD_SPREADS, "ws", namespace=world.namespace)
        status = found.get("status", {})
        latest = {each["name"]: each for each in status.get("subsetStatuses", [])}
        latest[""] = {**status, "version": found["metadata"]["resourceVersion"]}
        try:
            return bool(holds(latest))
        except KeyError:
            return False

    await until(says, what=lambda: latest)
    return latest


def numbers(status: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {
        name: (each["replicas"], each["missingReplicas"]) for name, each in status.items() if name
    }


async def report(world: World, **shares: Mapping[str, Any]) -> None:
    """What the propagator says of the clusters."""
    placed = placements(await world.get("demo"))
    told = [
        {"name": name, "replicas": placed.get(name, 0), "state": "Creating", **share}
        for name, share in shares.items()
    ]
    await world.edit("demo", {"status": {"clusters": told}}, status=True)


async def pools(world: World) -> None:
    for pool in ("normal", "elastic"):
        await world.cluster(pool[0], labels={"pool": pool}, cpu="200", pods="999")


async def told(world: World, reason: str) -> list[str]:
    items = (await world.client.list(EVENTS, namespace=world.namespace))["items"]
    about = [each for each in items if each["regarding"]["kind"] == "WorkloadSpread"]
    return [each["note"] for each in about if each["reason"] == reason]


@pytest.mark.proves("W23", "W29", "W30")
async def test_meddling_is_repaired_and_a_mark_is_kept_over_a_restart(world: World) -> None:
    await pools(world)
    await spread(world, scheduleStrategy=adaptive(0, blind=True))
    await world.workload("demo", replicas=10, cpu="1m")
    async with deciding(world):
        assert await world.placed("demo") == {"n": 10}
        waits = {"current": 10, "unschedulable": 4, "unschedulableSince": "2026-01-01T00:00:00Z"}
        await report(world, n=waits)
        status = await shown(
            world, lambda s: s["normal"]["conditions"][0]["reason"] == "PodUnschedulable"
        )
        mark = status["normal"]["conditions"]
        await world.until("demo", lambda s: placements({"status": s}) == {"n": 6, "e": 4})
        await report(world, n={"current": 6}, e={"current": 4})
        await shown(world, lambda s: numbers(s) == {"normal": (6, 94), "elastic": (4, -1)})
        await until(lambda: told(world, "Rescheduled"))
        wrong = [{"name": "normal", "missingReplicas": 1}, {"name": "elastic"}]
        wrong[0]["conditions"] = mark
        await world.client.merge_patch(
            WORKLOAD_SPREADS,
            "ws",
            {"status": {"subsetStatuses": wrong}},
            namespace=world.namespace,
            subresource="status",
        )
        status = await shown(world, lambda s: numbers(s)["normal"] == (6, 94))
        assert status["normal"]["conditions"] == mark
    version = status[""]["version"]
    async with deciding(world, identity="two"):
        await world.settle()
        await asyncio.sleep(2)
        status = await shown(world, lambda s: s[""])
        assert status["normal"]["conditions"] == mark
        assert status[""]["version"] == version, "a restart writes nothing"


@pytest.mark.proves("W24")
async def test_a_wide_spread_is_a_status_that_the_hub_takes(world: World) -> None:
    names = [f"c{n:03}" for n in range(40)]
    await asyncio.gather(*(world.cluster(name, labels={"pool": "wide"}) for name in names))
    subsets = [subset(f"s{n}", 8, "wide") for n in range(32)]
    await spread(world, *subsets)
    await world.workload("demo", replicas=200, cpu="100m")
    async with deciding(world):
        assert sum((await world.placed("demo")).values()) == 200
        status = await shown(world, lambda s: s["s0"]["replicas"] == 8)
        assert sum(each["replicas"] for name, each in status.items() if name) == 200
