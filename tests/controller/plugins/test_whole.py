"""Shares: Single, Duplicated, kinds without replicas, and what stays where it is."""

from __future__ import annotations

from typing import Any

import pytest

from controller import catalogue
from controller.config import parse
from controller.planner.reasons import Reason, RuleKind
from crds.workload import ScheduledReason, WorkloadState
from tests.controller.make import ZONE, cluster, decided, expression, info, required_terms

SMALL = [{"count": 1, "free": {"cpu": "1", "memory": "32Gi", "pods": "110"}}]
NONE: list[Any] = []


@pytest.mark.proves("C6")
class TestSingle:
    """All or nothing, on one cluster."""

    def test_all_go_to_the_best(self) -> None:
        decision = decided(info(replicas=5), cluster("a", groups=SMALL), cluster("b"))
        assert decision.placements == {"b": 5}
        assert decision.why(decision.snapshot.row["b"]) == (Reason(RuleKind.WHOLE, 5),)

    def test_nothing_is_placed_where_not_all_fit(self) -> None:
        decision = decided(info(replicas=3), cluster("a", groups=SMALL), cluster("b", groups=SMALL))
        assert (decision.placements, decision.pending) == ({}, 3)
        assert decision.reason is ScheduledReason.INSUFFICIENT_CAPACITY

    def test_no_replicas_have_a_place_all_the_same(self) -> None:
        decision = decided(info(replicas=0), cluster("a"))
        assert (decision.placements, decision.desired) == ({"a": 0}, 0)
        assert decision.reason is ScheduledReason.SCHEDULED

    def test_it_stays_where_it_is_though_another_is_better(self) -> None:
        decision = decided(
            info(replicas=2, present={"a": 2}), cluster("a", groups=NONE), cluster("b")
        )
        assert decision.placements == {"a": 2}
        assert decision.why(decision.snapshot.row["a"]) == (Reason(RuleKind.KEPT, 2),)

    def test_it_grows_where_it_is_if_there_is_room(self) -> None:
        decision = decided(
            info(replicas=4, present={"a": 2}), cluster("a", groups=SMALL), cluster("b")
        )
        assert decision.placements == {"a": 4}

    def test_it_moves_where_it_cannot_grow(self) -> None:
        decision = decided(
            info(replicas=5, present={"a": 2}), cluster("a", groups=SMALL), cluster("b")
        )
        assert decision.placements == {"b": 5}

    def test_it_keeps_the_old_number_where_nobody_takes_the_new_one(self) -> None:
        decision = decided(
            info(replicas=5, present={"a": 2}),
            cluster("a", groups=SMALL),
            cluster("b", groups=SMALL),
        )
        assert (decision.placements, decision.pending) == ({"a": 2}, 3)
        assert decision.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert decision.state is WorkloadState.SCHEDULED
        assert (
            decision.message == "2 of 5 replicas have a cluster; 0/2 clusters: 2 insufficient cpu"
        )

    def test_it_shrinks_where_it_is(self) -> None:
        decision = decided(
            info(replicas=1, present={"a": 3}), cluster("a", groups=NONE), cluster("b")
        )
        assert decision.placements == {"a": 1}

    def test_it_leaves_a_cluster_that_is_gone(self) -> None:
        assert decided(info(present={"gone": 2}), cluster("b")).placements == {"b": 2}

    def test_it_leaves_a_cluster_that_is_being_deleted(self) -> None:
        decision = decided(info(present={"a": 2}), cluster("a", deleting=True), cluster("b"))
        assert decision.placements == {"b": 2}

    @pytest.mark.proves("C15")
    @pytest.mark.parametrize(
        "changed",
        [
            cluster("a", {"tier": "iron"}),
            cluster("a", {"tier": "gold"}, unschedulable=True),
            cluster("a", {"tier": "gold"}, ready=False),
            cluster("a", {"tier": "gold"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
        ],
        ids=["relabelled", "cordoned", "not ready", "tainted"],
    )
    def test_what_changes_on_its_cluster_moves_nothing(self, changed: Any) -> None:
        asked = info(present={"a": 2}, clusterSelector={"tier": "gold"})
        decision = decided(asked, changed, cluster("b", {"tier": "gold"}))
        assert decision.placements == {"a": 2}
        assert decision.reason is ScheduledReason.SCHEDULED

    def test_an_edit_that_excludes_its_cluster_moves_it(self) -> None:
        asked = info(present={"a": 2}, edited=True, clusterSelector={"tier": "gold"})
        decision = decided(asked, cluster("a"), cluster("b", {"tier": "gold"}))
        assert decision.placements == {"b": 2}

    def test_an_edit_that_still_allows_its_cluster_does_not(self) -> None:
        asked = info(present={"a": 2}, edited=True, clusterSelector={"tier": "gold"})
        found = cluster("a", {"tier": "gold"}, ready=False)
        assert decided(asked, found, cluster("b", {"tier": "gold"})).placements == {"a": 2}

    def test_of_several_clusters_it_gathers_on_the_fullest_of_the_best(self) -> None:
        asked = info(replicas=4, present={"a": 1, "b": 3}, edited=True)
        assert decided(asked, cluster("a"), cluster("b"), cluster("c")).placements == {"b": 4}

    def test_a_cluster_that_does_not_answer_is_not_left_for_growing(self) -> None:
        decision = decided(
            info(replicas=4, present={"a": 2}), cluster("a", ready=False), cluster("b")
        )
        assert decision.placements == {"a": 4}


class TestDuplicated:
    """In full on every cluster that matches."""

    def test_every_matching_cluster_runs_all(self) -> None:
        asked = info(
            replicas=3,
            distribution="Duplicated",
            clusterAffinity=required_terms([expression(ZONE, "Exists")]),
        )
        decision = decided(
            asked, cluster("b", {ZONE: "x"}), cluster("a", {ZONE: "y"}), cluster("c")
        )
        assert list(decision.placements.items()) == [("a", 3), ("b", 3)]
        assert (decision.desired, decision.pending) == (6, 0)
        assert decision.why(decision.snapshot.row["a"]) == (Reason(RuleKind.EVERYWHERE, 3),)

    def test_no_cluster_at_all_leaves_one_time_the_number_pending(self) -> None:
        decision = decided(info(replicas=3, distribution="Duplicated"), cluster("a", ready=False))
        assert (decision.desired, decision.pending, decision.placements) == (3, 3, {})
        assert decision.state is WorkloadState.FAILED

    @pytest.mark.proves("C15")
    def test_a_cluster_it_is_on_keeps_its_share(self) -> None:
        asked = info(
            replicas=2, distribution="Duplicated", present={"a": 2, "b": 2, "c": 2, "gone": 2}
        )
        decision = decided(
            asked,
            cluster("a", ready=False),
            cluster("b", unschedulable=True),
            cluster("c", deleting=True),
            cluster("d"),
        )
        assert decision.placements == {"a": 2, "b": 2, "d": 2}
        assert decision.desired == 6

    def test_an_edit_takes_it_from_clusters_that_no_longer_match(self) -> None:
        asked = info(
            distribution="Duplicated",
            present={"a": 2, "b": 2},
            edited=True,
            clusterSelector={"tier": "gold"},
        )
        assert decided(asked, cluster("a"), cluster("b", {"tier": "gold"})).placements == {"b": 2}

    def test_a_refused_one_keeps_what_it_has_on_each_cluster(self) -> None:
        asked = info(
            replicas=3,
            distribution="Duplicated",
            present={"a": 5, "b": 5},
            targetCluster={"name": "demo-cluster"},
        )
        decision = decided(asked, cluster("a"), cluster("b"))
        assert decision.placements == {"a": 3, "b": 3}
        assert (decision.desired, decision.pending) == (6, 0)
        assert decision.reason is ScheduledReason.FAILED_TO_SCHEDULE
        assert decision.state is WorkloadState.SCHEDULED


class TestKindsWithoutReplicas:
    """DaemonSet and CronJob count one for each chosen cluster."""

    @pytest.mark.proves("K15")
    def test_a_daemonset_goes_everywhere(self) -> None:
        decision = decided(info(kind="DaemonSet", replicas=None), cluster("a"), cluster("b"))
        assert decision.placements == {"a": 1, "b": 1}
        assert decision.desired == 2

    @pytest.mark.parametrize("distribution", ["Single", "Divided"])
    def test_a_cronjob_is_never_divided(self, distribution: str) -> None:
        asked = info(kind="CronJob", replicas=None, distribution=distribution)
        decision = decided(asked, cluster("a"), cluster("b"))
        assert (decision.placements, decision.desired) == ({"a": 1}, 1)

    def test_a_duplicated_cronjob_is_one_for_each(self) -> None:
        asked = info(kind="CronJob", replicas=None, distribution="Duplicated")
        assert decided(asked, cluster("a"), cluster("b")).placements == {"a": 1, "b": 1}


def test_the_rest_of_a_refused_workload_stays_pending() -> None:
    asked = info(replicas=5, present={"a": 2}, targetCluster={"name": "demo-cluster"})
    decision = decided(asked, cluster("a"))
    assert (decision.placements, decision.desired, decision.pending) == ({"a": 2}, 5, 3)


def test_a_distribution_whose_plugin_is_disabled_is_refused_in_words() -> None:
    text = """apiVersion: stowage.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins: {assign: {disabled: [{name: Divided}]}}
"""
    profile = parse(text, catalogue.registry()).profiles["stowage"]
    decision = decided(info(distribution="Divided"), cluster("a"), profile=profile)
    assert decision.state is WorkloadState.FAILED
    assert (
        decision.message == "0/1 clusters: profile stowage has no plugin for distribution Divided"
    )
