"""spec.spreadConstraints: every bound at once, against a search through all sets of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.explain.record import record
from controller.model.observedlimits import ObservedLimit
from controller.scheduling.decision import Decision
from crds.workload import ScheduledReason, WorkloadState
from tests.controller.make import CLUSTER, NOW, ZONE, adds_up, cluster, decided, info
from tests.examples import examples

REGION = "topology.kubernetes.io/region"
POD = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


@dataclass(frozen=True)
class Member:
    """A cluster of the generated fleets: its room, its domains, its rule, and what it holds."""

    room: int
    region: int
    zone: int = 0
    rule: int = 0
    held: int = 0

    def most(self, ruled: bool) -> int:
        """What it can hold: rule 1 allows 2 units, rule 2 none."""
        bound = {0: self.room, 1: min(self.room, 2), 2: 0}[self.rule] if ruled else self.room
        return max(bound, self.held)


def made(name: str, room: int, **labels: str) -> Any:
    """A cluster with room for so many units."""
    groups = [{"count": 1, "free": {"cpu": str(room), "pods": "500"}}]
    return cluster(name, {CLUSTER: name, **labels}, groups=groups)


def snapshot(members: list[Member]) -> list[Any]:
    return [
        made(
            f"c{n}",
            each.room - each.held,
            **{REGION: f"r{each.region}", ZONE: f"z{each.zone}", "rule": str(each.rule)},
        )
        for n, each in enumerate(members)
    ]


def asked(replicas: int, limits: list[dict[str, Any]], **fields: Any) -> Any:
    return info(
        "demo",
        replicas=replicas,
        distribution=fields.pop("distribution", "Divided"),
        pod=POD,
        spreadConstraints=limits,
        **fields,
    )


def limit(key: str, least: int | None, most: int | None) -> dict[str, Any]:
    bounds = {"minDomains": least, "maxDomains": most}
    return {"topologyKey": key, **{name: n for name, n in bounds.items() if n is not None}}


Subset = frozenset[int]


def domains(members: list[Member], key: str, chosen: Subset) -> int:
    """How many domains these clusters are in."""
    of = {REGION: lambda n: members[n].region, ZONE: lambda n: members[n].zone}
    return len({of[key](n) if key in of else n for n in chosen})


def allowed(
    members: list[Member], limits: list[dict[str, Any]], usable: Subset, held: Subset
) -> Iterator[Subset]:
    """Every set of clusters that keeps to all bounds; all that hold units are in each."""
    free = sorted(usable - held)
    for size in range(len(free) + 1):
        for added in combinations(free, size):
            chosen = held | set(added)
            for each in limits:
                used = domains(members, each["topologyKey"], frozenset(chosen))
                kept = domains(members, each["topologyKey"], held)
                most = max(each.get("maxDomains", len(members)), kept)
                if not each.get("minDomains", 1) <= used <= most:
                    break
            else:
                yield frozenset(chosen)


def bounds(draw: Any, key: str, most: int) -> dict[str, Any]:
    least = draw(st.none() | st.integers(1, 3))
    top = draw(st.none() | st.integers(least or 1, most))
    assume(least is not None or top is not None)
    return limit(key, least, top)


@st.composite
def cases(draw: Any, *, nested: bool = True) -> tuple[list[Member], list[dict[str, Any]], bool]:
    """Fleets of at most eight clusters, with one to three constraints in any order."""
    ruled = draw(st.booleans())
    members = []
    for _ in range(draw(st.integers(1, 8))):
        held = draw(st.sampled_from([0, 0, 0, 0, 1, 2]))
        region = draw(st.integers(0, 3))
        zone = draw(st.integers(0, 1)) + (2 * region if nested else 0)
        room = draw(st.integers(0, 6)) + held
        members.append(Member(room, region, zone, draw(st.integers(0, 2)), held))
    keys = draw(st.permutations([REGION, ZONE, CLUSTER]))[: draw(st.integers(1, 3))]
    return members, [bounds(draw, key, 5) for key in keys], ruled


def rules() -> list[dict[str, Any]]:
    """Rule 0 matches without a bound, rule 1 with one of 2; nothing matches rule 2."""
    return [
        {"clusterSelector": {"matchLabels": {"rule": "0"}}, "weight": 3},
        {"clusterSelector": {"matchLabels": {"rule": "1"}}, "weight": 100, "maxReplicas": 2},
    ]


def placed(
    members: list[Member], limits: list[dict[str, Any]], replicas: int, ruled: bool, packing: str
) -> Decision:
    who = asked(
        replicas,
        limits,
        present={f"c{n}": each.held for n, each in enumerate(members) if each.held},
        packing=packing,
        **({"distributionWeights": rules()} if ruled else {}),
    )
    return decided(who, *snapshot(members))


@pytest.mark.proves("D3", "P4")
@examples(400)
@given(
    cases() | cases(nested=False), st.integers(0, 25), st.sampled_from(["Proportional", "Fewest"])
)
def test_no_unit_is_pending_that_some_choice_of_domains_would_hold(
    case: tuple[list[Member], list[dict[str, Any]], bool], replicas: int, packing: str
) -> None:
    members, limits, ruled = case
    most = [each.most(ruled) for each in members]
    held = frozenset(n for n, each in enumerate(members) if each.held)
    usable = frozenset(n for n in range(len(members)) if most[n])
    total = sum(each.held for each in members)
    found = placed(members, limits, replicas, ruled, packing)
    choices = list(allowed(members, limits, usable, held))
    if replicas <= total:
        assert found.assigned == replicas
    elif not choices:
        assert found.assigned == total
        assert "spreadConstraints" in found.message or not usable
    else:
        assert found.assigned == min(replicas, max(sum(most[n] for n in each) for each in choices))


@pytest.mark.proves("D3")
@examples(300)
@given(cases(), st.integers(0, 25), st.sampled_from(["Proportional", "Fewest"]))
def test_the_bounds_hold_and_what_is_placed_stays(
    case: tuple[list[Member], list[dict[str, Any]], bool], replicas: int, packing: str
) -> None:
    members, limits, ruled = case
    found = placed(members, limits, replicas, ruled, packing)
    total = sum(each.held for each in members)
    for n, each in enumerate(members):
        share = found.placements.get(f"c{n}", 0)
        assert share <= each.most(ruled)
        assert share >= each.held if replicas >= total else share <= each.held
    before = frozenset(n for n, each in enumerate(members) if each.held)
    after = frozenset(int(name[1:]) for name in found.placements)
    new = found.assigned - total
    for each in limits:
        key, least = each["topologyKey"], each.get("minDomains", 1)
        used, kept = domains(members, key, after), domains(members, key, before)
        assert used <= max(each.get("maxDomains", len(members)), kept)
        if total == 0 and new:
            assert used >= min(least, replicas)
        if new > sum(bound.get("minDomains", 1) for bound in limits):
            assert used >= least
    assert placed(members, limits, replicas, ruled, packing).placements == found.placements


class TestChoice:
    def test_a_region_is_not_chosen_for_clusters_that_may_not_take_part(self) -> None:
        many = [made(f"many{n}", 3, **{REGION: "many"}) for n in range(9)]
        few = [made(f"few{n}", 10, **{REGION: "few"}) for n in range(2)]
        found = decided(asked(20, [limit(REGION, 1, 1), limit(CLUSTER, 1, 2)]), *many, *few)
        assert found.placements == {"few0": 10, "few1": 10}

    def test_only_what_the_rules_let_in_counts_as_room(self) -> None:
        rules = [
            {"clusterSelector": {"matchLabels": {REGION: "big"}}, "weight": 9, "maxReplicas": 2},
            {"clusterSelector": {"matchLabels": {REGION: "small"}}, "weight": 1},
        ]
        members = [made("a", 50, **{REGION: "big"}), made("b", 9, **{REGION: "small"})]
        members += [made("c", 90, **{REGION: "without"})]
        found = decided(asked(8, [limit(REGION, 1, 1)], distributionWeights=rules), *members)
        assert found.placements == {"b": 8}

    def test_more_domains_than_allowed_stay_and_no_other_is_used(self) -> None:
        members = [made(name, 4, **{REGION: name}) for name in "abcd"]
        present = {"a": 1, "b": 1, "c": 1}
        found = decided(asked(14, [limit(REGION, 1, 1)], present=present, edited=True), *members)
        assert found.placements == {"a": 5, "b": 5, "c": 4}
        fewer = decided(asked(3, [limit(REGION, 1, 1)], present=present, edited=True), *members)
        assert fewer.placements == present

    def test_room_that_constraints_leave_out_is_said_to_be_left_out(self) -> None:
        members = [made(name, 4) for name in "abc"]
        found = decided(asked(10, [limit(CLUSTER, 1, 2)]), *members)
        assert found.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert found.message == (
            "8 of 10 replicas have a cluster; 3/3 clusters: "
            "spreadConstraints leave out 1 cluster with room; 2 clusters have no room for more"
        )

    def test_constraints_that_contradict_each_other_say_so(self) -> None:
        members = [made(f"{region}0", 4, **{REGION: region}) for region in "abc"]
        found = decided(asked(3, [limit(REGION, 3, None), limit(CLUSTER, 1, 2)]), *members)
        assert (found.placements, found.state) == ({}, WorkloadState.FAILED)
        assert found.message == (
            "3/3 clusters: spreadConstraints cannot be met together by the clusters that would do: "
            f"at least 3 domains of {REGION} with at most 2 domains of {CLUSTER}"
        )

    def test_too_few_domains_for_a_copy_on_each(self) -> None:
        who = asked(3, [limit(CLUSTER, 3, None)], distribution="Duplicated")
        found = decided(who, made("a", 4), made("b", 4))
        assert (found.reason, found.state) == (
            ScheduledReason.FAILED_TO_SCHEDULE,
            WorkloadState.FAILED,
        )
        assert found.message == (
            f"2/2 clusters: spreadConstraints need 3 domains of {CLUSTER}, "
            "2 have clusters that would do"
        )

    def test_what_a_cluster_was_seen_to_run_bounds_the_room_that_counts(self) -> None:
        members = [made("a", 9, **{REGION: "x"}), made("b", 6, **{REGION: "y"})]
        seen = {"a": ObservedLimit(2, NOW)}
        who = replace(asked(5, [limit(REGION, 1, 1)]), limits=seen)
        assert decided(who, *members).placements == {"b": 5}
        alone = decided(who, members[0])
        assert alone.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert alone.message == (
            "2 of 5 replicas have a cluster; 1/1 clusters: 1 cluster was seen to run no more, though with room"
        )

    def test_a_label_that_no_cluster_has(self) -> None:
        found = decided(asked(3, [limit(REGION, None, 2)]), made("a", 4))
        assert found.message == (
            f"1/1 clusters: spreadConstraints need 1 domain of {REGION}, "
            "0 have clusters that would do"
        )

    def test_a_domain_that_may_take_nothing_is_none(self) -> None:
        rules = [{"clusterSelector": {"matchLabels": {CLUSTER: "a"}}, "weight": 1}]
        who = asked(2, [limit(CLUSTER, 2, None)], distributionWeights=rules)
        found = decided(who, made("a", 4), made("b", 4))
        assert found.message == (
            f"2/2 clusters: spreadConstraints need 2 domains of {CLUSTER}, 1 has clusters that "
            "would do; no rule of distributionWeights matches 1 cluster"
        )

    def test_a_bound_of_a_rule_is_said_to_be_the_bound(self) -> None:
        rules = [{"clusterSelector": {}, "weight": 1, "maxReplicas": 2}]
        found = decided(asked(6, [], distributionWeights=rules), made("a", 9), made("b", 9))
        assert found.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert found.message == (
            "4 of 6 replicas have a cluster; 2/2 clusters: "
            "2 clusters are at the maxReplicas of distributionWeights"
        )

    def test_rules_that_give_weight_0_are_not_rules_that_do_not_match(self) -> None:
        rules = [{"clusterSelector": {}, "weight": 0}]
        found = decided(asked(6, [], distributionWeights=rules), made("a", 9), made("b", 9))
        assert found.message == "2/2 clusters: distributionWeights give weight 0 to 2 clusters"

    def test_a_full_cluster_is_still_said_to_be_full(self) -> None:
        found = decided(asked(6, []), made("a", 4))
        assert found.reason is ScheduledReason.INSUFFICIENT_CAPACITY
        assert found.message == "4 of 6 replicas have a cluster; 1/1 clusters: no room for more"


def test_a_domain_goes_before_the_minimum_of_a_rule() -> None:
    rules = [
        {"clusterSelector": {"matchLabels": {REGION: "x"}}, "weight": 100, "minReplicas": 9},
        {"clusterSelector": {}, "weight": 1},
    ]
    members = [made("a", 20, **{REGION: "x"}), made("b", 20, **{REGION: "y"})]
    for packing in ("Proportional", "Fewest"):
        who = asked(4, [limit(REGION, 2, None)], distributionWeights=rules, packing=packing)
        assert decided(who, *members).placements == {"a": 3, "b": 1}


def test_new_units_go_first_to_the_region_that_is_lacking() -> None:
    members = [made("a", 5, **{REGION: "x"}), made("b", 9, **{REGION: "x"})]
    members += [made("c", 5, **{REGION: "y"})]
    limits = [limit(CLUSTER, 3, None), limit(REGION, 2, None)]
    found = decided(asked(4, limits, present={"a": 3}), *members)
    assert found.placements == {"a": 3, "c": 1}


def test_copies_of_nothing_are_held_like_any_others() -> None:
    members = [made(name, 9) for name in "abc"]
    who = asked(2, [limit(CLUSTER, 1, 2)], distribution="Duplicated", present={"b": 0, "c": 0})
    assert decided(who, *members).placements == {"b": 2, "c": 2}


@pytest.mark.parametrize("distribution", ["Duplicated", "Divided"])
def test_a_region_that_could_not_keep_to_the_next_constraint_is_passed_over(
    distribution: str,
) -> None:
    members = [made("best", 50, **{REGION: "x"})]
    members += [made(f"c{n}", 5, **{REGION: "y"}) for n in range(3)]
    limits = [limit(REGION, 1, 1), limit(CLUSTER, 3, 3)]
    found = decided(asked(3, limits, distribution=distribution), *members)
    assert set(found.placements) == {"c0", "c1", "c2"}


class TestTooManyChoices:
    """Constraints of which not every choice can be tried: what is found counts, and it is said."""

    KEYS = tuple(f"example.com/key-{n}" for n in range(6))

    def snapshot(self) -> list[Any]:
        dice = Random(4)
        return [
            made(
                f"c{n:03}",
                dice.randint(1, 9),
                **{key: f"v{dice.randrange(9)}" for key in self.KEYS},
            )
            for n in range(150)
        ]

    @pytest.mark.proves("P4")
    def test_the_best_that_was_found_is_used_and_the_message_and_the_record_say_so(self) -> None:
        found = decided(asked(900, [limit(key, None, 3) for key in self.KEYS]), *self.snapshot())
        assert 0 < found.assigned < 900
        adds_up(found)
        said = "spreadConstraints allow more choices of domains than were tried"
        assert said in found.message
        assert said in str(record(found)["pendingReasons"])

    @pytest.mark.proves("P4")
    def test_that_none_was_found_is_not_called_impossible(self) -> None:
        limits = [limit(key, 1, 1) for key in self.KEYS[:5]] + [limit(CLUSTER, 3, None)]
        limits[4] = limit(self.KEYS[4], 3, 4)
        found = decided(asked(9, limits), *self.snapshot())
        assert (found.placements, found.state) == ({}, WorkloadState.FAILED)
        impossible = "spreadConstraints cannot be met together" in found.message
        assert impossible != ("there are more than could be tried" in found.message)
        assert found.choosing == (found.message.partition("clusters: ")[2],)

    @pytest.mark.proves("P4")
    def test_where_all_units_have_a_place_nothing_is_said(self) -> None:
        found = decided(asked(20, [limit(key, None, 3) for key in self.KEYS]), *self.snapshot())
        assert found.scheduled
        assert record(found)["pendingReasons"] == []


def weighed(**by_cluster: int) -> list[dict[str, Any]]:
    return [
        {"clusterSelector": {"matchLabels": {CLUSTER: name}}, "weight": weight}
        for name, weight in by_cluster.items()
    ]


@pytest.mark.proves("J4")
class TestWeightsChooseTheDomains:
    """Who gives a cluster most of the weight does not mean it to be cut for its name or score."""

    def test_the_heaviest_clusters_are_kept(self) -> None:
        rules = weighed(c1=1, c2=1, c3=98)
        found = asked(100, [limit(CLUSTER, None, 2)], distributionWeights=rules)
        fleet = [made("c1", 300), made("c2", 200), made("c3", 100)]  # the heaviest scores least
        assert decided(found, *fleet).placements == {"c1": 1, "c3": 99}
        one = asked(10, [limit(CLUSTER, 1, 1)], distributionWeights=rules)
        assert decided(one, *fleet).placements == {"c3": 10}

    def test_a_region_weighs_what_its_clusters_weigh_together(self) -> None:
        fleet = [
            made("c1", 100, **{REGION: "east"}),
            made("c2", 100, **{REGION: "west"}),
            made("c3", 100, **{REGION: "west"}),
        ]
        found = asked(20, [limit(REGION, None, 1)], distributionWeights=weighed(c1=3, c2=2, c3=2))
        assert decided(found, *fleet).placements == {"c2": 10, "c3": 10}

    def test_room_comes_first_and_what_runs_stays(self) -> None:
        rules = weighed(c1=1, c2=1, c3=98)
        fleet = [made("c1", 100), made("c2", 100), made("c3", 4)]
        found = asked(20, [limit(CLUSTER, 1, 1)], distributionWeights=rules)
        assert decided(found, *fleet).placements == {"c1": 20}
        there = replace(found, present={"c2": 3})
        assert decided(there, *fleet).placements == {"c2": 20}
