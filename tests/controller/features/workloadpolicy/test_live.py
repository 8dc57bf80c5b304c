"""WorkloadPolicies on a real hub: what flips without a touch, what is written, and who may take what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from machinery.api.resources import WORKLOAD_POLICIES
from machinery.types.metadata import Object
from tests.controller.live import (
    World,
    condition,
    deciding,
    placements,
    policy,
    shown,
)
from tests.patience import until

ZONE = "topology.kubernetes.io/zone"
LABEL = "stowage.dev/workload-policy"
BOUND = {LABEL: "demo"}
QUOTA = 60
POLICIES = "workloadpolicies.stowage.dev"


class Shown(Object, frozen=True):
    """A Workload as far as its placements are concerned."""

    status: dict[str, Any] = msgspec.field(default_factory=dict)


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


@pytest.mark.proves("K29")
async def test_an_edited_policy_moves_nothing_and_shrinking_begins_there(zones: World) -> None:
    await policy(zones, member=1, host=3)
    async with deciding(zones):
        await zones.workload("demo", replicas=4, labels=BOUND)
        assert await zones.placed("demo") == {"h1": 3, "m1": 1}
        await policy(zones, member=1, host=1)
        await shown(zones, "member=1/1,host=3/1")
        assert placements(await zones.get("demo")) == {"h1": 3, "m1": 1}
        await zones.edit("demo", {"spec": {"replicas": 2}})
        found = await zones.until("demo", lambda s: s["assigned"] == 2)
        assert placements(found) == {"h1": 1, "m1": 1}


@pytest.mark.long
@pytest.mark.proves("K14")
async def test_without_its_label_it_is_bound_no_longer_and_stays(zones: World) -> None:
    await policy(zones, member=1, host=3)
    async with deciding(zones):
        await zones.workload("demo", replicas=4, labels=BOUND)
        assert await zones.placed("demo") == {"h1": 3, "m1": 1}
        await zones.edit("demo", {"metadata": {"labels": {LABEL: None}}})
        found = await zones.until("demo", lambda s: "policyRef" not in s)
        assert placements(found) == {"h1": 3, "m1": 1}
        await zones.edit("demo", {"spec": {"replicas": 9}})
        found = await zones.until("demo", lambda s: s["assigned"] == 9)
        after = placements(found)
        assert (after["h1"], after["m1"]) in ((8, 1), (3, 6))


@pytest.mark.long
@pytest.mark.proves("K17")
async def test_the_method_is_filled_in_without_admission(bare_world: World) -> None:
    await bare_world.cluster("h1", labels={ZONE: "host"})
    async with deciding(bare_world):
        await policy(bare_world, host=3)
        await bare_world.workload("demo", replicas=2, labels=BOUND)
        assert await bare_world.placed("demo") == {"h1": 2}

        async def filled_in() -> bool:
            found = await bare_world.client.get(WORKLOAD_POLICIES, "demo", namespace="shop")
            return bool(found["spec"].get("allocationMethod") == "Balance")

        await until(filled_in)


async def says(world: World, name: str, reason: str, *parts: str) -> dict[str, Any]:
    """The status, as soon as the condition has that reason and its message these parts."""
    message = "; ".join(parts)

    def told(status: Mapping[str, Any]) -> bool:
        said = condition(status, "Scheduled")
        return (said["reason"], said["message"]) == (reason, message)

    found = await world.until(name, told)
    status: dict[str, Any] = found["status"]
    assert sum(placements(found).values()) + status["pending"] == status["desired"]
    assert status["assigned"] + status["pending"] == status["desired"]
    return status


async def relabelled(world: World, name: str, app: str) -> None:
    """Its units carry another label from now on."""
    pods = {"metadata": {"labels": {"app": app}}}
    template = {"spec": {"selector": {"matchLabels": {"app": app}}, "template": pods}}
    await world.edit(name, {"spec": {"targetDeployment": template}})


@pytest.mark.long
@pytest.mark.proves("K5", "K33")
async def test_what_counts_no_longer_makes_room_for_who_waits(zones: World) -> None:
    """Units get other labels, or their cluster another domain: the quota they took is free."""
    either = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["one", "two"]}]}
    await policy(zones, either, host=3)
    async with deciding(zones):
        await zones.workload("one", replicas=3, labels=BOUND)
        assert await zones.placed("one") == {"h1": 3}
        await zones.workload("two", replicas=3, labels=BOUND)
        await zones.refused("two", "ReplicasReached")
        await relabelled(zones, "one", "else")
        assert await zones.placed("two") == {"h1": 3}
        await relabelled(zones, "one", "one")
        await shown(zones, "host=6/3")
        await zones.edit("two", {"spec": {"replicas": 4}})
        await zones.refused("two", "ReplicasReached")
        await zones.label("h1", **{ZONE: "spare"})
        await zones.label("m1", **{ZONE: "host"})
        assert await zones.placed("two") == {"h1": 3, "m1": 1}
        assert placements(await zones.get("one")) == {"h1": 3}


VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "type": (
        {"allocationType": "require"},
        "spec.allocationType: Input should be 'Required' or 'Preferred', not 'require'",
    ),
    "text": (
        {"allocationPolicy": [{"name": "host", "replicas": "3"}]},
        "spec.allocationPolicy[0].replicas: Input should be a valid integer, not '3'",
    ),
    "domains": (
        {"allocationPolicy": None},
        "spec.allocationPolicy: Field required",
    ),
    "selector": (
        {"labelSelector": None},
        "spec.labelSelector: Field required",
    ),
    "value": (
        {"allocationPolicy": [{"name": "no value", "replicas": 3}]},
        f"spec.allocationPolicy[0].name: String should match pattern '{VALUE}', not 'no value'",
    ),
}
"""By the name of the policy and of its Workload: what is wrong with it, and the words for that."""
RIGHT = {
    "topologyKey": ZONE,
    "labelSelector": {},
    "allocationPolicy": [{"name": "host", "replicas": 30}],
    "allocationType": "Required",
}
