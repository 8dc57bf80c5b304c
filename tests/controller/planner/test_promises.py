"""Planner and packing over random problems: small, tight, growing and shrinking.

There are 20,000 in a long run, and a fifth of them in each (`tests.examples`).
`PLANNER_SEED` in the environment draws others; a failure names the seed of its problem.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from controller.planner.plan import UNBOUNDED, BoundKind, GroupBound, Problem, apportion

from .byhand import fewest
from .packing import packed
from .plain import ints, problem, random_problem, tried

FREE = UNBOUNDED
FIRST = int(os.environ.get("PLANNER_SEED", "0"))
EACH = tried(1000)
"""Problems a test; ten tests for the planner and ten for packing."""


def drawn(seed: int, *, lowers: bool = True) -> Problem:
    """A random problem; every second one shrinks, where it holds anything."""
    dice = random.Random(seed)
    of = random_problem(dice, lowers=lowers)
    held = int(of.settled().sum())
    return replace(of, total=dice.randint(0, held)) if seed % 2 and held else of


def seeds(part: int) -> range:
    return range(FIRST + part * EACH, FIRST + (part + 1) * EACH)


@pytest.mark.proves("P1", "P2", "R12")
@pytest.mark.parametrize("part", range(10))
def test_packing_keeps_its_promises(part: int) -> None:
    for seed in seeds(part):
        of = replace(drawn(seed), groups=())
        shares, held = packed(of), of.settled()
        assert (shares <= np.maximum(of.cap(), held)).all(), seed
        more = packed(replace(of, total=of.total + 1))
        assert (more >= shares).all(), seed
        assert int((more - shares).sum()) <= 1, seed
        assert (packed(replace(of, present=shares)) == shares).all(), seed
        if of.total >= held.sum():
            assert (shares >= held).all(), seed
            continue
        assert (shares <= held).all(), seed
        assert int(shares.sum()) == of.total, seed
        kept_lower_bounds(of, shares, seed)
        if (shares <= np.minimum(of.cap(), np.where(of.weight > 0, FREE, of.lower))).all():
            assert np.count_nonzero(shares) == fewest(of), seed


def kept_lower_bounds(of: Problem, shares: np.ndarray, seed: int) -> None:
    """All that are held while there are units enough, and nothing else where there are not."""
    floor = np.minimum(np.minimum(of.lower, of.cap()), of.settled())
    if int(floor.sum()) <= of.total:
        assert (shares >= floor).all(), seed
    else:
        assert (shares <= floor).all(), seed


@pytest.mark.proves("P1", "P2")
def test_packing_step_by_step_is_the_same_as_at_once() -> None:
    for seed in range(FIRST, FIRST + EACH):
        of = replace(drawn(seed), groups=())
        held = of.settled()
        steps = range(int(held.sum()), of.total, 1 if of.total > held.sum() else -1)
        now = held
        for total in [*steps, of.total]:
            now = packed(replace(of, present=now, total=total))
        assert now.tolist() == packed(of).tolist(), seed


@pytest.mark.parametrize(
    ("of", "shares"),
    [
        pytest.param(problem(3, [1, 1], lower=[0, 2], present=[5, 2]), [1, 2], id="lower-bound"),
        pytest.param(problem(7, [1, 1], upper=[2, 5], present=[8, 6]), [2, 5], id="over-caps"),
        pytest.param(
            problem(4, [1, 1, 1], upper=[4, FREE, FREE], present=[5, 2, 1]), [4, 0, 0], id="whole"
        ),
        pytest.param(
            problem(4, [1, 1, 1], lower=[0, 1, 0], present=[4, 2, 3]), [2, 2, 0], id="in-use-anyway"
        ),
        pytest.param(problem(3, [0, 1], upper=[9, 1], present=[5, 3]), [2, 1], id="weight-0"),
        pytest.param(
            problem(4, [1, 1], lower=[3, 3], present=[3, 3]), [3, 1], id="not-all-lower-bounds"
        ),
        pytest.param(
            problem(5, [1, 1], lower=[0, 2], room=[9, 1], present=[5, 0]), [5, 0], id="stays"
        ),
        pytest.param(problem(3, [1, 1, 1], lower=[2, 2, 3]), [0, 0, 3], id="opens-the-fewest"),
    ],
)
@pytest.mark.proves("P1", "P2")
def test_packed_by_example(of: Problem, shares: list[int]) -> None:
    assert packed(of).tolist() == shares


@pytest.mark.proves("P3")
def test_what_is_over_its_bound_shrinks_first_whatever_its_weight() -> None:
    of = problem(5, [0, 100], upper=[FREE, 2], present=[3, 4])
    assert apportion(of).shares.tolist() == [3, 2]
    assert apportion(replace(of, total=4)).shares.tolist() == [2, 2]


def domains(group: list[int], upper: list[int], names: str) -> GroupBound:
    none = [0] * len(upper)
    return GroupBound(BoundKind.DOMAIN_QUOTA, list(names), ints(group), ints(upper), ints(none))


REFUSED = [
    (problem(-1, [1]), "total: 0 to 2147483647 replicas, found -1"),
    (problem(2**31, [1]), "total: 0 to 2147483647 replicas, found 2147483648"),
    (problem(1, [1, -3]), "weight[1]: not below 0, found -3"),
    (problem(1, [2**31]), "weight[0]: at most 2147483647, found 2147483648"),
    (problem(1, [1], lower=[-1]), "lower[0]: not below 0, found -1"),
    (problem(1, [1, 1], upper=[1, -2]), "upper[1]: not below 0, found -2"),
    (problem(1, [1], room=[-4]), "room[0]: not below 0, found -4"),
    (problem(1, [1], learnt=[-5]), "learnt[0]: not below 0, found -5"),
    (problem(1, [1, 1], present=[-6, 1]), "present[0]: not below 0, found -6"),
    (problem(1, [1], present=[2**31]), "present[0]: at most 2147483647, found 2147483648"),
    (problem(1, [1, 1], lower=[1]), "lower: one entry for each of 2, found 1"),
    (problem(1, [1, 1, 1], order=[4, 7, 4]), "order[2]: 4 stands at order[0] already"),
    (problem(1, [1, 1], order=[-(2**40), -(2**40)]), "order[1]: -1099511627776 stands at order[0]"),
    (
        problem(1, [1], groups=(domains([1], [5], "a"),)),
        "groups[0].group[0]: at most 0, found 1",
    ),
    (
        problem(1, [1], groups=(domains([0], [-5], "a"),)),
        "groups[0].upper[0]: not below 0, found -5",
    ),
    (
        problem(
            1, [1] * 3, groups=(domains([0, 0, 1], [5, 5], "ab"), domains([0, 1, 1], [5, 5], "xy"))
        ),
        "groups[1]: y does not nest, it lies in a and in b",
    ),
]


@pytest.mark.proves("P6")
@pytest.mark.parametrize("divide", [apportion, packed])
@pytest.mark.parametrize(("of", "said"), REFUSED, ids=[said.split(":")[0] for _, said in REFUSED])
def test_what_is_no_problem_is_refused_by_field_and_value(
    of: Problem, said: str, divide: Callable[[Problem], object]
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        divide(of)
