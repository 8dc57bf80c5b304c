"""Whatever is planned: nothing is lost, no room is given away twice, and to plan again moves none.

What has no place yet gets the same one in a plan and in a simulation, which share the decisions and
not the loop around them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from controller.config import default_profile
from controller.eventhandlers import known
from controller.explain.record import record
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime.handle import DryRunHandle
from controller.model.objects import MemberCluster, Workload
from controller.scheduling.decision import Decision
from machinery.types.metadata import Key
from stowage.fleet.inventory import PlanInputs
from stowage.simulation.moves import Simulation
from stowage.simulation.rehearsal import Rehearsal
from tests.controller.make import NOW, beside, cluster, workload
from tests.examples import examples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMES = ("p", "q", "r", "s", "t")
PROFILES = {"stowage": default_profile()}


def fleet(rooms: list[int]) -> list[MemberCluster]:
    """Clusters with room for so many units each."""
    groups = [
        [{"count": 1, "free": {"cpu": str(n), "memory": "99Gi", "pods": "99"}}] for n in rooms
    ]
    return [cluster(f"c{n}", groups=each) for n, each in enumerate(groups)]


def rehearse(rooms: list[int], workloads: list[Workload]) -> dict[Key, Decision]:
    clusters = fleet(rooms)
    rehearsal = Rehearsal(PROFILES, clusters=clusters, workloads=workloads, objects=(), now=NOW)
    rehearsal.run([each.metadata.key for each in workloads])
    return rehearsal.decisions


def of(asked: dict[str, Any], present: dict[str, int] | None = None, decided: str = "") -> Workload:
    return known(workload(**asked, present=present, decided=decided))


def simulate(rooms: list[int], workloads: list[Workload]) -> dict[Key, Decision]:
    present = PlanInputs(fleet(rooms), {each.metadata.key: each for each in workloads})
    configuration = SchedulerConfiguration(PROFILES)
    simulation = Simulation(present, configuration, now=NOW, handle=DryRunHandle())
    simulation.play(present.workloads)
    return simulation.decisions


def shares(decisions: dict[Key, Decision]) -> dict[Key, dict[str, int]]:
    return {key: dict(each.placements) for key, each in decisions.items()}


def asking(name: str, *, wanted: str | None = None, **spec: Any) -> dict[str, Any]:
    """A Workload of units with one cpu each; `wanted` is one that has to be on the cluster."""
    pod = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    near = {"workloadAffinity": {REQUIRED: [beside(wanted)]}} if wanted else {}
    return {"name": name, "pod": pod, "labels": {"app": name}, **near, **spec}


@st.composite
def several(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        asking(
            name,
            replicas=draw(st.integers(0, 6)),
            distribution=draw(st.sampled_from(["Single", "Divided", "Duplicated"])),
            priority=draw(st.integers(0, 2)),
            wanted=draw(st.sampled_from([None, *NAMES])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    ]


WAITS_FOR_A_LATER_ONE = [asking("p", wanted="q", priority=2), asking("q", replicas=2)]


@pytest.mark.proves("C16")
@examples(60, suppress_health_check=[HealthCheck.too_slow])
@example(rooms=[0, 4], asked=WAITS_FOR_A_LATER_ONE)
@given(rooms=st.lists(st.integers(0, 8), min_size=1, max_size=4), asked=several())
def test_a_plan_holds_is_final_and_is_what_a_simulation_comes_to(
    rooms: list[int], asked: list[dict[str, Any]]
) -> None:
    decisions = rehearse(rooms, [of(each) for each in asked])
    assert shares(simulate(rooms, [of(each) for each in asked])) == shares(decisions)
    assert decisions.keys() == {("shop", each["name"]) for each in asked}
    taken: Counter[str] = Counter()
    for decision in decisions.values():
        assert decision.assigned + decision.pending == decision.desired
        assert decision.pending >= 0
        taken.update(decision.placements)
    assert all(units <= rooms[int(name[1:])] for name, units in taken.items())
    again = [
        of(each, dict(decision.placements), decision.workload.hash)
        for each in asked
        for decision in [decisions["shop", each["name"]]]
    ]
    repeated = rehearse(rooms, again)
    assert shares(repeated) == shares(decisions)
    assert msgspec.json.encode([record(d) for d in repeated.values()])
