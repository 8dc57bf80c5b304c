"""Whatever is planned: nothing is lost, no room is given away twice, and to plan again moves none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from controller.config import default_profile
from controller.eventhandlers import known
from controller.explain.record import record
from controller.model.objects import Workload
from controller.scheduling.decision import Decision
from machinery.types.metadata import Key
from stowage.simulation.rehearsal import Rehearsal
from tests.controller.make import NOW, beside, cluster, workload
from tests.examples import examples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMES = ("p", "q", "r", "s", "t")
PROFILES = {"stowage": default_profile()}


def rehearse(rooms: list[int], workloads: list[Workload]) -> dict[Key, Decision]:
    """The decisions on clusters with room for so many units each."""
    groups = [
        [{"count": 1, "free": {"cpu": str(n), "memory": "99Gi", "pods": "99"}}] for n in rooms
    ]
    clusters = [cluster(f"c{n}", groups=each) for n, each in enumerate(groups)]
    rehearsal = Rehearsal(PROFILES, clusters=clusters, workloads=workloads, objects=(), now=NOW)
    rehearsal.run([each.metadata.key for each in workloads])
    return rehearsal.decisions


def of(asked: dict[str, Any], present: dict[str, int] | None = None, decided: str = "") -> Workload:
    return known(workload(**asked, present=present, decided=decided))


@st.composite
def several(draw: st.DrawFn) -> list[dict[str, Any]]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        asked: dict[str, Any] = {
            "name": name,
            "replicas": draw(st.integers(0, 6)),
            "distribution": draw(st.sampled_from(["Single", "Divided", "Duplicated"])),
            "priority": draw(st.integers(0, 2)),
            "pod": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            "labels": {"app": name},
        }
        wanted = draw(st.sampled_from([None, *NAMES]))
        if wanted is not None:
            asked["workloadAffinity"] = {REQUIRED: [beside(wanted)]}
        found.append(asked)
    return found


@pytest.mark.proves("C16")
@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(rooms=st.lists(st.integers(0, 8), min_size=1, max_size=4), asked=several())
def test_a_plan_holds_and_is_final(rooms: list[int], asked: list[dict[str, Any]]) -> None:
    decisions = rehearse(rooms, [of(each) for each in asked])
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
    assert {k: dict(d.placements) for k, d in repeated.items()} == {
        k: dict(d.placements) for k, d in decisions.items()
    }
    assert msgspec.json.encode([record(d) for d in repeated.values()])
