"""WorkloadPolicies on a real hub: what flips without a touch, what is written, and who may take what."""

from __future__ import annotations

import pytest

from tests.controller.live import (
    World,
    condition,
    deciding,
    policy,
    shown,
)

ZONE = "topology.kubernetes.io/zone"
LABEL = "stowage.dev/workload-policy"
BOUND = {LABEL: "demo"}


@pytest.fixture
async def zones(world: World) -> World:
    """Two clusters, each a zone of its own."""
    await world.cluster("m1", labels={ZONE: "member"}, cpu="1000", pods="5000")
    await world.cluster("h1", labels={ZONE: "host"}, cpu="1000", pods="5000")
    return world


@pytest.mark.proves("K16", "K25", "K26", "K32", "K14")
async def test_the_worked_example_with_the_policy_after_the_workload(zones: World) -> None:
    async with deciding(zones):
        await zones.workload("demo", replicas=6, labels=BOUND)
        said = await zones.refused("demo", "PolicyNotFound")
        assert "workload-policy demo does not exist in namespace shop" in said["message"]
        await policy(zones, member=1, host=3)
        said = await zones.refused("demo", "ReplicasReached")
        found = await zones.get("demo")
        status = found["status"]
        assert (status["desired"], status["assigned"], status["pending"]) == (6, 4, 2)
        assert status["clusterSummary"] == "m1=1,h1=3", "in the order of the list"
        assert status["policyRef"] == {"name": "demo"}
        assert "reached member (1/1), host (3/3)" in said["message"]
        told = await shown(zones, "member=1/1,host=3/3")
        assert told["workloads"] == 1
        assert told["allocated"] == [
            {"name": "member", "replicas": 1, "desired": 1},
            {"name": "host", "replicas": 3, "desired": 3},
        ]
        assert condition(told, "Ready")["status"] == "True"


@pytest.mark.proves("K5", "K33")
async def test_a_quota_is_shared_and_free_at_once(zones: World) -> None:
    await policy(zones, host=3)
    async with deciding(zones):
        await zones.workload("first", replicas=3, labels=BOUND)
        assert await zones.placed("first") == {"h1": 3}
        await zones.workload("second", replicas=2, labels=BOUND)
        await zones.refused("second", "ReplicasReached")
        await zones.delete("first")
        assert await zones.placed("second") == {"h1": 2}
        await shown(zones, "host=2/3")
