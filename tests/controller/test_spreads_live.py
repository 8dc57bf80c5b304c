"""WorkloadSpreads on a real hub: placed by real objects, and told through the schema of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from machinery.api.resources import WORKLOAD_SPREADS, WORKLOADS

from .live import World, deciding, placements
from .spreads import KIND, stored, subset


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


async def scale(world: World, replicas: int) -> None:
    """kubectl scale, or an autoscaler."""
    about = {"namespace": world.namespace, "subresource": "scale"}
    await world.client.merge_patch(WORKLOADS, "demo", {"spec": {"replicas": replicas}}, **about)


async def holds(world: World, **shares: int) -> dict[str, Any]:
    """The Workload, as soon as it has these shares and none is pending."""
    want = {f"{name}1": units for name, units in shares.items()}
    return await world.until(
        "demo", lambda s: s["pending"] == 0 and placements({"status": s}) == want
    )


def costs(found: Mapping[str, Any]) -> dict[str, list[tuple[int, int]]]:
    return {
        each["name"]: [(cost["cost"], cost["replicas"]) for cost in each["deletionCosts"]]
        for entry in found["status"].get("overrides", [])
        for each in entry["clusters"]
    }


@pytest.mark.proves("W3", "W6", "W10", "W14")
async def test_a_hundred_and_elastic_scaled_by_the_scale_subresource(pools: World) -> None:
    await apply(pools, subset("normal", 100), subset("elastic"))
    async with deciding(pools):
        await pools.workload("demo", replicas=80, cpu="100m")
        found = await holds(pools, normal=80)
        assert costs(found) == {"normal1": [(200, 80)]}
        await scale(pools, 130)
        found = await holds(pools, normal=100, elastic=30)
        assert costs(found) == {"normal1": [(200, 100)], "elastic1": [(100, 30)]}
        await scale(pools, 110)
        await holds(pools, normal=100, elastic=10)
        scaled = await pools.client.get(
            WORKLOADS, "demo", namespace=pools.namespace, subresource="scale"
        )
        assert scaled["status"]["selector"] == "app=demo"


@pytest.mark.proves("W11")
async def test_a_patch_is_stored_whole_also_where_it_takes_away(pools: World) -> None:
    patch = {"metadata": {"labels": {"arch": "arm"}}}
    away = {"spec": {"containers": [{"name": "main", "resources": None}]}}
    await apply(pools, subset("normal", 1, patch=patch), subset("elastic", patch=away))
    async with deciding(pools):
        await pools.workload("demo", replicas=2)
        found = await holds(pools, normal=1, elastic=1)
        entries = {each["name"]: each for each in found["status"]["overrides"]}
        assert entries["normal"]["patch"] == patch
        text = '{"spec":{"containers":[{"name":"main","resources":null}]}}'
        assert entries["elastic"]["patch"] == text


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
