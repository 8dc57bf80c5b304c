"""WorkloadSpreads on a real hub: placed by real objects, and told through the schema of the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from machinery.api.resources import EVENTS, WORKLOAD_SPREADS, WORKLOADS
from tests.controller.features.workloadspread.spreads import KIND, stored, subset
from tests.controller.live import World, deciding, placements
from tests.patience import until

pytestmark = pytest.mark.long


@pytest.fixture
async def pools(world: World) -> World:
    """Two clusters: one of our own, one elastic."""
    for name in ("normal", "elastic"):
        await world.cluster(f"{name}1", labels={KIND: name}, cpu="1000", memory="9Ti", pods="5000")
    return world


async def apply(world: World, *subsets: Mapping[str, Any], **spec: Any) -> None:
    body = stored(*subsets, **spec)
    made = {"name": body["metadata"]["name"], "namespace": world.namespace}
    about = {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": made}
    await world.client.apply(
        WORKLOAD_SPREADS, about, name=made["name"], namespace=world.namespace, force=True
    )


async def reported(world: World, name: str) -> None:
    """Return once the controller has written the status of a new spread of that name."""
    body = stored(subset("any"), name=name, target=name)
    made = {"name": name, "namespace": world.namespace}
    about = {key: body[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": made}
    await world.client.create(WORKLOAD_SPREADS, about)

    async def said() -> bool:
        found = await world.client.get(WORKLOAD_SPREADS, name, namespace=world.namespace)
        return bool(found.get("status", {}).get("observedGeneration"))

    await until(said)


async def holds(world: World, **shares: int) -> dict[str, Any]:
    """The Workload, as soon as it has these shares and none is pending."""
    want = {f"{name}1": units for name, units in shares.items()}
    return await world.until(
        "demo", lambda s: s["pending"] == 0 and placements({"status": s}) == want
    )


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


async def told(world: World, reason: str) -> list[str]:
    items = (await world.client.list(EVENTS, namespace=world.namespace))["items"]
    about = [each for each in items if each["regarding"]["kind"] == "WorkloadSpread"]
    return [each["note"] for each in about if each["reason"] == reason]


@pytest.mark.proves("W36")
async def test_a_dry_run_takes_nothing(pools: World) -> None:
    await apply(pools, subset("normal", 2), subset("elastic"))
    async with deciding(pools):
        await pools.workload("demo", replicas=1)
        await holds(pools, normal=1)
        before = await pools.client.get(WORKLOAD_SPREADS, "ws", namespace=pools.namespace)
        dry = {"dryRun": "All"}
        about = pools.manifest("other", replicas=5)
        await pools.client.request("POST", WORKLOADS.path(pools.namespace), body=about, params=dry)
        path = WORKLOADS.path(pools.namespace, "demo")
        patch = {"spec": {"replicas": 9}}
        await pools.client.request(
            "PATCH", path, body=patch, params=dry, content_type="application/merge-patch+json"
        )
        await pools.settle()
        assert placements(await pools.get("demo")) == {"normal1": 1}
        after = await pools.client.get(WORKLOAD_SPREADS, "ws", namespace=pools.namespace)
        assert after.get("status") == before.get("status")


@pytest.mark.proves("W24")
async def test_a_wide_spread_is_a_status_that_the_hub_takes(world: World) -> None:
    names = [f"c{n:03}" for n in range(40)]
    await asyncio.gather(*(world.cluster(name, labels={KIND: "wide"}) for name in names))
    subsets = [subset(f"s{n}", 8, kind="wide") for n in range(32)]
    await apply(world, *subsets)
    await world.workload("demo", replicas=200, cpu="100m")
    async with deciding(world):
        assert sum((await world.placed("demo")).values()) == 200
        status = await shown(world, lambda s: s["s0"]["replicas"] == 8)
        assert sum(each["replicas"] for name, each in status.items() if name) == 200
