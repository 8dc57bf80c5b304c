"""Ledgers that begin to count a namespace which has its Workloads already: they get them in slices."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller.cache.placements import PlacementIndex
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadpolicy.counts import Tally, WorkloadPolicy, compile_policy
from controller.features.workloadquota.compiled import compile_quota
from controller.features.workloadquota.usage import Usage
from crds.names import LABEL_POLICY
from machinery import tasks
from machinery.api.resources import WORKLOAD_POLICIES, WORKLOADS
from machinery.tasks import end
from tests.controller.features.workloadquota.quotas import quota, used
from tests.controller.live import deployment
from tests.controller.make import ZONE, info, policy_spec
from tests.controller.memory import Stage

SLICE, MANY = 20, 60


def policy(name: str) -> WorkloadPolicy:
    meta = {"name": name, "namespace": "shop", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": policy_spec(a=9)}, WorkloadPolicy)


def index() -> PlacementIndex:
    return PlacementIndex([ReservationLedger(), Usage(), Tally()])


def change(bound: PlacementIndex) -> None:
    """What happens to a few of the Workloads of `fill`."""
    for name in ("w1", "w2"):
        bound.put(info(name, replicas=3), {"a": 3})
        bound.drop(("shop", name.replace("w", "w5")))
    bound.put(replace(info("w3"), deleting=True), {"a": 1})
    bound.assume(info("w4", replicas=2).with_present({"b": 2}), {"a": 1})


def fill(bound: PlacementIndex) -> None:
    for number in range(MANY):
        bound.put(info(f"w{number}"), {"a": 1})


@pytest.mark.proves("S2", "K33", "N4")
async def test_all_workloads_of_a_namespace_count_in_slices_whatever_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "SLICE", SLICE)
    first, later = index(), index()
    rules = [compile_policy(policy(name)) for name in ("one", "two")]
    for each in rules:
        first.ledger(Tally).put_policy(each)
    first.ledger(Usage).put_quota(compile_quota(quota(units=9)))
    for bound in (first, later):
        fill(bound)
    running = asyncio.create_task(later.run())
    await asyncio.sleep(0)
    tally = later.ledger(Tally)

    async def slices() -> int:
        """How many it takes; no one has more of the Workloads than a slice may."""
        number = 0
        while later.counting("shop"):
            version, number = later.version, number + 1
            await asyncio.sleep(0)
            assert later.version - version <= SLICE
        return number

    tally.put_policy(rules[0])
    later.ledger(Usage).put_quota(compile_quota(quota(units=9)))
    assert later.counting("shop")
    assert not tally.members(rules[0].key)
    await asyncio.sleep(0)
    for bound in (first, later):
        change(bound)
    assert await slices() >= 2
    tally.put_policy(rules[1])
    assert await slices() == 3, "so does each further policy of it"
    assert used(later) == used(first)
    for each in rules:
        assert tally.replicas_of(each.key) == first.ledger(Tally).replicas_of(each.key)
        assert tally.members(each.key) == first.ledger(Tally).members(each.key)
    await end([running])


@pytest.mark.proves("K33")
async def test_nothing_of_a_namespace_is_decided_before_all_of_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The policy is full of Workloads that were there before it."""
    monkeypatch.setattr(tasks, "SLICE", 1)
    stage, there = Stage(), 100
    stage.cluster("a", cpu="999", pods="999", **{ZONE: "a"})
    for number in range(there):
        stage.hub.put(
            WORKLOADS,
            {
                "metadata": {"name": f"w{number}", "namespace": "shop"},
                "spec": {
                    "schedulerName": "another",
                    "replicas": 1,
                    "targetDeployment": deployment(f"w{number}", "1"),
                },
                "status": {"placements": [{"cluster": "a", "replicas": 1}]},
            },
        )
    async with stage.leading():
        meta = {"name": "full", "namespace": "shop"}
        stage.hub.put(WORKLOAD_POLICIES, {"metadata": meta, "spec": policy_spec(a=there)})
        stage.workload("late", labels={"app": "late", LABEL_POLICY: "full"})
        await stage.until(lambda: stage.says("late")[0])
        assert stage.says("late")[:2] == ("False", "ReplicasReached")
