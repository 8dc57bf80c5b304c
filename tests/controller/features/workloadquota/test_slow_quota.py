"""A quota that two schedulers share, while writes are slow or their outcome is not known."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from controller.claims.claims import CLAIM_SECONDS
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_POLICIES, WORKLOAD_QUOTAS, WORKLOADS
from machinery.errors import Conflict, Unreachable
from tests.controller.features.workloadquota.quota import (
    QUOTA,
    TAINTS,
    arranged,
    ask,
    both,
    most_in,
    units,
)
from tests.controller.features.workloadquota.quotas import body
from tests.controller.make import ZONE, policy_spec
from tests.controller.memory import Stage

SLOW_SECONDS = 25.0


@pytest.mark.proves("K24", "L5")
@pytest.mark.parametrize("lands", [True, False])
async def test_a_second_scheduler_stays_within_a_quota_however_slow_the_first_one_writes(
    lands: bool,
) -> None:
    stage, writing = arranged(), asyncio.Event()

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/workloads/w1/status") and not writing.is_set():
            writing.set()
            await stage.clock.sleep(SLOW_SECONDS)
            if not lands:
                stage.hub.remove(WORKLOADS, "w1")

    stage.hub.faults.append(slow)
    async with both(stage):
        ask(stage, "w1", "stowage")
        await stage.until(writing.is_set)
        ask(stage, "w2", "second")
        assert await most_in(stage, 2 * SLOW_SECONDS) == QUOTA
        assert stage.placed("w1" if lands else "w2") == {"h1": QUOTA}


@pytest.mark.proves("K14", "K24")
@pytest.mark.parametrize("kind", ["WorkloadPolicy", "WorkloadQuota"])
async def test_what_a_decision_gives_up_is_nobodys_before_it_is_written(
    kind: str,
) -> None:
    """A user scales down and up again, before the hub has answered the first decision."""
    stage, writing = arranged(host=QUOTA if kind == "WorkloadPolicy" else 99), asyncio.Event()
    if kind == "WorkloadQuota":
        stage.hub.put(WORKLOAD_QUOTAS, body(units=QUOTA))

    async def slow(method: str, path: str, _body: Any) -> None:
        if method == "PATCH" and path.endswith("/workloads/first/status") and not writing.is_set():
            writing.set()
            await stage.clock.sleep(SLOW_SECONDS)

    async with stage.leading():
        ask(stage, "first", "stowage")
        await stage.until(lambda: units(stage) == QUOTA)
        stage.hub.faults.append(slow)
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": 1}})
        await stage.until(writing.is_set)
        ask(stage, "other", "stowage")
        await stage.calm(1)
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": QUOTA}})
        assert await most_in(stage, 2 * SLOW_SECONDS) == QUOTA
        assert stage.placed("first") == {"h1": QUOTA}
        stage.hub.edit(WORKLOADS, "first", {"spec": {"replicas": 0}})
        await stage.until(lambda: stage.placed("other") == {"h1": QUOTA})


@pytest.mark.proves("K24", "L5", "L17")
async def test_a_write_that_lands_after_its_client_gave_up_exceeds_no_quota() -> None:
    """What it says next makes a new version of the object, so that the late one is refused."""
    stage = arranged()
    landing: list[asyncio.Task[None]] = []

    async def lands(body: Any) -> None:
        await stage.clock.sleep(15)
        with suppress(Conflict):
            stage.hub.edit(WORKLOADS, "first", body, status=True)

    async def given_up(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.endswith("/workloads/first/status") and not landing:
            landing.append(asyncio.create_task(lands(body)))
            stage.hub.edit(MEMBER_CLUSTERS, "h1", {"spec": {"taints": TAINTS}})  # not again
            await stage.clock.sleep(5)
            raise Unreachable("timed out")

    stage.hub.faults.append(given_up)
    async with both(stage):
        ask(stage, "first", "stowage")
        await stage.until(lambda: landing)
        await stage.calm(6)
        ask(stage, "other", "second", tolerations=[{"operator": "Exists"}])
        assert await most_in(stage, 70) == QUOTA


REACHED = (
    "0/2 clusters: 1 not in a domain of workload-policy demo, "
    "1 reached the replicas of workload-policy demo; "
    "workload-policy demo reached host (3/3)"
)


@pytest.mark.proves("K24")
async def test_what_is_only_claimed_is_reached_until_the_claim_is_void() -> None:
    """Quota that another process has taken for a Workload that nobody here has seen."""
    stage = arranged()
    stage.cluster("m1", **{ZONE: "member"})
    claimed(stage, h1=3)
    async with stage.leading():
        ask(stage, "late", "stowage")
        await stage.until(lambda: stage.says("late")[2] == REACHED)
        assert stage.says("late")[:2] == ("False", "ReplicasReached")
        await stage.calm(CLAIM_SECONDS - 15)
        assert stage.placed("late") == {}
        await stage.until(lambda: stage.placed("late") == {"h1": 3}, seconds=40)


@pytest.mark.proves("K20", "K24")
async def test_claims_in_a_domain_that_has_no_cluster_here() -> None:
    stage = arranged(mars=2, host=QUOTA)
    stage.cluster("m1", **{ZONE: "member"})
    claimed(stage, rover=2, h1=3)
    async with stage.leading():
        ask(stage, "late", "stowage")
        await stage.until(lambda: stage.says("late")[2] == REACHED)
        await stage.until(
            lambda: (
                stage.hub.read(WORKLOAD_POLICIES, "demo")["status"].get("summary")
                == "mars=0/2,host=3/3"
            )
        )


@pytest.mark.proves("K16")
async def test_the_affairs_of_other_policies_cost_no_patience() -> None:
    stage = Stage("h1", **{ZONE: "host"})
    async with stage.leading():
        ask(stage, "demo", "stowage")
        await stage.until(lambda: stage.says("demo")[1] == "PolicyNotFound")
        for number in range(20):
            meta = {"name": "demo", "namespace": f"other-{number}"}
            stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": policy_spec(host=QUOTA)})
            await stage.calm(0.2)
        meta = {"name": "demo", "namespace": "shop"}
        stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": policy_spec(host=QUOTA)})
        await stage.until(lambda: stage.placed("demo") == {"h1": QUOTA}, seconds=1)


def claimed(stage: Stage, **units: int) -> None:
    """What a scheduler of another name writes before its placements."""
    taken = {
        "workload": "shop/theirs",
        "uid": "uid-theirs",
        "holder": "another",
        "time": "2026-01-01T00:00:00.000000Z",
        "placements": [{"cluster": cluster, "replicas": n} for cluster, n in units.items()],
    }
    stage.hub.edit(WORKLOAD_POLICIES, "demo", {"status": {"claims": [taken]}}, status=True)
