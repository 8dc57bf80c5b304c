"""Divided: by room, by static weights, packed, and over as many domains as asked for."""

from __future__ import annotations

from typing import Any

import pytest

from controller.planner.reasons import RuleKind
from crds.workload import ScheduledReason
from tests.controller.make import CLUSTER, ZONE, cluster, decided, info

POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


def roomy(name: str, room: int, zone: str = "z", **labels: str) -> Any:
    """A cluster with room for so many units."""
    free = {"cpu": str(room), "pods": "500"}
    groups = [{"count": 1, "free": free}]
    return cluster(name, {CLUSTER: name, ZONE: zone, **labels}, groups=groups)


def divided(replicas: int, **fields: Any) -> Any:
    return info("demo", replicas=replicas, distribution="Divided", pod=POD, **fields)


def weights(**by_zone: Any) -> list[dict[str, Any]]:
    return [
        {"clusterSelector": {"matchLabels": {ZONE: zone}}, **rule} for zone, rule in by_zone.items()
    ]


def test_by_free_room() -> None:
    found = decided(divided(6), roomy("a", 8), roomy("b", 4))
    assert found.placements == {"a": 4, "b": 2}
    assert {r.kind for r in found.why(found.snapshot.row["a"])} == {RuleKind.WEIGHT}


def test_by_static_weights_with_bounds_and_none_where_no_rule_matches() -> None:
    rules = weights(x={"weight": 3, "maxReplicas": 4}, y={"weight": 1, "minReplicas": 2})
    members = (roomy("a", 50, "x"), roomy("b", 50, "y"), roomy("c", 50, "w"))
    assert decided(divided(4, distributionWeights=rules), *members).placements == {"a": 2, "b": 2}
    assert decided(divided(9, distributionWeights=rules), *members).placements == {"a": 4, "b": 5}


def test_the_first_rule_that_matches_counts() -> None:
    rules = [{"clusterSelector": {"matchLabels": {CLUSTER: "a"}}, "weight": 1}]
    rules += [{"clusterSelector": {}, "weight": 3}]
    found = decided(divided(8, distributionWeights=rules), roomy("a", 50), roomy("b", 50))
    assert found.placements == {"a": 2, "b": 6}


def test_no_rule_matches_any_cluster() -> None:
    rules = weights(nowhere={"weight": 1})
    found = decided(divided(3, distributionWeights=rules), roomy("a", 50))
    assert (found.placements, found.pending) == ({}, 3)
    assert found.reason is ScheduledReason.FAILED_TO_SCHEDULE
    assert "no rule of distributionWeights matches" in found.message


class TestPacking:
    def test_as_few_as_hold_it(self) -> None:
        found = decided(
            divided(9, packing="Fewest"), roomy("a", 4), roomy("b", 8), roomy("c", 6), roomy("d", 2)
        )
        assert found.placements == {"b": 8, "c": 1}
        assert [r.kind for r in found.why(found.snapshot.row["c"])] == [RuleKind.PACKED]

    def test_growing_fills_those_in_use_first_and_moves_nothing(self) -> None:
        who = divided(9, packing="Fewest", present={"a": 3})
        assert decided(who, roomy("a", 4), roomy("b", 8)).placements == {"a": 7, "b": 2}


@pytest.mark.proves("R12", "P3")
def test_a_share_over_its_maximum_shrinks_before_another_clusters_does() -> None:
    rules = weights(x={"weight": 1}, y={"weight": 100, "maxReplicas": 2})
    who = divided(5, distributionWeights=rules, present={"a": 3, "b": 4})
    assert decided(who, roomy("a", 50, "x"), roomy("b", 50, "y")).placements == {"a": 3, "b": 2}


@pytest.mark.proves("R12", "P1")
def test_packing_keeps_a_minimum_that_is_held_and_no_cluster_beside_it() -> None:
    rules = weights(x={"weight": 1}, y={"weight": 1, "minReplicas": 2})
    members = (roomy("a", 50, "x"), roomy("b", 50, "y"), roomy("c", 50, "x"))
    who = divided(5, packing="Fewest", distributionWeights=rules, present={"a": 4, "b": 2, "c": 3})
    assert decided(who, *members).placements == {"a": 3, "b": 2}
