"""The closed form against the plain loop, and what it refuses."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planner import webster
from controller.planner.webster import MAX_REPLICAS, MAX_WEIGHT, Nest, divide
from tests.examples import examples

from .plain import ints, one_at_a_time, seeds, tried

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
        "top": [dice.choice([MAX_REPLICAS, dice.randint(0, most)]) for _ in range(size)],
        "order": order,
        "nests": nests,
    }


def _ours(case) -> list[int]:
    given = divide(
        case["total"],
        weight=ints(case["weight"]),
        start=ints(case["start"]),
        top=ints(case["top"]),
        order=ints(case["order"]),
        nests=[Nest(ints(group), ints(cap)) for group, cap in case["nests"]],
    )
    return given.tolist()


@pytest.mark.proves("P8")
@pytest.mark.parametrize("heavy", [1, 3, 100, MAX_WEIGHT])
def test_it_is_the_plain_loop(heavy: int) -> None:
    dice = random.Random(heavy)
    for _ in range(CASES // 4):
        case = _case(dice, dice.randint(1, 9), heavy, dice.choice([2, 6, 15]))
        assert _ours(case) == one_at_a_time(**case), case


@given(seeds, st.integers(1, 60))
@examples(300)
def test_weights_of_every_size_and_units_up_to_the_most(seed: int, size: int) -> None:
    """Too many units for the plain loop: each unit given stands before each that was not."""
    dice = random.Random(seed)
    weight = [int(2 ** dice.uniform(0, 31)) - dice.choice([0, 1]) for _ in range(size)]
    start = [dice.choice([0, int(2 ** dice.uniform(0, 12))]) for _ in range(size)]
    top = [max(s, int(2 ** dice.uniform(0, 19))) for s in start]
    order = list(range(size))
    dice.shuffle(order)
    total = int(2 ** dice.uniform(0, 19))
    held = divide(
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


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often a search looks at a divisor."""
    looks: list[int] = []
    replicas = webster._replicas

    def counted(*args: Any) -> Any:
        looks.append(1)
        return replicas(*args)

    monkeypatch.setattr(webster, "_replicas", counted)
    return looks


@pytest.mark.proves("P5")
def test_ties_beside_a_heavy_nested_pair_come_to_an_end(steps: list[int]) -> None:
    """A fleet of 257 clusters that tie, each a group of its own, and two heavy ones in a group."""
    ties = 257
    group = [*range(ties), ties, ties]
    case = {
        "total": 100,
        "weight": [1] * ties + [2**31 - 1, 2**30],
        "start": [0] * (ties + 2),
        "top": [2**19] * ties + [3, 0],
        "order": list(range(ties + 2)),
        "nests": [(group, [200] * ties + [2])],
    }
    assert _ours(case) == one_at_a_time(**case)
    assert len(steps) <= 2 * MOST_STEPS


MOST_STEPS = 6 * 38 + 2
"""Looks at a divisor in one search, the last two at what it found."""


def _tied(dice: random.Random) -> dict[str, Any]:
    """Few weights, the greatest beside the least, and groups that lie in groups."""
    size = dice.randint(2, 40)
    weights = dice.choice([[1], [1, 2**31 - 1], [2**30, 2**31 - 1, 2**31 - 2], [1, 3, 2**20]])
    case = _case(dice, size, 1, 4)
    case["weight"] = [dice.choice(weights) for _ in range(size)]
    return case


@pytest.mark.proves("P5")
def test_ties_in_nested_groups_are_the_plain_loop_and_end(steps: list[int]) -> None:
    dice = random.Random(257)
    for number in range(tried(600)):
        case = _tied(dice)
        steps.clear()
        assert _ours(case) == one_at_a_time(**case), number
        assert len(steps) <= (1 + len(case["nests"])) * MOST_STEPS, number


@pytest.mark.proves("P5")
@pytest.mark.parametrize("weight", [1, MAX_WEIGHT])
@pytest.mark.parametrize("extra", [0, 1, 7])
def test_the_most_units_of_the_greatest_weights_on_ten_thousand_clusters(
    weight: int, extra: int, steps: list[int]
) -> None:
    size = 10_000
    weights = np.full(size, weight, dtype=np.int64)
    weights[:extra] = [MAX_WEIGHT - 1, 1, 2, 3, 2**30, 5, 6][:extra]
    none = np.zeros(size, dtype=np.int64)
    held = divide(
        MAX_REPLICAS, weight=weights, start=none, top=none + MAX_REPLICAS, order=np.arange(size)
    )
    assert int(held.sum()) == MAX_REPLICAS
    assert held.min() >= 0
    rows = list(zip(weights.tolist(), held.tolist(), strict=True))
    given_ = min((Fraction(w, 2 * a - 1), -row) for row, (w, a) in enumerate(rows) if a)
    following = max((Fraction(w, 2 * a + 1), -row) for row, (w, a) in enumerate(rows))
    assert given_ > following
    assert len(steps) <= MOST_STEPS


@pytest.mark.proves("P5")
def test_priorities_that_a_float_cannot_tell_apart_are_told_apart() -> None:
    """The next unit of the first cluster stands before that of the second by 1 in 2**62."""
    weight, odd = [1774659623, 1297242912], [939678767, 686887561]
    start = [units // 2 for units in odd]
    assert odd[0] * weight[1] == odd[1] * weight[0] + 1
    assert weight[0] / odd[0] == weight[1] / odd[1]
    case = {"total": sum(start) + 1, "weight": weight, "start": start, "top": [MAX_REPLICAS] * 2}
    for order in ([0, 1], [1, 0]):
        tried = case | {"order": order, "nests": []}
        assert _ours(tried) == one_at_a_time(**tried) == [start[0], start[1] + 1]


def test_no_clusters_hold_nothing() -> None:
    none = ints([])
    assert divide(5, weight=none, start=none, top=none, order=none).tolist() == []


@pytest.mark.parametrize(
    ("total", "weight", "words"),
    [
        (1, MAX_WEIGHT + 1, "a weight is at most 2147483647, found 2147483648"),
        (
            MAX_REPLICAS + 1,
            1,
            "at most 2147483647 replicas are divided at once, asked for 2147483648",
        ),
    ],
)
def test_what_products_of_63_bits_cannot_hold_is_refused(
    total: int, weight: int, words: str
) -> None:
    one = ints([1])
    with pytest.raises(ValueError, match=words):
        divide(total, weight=ints([weight]), start=one, top=one, order=one)
