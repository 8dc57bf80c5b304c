"""Steps of a move, for any fleet: what leaves, what stays, and what never happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.framework.interface import Descheduling, Eviction
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo, workload_info
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.scheduling.moving import EVERY, towards
from controller.snapshot.snapshot import Snapshot
from tests.controller import make

NAMES = ("a", "b", "c", "d")
PROFILE = default_profile()
PAST = make.NOW - timedelta(seconds=1)
LATER = make.NOW + timedelta(seconds=60)


class Driving:
    """A plugin that drives Workloads from clusters, as a test says."""

    name = "Driving"

    def __init__(self, budget: int = EVERY, **evictions: Eviction) -> None:
        self.evictions = evictions
        self.most = budget

    def deschedule(
        self, _info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex, _now: Any
    ) -> Descheduling:
        return Descheduling(self.evictions, {}, lambda _cause: (self.most, "others move"))


def drained(*, lost: bool = False) -> Eviction:
    return Eviction("ClusterLost" if lost else "Drained", "t", due=PAST, lost=lost)


def moved(
    workload: Workload, plugin: Driving, room: Mapping[str, int], *, lost: tuple[str, ...] = ()
) -> Decision:
    """The decision over these clusters: each has free room for so many units beside its own."""
    free = {
        name: {"cpu": f"{500 * n}m", "memory": "99Gi", "pods": "99"} for name, n in room.items()
    }
    clusters = [
        make.cluster(name, groups=[{"count": 1, "free": each}], ready=name not in lost)
        for name, each in free.items()
    ]
    profile = replace(PROFILE, deschedule=[plugin])
    info = workload_info(workload)
    return decide(make.snapshot(*clusters), info, PlacementIndex(), profile, make.NOW)


def running(present: Mapping[str, int], replicas: int, **spec: Any) -> Workload:
    """A Workload that stands where it was decided."""
    how = {"distribution": "Divided", "replicas": replicas, **spec}
    first = workload_info(make.workload(**how))
    return make.workload(present=present, decided=first.hash, **how)


counts = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), min_size=1)
rooms = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})


@given(counts, rooms, st.sets(st.sampled_from(NAMES)), st.integers(0, 30), st.integers(1, 9))
@pytest.mark.proves("M1", "M12")
def test_a_step_takes_no_unit_away_and_moves_no_more_than_the_surge(
    present: dict[str, int], room: dict[str, int], left: set[str], wanted: int, surge: int
) -> None:
    workload = running(present, wanted, movement={"maxSurge": surge})
    decision = moved(workload, Driving(**dict.fromkeys(left, drained())), room)
    after = decision.placements
    assert sum(after.values()) + decision.pending == wanted
    assert sum(after.values()) >= min(sum(present.values()), wanted)
    gone = {n: present.get(n, 0) - after.get(n, 0) for n in NAMES}
    came = sum(max(-n, 0) for n in gone.values())
    new = max(wanted - sum(present.values()), 0)
    assert came <= surge + new
    for name in left:
        assert after.get(name, 0) <= present.get(name, 0)
    for name in set(NAMES) - left:
        if wanted >= sum(present.values()):
            assert after.get(name, 0) >= present.get(name, 0)


@given(counts, rooms, st.sampled_from(NAMES), st.booleans())
@pytest.mark.proves("M11", "M12")
def test_steps_end_where_nothing_more_fits_elsewhere(
    present: dict[str, int], room: dict[str, int], left: str, lost: bool
) -> None:
    """Where each step's successors are ready, and the old units gone."""
    total, free = sum(present.values()), dict(room)
    plugin = Driving(**{left: drained(lost=lost)})
    for _ in range(total + 2):
        workload = running(present, total, movement={"maxSurge": 1})
        decision = moved(workload, plugin, free, lost=(left,) if lost else ())
        after = dict(decision.placements)
        if after == present:
            break
        for name in NAMES:
            free[name] -= after.get(name, 0) - present.get(name, 0)
        present = after
    else:
        pytest.fail("it never came to an end")
    stays = present.get(left, 0)
    assert not stays or all(free[name] <= 0 for name in set(NAMES) - {left})
    assert sum(decision.moving.stuck.values()) == min(stays, stays if lost else 1)


@given(counts, rooms, st.sampled_from(NAMES))
def test_without_budget_nothing_moves(
    present: dict[str, int], room: dict[str, int], left: str
) -> None:
    total = sum(present.values())
    decision = moved(running(present, total), Driving(0, **{left: drained()}), room)
    assert dict(decision.placements) == present
    if left in present:
        assert decision.moving.held == present[left]
        assert decision.moving.holder == "others move"


def test_what_is_not_due_moves_nothing_and_is_looked_at_then() -> None:
    later = Eviction("Drained", "t", due=LATER)
    decision = moved(running({"a": 2}, 2), Driving(a=later), {"a": 0, "b": 9})
    assert dict(decision.placements) == {"a": 2}
    assert decision.moving.look == LATER


def test_units_under_way_are_part_of_the_surge() -> None:
    workload = running({"a": 4, "b": 2}, 6, movement={"maxSurge": 2})
    status = {
        "leaving": [{"cluster": "a", "replicas": 2, "cause": "Drained", "since": "x"}],
        "clusters": [{"name": "a", "scheduled": 6, "ready": 6}, {"name": "b", "scheduled": 2}],
    }
    given = msgspec.convert(
        {**msgspec.to_builtins(workload.status), **status}, type(workload.status)
    )
    held = msgspec.structs.replace(workload, status=given)
    assert dict(moved(held, Driving(a=drained()), {"a": 0, "b": 9}).placements) == {"a": 4, "b": 2}


def test_copies_that_are_scaled_to_nothing_lack_no_other_place() -> None:
    workload = running({"a": 2}, 0, distribution="Duplicated")
    decision = moved(workload, Driving(a=drained()), {"a": 9})
    assert (dict(decision.placements), dict(decision.moving.stuck)) == ({}, {})


@pytest.mark.proves("M59")
@pytest.mark.parametrize("room", [9, 1])
def test_a_first_placement_meets_the_request_of_a_rebalance_from_before(room: int) -> None:
    """It is a fresh plan itself: nothing moves after it for the same request."""
    before, after = "2026-01-01T00:00:00Z", "2030-01-01T00:00:00Z"
    for asked, met in ((before, before), (after, "")):
        workload = running({}, 3, movement={"rebalanceAfter": asked})
        decision = moved(workload, Driving(), {"a": room, "b": room})
        assert decision.moving.rebalanced == met
    waits = moved(running({}, 3, movement={"rebalanceAfter": before}), Driving(), {"a": 0})
    assert (dict(waits.placements), waits.moving.rebalanced) == ({}, "")


columns = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@given(columns, columns, st.integers(0, 40), st.booleans())
@pytest.mark.proves("M59")
def test_a_step_towards_a_plan_comes_nearer_and_changes_no_sum(
    present: list[int], wanted: list[int], most: int, whole: bool
) -> None:
    before, goal = np.array(present), np.array(wanted)
    after = towards(before, goal, most=most, whole=whole)
    assert after.sum() == before.sum()
    came = int(np.maximum(after - before, 0).sum())
    assert came <= most
    assert (np.abs(goal - after) <= np.abs(goal - before)).all()
    if before.sum() == goal.sum() and most >= 40:
        assert (after == goal).all()
    if whole:
        assert came == 0 or (np.minimum(after, goal).sum() == min(before.sum(), goal.sum()))


def test_a_plugin_that_answers_anything_else_is_named() -> None:
    class Wrong(Driving):
        def deschedule(self, *_: Any) -> Any:
            return {"a": "now"}

    decision = moved(running({"a": 2}, 2), Wrong(), {"a": 9})
    assert decision.reason == "PluginError"
    assert "Driving failed at Deschedule" in decision.message
    assert dict(decision.placements) == {"a": 2}
