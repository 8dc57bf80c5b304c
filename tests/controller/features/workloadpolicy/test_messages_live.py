"""What goes wrong with policies on a real hub: the words on the object, the Event, and what heals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest

from machinery.api.resources import CRDS, WORKLOAD_POLICIES
from machinery.errors import Invalid
from tests.controller.live import (
    World,
    at_rest,
    condition,
    counted,
    deciding,
    placements,
    policy,
    shown,
)
from tests.patience import until

ZONE = "topology.kubernetes.io/zone"
BOUND = {"stowage.dev/workload-policy": "demo"}
POLICIES = "workloadpolicies.stowage.dev"
MISSING = "0/2 clusters: workload-policy demo does not exist in namespace shop"
MISMATCH = "0/2 clusters: 2 didn't match the workload-policy constraints"


@pytest.fixture
async def zones(world: World) -> World:
    """Two clusters, each a zone of its own."""
    await world.cluster("m1", labels={ZONE: "member"})
    await world.cluster("h1", labels={ZONE: "host"})
    return world


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
@pytest.mark.proves("K21")
async def test_units_that_the_policy_does_not_mean_are_told_by_an_event(zones: World) -> None:
    await policy(zones, {"matchLabels": {"app": "else"}}, member=1, host=3)
    async with deciding(zones):
        await zones.workload("unmeant", replicas=6, labels=BOUND)
        status = await says(zones, "unmeant", "FailedToSchedule", MISMATCH)
        assert (status["state"], status["pending"]) == ("Failed", 6)
        assert condition(status, "Failed")["message"] == MISMATCH
        (event,) = await zones.events("unmeant")
        assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
        assert event["note"] == MISMATCH
        await policy(zones, {"matchLabels": {"app": "unmeant"}}, member=3, host=3)
        assert await zones.placed("unmeant") == {"m1": 3, "h1": 3}


@pytest.mark.long
@pytest.mark.proves("K16")
async def test_no_policy_of_that_name(zones: World) -> None:
    async with deciding(zones):
        await zones.workload("alone", replicas=6, labels=BOUND)
        status = await says(zones, "alone", "PolicyNotFound", MISSING)
        assert (status["state"], status["pending"]) == ("Pending", 6)
        (event,) = await zones.events("alone")
        assert (event["type"], event["note"]) == ("Warning", MISSING)


@pytest.mark.long
@pytest.mark.proves("K16", "K29", "D3")
async def test_the_policy_is_deleted_while_it_binds(zones: World) -> None:
    await policy(zones, member=1, host=3)
    async with deciding(zones):
        await zones.workload("short", replicas=6, labels=BOUND)
        await zones.refused("short", "ReplicasReached")
        await zones.client.delete(WORKLOAD_POLICIES, "demo", namespace="shop")
        await says(zones, "short", "PolicyNotFound", MISSING)
        assert placements(await zones.get("short")) == {"m1": 1, "h1": 3}
        await zones.edit("short", {"spec": {"replicas": 7}})
        await zones.until("short", lambda status: status["desired"] == 7)
        status = await says(zones, "short", "PolicyNotFound", MISSING)
        assert (status["state"], status["clusterSummary"]) == ("Scheduled", "h1=3,m1=1")
        assert status["pending"] == 3
        await policy(zones, member=1, host=6)
        assert await zones.placed("short") == {"m1": 1, "h1": 6}


@pytest.mark.long
@pytest.mark.proves("K8")
async def test_no_cluster_has_the_key_until_one_gets_it(world: World) -> None:
    await world.cluster("h1")
    await policy(world, host=3)
    async with deciding(world):
        await world.workload("lost", replicas=3, labels=BOUND)
        nowhere = "0/1 clusters: 1 not in a domain of workload-policy demo"
        status = await says(world, "lost", "FailedToSchedule", nowhere)
        assert status["state"] == "Failed"
        await world.label("h1", **{ZONE: "host"})
        assert await world.placed("lost") == {"h1": 3}


@pytest.mark.long
@pytest.mark.proves("K13", "K22")
async def test_a_quota_of_zero_until_it_is_raised(zones: World) -> None:
    await policy(zones, member=0, host=0)
    async with deciding(zones):
        await zones.workload("none", replicas=4, labels=BOUND)
        status = await says(
            zones,
            "none",
            "ReplicasReached",
            "0/2 clusters: 2 reached the replicas of workload-policy demo",
            "workload-policy demo reached member (0/0), host (0/0)",
        )
        assert (status["state"], status["assigned"]) == ("Pending", 0)
        await policy(zones, member=0, host=4)
        assert await zones.placed("none") == {"h1": 4}


@pytest.mark.long
@pytest.mark.proves("C15", "K29")
async def test_a_cluster_comes_to_another_domain_with_its_shares(zones: World) -> None:
    await policy(zones, host=3, spare=1)
    async with deciding(zones):
        await zones.workload("moved", replicas=3, labels=BOUND)
        assert await zones.placed("moved") == {"h1": 3}
        await zones.label("h1", **{ZONE: "spare"})
        await shown(zones, "host=0/3,spare=3/1")
        await zones.settle()
        assert placements(await zones.get("moved")) == {"h1": 3}
        await zones.edit("moved", {"spec": {"replicas": 5}})
        status = await says(
            zones,
            "moved",
            "ReplicasReached",
            "3 of 5 replicas have a cluster",
            "0/2 clusters: 1 not in a domain of workload-policy demo, "
            "1 reached the replicas of workload-policy demo",
            "workload-policy demo reached spare (3/1)",
        )
        assert status["clusterSummary"] == "h1=3"
        await zones.label("m1", **{ZONE: "host"})
        assert await zones.placed("moved") == {"h1": 3, "m1": 2}


@pytest.mark.long
@pytest.mark.proves("K5", "K21", "K29")
async def test_labels_are_edited_so_that_the_units_count_no_longer(zones: World) -> None:
    await policy(zones, {"matchLabels": {"app": "unit"}}, member=1, host=3)
    async with deciding(zones):
        await zones.workload("unit", replicas=4, labels=BOUND)
        assert await zones.placed("unit") == {"m1": 1, "h1": 3}
        await shown(zones, "member=1/1,host=3/3")
        await relabelled(zones, "unit", "else")
        told = await shown(zones, "member=0/1,host=0/3")
        assert told["workloads"] == 0
        assert placements(await zones.get("unit")) == {"m1": 1, "h1": 3}
        await zones.edit("unit", {"spec": {"replicas": 2}})
        found = await zones.until("unit", lambda s: s["assigned"] == 2)
        assert found["status"]["pending"] == 0
        await zones.edit("unit", {"spec": {"replicas": 3}})
        message = f"2 of 3 replicas have a cluster; {MISMATCH}"
        await zones.until("unit", lambda s: condition(s, "Scheduled")["message"] == message)
        assert await zones.events("unit", message)


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


@pytest.mark.long
@pytest.mark.proves("D3")
async def test_a_weight_of_zero_is_refused_with_its_field(world: World) -> None:
    nothing = [{"clusterSelector": {}, "weight": 0}]
    with pytest.raises(Invalid, match=r"spec\.distributionWeights\[0\]\.weight") as refused:
        await world.workload("weightless", distribution="Divided", distributionWeights=nothing)
    assert "should be greater than or equal to 1" in str(refused.value)


@pytest.mark.long
@pytest.mark.proves("D3", "K32")
async def test_from_a_hundred_thousand_to_none(world: World) -> None:
    await world.cluster("one")
    await world.cluster("two")
    async with deciding(world):
        await world.workload("many", replicas=100_000, distribution="Divided")
        status = await says(
            world,
            "many",
            "InsufficientCapacity",
            "160 of 100000 replicas have a cluster",
            "2/2 clusters: no room for more",
        )
        assert status["clusterSummary"] == "one=80,two=80"
        await world.edit("many", {"spec": {"replicas": 1}})
        await says(world, "many", "Scheduled", "1 of 1 replicas have a cluster")
        await world.edit("many", {"spec": {"replicas": 0}})
        status = await says(world, "many", "Scheduled", "0 of 0 replicas have a cluster")
        assert (status["clusterSummary"], status["pending"]) == ("one=0", 0)


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


@pytest.mark.long
@pytest.mark.proves("K17")
async def test_policies_that_no_longer_meet_the_rules(
    bare_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored under a schema without rules: a number as text, or what is required left out."""
    asked, space = counted(monkeypatch), bare_world.namespace
    await bare_world.cluster("h1", labels={ZONE: "host"})
    async with without_rules(bare_world):
        for name, (spec, _) in WRONG.items():
            body = {
                "apiVersion": WORKLOAD_POLICIES.api_version,
                "kind": "WorkloadPolicy",
                "metadata": {"name": name, "namespace": space},
                "spec": {k: v for k, v in {**RIGHT, **spec}.items() if v is not None},
            }
            await bare_world.client.create(WORKLOAD_POLICIES, body)
    async with deciding(bare_world):
        for name, (_, wrong) in WRONG.items():
            bound = {"stowage.dev/workload-policy": name}
            await bare_world.workload(name, replicas=2, labels=bound)
            message = f"0/1 clusters: workload-policy {name}: {wrong}"
            status = await says(bare_world, name, "InvalidPolicy", message)
            assert (status["state"], status["pending"]) == ("Pending", 2)
            (event,) = await bare_world.events(name)
            assert (event["type"], event["note"]) == ("Warning", message)
            ready = condition(await shown(bare_world, "", policy=name), "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "InvalidPolicy")
            assert ready["message"] == wrong
        await at_rest(asked, "workloadpolicies")
        for name in WRONG:
            await bare_world.client.merge_patch(
                WORKLOAD_POLICIES, name, {"spec": RIGHT}, namespace=space
            )
        for name in WRONG:
            assert await bare_world.placed(name) == {"h1": 2}


@asynccontextmanager
async def without_rules(world: World) -> AsyncIterator[None]:
    """The kind of policies as an older release might have had it: anything may stand in a spec."""
    strict = (await world.client.get(CRDS, POLICIES))["spec"]["versions"]
    loose = deepcopy(strict)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    loose[0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = anything
    await world.client.merge_patch(CRDS, POLICIES, {"spec": {"versions": loose}})
    try:
        await _until_rules(world, hold=False)
        yield
    finally:
        await world.client.merge_patch(CRDS, POLICIES, {"spec": {"versions": strict}})
        await _until_rules(world, hold=True)


async def _until_rules(world: World, *, hold: bool) -> None:
    """A server serves a changed schema a moment later."""
    empty = {
        "apiVersion": WORKLOAD_POLICIES.api_version,
        "kind": "WorkloadPolicy",
        "metadata": {"name": "probe", "namespace": world.namespace},
        "spec": {},
    }

    async def as_wanted() -> bool:
        try:
            await world.client.create(WORKLOAD_POLICIES, empty, dry_run=True)
        except Invalid:
            return hold
        return not hold

    await until(as_wanted, every=0.1)


async def claim(world: World, **units: int) -> None:
    """What a scheduler of another name writes before its placements."""
    shares = [{"cluster": cluster, "replicas": n} for cluster, n in units.items()]
    taken = {
        "workload": "shop/theirs",
        "uid": "uid-theirs",
        "holder": "another",
        "time": "2026-01-01T00:00:00.000000Z",
        "placements": shares,
    }
    await world.client.merge_patch(
        WORKLOAD_POLICIES,
        "demo",
        {"status": {"claims": [taken]}},
        namespace=world.namespace,
        subresource="status",
    )
