"""Hooks and plugins of others: what they may change, and what they may not touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from controller.cache.builder import Fleet, Mask, with_cluster
from controller.config import default_profile
from controller.explain.record import record
from controller.framework.interface import CycleState, Unplaced
from controller.framework.percluster import PerClusterFilter, PerClusterScore
from controller.framework.profile import Profile
from controller.framework.room import cap
from controller.framework.status import SUCCESS, Code, Status, unschedulable
from controller.model.objects import MemberCluster
from controller.model.unit import Unit
from crds.workload import ScheduledReason, WorkloadState

from .make import cluster, decided, unit, verdicts

SMALL = [{"count": 1, "free": {"cpu": "1", "memory": "8Gi", "pods": "9"}}]


def profile(**points: Any) -> Profile:
    return replace(default_profile(), **points)


class More:
    """Before PreFilter: one replica more, if it is to change anything."""

    name = "More"

    def __init__(self, *, changed: bool = True) -> None:
        self._changed = changed

    def before_pre_filter(
        self, state: Any, unit: Unit, fleet: Fleet, bound: Any
    ) -> tuple[Unit, bool]:
        return replace(unit, replicas=unit.replicas + 1), self._changed


class Anywhere:
    """Before PreFilter: no selector, no target."""

    name = "Anywhere"

    def before_pre_filter(
        self, state: Any, unit: Unit, fleet: Fleet, bound: Any
    ) -> tuple[Unit, bool]:
        return replace(unit, cluster_selector={}, target_cluster=None), True


class Refusing:
    """Refuses in any of the three phases."""

    name = "Refusing"
    answer = unschedulable("Refusing", "not today", reason=ScheduledReason.GROUP_DENIED)

    def before_pre_filter(self, state: Any, unit: Unit, fleet: Fleet, bound: Any) -> Status:
        return self.answer

    def before_filter(self, state: Any, unit: Unit, fleet: Fleet, bound: Any) -> Status:
        return self.answer

    def before_score(
        self, state: Any, unit: Unit, fleet: Fleet, bound: Any, feasible: Mask
    ) -> Status:
        return self.answer


class Roomier:
    """Before Filter: two cpu more on each node of one cluster."""

    name = "Roomier"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def before_filter(
        self, state: Any, unit: Unit, fleet: Fleet, bound: Any
    ) -> tuple[Unit, Fleet, bool]:
        before = fleet.clusters[fleet.row[self._cluster]]
        groups = [
            msgspec.structs.replace(g, free={**g.free, "cpu": str(int(g.free["cpu"]) + 2)})
            for g in before.status.node_groups
        ]
        status = msgspec.structs.replace(before.status, node_groups=groups)
        return unit, with_cluster(fleet, msgspec.structs.replace(before, status=status)), True


class Without:
    """Before Score: all clusters but one, also those that were refused."""

    name = "Without"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    def before_score(
        self, state: Any, unit: Unit, fleet: Fleet, bound: Any, feasible: Mask
    ) -> tuple[Unit, Mask, bool]:
        left = np.ones(len(fleet), dtype=np.bool_)
        left[fleet.row[self._cluster]] = False
        return unit, left, True


@pytest.mark.proves("E20")
def test_a_hook_changes_a_copy_of_the_unit() -> None:
    asked = unit(clusterSelector={"tier": "gold"}, targetCluster={"name": "nobody"})
    decision = decided(asked, cluster("a"), profile=profile(before_pre_filter=[Anywhere()]))
    assert decision.placements == {"a": 2}
    assert decision.unit is asked
    assert asked.cluster_selector == {"tier": "gold"}


@pytest.mark.proves("E21")
def test_a_hook_gives_one_cluster_more_room() -> None:
    clusters = (cluster("a", groups=SMALL), cluster("b", groups=SMALL))
    asked = unit(replicas=5)
    assert not decided(asked, *clusters).placements
    decision = decided(asked, *clusters, profile=profile(before_filter=[Roomier("b")]))
    assert decision.placements == {"b": 5}


@pytest.mark.proves("E21", "E23")
def test_hooks_before_filter_add_up() -> None:
    hooks = [Roomier("a"), Roomier("a")]
    decision = decided(
        unit(replicas=8), cluster("a", groups=SMALL), profile=profile(before_filter=hooks)
    )
    assert decision.placements == {"a": 8}


@pytest.mark.proves("E22")
def test_a_hook_takes_a_cluster_out_and_cannot_bring_a_refused_one_in() -> None:
    decision = decided(
        unit(),
        cluster("a"),
        cluster("b"),
        cluster("c", ready=False),
        profile=profile(before_score=[Without("a")]),
    )
    assert decision.placements == {"b": 2}
    assert verdicts(decision) == {"a": "taken out by Without", "b": "", "c": "not ready"}
    assert len(record(decision)["clusters"]) == 3


@pytest.mark.proves("E23")
def test_hooks_chain_and_one_that_changed_nothing_passes_the_old_unit_on() -> None:
    hooks = [More(), More(changed=False), More()]
    decision = decided(unit(replicas=2), cluster("a"), profile=profile(before_pre_filter=hooks))
    assert decision.placements == {"a": 4}


@pytest.mark.proves("E24")
@pytest.mark.parametrize("phase", ["before_pre_filter", "before_filter", "before_score"])
def test_a_hook_may_refuse_with_a_reason_in_each_phase(phase: str) -> None:
    decision = decided(unit(), cluster("a"), profile=profile(**{phase: [Refusing()]}))
    assert decision.message == "0/1 clusters: not today"
    assert decision.reason is ScheduledReason.GROUP_DENIED
    assert decision.state is WorkloadState.PENDING
    assert decision.refused_by() == {"Refusing"}


class Try:
    """Keeps to one cluster at first, and refuses the whole Workload at first where it has none."""

    name = "Try"

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.passes: list[frozenset[str]] = []

    def before_filter(
        self, state: CycleState, unit: Unit, fleet: Fleet, bound: Any
    ) -> tuple[Unit, Fleet, bool] | Status:
        self.passes.append(state.without)
        if self.name in state.without:
            return unit, fleet, False
        state.tentative.add(self.name)
        if self._cluster not in fleet.row:
            return unschedulable(self.name, "not there")
        return replace(unit, cluster_selector={"stowage.dev/cluster": self._cluster}), fleet, True


@pytest.mark.parametrize(
    ("only", "replicas", "placed", "passes"),
    [
        ("b", 2, {"b": 2}, 1),
        ("b", 9, {"a": 4, "b": 4}, 2),
        ("c", 2, {"a": 1, "b": 1}, 2),
    ],
)
def test_a_pass_that_tries_something_is_repeated_without_it(
    only: str, replicas: int, placed: dict[str, int], passes: int
) -> None:
    room = [{"count": 1, "free": {"cpu": "2", "memory": "8Gi", "pods": "9"}}]
    hook = Try(only)
    decision = decided(
        unit(replicas=replicas, distribution="Divided"),
        cluster("a", groups=room),
        cluster("b", groups=room),
        profile=profile(before_filter=[hook]),
    )
    assert decision.placements == placed
    assert hook.passes == [frozenset(), frozenset({"Try"})][:passes]


class Capped:
    """Lets clusters hold few units."""

    name = "Capped"

    def __init__(self, *most: int) -> None:
        self._most = most

    def pre_filter(self, state: CycleState, unit: Unit, fleet: Fleet, bound: Any) -> Status:
        for most in self._most:
            cap(state, lambda fleet, most=most: np.full(len(fleet), most, dtype=np.int64))
        return SUCCESS


def test_of_several_caps_the_least_holds_and_the_record_says_that_the_clusters_are_full() -> None:
    made = profile(pre_filter=[Capped(3, 2, 4)])
    asked = unit(replicas=9, distribution="Divided")
    decision = decided(asked, cluster("a"), cluster("b"), profile=made)
    assert decision.placements == {"a": 2, "b": 2}
    ((kind, number, text),) = [
        (note["kind"], note["number"], note["text"]) for note in record(decision)["pendingReasons"]
    ]
    assert (kind, number, text) == ("NoRoom", 2, "2 clusters: no room for more")
    assert decided(asked, cluster("a"), cluster("b")).scheduled


class Even(PerClusterFilter):
    """Takes clusters of even size only."""

    name = "Even"

    def fits(self, unit: Unit, cluster: MemberCluster) -> str:
        return "" if int(cluster.metadata.labels["size"]) % 2 == 0 else "size is odd"


class Larger(PerClusterScore):
    """The larger, the better."""

    name = "Larger"

    def score_one(self, unit: Unit, cluster: MemberCluster) -> int:
        return int(cluster.metadata.labels["size"])


@pytest.mark.proves("E1", "C7")
def test_a_plugin_may_be_written_for_one_cluster_at_a_time() -> None:
    made = profile(filter=[Even()], score=[Larger()], weights={"Larger": 3})
    clusters = [cluster(f"c{size}", {"size": str(size)}) for size in (2, 3, 90, 4)]
    decision = decided(unit(), *clusters, profile=made)
    assert verdicts(decision) == {"c2": "", "c3": "size is odd", "c4": "", "c90": ""}
    assert [decision.fleet.names[row] for row in decision.ranking] == ["c90", "c4", "c2"]
    assert decision.totals[decision.fleet.row["c90"]] == 270


class Comforting:
    """Adds to the message when units found no cluster."""

    name = "Comforting"

    def post_filter(self, state: Any, unit: Unit, fleet: Fleet, unplaced: Unplaced) -> Status:
        self.seen = unplaced
        return Status(Code.SUCCESS, (f"{len(fleet)} more may come",), self.name)


@pytest.mark.proves("L4")
def test_post_filter_sees_verdicts_and_shares() -> None:
    plugin = Comforting()
    made = profile(post_filter=[plugin])
    asked = unit(replicas=20, distribution="Divided")
    away = cluster("b", ready=False)
    decision = decided(asked, cluster("a", groups=SMALL), away, profile=made)
    row = decision.fleet.row
    assert decision.placements == {"a": 2}
    assert plugin.seen.shares == {row["a"]: 2}
    assert plugin.seen.desired == 20
    assert plugin.seen.feasible.tolist() == [row["a"] == n for n in range(2)]
    ((name, text, mask),) = plugin.seen.refusals
    assert (name, text, mask[row["b"]]) == ("ClusterReady", "not ready", True)


def test_post_filter_adds_to_the_message_of_what_found_no_cluster() -> None:
    made = profile(post_filter=[Comforting()])
    assert decided(unit(), cluster("a", ready=False), profile=made).message == (
        "0/1 clusters: 1 not ready; 1 more may come"
    )
    assert decided(unit(), cluster("a"), profile=made).message == "2 of 2 units have a cluster"


class Prepared:
    """Hands on from PreFilter and PreScore to Score through the state of the pass."""

    name = "Prepared"

    def pre_filter(self, state: Any, unit: Unit, fleet: Fleet, bound: Any) -> Status:
        state.data[self.name] = ["admitted"]
        return SUCCESS

    def pre_score(self, state: Any, unit: Unit, fleet: Fleet, bound: Any, feasible: Mask) -> Status:
        state.data[self.name].append(int(feasible.sum()))
        return SUCCESS

    def score(self, state: Any, unit: Unit, fleet: Fleet, bound: Any) -> Any:
        assert state.data[self.name] == ["admitted", 1]
        return np.full(len(fleet), 500, dtype=np.int64)


def test_the_points_are_called_in_order_and_scores_are_cut_to_100() -> None:
    plugin = Prepared()
    weights: Mapping[str, int] = {"Prepared": 1}
    made = profile(pre_filter=[plugin], pre_score=[plugin], score=[plugin], weights=weights)
    decision = decided(unit(), cluster("a"), cluster("b", ready=False), profile=made)
    assert decision.totals[decision.fleet.row["a"]] == 100


def test_a_filter_without_its_pre_filter_still_refuses() -> None:
    made = profile(pre_filter=[])
    decision = decided(unit(targetCluster={"name": "x"}), cluster("a"), profile=made)
    assert decision.message == "0/1 clusters: 1 didn't match targetCluster"
