"""Divided: by room, by static weights, packed, and over as many domains as asked for."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planner.reasons import RuleKind
from crds.workload import ScheduledReason, WorkloadState
from tests.controller.make import CLUSTER, ZONE, cluster, decided, info
from tests.examples import examples

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


def test_what_is_over_its_bound_after_an_edit_shrinks_first() -> None:
    rules = weights(x={"weight": 1, "maxReplicas": 2}, y={"weight": 1})
    present = {"a": 5, "b": 1}
    who = divided(4, distributionWeights=rules, present=present)
    assert decided(who, roomy("a", 50, "x"), roomy("b", 50, "y")).placements == {"a": 3, "b": 1}


@pytest.mark.parametrize("replicas", [0, 1, 100_000])
def test_from_nothing_to_a_hundred_thousand(replicas: int) -> None:
    members = [roomy(f"c{n}", 3_000) for n in range(40)]
    for each in members:
        each.status.node_groups[0].free["pods"] = "5000"
    found = decided(divided(replicas), *members)
    assert found.assigned == replicas
    assert found.scheduled
    assert max(found.placements.values(), default=0) <= replicas // 40 + 1


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

    def test_shrinking_empties_the_least_used(self) -> None:
        who = divided(4, packing="Fewest", present={"a": 4, "b": 3})
        assert decided(who, roomy("a", 4), roomy("b", 8)).placements == {"a": 4}

    def test_bounds_of_the_rules_hold(self) -> None:
        rules = weights(x={"weight": 1, "maxReplicas": 2}, y={"weight": 1})
        who = divided(6, packing="Fewest", distributionWeights=rules)
        found = decided(who, roomy("a", 50, "x"), roomy("b", 5, "y"))
        assert found.placements == {"a": 1, "b": 5}

    @examples(150)
    @given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 40))
    def test_never_more_clusters_than_needed(self, rooms: list[int], replicas: int) -> None:
        members = [roomy(f"c{n}", room) for n, room in enumerate(rooms)]
        found = decided(divided(replicas, packing="Fewest"), *members)
        assert found.assigned == min(replicas, sum(rooms))
        for name, units in found.placements.items():
            assert units <= rooms[int(name[1:])]
        needed = next(
            size
            for size in range(len(rooms) + 1)
            if any(sum(c) >= found.assigned for c in combinations(rooms, size))
        )
        assert len(found.placements) == needed


class TestSpread:
    ZONES = tuple(
        roomy(f"{zone}{n}", room, zone)
        for zone, room in (("x", 9), ("y", 6), ("z", 3))
        for n in range(3)
    )

    def test_at_most_so_many_domains_the_roomiest_where_it_must_be(self) -> None:
        limit = [{"topologyKey": ZONE, "maxDomains": 2}]
        found = decided(divided(40, spreadConstraints=limit), *self.ZONES)
        assert {name[0] for name in found.placements} == {"x", "y"}
        assert found.scheduled

    def test_fewer_domains_than_needed_place_nothing_new(self) -> None:
        limit = [{"topologyKey": ZONE, "minDomains": 4}]
        found = decided(divided(4, spreadConstraints=limit), *self.ZONES)
        assert found.placements == {}
        assert found.state is WorkloadState.FAILED
        text = f"spreadConstraints need 4 domains of {ZONE}, 3 have clusters that would do"
        assert text in found.message
        held = divided(4, spreadConstraints=limit, present={"x0": 2})
        assert decided(held, *self.ZONES).placements == {"x0": 2}

    def test_every_domain_that_must_have_a_unit_gets_one(self) -> None:
        limit = [{"topologyKey": ZONE, "minDomains": 3}]
        found = decided(divided(3, spreadConstraints=limit), *self.ZONES)
        assert {name[0] for name in found.placements} == {"x", "y", "z"}

    def test_regions_then_clusters(self) -> None:
        limits = [
            {"topologyKey": ZONE, "minDomains": 2, "maxDomains": 2},
            {"topologyKey": CLUSTER, "minDomains": 3, "maxDomains": 4},
        ]
        found = decided(divided(12, spreadConstraints=limits), *self.ZONES)
        assert found.scheduled
        assert len({name[0] for name in found.placements}) == 2
        assert 3 <= len(found.placements) <= 4

    def test_domains_that_hold_units_stay(self) -> None:
        limit = [{"topologyKey": ZONE, "maxDomains": 1}]
        who = divided(5, spreadConstraints=limit, present={"z0": 1})
        assert {n[0] for n in decided(who, *self.ZONES).placements} == {"z"}

    def test_duplicated_goes_to_as_many_clusters(self) -> None:
        limit = [{"topologyKey": CLUSTER, "maxDomains": 4}]
        who = info("demo", replicas=2, distribution="Duplicated", spreadConstraints=limit, pod=POD)
        found = decided(who, *self.ZONES)
        assert len(found.placements) == 4
        assert set(found.placements.values()) == {2}

    @examples(200)
    @given(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from("xyzw")), min_size=1, max_size=8),
        st.integers(1, 20),
        st.integers(1, 4),
        st.integers(0, 3),
    )
    def test_the_bounds_hold_and_no_unit_is_given_up_without_need(
        self, members: list[tuple[int, str]], replicas: int, least: int, more: int
    ) -> None:
        limit = [{"topologyKey": ZONE, "minDomains": least, "maxDomains": least + more}]
        snapshot = [roomy(f"c{n}", room, zone) for n, (room, zone) in enumerate(members)]
        found = decided(divided(replicas, spreadConstraints=limit), *snapshot)
        usable: dict[str, int] = {}
        for room, zone in members:
            if room:
                usable[zone] = usable.get(zone, 0) + room
        if len(usable) < least:
            assert found.placements == {}
            return
        used = {members[int(name[1:])][1] for name in found.placements}
        assert min(least, replicas) <= len(used) <= least + more
        most = sum(sorted(usable.values(), reverse=True)[: least + more])
        assert found.assigned == min(replicas, most)


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
