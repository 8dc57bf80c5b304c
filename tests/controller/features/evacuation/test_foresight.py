"""What a simulation says of a fleet in memory is what then happens there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from controller.eventhandlers import known
from controller.framework.profile import SchedulerConfiguration
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from stowage.fleet.inventory import PlanInputs
from stowage.simulation import simulate
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
