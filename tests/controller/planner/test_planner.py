"""The planner against flows and over random problems, and its few rules by example."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from controller.planner.plan import BoundKind, GroupBound, Problem, apportion
from tests.examples import examples

from .plain import (
    ints,
    meets_lower_bounds,
    most_units,
    problem,
    problems,
    random_problem,
    tried,
)

MANY = examples(200)
CASES = tried(2000)


def shares(of: Problem) -> list[int]:
    return apportion(of).shares.tolist()


def inside(group: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(group, weights=values, minlength=size).astype(int)


def quota(group: list[int], upper: list[int], lower: list[int] | None = None) -> GroupBound:
    names = [f"d{number}" for number in range(len(upper))]
    return GroupBound(
        BoundKind.DOMAIN_QUOTA, names, ints(group), ints(upper), ints(lower or [0] * len(upper))
    )


@given(problems())
@MANY
def test_unit_by_unit_is_the_same_as_at_once(of: Problem) -> None:
    """Growing or shrinking in steps, each from the one before, ends where one step ends."""
    held = of.settled()
    now, grows = int(held.sum()), of.total >= held.sum()
    stepped = replace(of, present=held)
    for total in range(now, of.total + 1) if grows else range(now - 1, of.total - 1, -1):
        stepped = replace(stepped, present=apportion(replace(stepped, total=total)).shares)
    assert stepped.present.tolist() == shares(of)


@given(problems())
@MANY
def test_the_places_of_clusters_do_not_matter_the_order_does(of: Problem) -> None:
    turned = np.random.default_rng(of.total).permutation(len(of.weight))
    columns = ("weight", "lower", "upper", "room", "learnt", "present", "order")
    moved = replace(
        of,
        **{name: getattr(of, name)[turned] for name in columns},
        groups=tuple(replace(bound, group=bound.group[turned]) for bound in of.groups),
    )
    assert shares(moved) == apportion(of).shares[turned].tolist()


@given(problems())
@MANY
def test_the_order_decides_ties_and_nothing_else(of: Problem) -> None:
    """Weights that are all different primes' multiples never tie: then the order changes nothing."""
    weights = ints([1009, 2003, 4001, 8009, 16001, 32003, 64007][: len(of.weight)])
    of = replace(of, weight=weights)
    assert shares(of) == shares(replace(of, order=of.order[::-1].copy()))


@given(problems())
@MANY
def test_it_changes_nothing_that_it_is_given_and_answers_alike(of: Problem) -> None:
    kept = {name: getattr(of, name).copy() for name in ("weight", "present", "room", "order")}
    first = apportion(of)
    assert shares(of) == first.shares.tolist()
    for name, value in kept.items():
        assert (getattr(of, name) == value).all()


def test_as_many_are_placed_as_a_flow_can_carry() -> None:
    dice = random.Random(12)
    for _ in range(CASES):
        of = random_problem(dice)
        held = of.settled().tolist()
        assert int(apportion(of).shares.sum()) == min(of.total, most_units(of, held)), of


def test_all_lower_bounds_are_met_where_a_flow_meets_them() -> None:
    dice = random.Random(13)
    met = 0
    for _ in range(CASES):
        of = random_problem(dice)
        held = of.settled()
        if of.total < held.sum() or not meets_lower_bounds(of, held.tolist()):
            continue
        met += 1
        given_ = apportion(of).shares
        assert (given_ >= np.minimum(of.lower, of.cap())).all(), of
        for bound in of.groups:
            least = np.minimum(bound.lower, bound.upper)
            peopled = np.unique(bound.group)
            assert (inside(bound.group, given_, len(least)) >= least)[peopled].all(), of
    assert met > CASES // 5


def test_no_other_placement_serves_the_weights_better() -> None:
    """Webster's measure: of all placements of as many units, sum(a²/w) over 2 a unit is least.

    A flow of least cost says the same where each further unit of a cluster costs (2a + 1) / w.
    """
    dice = random.Random(14)
    for _ in range(300):
        of = random_problem(dice, fresh=True, lowers=False)
        of = replace(of, weight=of.weight % 12)
        given_ = apportion(of).shares.tolist()
        assert _cost(of, given_) == _least_cost(of, sum(given_)), of


SCALE = 2 * 2 * 2 * 3 * 3 * 5 * 7 * 11
"""Every weight below 12 divides it, so that costs are integers."""


def _cost(of: Problem, given_: list[int]) -> int:
    return sum(SCALE // int(w) * a * a for a, w in zip(given_, of.weight, strict=True) if a)


def _least_cost(of: Problem, placed: int) -> int:
    graph = nx.MultiDiGraph()
    graph.add_node("total", demand=-placed)
    graph.add_node("sink", demand=placed)
    seen = set()
    for row, weight in enumerate(map(int, of.weight)):
        path = ["total", *((level, int(b.group[row])) for level, b in enumerate(of.groups))]
        for depth, (tail, head) in enumerate(itertools.pairwise(path)):
            if head not in seen:
                seen.add(head)
                graph.add_edge(tail, head, capacity=int(of.groups[depth].upper[head[1]]), weight=0)
        for info in range(min(placed, int(of.cap()[row])) if weight else 0):
            graph.add_edge(path[-1], "sink", capacity=1, weight=SCALE // weight * (2 * info + 1))
    return nx.network_simplex(graph)[0] if placed else 0


class TestByExample:
    """The rules, one by one."""

    def test_weights(self) -> None:
        assert shares(problem(12, [3, 2, 1])) == [6, 4, 2]

    def test_lower_bounds_come_first(self) -> None:
        assert shares(problem(10, [10, 1, 1], lower=[0, 3, 0])) == [6, 3, 1]

    def test_a_cluster_of_weight_zero_is_served_its_lower_bound(self) -> None:
        assert shares(problem(5, [1, 0], lower=[0, 2])) == [3, 2]

    def test_what_one_cannot_take_others_do(self) -> None:
        assert shares(problem(12, [1, 1, 1], upper=[2, 9, 9], room=[9, 3, 9])) == [2, 3, 7]

    @pytest.mark.proves("K3", "K8")
    def test_quotas_hold_in_sum(self) -> None:
        of = problem(6, [1, 1, 1], groups=(quota([0, 0, 1], [1, 3]),))
        assert (shares(of), apportion(of).pending) == ([1, 0, 3], 2)

    def test_a_domain_is_served_its_lower_bound(self) -> None:
        of = problem(4, [100, 1, 1], groups=(quota([0, 1, 1], [9, 9], [0, 2]),))
        assert shares(of) == [2, 1, 1]

    def test_lower_bounds_of_subsets_are_met_under_a_domain_that_is_full(self) -> None:
        """The heavy subset must not use up the domain's quota before the light one is served."""
        domain = quota([0, 0], [4])
        subset = quota([0, 1], [9, 9], [2, 2])
        assert shares(problem(4, [10, 1], groups=(domain, subset))) == [2, 2]

    def test_lower_bounds_of_domains_count_what_their_subsets_hold(self) -> None:
        domain = quota([0, 0, 1], [9, 9], [5, 0])
        subset = quota([0, 1, 2], [9, 9, 9], [0, 2, 0])
        assert shares(problem(5, [10, 1, 50], groups=(domain, subset))) == [3, 2, 0]

    def test_what_does_not_run_goes_elsewhere(self) -> None:
        of = problem(45, [1, 5, 1], present=[18, 24, 3], learnt=[10**5, 10, 10**5])
        assert shares(of) == [18, 10, 17]

    @pytest.mark.proves("K29")
    def test_what_is_over_a_quota_shrinks_first(self) -> None:
        of = problem(5, [1, 1], present=[4, 4], groups=(quota([0, 1], [1, 9]),))
        assert shares(of) == [1, 4]

    @pytest.mark.proves("K29")
    def test_quotas_below_what_is_placed_move_nothing(self) -> None:
        of = problem(8, [1, 1], present=[4, 4], groups=(quota([0, 1], [1, 1]),))
        assert shares(of) == [4, 4]

    def test_all_weights_zero_place_nothing(self) -> None:
        assert (shares(problem(5, [0, 0])), apportion(problem(5, [0, 0])).pending) == ([0, 0], 5)

    @pytest.mark.parametrize("total", [0, 1, 100_000])
    def test_any_number_of_replicas(self, total: int) -> None:
        assert sum(shares(problem(total, [3, 2, 1]))) == total

    def test_no_cluster_at_all(self) -> None:
        assert (shares(problem(3, [])), apportion(problem(3, [])).pending) == ([], 3)
