"""What goes wrong with policies on a real hub: the words on the object, the Event, and what heals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest

from machinery.errors import Invalid
from machinery.resources import CRDS, EVENTS, WORKLOAD_POLICIES

from .live import World, condition, counted, deciding, placements, policy

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


async def events(world: World, name: str) -> list[dict[str, Any]]:
    """The Events about a Workload, a moment later."""
    await asyncio.sleep(1)
    listed = (await world.client.list(EVENTS, namespace=world.namespace))["items"]
    return [each for each in listed if each["regarding"].get("name") == name]


async def shown(world: World, summary: str) -> dict[str, Any]:
    """The policy's status, as soon as its column says so."""
    for _ in range(100):
        found = await world.client.get(WORKLOAD_POLICIES, "demo", namespace=world.namespace)
        if found.get("status", {}).get("summary") == summary:
            return dict(found["status"])
        await asyncio.sleep(0.1)
    raise AssertionError(found.get("status"))


@pytest.mark.proves("K21")
async def test_units_that_the_policy_does_not_mean_are_told_by_an_event(zones: World) -> None:
    await policy(zones, {"matchLabels": {"app": "else"}}, member=1, host=3)
    async with deciding(zones):
        await zones.workload("unmeant", replicas=6, labels=BOUND)
        status = await says(zones, "unmeant", "FailedToSchedule", MISMATCH)
        assert (status["state"], status["pending"]) == ("Failed", 6)
        assert condition(status, "Failed")["message"] == MISMATCH
        (event,) = await events(zones, "unmeant")
        assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
        assert event["note"] == MISMATCH
        await policy(zones, {"matchLabels": {"app": "unmeant"}}, member=3, host=3)
        assert await zones.placed("unmeant") == {"m1": 3, "h1": 3}


@pytest.mark.proves("K16")
async def test_no_policy_of_that_name(zones: World) -> None:
    async with deciding(zones):
        await zones.workload("alone", replicas=6, labels=BOUND)
        status = await says(zones, "alone", "PolicyNotFound", MISSING)
        assert (status["state"], status["pending"]) == ("Pending", 6)
        (event,) = await events(zones, "alone")
        assert (event["type"], event["note"]) == ("Warning", MISSING)


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
            "3 of 5 units have a cluster",
            "0/2 clusters: 1 not in a domain of workload-policy demo, "
            "1 reached the replicas of workload-policy demo",
            "workload-policy demo reached spare (3/1)",
        )
        assert status["clusterSummary"] == "h1=3"
        await zones.label("m1", **{ZONE: "host"})
        assert await zones.placed("moved") == {"h1": 3, "m1": 2}


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
        message = f"2 of 3 units have a cluster; {MISMATCH}"
        await zones.until("unit", lambda s: condition(s, "Scheduled")["message"] == message)
        assert message in [event["note"] for event in await events(zones, "unit")]


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


@pytest.mark.proves("D3")
async def test_a_weight_of_zero_is_refused_with_its_field(world: World) -> None:
    nothing = [{"clusterSelector": {}, "weight": 0}]
    with pytest.raises(Invalid, match=r"spec\.distributionWeights\[0\]\.weight") as refused:
        await world.workload("weightless", distribution="Divided", distributionWeights=nothing)
    assert "should be greater than or equal to 1" in str(refused.value)


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
            "160 of 100000 units have a cluster",
            "2/2 clusters: no room for more",
        )
        assert status["clusterSummary"] == "one=80,two=80"
        await world.edit("many", {"spec": {"replicas": 1}})
        await says(world, "many", "Scheduled", "1 of 1 units have a cluster")
        await world.edit("many", {"spec": {"replicas": 0}})
        status = await says(world, "many", "Scheduled", "0 of 0 units have a cluster")
        assert (status["clusterSummary"], status["pending"]) == ("", 0)


class TestClaimed:
    """Quota that another process has taken for a Workload that nobody here has seen."""

    @pytest.mark.proves("K24")
    async def test_what_is_only_claimed_is_reached_until_the_claim_is_void(
        self, zones: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("controller.claims.CLAIM_SECONDS", 4.0)
        await policy(zones, host=3)
        await claim(zones, h1=3)
        async with deciding(zones):
            await zones.workload("late", replicas=3, labels=BOUND)
            status = await says(
                zones,
                "late",
                "ReplicasReached",
                "0/2 clusters: 1 not in a domain of workload-policy demo, "
                "1 reached the replicas of workload-policy demo",
                "workload-policy demo reached host (3/3)",
            )
            assert (status["state"], status["assigned"]) == ("Pending", 0)
            assert await zones.placed("late", seconds=40) == {"h1": 3}

    @pytest.mark.proves("K20", "K24")
    async def test_claims_in_a_domain_that_has_no_cluster_here(self, zones: World) -> None:
        await policy(zones, mars=2, host=3)
        await claim(zones, rover=2, h1=3)
        async with deciding(zones):
            await zones.workload("late", replicas=3, labels=BOUND)
            status = await says(
                zones,
                "late",
                "ReplicasReached",
                "0/2 clusters: 1 not in a domain of workload-policy demo, "
                "1 reached the replicas of workload-policy demo",
                "workload-policy demo reached host (3/3)",
            )
            assert status["pending"] == 3
            await shown(zones, "mars=0/2,host=3/3")


@pytest.mark.proves("K17")
async def test_a_policy_that_no_longer_meets_the_rules(bare_world: World) -> None:
    """Stored under a schema without rules; the present one would have refused it."""
    await bare_world.cluster("h1", labels={ZONE: "host"})
    wrong = "spec.allocationType: 'require' is none of Required, Preferred"
    async with without_rules(bare_world):
        await policy(bare_world, kind="require", host=3)
    async with deciding(bare_world):
        await bare_world.workload("strict", replicas=2, labels=BOUND)
        message = f"0/1 clusters: workload-policy demo: {wrong}"
        status = await says(bare_world, "strict", "InvalidPolicy", message)
        assert (status["state"], status["pending"]) == ("Pending", 2)
        (event,) = await events(bare_world, "strict")
        assert (event["type"], event["note"]) == ("Warning", message)
        told = await shown(bare_world, "")
        ready = condition(told, "Ready")
        assert (ready["status"], ready["reason"], ready["message"]) == (
            "False",
            "InvalidPolicy",
            wrong,
        )
        await policy(bare_world, host=3)
        assert await bare_world.placed("strict") == {"h1": 2}


@pytest.mark.proves("K17")
@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (
            {"allocationPolicy": [{"name": "host", "replicas": "3"}]},
            "spec.allocationPolicy[0].replicas: Expected `int`, got `str`",
        ),
        ({"allocationPolicy": None}, "spec.allocationPolicy: name at least one domain"),
        ({"labelSelector": None}, "spec.labelSelector: say which Workloads count"),
        (
            {"allocationPolicy": [{"name": "no value", "replicas": 3}]},
            "spec.allocationPolicy: 'no value' is no value of a label",
        ),
    ],
)
async def test_a_policy_of_the_wrong_form(
    bare_world: World, spec: dict[str, Any], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored under a schema without rules: a number as text, or what is required left out."""
    asked = counted(monkeypatch)
    await bare_world.cluster("h1", labels={ZONE: "host"})
    rules = {
        "topologyKey": ZONE,
        "labelSelector": {},
        "allocationPolicy": [{"name": "host", "replicas": 3}],
        "allocationType": "Required",
        **spec,
    }
    body = {
        "apiVersion": WORKLOAD_POLICIES.api_version,
        "kind": "WorkloadPolicy",
        "metadata": {"name": "demo", "namespace": bare_world.namespace},
        "spec": {name: value for name, value in rules.items() if value is not None},
    }
    async with without_rules(bare_world):
        await bare_world.client.create(WORKLOAD_POLICIES, body, namespace=bare_world.namespace)
    async with deciding(bare_world):
        await bare_world.workload("strict", replicas=2, labels=BOUND)
        message = f"0/1 clusters: workload-policy demo: {wrong}"
        await says(bare_world, "strict", "InvalidPolicy", message)
        ready = condition(await shown(bare_world, ""), "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "InvalidPolicy")
        assert ready["message"] == wrong
        asked.clear()
        await asyncio.sleep(3)
        assert not [path for path in asked if "workloadpolicies" in path], "and rests"
        right = {"labelSelector": {}, "allocationPolicy": [{"name": "host", "replicas": 3}]}
        await bare_world.client.merge_patch(
            WORKLOAD_POLICIES, "demo", {"spec": right}, namespace=bare_world.namespace
        )
        assert await bare_world.placed("strict") == {"h1": 2}


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
    for _ in range(100):
        try:
            await world.client.create(WORKLOAD_POLICIES, empty, dry_run=True)
            held = False
        except Invalid:
            held = True
        if held == hold:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the rules of {POLICIES} hold: {held}")


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
