"""The planner against flows and over random problems, and its few rules by example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from controller.planner.plan import BoundKind, GroupBound, Problem, apportion
from tests.examples import examples

from .plain import (
    ints,
    problem,
    problems,
)

MANY = examples(200)


def shares(of: Problem) -> list[int]:
    return apportion(of).shares.tolist()


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


SUBSETS = (quota([0, 0, 1], [9, 9], [5, 0]), quota([0, 1, 2], [9, 9, 9], [0, 2, 0]))
EXAMPLES = {
    "weights": (problem(12, [3, 2, 1]), [6, 4, 2]),
    "lower bounds come first": (problem(10, [10, 1, 1], lower=[0, 3, 0]), [6, 3, 1]),
    "weight 0 is served its lower bound": (problem(5, [1, 0], lower=[0, 2]), [3, 2]),
    "what one cannot take others do": (
        problem(12, [1, 1, 1], upper=[2, 9, 9], room=[9, 3, 9]),
        [2, 3, 7],
    ),
    "quotas hold in sum": (
        problem(6, [1, 1, 1], groups=(quota([0, 0, 1], [1, 3]),)),
        [1, 0, 3],
    ),
    "a domain is served its lower bound": (
        problem(4, [100, 1, 1], groups=(quota([0, 1, 1], [9, 9], [0, 2]),)),
        [2, 1, 1],
    ),
    # The heavy subset must not use up the domain's quota before the light one is served.
    "lower bounds of subsets under a full domain": (
        problem(4, [10, 1], groups=(quota([0, 0], [4]), quota([0, 1], [9, 9], [2, 2]))),
        [2, 2],
    ),
    "lower bounds of domains count what subsets hold": (
        problem(5, [10, 1, 50], groups=SUBSETS),
        [3, 2, 0],
    ),
    "what does not run goes elsewhere": (
        problem(45, [1, 5, 1], present=[18, 24, 3], learnt=[10**5, 10, 10**5]),
        [18, 10, 17],
    ),
    "what is over a quota shrinks first": (
        problem(5, [1, 1], present=[4, 4], groups=(quota([0, 1], [1, 9]),)),
        [1, 4],
    ),
    "quotas below what is placed move nothing": (
        problem(8, [1, 1], present=[4, 4], groups=(quota([0, 1], [1, 1]),)),
        [4, 4],
    ),
    "weights of zero": (problem(5, [0, 0]), [0, 0]),
    "none": (problem(0, [3, 2, 1]), [0, 0, 0]),
    "very many": (problem(100_000, [3, 2, 1]), [50_000, 33_333, 16_667]),
    "no cluster": (problem(3, []), []),
}


@pytest.mark.proves("K3", "K8", "K29")
@pytest.mark.parametrize(("of", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_by_example(of: Problem, expected: list[int]) -> None:
    plan = apportion(of)
    assert plan.shares.tolist() == expected
    assert plan.pending == of.total - sum(expected)
