"""The gangs of one namespace keep those of others out for a bounded share of the time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.features.workloadgroup.fairness import SHARE, TURN, Keeping
from crds.names import LABEL_GROUP
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, room
from tests.controller.features.workloadgroup.grouping import Gangs
from tests.controller.features.workloadgroup.test_turns import elsewhere, gang, told
from tests.controller.live import deployment
from tests.examples import examples

pytestmark = pytest.mark.proves("N10")
PATIENCE = 300
LENGTH = TURN * PATIENCE
"""Seconds for which the turns of a namespace may keep others out, in any SHARE times as many."""


@given(st.lists(st.floats(0, 4 * LENGTH), max_size=60), st.integers(1, 10**5))
@examples(100)
def test_no_window_has_more_than_its_share_whenever_somebody_is_kept_out(
    gaps: list[float], patience: int
) -> None:
    keeping, now, length = Keeping(), make.NOW, float(TURN * patience)
    stretches: list[tuple[float, float]] = []
    for gap in gaps:
        now += timedelta(seconds=gap * patience / PATIENCE)
        left, at = keeping.left("greedy", now, patience), (now - make.NOW).total_seconds()
        assert 0 <= left <= length
        if left > 0:
            keeping.keeps("greedy", now, patience)
            stretches.append((at, at + left))
    for begin, _ in stretches:
        end, covered, upto = begin + SHARE * length, 0.0, begin
        for first, last in stretches:
            since, until = max(first, upto), min(last, end)
            if until > since:
                covered, upto = covered + until - since, until
        assert covered <= length + 1e-3
    assert keeping.left("other", now, patience) == length, "each namespace has its own"


def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer():
    keeping = Keeping()
    keeping.keeps("greedy", make.NOW + timedelta(days=400), PATIENCE)
    assert keeping.left("greedy", make.NOW, PATIENCE) == LENGTH
    keeping.keeps("greedy", make.NOW, PATIENCE)
    later = make.NOW + timedelta(seconds=LENGTH)
    assert keeping.left("greedy", later, PATIENCE) == 0


@pytest.mark.long
def test_who_makes_gang_after_gang_keeps_others_out_for_a_quarter_of_the_time():
    """One that is large and old enough is always there: its own namespace waits all the time."""
    yard, step = Yard(room("c", "10")), 360
    gang(yard, "runs", 4, 4, created=_at(yard, -(10**6)))
    assert told(yard, "runs").assigned == 4
    foreign: list[bool] = []
    own: list[bool] = []
    for number in range(6 * LENGTH // step):
        if number % (LENGTH // step) == 0:
            elsewhere(yard, f"big-{number}", 8, _at(yard, -PATIENCE - 1))
        gang(yard, f"small-{number}", 2, 2, created=_at(yard))
        found = told(yard, f"small-{number}")
        foreign.append("kept for a gang of another namespace" in found.message)
        assert foreign[-1] == (found.assigned == 0)
        yard.delete(f"small-{number}")
        yard.groups.drop_group((NS, f"small-{number}"))
        yard.plugin.memory.forget((NS, f"small-{number}"))
        [said] = elsewhere(yard, "own", 2, _at(yard)).decisions
        own.append("kept for WorkloadGroup secret/big" in said.message)
        yard.plugin.memory.clear_denied(("secret", "own"))
        yard.later(step)
    window, most = SHARE * LENGTH // step, LENGTH // step
    assert all(own)
    assert foreign[:most] == [True] * most, "the first hour is its own"
    assert max(sum(foreign[at : at + window]) for at in range(len(foreign))) <= most


def _at(yard: Yard, seconds: float = 0) -> str:
    return (yard.time.at + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- with a whole controller ----------------------------------------------------------------------


async def test_a_gang_of_another_namespace_starts_once_that_share_is_over(tmp_path: Path) -> None:
    patience = 2
    stage = Gangs(tmp_path, patienceSeconds=patience)
    stage.cluster("a", cpu="12")
    async with stage.led():
        _gang(stage, "runs", 6, "greedy")
        await stage.until(lambda: _units(stage, "runs", "greedy") == 6)
        for number in range(3):
            _gang(stage, f"big-{number}", 8, "greedy")
        await stage.calm(patience + 1)
        _gang(stage, "small", 2, "shop")
        _gang(stage, "own", 2, "greedy")
        await stage.until(lambda: "kept for a gang of another" in _message(stage, "small", "shop"))
        await stage.calm(TURN * patience - 6)
        assert _units(stage, "small", "shop") == 0
        await stage.until(lambda: _units(stage, "small", "shop") == 2, seconds=12)


def _gang(stage: Gangs, name: str, units: int, namespace: str) -> None:
    meta = {"name": name, "namespace": namespace, "generation": 1}
    stage.hub.put(WORKLOAD_GROUPS, {"metadata": meta, "spec": {"minMember": units}})
    spec = {
        "schedulerName": "stowage",
        "replicas": units,
        "distribution": "Divided",
        "targetDeployment": deployment(name, "1"),
    }
    labelled = {"name": name, "namespace": namespace, "labels": {LABEL_GROUP: name}}
    stage.hub.put(WORKLOADS, {"metadata": labelled, "spec": spec})


def _units(stage: Gangs, name: str, namespace: str) -> int:
    status = stage.hub.read(WORKLOADS, name, namespace).get("status", {})
    return sum(each["replicas"] for each in status.get("placements", []))


def _message(stage: Gangs, name: str, namespace: str) -> str:
    status = stage.hub.read(WORKLOADS, name, namespace).get("status", {})
    return "".join(each["message"] for each in status.get("conditions", []))
