"""The closed form against the plain loop, and what it refuses."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.apportion.divisor import MAX_UNITS, MAX_WEIGHT, Nest, hand_out

from .plain import ints, one_at_a_time, seeds

CASES = 4000


def _case(dice: random.Random, size: int, heavy: int, most: int):
    order = list(range(size))
    dice.shuffle(order)
    nests = []
    outer, width = [0] * size, 1
    for _ in range(dice.choice([0, 0, 1, 2, 3])):
        parts = dice.randint(1, 4)
        outer = [before * parts + dice.randrange(parts) for before in outer]
        width *= parts
        nests.append((outer, [dice.randint(0, max(1, most * size // width)) for _ in range(width)]))
    return {
        "total": dice.randint(0, most * size),
        "weight": [dice.randint(0, heavy) for _ in range(size)],
        "start": [dice.choice([0, 0, dice.randint(0, most)]) for _ in range(size)],
        "top": [dice.choice([MAX_UNITS, dice.randint(0, most)]) for _ in range(size)],
        "order": order,
        "nests": nests,
    }


def _ours(case) -> list[int]:
    given = hand_out(
        case["total"],
        weight=ints(case["weight"]),
        start=ints(case["start"]),
        top=ints(case["top"]),
        order=ints(case["order"]),
        nests=[Nest(ints(group), ints(cap)) for group, cap in case["nests"]],
    )
    return given.tolist()


@pytest.mark.parametrize("heavy", [1, 3, 100, MAX_WEIGHT])
def test_it_is_the_plain_loop(heavy: int) -> None:
    dice = random.Random(heavy)
    for _ in range(CASES // 4):
        case = _case(dice, dice.randint(1, 9), heavy, dice.choice([2, 6, 15]))
        assert _ours(case) == one_at_a_time(**case), case


@given(seeds, st.integers(1, 30), st.sampled_from([1, 2, 7, 1000, MAX_WEIGHT]))
@settings(max_examples=300, deadline=None)
def test_it_is_the_plain_loop_on_wider_fleets(seed: int, size: int, heavy: int) -> None:
    case = _case(random.Random(seed), size, heavy, 6)
    assert _ours(case) == one_at_a_time(**case)


def test_equal_weights_are_all_ties_and_go_by_the_order() -> None:
    size = 50
    order = list(range(size))
    random.Random(5).shuffle(order)
    for total in range(0, 2 * size + 1, 7):
        case = {
            "total": total,
            "weight": [4] * size,
            "start": [0] * size,
            "top": [MAX_UNITS] * size,
            "order": order,
            "nests": [],
        }
        rounds, rest = divmod(total, size)
        assert _ours(case) == [rounds + (place < rest) for place in order]


def test_priorities_that_differ_in_the_last_place_are_told_apart() -> None:
    near = {
        "total": 1,
        "weight": [MAX_WEIGHT - 1, MAX_WEIGHT],
        "start": [0, 0],
        "top": [9, 9],
        "order": [0, 1],
        "nests": [],
    }
    assert _ours(near) == [0, 1]
    held = MAX_UNITS // 2 - 1
    far = near | {"start": [held, held], "total": 2 * held + 1, "top": [MAX_UNITS] * 2}
    assert _ours(far) == [held, held + 1]


@pytest.mark.parametrize("size", [1000, 5000])
def test_large_fleets_are_divided_to_the_unit(size: int) -> None:
    """What the sums cannot show: no cluster is ahead of another by a whole step."""
    dice = np.random.default_rng(size)
    weight = dice.integers(1, 1000, size)
    top = dice.integers(0, 60, size)
    group = dice.integers(0, 12, size)
    cap = dice.integers(size // 4, size, 12)
    total = 5 * size
    held = hand_out(
        total,
        weight=weight,
        start=np.zeros(size, dtype=np.int64),
        top=top,
        order=dice.permutation(size),
        nests=[Nest(group, cap)],
    )
    inside = np.bincount(group, weights=held, minlength=12).astype(int)
    assert (inside <= cap).all()
    assert (held <= top).all()
    assert held.sum() == min(total, np.minimum(np.bincount(group, weights=top), cap).sum())
    open_ = (held < top) & (inside < cap)[group]
    assert open_.any()
    following = (weight / (2 * held + 1))[open_].max()
    assert (weight[held > 0] / (2 * held[held > 0] - 1)).min() >= following


@given(seeds, st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_weights_of_every_size_and_units_up_to_the_most(seed: int, size: int) -> None:
    """Too many units for the plain loop: each unit given stands before each that was not."""
    dice = random.Random(seed)
    weight = [int(2 ** dice.uniform(0, 31)) - dice.choice([0, 1]) for _ in range(size)]
    start = [dice.choice([0, int(2 ** dice.uniform(0, 12))]) for _ in range(size)]
    top = [max(s, int(2 ** dice.uniform(0, 19))) for s in start]
    order = list(range(size))
    dice.shuffle(order)
    total = int(2 ** dice.uniform(0, 19))
    held = hand_out(
        total, weight=ints(weight), start=ints(start), top=ints(top), order=ints(order)
    ).tolist()
    able = sum(t for t, w in zip(top, weight, strict=True) if w) + sum(
        s for s, w in zip(start, weight, strict=True) if not w
    )
    assert sum(held) == max(sum(start), min(total, able))
    given_ = [
        (Fraction(weight[row], 2 * held[row] - 1), -order[row])
        for row in range(size)
        if held[row] > start[row]
    ]
    following = [
        (Fraction(weight[row], 2 * held[row] + 1), -order[row])
        for row in range(size)
        if weight[row] and held[row] < top[row]
    ]
    if given_ and following:
        assert min(given_) > max(following)


def test_no_clusters_hold_nothing() -> None:
    none = ints([])
    assert hand_out(5, weight=none, start=none, top=none, order=none).tolist() == []


@pytest.mark.parametrize(
    ("total", "weight", "words"),
    [
        (1, MAX_WEIGHT + 1, "a weight is at most 2147483647, found 2147483648"),
        (MAX_UNITS + 1, 1, "at most 524288 units are divided at once, asked for 524289"),
    ],
)
def test_what_floats_cannot_tell_apart_is_refused(total: int, weight: int, words: str) -> None:
    one = ints([1])
    with pytest.raises(ValueError, match=words):
        hand_out(total, weight=ints([weight]), start=one, top=one, order=one)
