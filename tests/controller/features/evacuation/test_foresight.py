"""What a simulation says of a fleet in memory is what then happens there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.framework.profile import SchedulerConfiguration
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from stowage.fleet.inventory import PlanInputs
from stowage.simulation import drain, rebalance, simulate
from stowage.simulation.plan import Where
from stowage.simulation.simulate import Scenario, SimulationResult
from tests.controller.live import READY as LIVE_READY
from tests.controller.live import SINCE
from tests.controller.memory import Stage

from .movingfleet import QUICK, Members
from .test_moves import stateful

READY = {**LIVE_READY, "lastTransitionTime": SINCE}

FOUR = ("m1", "m2", "m3", "m4")
TIGHT = replace(QUICK, max_moving="20%")


@dataclass(frozen=True, slots=True)
class InMemory(Where):
    """A hub in memory, as commands read one."""

    stage: Any = None
    movement: Any = TIGHT

    def present(self) -> PlanInputs:
        found = PlanInputs()
        listed = self.stage.hub.all(MEMBER_CLUSTERS)
        found.clusters = [msgspec.convert(each, MemberCluster) for each in listed]
        for each in self.stage.hub.all(WORKLOADS):
            found.add(known(msgspec.convert(each, Workload)), each)
        return found

    def configuration(self) -> SchedulerConfiguration:
        return replace(Where.configuration(self), movement=self.movement)


def simulated(stage: Stage, scenario: Scenario) -> SimulationResult:
    where = InMemory("shop", stage=stage)
    present, configuration = where.present(), where.configuration()
    (found,) = simulate.results(scenario, where, present, configuration, clock=stage.clock)
    return found


@asynccontextmanager
async def busy() -> AsyncIterator[tuple[Stage, Members]]:
    """Four clusters, nearly full, with Workloads of several kinds and priorities, all ready."""
    stage = Stage()
    members = Members(stage, FOUR)
    for name in FOUR:
        stage.cluster(name, cpu="14", **{"topology.kubernetes.io/zone": name})
    async with stage.leading(movement=TIGHT), members.following():
        for number in range(8):
            high = number % 2
            spec = {"priority": 100 * high, "distribution": "Divided"}
            stage.workload(f"web-{number}", replicas=4, created=number, **spec)
        stage.workload("db", replicas=4, created=20, **stateful())
        stage.workload("whole", replicas=3, created=21)
        stage.workload("copies", replicas=1, created=22, distribution="Duplicated")
        every = {"tolerations": [{"operator": "Exists"}]}
        stage.workload("stays", replicas=4, created=23, distribution="Divided", **every)
        names = [each["metadata"]["name"] for each in stage.hub.all(WORKLOADS)]
        await stage.until(lambda: all(stage.placed(name) for name in names))
        await stage.until(lambda: all(members.looks.get(n, ()) for n in names))
        await stage.calm(5)
        yield stage, members


def placements(stage: Stage) -> dict[str, dict[str, int]]:
    names = [each["metadata"]["name"] for each in stage.hub.all(WORKLOADS)]
    return {name: stage.placed(name) for name in names}


def said(stage: Stage, reason: str) -> set[str]:
    return {name for name in placements(stage) if stage.says(name, "Moving")[1] == reason}


def foreseen(stage: Stage, found: Any) -> dict[str, dict[str, int]]:
    """The placements of all Workloads after what was found."""
    return {**placements(stage), **{each.key[1]: dict(each.after) for each in found}}


@pytest.mark.proves("M41", "M66")
async def test_a_simulated_loss_is_the_loss_that_follows() -> None:
    async with busy() as (stage, members):
        found = simulated(stage, Scenario(lose=("m1",)))
        after = foreseen(stage, found.workloads)
        assert after != placements(stage)
        members.lose("m1")
        await stage.calm(45)
        assert placements(stage) == after
        homeless = {each.key[1] for each in found.workloads if each.stuck}
        fenced = {each.key[1] for each in found.workloads if each.fenced}
        assert said(stage, "NoRoom") == homeless != set()
        assert said(stage, "AwaitingFencing") == fenced == {"db"}
        assert {each.key[1] for each in found.workloads if each.paper} == {"stays"}
        assert {each.priority for each in found.workloads if each.stuck} == {0}


@pytest.mark.long
@pytest.mark.proves("M27", "M65")
async def test_a_dry_run_of_a_drain_is_the_drain_that_follows() -> None:
    async with busy() as (stage, _):
        found = drain.previewed("m2", InMemory("shop", stage=stage), clock=stage.clock)
        first = placements(stage)
        left = {each.key[1]: each.left for each in found.workloads}
        assert {each.key[1] for each in found.workloads if each.stays} == {"stays"}
        assert not found.drained
        stage.hub.edit(
            MEMBER_CLUSTERS,
            "m2",
            {"spec": drain.drain_patch(stage.hub.read(MEMBER_CLUSTERS, "m2"), force=False)["spec"]},
        )
        await stage.calm(60)
        now = placements(stage)
        assert left == {name: now[name].get("m2", 0) for name in first if "m2" in first[name]}
        for each in found.workloads:
            came = {c: n - first[each.key[1]].get(c, 0) for c, n in now[each.key[1]].items()}
            assert each.to == {c: n for c, n in came.items() if n > 0}, each.key


@pytest.mark.long
@pytest.mark.proves("M60")
async def test_a_dry_run_of_a_rebalance_is_the_rebalance_that_follows() -> None:
    async with busy() as (stage, members):
        for name in ("m5", "m6"):
            stage.cluster(name, cpu="14")
            members.names = (*members.names, name)
        await stage.until(lambda: len(stage.placed("copies")) == 6)
        await stage.calm(3)
        where = InMemory("shop", stage=stage)
        for name in ("web-1", "stays"):
            before = placements(stage)
            found = rebalance.planned(where, [name], everywhere=False, clock=stage.clock)
            assert placements(stage) == before
            assert [each.key[1] for each in found.moved] == [name]
            after = foreseen(stage, found.moved)
            body = {"spec": {"movement": {"rebalanceAfter": found.time}}}
            stage.hub.edit(WORKLOADS, name, body)
            await stage.until(lambda goal=after: placements(stage) == goal, seconds=90)
            await stage.calm(3)
            assert placements(stage) == after
            assert sum(each.moves for each in found.moved) == found.moves > 0


@pytest.mark.long
@pytest.mark.proves("M68")
async def test_a_new_cluster_takes_what_waits_and_a_scale_is_that_of_kubectl(
    tmp_path: Path,
) -> None:
    async with busy() as (stage, members):
        stage.workload("waits", replicas=20, created=40, distribution="Divided")
        await stage.calm(5)
        first = placements(stage)
        assert sum(first["waits"].values()) < 20
        found = simulated(stage, Scenario(scale={("shop", "web-0"): 6}))
        after = foreseen(stage, found.workloads)
        stage.hub.edit(WORKLOADS, "web-0", {"spec": {"replicas": 6}})
        await stage.calm(20)
        assert placements(stage) == after
        free = {"cpu": "14", "memory": "32Gi", "pods": "110"}
        added = tmp_path / "m9.yaml"
        added.write_text(
            json.dumps(
                {
                    "kind": "MemberCluster",
                    "metadata": {"name": "m9"},
                    "apiVersion": MEMBER_CLUSTERS.api_version,
                    "spec": {"secretRef": {"namespace": "stowage-system", "name": "m9"}},
                    "status": {
                        "conditions": [READY],
                        "nodeGroups": [{"count": 1, "free": free}],
                        "capacity": {"nodes": 1, "allocatable": free, "requested": {}},
                    },
                }
            )
        )
        before = placements(stage)
        found = simulated(stage, Scenario(add=(str(added),)))
        after = foreseen(stage, found.workloads)
        moved = {name for name in after if after[name] != before[name]}
        assert moved <= {"waits", "web-0", "copies"}, "those that waited, and copies"
        assert "waits" in moved
        stage.cluster("m9", cpu="14")
        members.names = (*members.names, "m9")
        await stage.calm(10)
        assert placements(stage) == after
