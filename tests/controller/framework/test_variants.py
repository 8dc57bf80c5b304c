"""What one plugin tells the others of a unit: that it is divided, and where it is another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.explain.pending import remedies
from controller.framework.interface import Candidates, CycleState, Variant
from controller.framework.profile import Profile
from controller.framework.room import needed, vary
from controller.framework.status import SUCCESS
from controller.model.podtemplate import skeleton
from controller.model.unit import WorkloadInfo
from controller.planner.problem import Problem
from controller.scheduling.batch import decide_set
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision
from controller.scheduling.steps import at_once
from machinery.types.taints import Toleration
from tests.controller.make import NOW, builder, cluster, info, snapshot, verdicts


class Divider:
    """Divides whatever it sees, gives clusters named `big…` a small unit, and counts on fields."""

    name = "Divider"

    def __init__(self) -> None:
        self.field: Candidates | None = None
        self.told: list[tuple[dict[str, int], int]] = []

    def settled(self, info: WorkloadInfo, _now: Any, _bound: PlacementIndex) -> WorkloadInfo:
        return replace(info, divided=True)

    def next_look(self, _info: WorkloadInfo, _now: Any) -> float | None:
        return None

    def pre_filter(self, state: CycleState, info: WorkloadInfo, *_: Any) -> Any:
        small = Variant(
            rows=lambda of: np.array([name.startswith("big") for name in of.names], dtype=np.bool_),
            request={**info.request, "cpu": 100},
            place=info.place,
            tolerations=(Toleration(operator="Exists"),),
        )
        vary(state, [small])
        return SUCCESS

    def divides(self, info: WorkloadInfo, _state: CycleState) -> bool:
        return info.divided

    def bound(self, _info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        self.field = field
        return problem

    def status_fields(
        self, _info: WorkloadInfo, placements: Mapping[str, int], snapshot: Any, _: Any
    ) -> Any:
        self.told.append((dict(placements), len(snapshot)))
        return {}


class View:
    """As much of a world as one decision needs."""

    def __init__(self, *members: Any) -> None:
        self._snapshot, self.index = snapshot(*members), PlacementIndex()
        self.pending_affinity: Any = None
        self.placed_affinity: Any = None

    def snapshot(self) -> Any:
        return self._snapshot


def profile(plugin: Divider) -> Profile:
    known = default_profile()
    return replace(known, pre_filter=[plugin, *known.pre_filter], assign=[plugin, *known.assign])


def small(name: str, cpu: str, **spec: Any) -> Any:
    free = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return cluster(name, groups=[{"count": 1, "free": free}], **spec)


def divided(of: WorkloadInfo, *members: Any, plugin: Divider | None = None) -> Decision:
    made = profile(plugin or Divider())
    return at_once(decide_set(View(*members), of, {"stowage": made}, NOW)).of(of.key)


@pytest.mark.parametrize("distribution", ["Single", "Duplicated", "Divided"])
def test_a_divided_unit_is_neither_whole_nor_everywhere(distribution):
    asked = replace(info(replicas=3, distribution=distribution), divided=True)
    assert (asked.whole, asked.everywhere, needed(asked)) == (False, False, 1)
    assert replace(info(kind="DaemonSet", distribution=distribution), divided=True).everywhere


def test_settle_divides_a_single_workload():
    found = divided(info(replicas=3), small("a", "1"), small("b", "500m"))
    assert found.placements == {"a": 2, "b": 1}
    assert found.workload.divided


def test_a_variant_is_counted_and_tolerates_where_it_holds():
    taint = [{"key": "dear", "effect": "NoSchedule"}]
    members = (small("big", "1", taints=taint), small("plain", "1", taints=taint))
    found = divided(info(replicas=12), *members)
    assert verdicts(found) == {"big": "", "plain": "had taints that were not tolerated"}
    assert found.placements == {"big": 10}, "100m each, not 500m"
    (more,) = (each for each in remedies(found) if each.kind.value == "Room")
    assert "2 more replicas need 500m cpu each on big" in more.text


def test_crowded_is_what_only_a_lack_of_room_refuses():
    plugin = Divider()
    members = (small("a", "1"), small("full", "0"), small("gone", "0", unschedulable=True))
    divided(info(replicas=2), *members, plugin=plugin)
    assert plugin.field is not None
    crowded = plugin.field.crowded.tolist()
    assert dict(zip(plugin.field.snapshot.names, crowded, strict=True)) == {
        "a": False,
        "full": True,
        "gone": False,
    }


def test_what_is_told_is_asked_of_the_shares_that_were_decided():
    plugin = Divider()
    divided(info(replicas=2), small("a", "1"), plugin=plugin)
    assert plugin.told == [({"a": 2}, 1)]
    members = builder([small("a", "0")]).snapshot()
    held = replace(info(replicas=2, present={"a": 1}), divided=True)
    decide(members, held, PlacementIndex(), profile(plugin), NOW)
    assert plugin.told[-1] == ({"a": 1}, 1), "what it keeps"


def test_a_unit_keeps_what_a_patch_of_its_pods_needs():
    pod = {
        "nodeSelector": {"disk": "ssd"},
        "volumes": [{"name": "data", "emptyDir": {}}, "odd"],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "env": [{"name": "A"}],
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
    }
    assert info(pod=pod).pod == (
        b'{"metadata":{"labels":{"app":"demo"}},"spec":{"nodeSelector":{"disk":"ssd"},'
        b'"containers":[{"name":"main","resources":{"limits":{"cpu":"1"}}}],'
        b'"volumes":[{"name":"data"}]}}'
    )
    assert skeleton({}, {}) == b""


class Noting:
    """A plugin of any name that keeps something of its own under it, before others count room."""

    def __init__(self, name: str) -> None:
        self.name = name

    def pre_filter(self, state: CycleState, *_: Any) -> Any:
        state.data[self.name] = self
        return SUCCESS


@pytest.mark.proves("B20")
@pytest.mark.parametrize("name", ["room", "limit", "variants", "caps", "plan", "refused"])
def test_a_plugin_may_have_any_name(name: str) -> None:
    plain = default_profile()
    noting = Noting(name)
    profile = replace(plain, pre_filter=(noting, Divider(), *plain.pre_filter))
    one = info(replicas=4, cpu=1000)
    found = decide(snapshot(cluster("big", cpu=2)), one, PlacementIndex(), profile, NOW)
    assert found.placements == {"big": 4}
    assert found.cycle_state.data[name] is noting
