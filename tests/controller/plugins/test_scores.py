"""Each score: what makes a cluster better than another, and how weights and ties decide."""

from __future__ import annotations

from typing import Any

import pytest

from controller import catalogue
from controller.config import parse
from controller.framework.profile import Profile
from controller.scheduling.decision import Decision
from tests.controller.make import (
    PREFERRED,
    ZONE,
    beside,
    cluster,
    decided,
    expression,
    index,
    info,
    weighted,
)

HEAD = "apiVersion: stowage.dev/v1alpha1\nkind: SchedulerConfiguration\n"


def only(name: str, weight: int = 1) -> Profile:
    """The default profile, scoring by one plugin."""
    text = f"""{HEAD}profiles:
- plugins:
    score:
      disabled: [{{name: "*"}}]
      enabled: [{{name: {name}, weight: {weight}}}]
"""
    return parse(text, catalogue.registry()).profiles["stowage"]


def score(decision: Decision, plugin: str) -> dict[str, int]:
    """A plugin's score of each cluster."""
    values = decision.scores[plugin].tolist()
    return dict(zip(decision.snapshot.names, values, strict=True))


def preferring(*weights: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    terms = [{"weight": w, "preference": {"matchExpressions": [e]}} for w, e in weights]
    return {PREFERRED: terms}


@pytest.mark.proves("C14")
class TestClusterAffinity:
    """spec.clusterAffinity, preferred."""

    ASKED = preferring((10, expression("tier", "In", "gold")), (90, expression("ssd", "Exists")))

    def test_weights_add_up_and_are_normalised_to_the_best(self) -> None:
        decision = decided(
            info(clusterAffinity=self.ASKED),
            cluster("a"),
            cluster("b", {"tier": "gold"}),
            cluster("c", {"ssd": ""}),
            cluster("d", {"tier": "gold", "ssd": ""}),
        )
        assert score(decision, "ClusterAffinity") == {"a": 0, "b": 10, "c": 90, "d": 100}
        assert list(decision.placements) == ["d"]

    def test_the_best_is_the_best_of_those_that_will_do(self) -> None:
        decision = decided(
            info(clusterAffinity=self.ASKED),
            cluster("b", {"tier": "gold"}),
            cluster("d", {"ssd": ""}, ready=False),
        )
        assert score(decision, "ClusterAffinity")["b"] == 100


@pytest.mark.proves("C17", "C18")
class TestWorkloadAffinity:
    """Preferred rules between Workloads."""

    CLUSTERS = (cluster("a", {ZONE: "x"}), cluster("b", {ZONE: "x"}), cluster("c", {ZONE: "y"}))

    def test_preferred_affinity_draws_to_the_domain(self) -> None:
        rule = {PREFERRED: [weighted(100, beside("back", ZONE))]}
        asked = info("front", workloadAffinity=rule)
        decision = decided(asked, *self.CLUSTERS, bound=index((info("back"), {"c": 1})))
        assert score(decision, "WorkloadAffinity") == {"a": 0, "b": 0, "c": 100}
        assert list(decision.placements) == ["c"]

    def test_preferred_anti_affinity_spreads(self) -> None:
        rule = {PREFERRED: [weighted(100, beside("front"))]}
        labels = {"app": "front"}
        asked = info("two", labels=labels, workloadAntiAffinity=rule)
        there = index((info("one", labels=labels, workloadAntiAffinity=rule), {"a": 1}))
        decision = decided(asked, cluster("a"), cluster("b"), bound=there)
        assert list(decision.placements) == ["b"]
        assert decided(asked, cluster("a"), bound=there).placements == {"a": 2}

    def test_both_weigh_against_each_other(self) -> None:
        asked = info(
            "front",
            workloadAffinity={PREFERRED: [weighted(30, beside("back", ZONE))]},
            workloadAntiAffinity={PREFERRED: [weighted(60, beside("noisy"))]},
        )
        there = index((info("back"), {"a": 1}), (info("noisy"), {"b": 1}))
        decision = decided(asked, *self.CLUSTERS, bound=there)
        assert score(decision, "WorkloadAffinity") == {"a": 100, "b": 0, "c": 50}

    def test_the_best_and_the_worst_are_those_of_clusters_that_will_do(self) -> None:
        rules = [weighted(10, beside("back")), weighted(30, beside("cache"))]
        asked = info("front", workloadAffinity={PREFERRED: rules})
        there = index((info("back"), {"b": 1, "down": 1}), (info("cache"), {"down": 1}))
        able, down = (cluster("a"), cluster("b")), cluster("down", ready=False)
        found = score(decided(asked, *able, down, bound=there), "WorkloadAffinity")
        assert (found["a"], found["b"]) == (0, 100)
        tied = score(decided(asked, able[0], down, bound=there), "WorkloadAffinity")
        assert tied["a"] == 0


def test_soft_taints_that_are_not_tolerated_lower_the_score() -> None:
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    worse = {"key": "slow", "effect": "PreferNoSchedule"}
    clusters = (cluster("a", taints=[soft, worse]), cluster("b", taints=[soft]), cluster("c"))
    assert score(decided(info(), *clusters), "TaintToleration") == {"a": 0, "b": 50, "c": 100}
    borne = info(tolerations=[{"key": "old", "operator": "Exists"}])
    assert score(decided(borne, *clusters), "TaintToleration") == {"a": 0, "b": 100, "c": 100}
    down = cluster("down", taints=[soft, worse], ready=False)
    found = score(decided(info(), *clusters[1:], down), "TaintToleration")
    assert (found["b"], found["c"]) == (0, 100), "one that will not do is not the worst"
    assert score(decided(info(), clusters[2], down), "TaintToleration")["c"] == 100


@pytest.mark.proves("C33")
class TestCriteria:
    """Room, cost, latency, reliability."""

    def test_what_stays_free_after_placing_is_scored(self) -> None:
        used = {
            "requested": {"cpu": "4", "memory": "16Gi"},
            "allocatable": {"cpu": "8", "memory": "32Gi"},
        }
        decision = decided(info(replicas=4), cluster("a", status={"capacity": used}), cluster("b"))
        # 2 of 8 cpu and 4 of 32Gi are placed: 75 and 87 percent stay on the empty one.
        assert score(decision, "ClusterResources") == {"a": 31, "b": 81}
        assert list(decision.placements) == ["b"]

    @pytest.mark.parametrize(
        ("prices", "scores"),
        [
            (("5", "1", None, "2.5"), [0, 100, 0, 62]),
            ((None, "5"), [0, 100]),
            (("0", "0"), [100, 100]),
            (("1e-9", "1e-9"), [100, 100]),
            (("-2", "0", "2"), [100, 50, 0]),  # money back is the best price
        ],
    )
    def test_the_cheaper_wins_with_the_plugin_enabled(
        self, prices: tuple[str | None, ...], scores: list[int]
    ) -> None:
        """Between those that will do, and not between all of the fleet."""
        members = [
            cluster(f"c{n}", annotations={"stowage.dev/cost": price} if price else {})
            for n, price in enumerate(prices)
        ]
        away = cluster("gold", annotations={"stowage.dev/cost": "10000"}, ready=False)
        decision = decided(info(), *members, away, profile=only("ClusterCost"))
        found = score(decision, "ClusterCost")
        assert [found[f"c{n}"] for n in range(len(prices))] == scores
        assert decision.placements == {f"c{scores.index(100)}": 2}

    def test_the_faster_wins(self) -> None:
        decision = decided(
            info(),
            cluster("far", status={"latencyMilliseconds": 200}),
            cluster("near", status={"latencyMilliseconds": 10}),
            cluster("unknown"),
            profile=only("ClusterLatency"),
        )
        assert score(decision, "ClusterLatency") == {"far": 0, "near": 100, "unknown": 0}

    def test_the_more_reliable_wins(self) -> None:
        decision = decided(
            info(),
            cluster("shaky", status={"reliability": {"readyPercent": 40}}),
            cluster("solid", status={"reliability": {"readyPercent": 99}}),
            cluster("unknown"),
            profile=only("ClusterReliability"),
        )
        assert score(decision, "ClusterReliability") == {"shaky": 40, "solid": 99, "unknown": 0}


class TestRanking:
    """Weights, rank scores and ties."""

    @pytest.mark.proves("E19")
    def test_a_weight_flips_the_choice(self) -> None:
        asked = info(clusterAffinity=preferring((100, expression("tier", "Exists"))))
        clusters = (
            cluster("a", {"tier": ""}, status={"reliability": {"readyPercent": 10}}),
            cluster("b", status={"reliability": {"readyPercent": 90}}),
        )

        def chosen(weight: int) -> str:
            text = f"""{HEAD}profiles:
- plugins:
    score:
      disabled: [{{name: "*"}}]
      enabled: [{{name: ClusterAffinity, weight: 1}}, {{name: ClusterReliability, weight: {weight}}}]
"""
            profile = parse(text, catalogue.registry()).profiles["stowage"]
            decision = decided(asked, *clusters, profile=profile)
            for row in range(2):
                parts = [profile.weights[p] * int(decision.scores[p][row]) for p in decision.scores]
                assert int(decision.totals[row]) == sum(parts)
            return next(iter(decision.placements))

        assert (chosen(1), chosen(10)) == ("a", "b")

    @pytest.mark.proves("C19")
    @pytest.mark.parametrize(
        ("percent", "rank"), [(0, 1), (10, 1), (11, 1), (12, 2), (50, 5), (99, 9), (100, 10)]
    )
    def test_the_published_score_is_1_to_10(self, percent: int, rank: int) -> None:
        found = cluster("a", status={"reliability": {"readyPercent": percent}})
        for weight in (1, 7):
            decision = decided(info(), found, profile=only("ClusterReliability", weight))
            assert decision.rank_score(0) == rank

    @pytest.mark.proves("C20")
    def test_equals_go_by_name(self) -> None:
        clusters = [cluster(name) for name in ("c", "a", "d", "b")]
        decision = decided(info(), *clusters)
        assert [decision.snapshot.names[row] for row in decision.ranking] == ["a", "b", "c", "d"]
        assert list(decision.placements) == ["a"]
