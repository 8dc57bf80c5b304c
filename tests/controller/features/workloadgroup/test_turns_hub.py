"""Turns of gangs wake the Workloads that wait, with a whole controller on a hub in memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from crds.names import LABEL_GROUP
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_GROUPS, WORKLOADS
from tests.controller.features.workloadgroup.grouping import Gangs

PATIENCE = 20
pytestmark = pytest.mark.proves("G8", "G16")


@pytest.fixture
def stage(tmp_path: Path) -> Gangs:
    return Gangs(tmp_path, patienceSeconds=PATIENCE)


def gang(stage: Gangs, name: str, units: int, quorum: int | None = None, **spec: object) -> None:
    about = {"minMember": quorum or units, **spec}
    meta = {"name": name, "namespace": "shop", "generation": 1}
    stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": about})
    stage.workload(name, replicas=units, labels={LABEL_GROUP: name}, distribution="Divided")


def units(stage: Gangs, name: str) -> int:
    return sum(stage.placed(name).values())


def end(stage: Gangs, name: str) -> None:
    for resource in (WORKLOADS, WORKLOAD_GROUPS):
        stage.hub.remove(resource, name)


async def test_a_later_one_gives_up_what_it_holds_within_a_second(stage: Gangs) -> None:
    stage.cluster("a", cpu="9")
    gang(stage, "late", 10)
    async with stage.led():
        await stage.until(lambda: stage.says("late")[1] == "WaitingForGroup")
        meta = {"name": "early", "namespace": "shop", "generation": 1}
        meta["creationTimestamp"] = "2020-01-01T00:00:00Z"
        stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": {"minMember": 9}})
        stage.workload("early", replicas=9, labels={LABEL_GROUP: "early"}, distribution="Divided")
        await stage.until(lambda: units(stage, "early") == 9, seconds=2)
        await stage.until(lambda: stage.says("late")[1] != "WaitingForGroup", seconds=5)
        assert units(stage, "late") == 0
        await stage.calm(30)
        assert units(stage, "early") == 9


async def test_a_big_one_gets_its_turn_and_the_others_go_on_behind_it(stage: Gangs) -> None:
    stage.cluster("a", cpu="12")
    async with stage.led():
        gang(stage, "runs", 6)
        await stage.until(lambda: units(stage, "runs") == 6)
        await stage.calm(1)
        gang(stage, "big", 8)
        await stage.until(lambda: stage.says("big")[0] == "False")
        gang(stage, "first", 2)
        await stage.until(lambda: units(stage, "first") == 2)
        await stage.calm(PATIENCE + 1)
        gang(stage, "small", 2)
        await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])
        stage.workload("alone", replicas=1)
        await stage.until(lambda: units(stage, "alone") == 1)
        end(stage, "first")
        await stage.calm(20)
        assert (units(stage, "small"), units(stage, "big")) == (0, 0)
        end(stage, "runs")
        await stage.until(lambda: units(stage, "big") == 8, seconds=15)
        await stage.until(lambda: units(stage, "small") == 2, seconds=15)


async def big_has_the_turn(stage: Gangs) -> None:
    """A gang of 6 runs on 10 cpu, and one of 8 has waited for long enough."""
    gang(stage, "runs", 6)
    await stage.until(lambda: units(stage, "runs") == 6)
    await stage.calm(1)
    gang(stage, "big", 8)
    await stage.until(lambda: stage.says("big")[0] == "False")
    await stage.calm(PATIENCE + 1)


async def small_behind_big(stage: Gangs) -> None:
    """So it is, and one of 2 stands behind that."""
    await big_has_the_turn(stage)
    gang(stage, "small", 2)
    await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])


async def test_those_behind_one_that_is_deleted_start(stage: Gangs) -> None:
    stage.cluster("a", cpu="10")
    async with stage.led():
        await small_behind_big(stage)
        stage.hub.remove(WORKLOAD_GROUPS, "big")
        await stage.until(lambda: units(stage, "small") == 2, seconds=10)


async def test_a_label_that_some_cluster_gets_wakes_a_gang_that_waits_for_a_domain(
    stage: Gangs,
) -> None:
    stage.cluster("a", cpu="8")
    gang(stage, "crew", 2, topology={"topologyKey": "tier", "mode": "Required"})
    async with stage.led():
        await stage.until(lambda: "no cluster has that label" in stage.says("crew")[2])
        stage.hub.edit(MEMBER_CLUSTERS, "a", {"metadata": {"labels": {"tier": "gold"}}})
        await stage.until(lambda: units(stage, "crew") == 2)


async def test_a_restart_forgets_nobody(stage: Gangs) -> None:
    stage.cluster("a", cpu="10")
    async with stage.led():
        await big_has_the_turn(stage)
    gang(stage, "small", 2)
    async with stage.led(identity="two"):
        await stage.until(lambda: "kept for WorkloadGroup shop/big" in stage.says("small")[2])
        await stage.calm(20)
        assert units(stage, "small") == 0


@pytest.mark.long
async def test_everybody_runs_though_gangs_hold_room_and_leaders_change(stage: Gangs) -> None:
    """Gangs of all sizes on forty cpu; each that has its units ends after a while."""
    rng, coming = random.Random(7), [f"g{i}" for i in range(12)]
    wanted: dict[str, int] = {}
    ends: dict[str, float] = {}
    for name in "abcd":
        stage.cluster(name, cpu="10")

    def step(now: float) -> None:
        if coming and rng.random() < 0.2:
            name = coming.pop()
            wanted[name] = rng.choice([2, 3, 12, 20, 30, 38])
            gang(stage, name, wanted[name], scheduleTimeoutSeconds=15)
        for name in [n for n, least in wanted.items() if units(stage, n) == least]:
            ends[name] = now + rng.randint(10, 40)
            del wanted[name]
        for name in [n for n, at in ends.items() if at <= now]:
            end(stage, name)
            del ends[name]
        assert all(not units(stage, name) for name in wanted), "no half of a gang"

    for term in range(10):
        async with stage.led(identity=f"term-{term}"):
            for _ in range(100):
                step(stage.clock.monotonic())
                await stage.calm(1)
        if not (coming or wanted or ends):
            return
    pytest.fail(f"they wait for ever: {[(n, stage.says(n)) for n in wanted]}")
