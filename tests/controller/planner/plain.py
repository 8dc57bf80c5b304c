"""The planner's rules done the slow way, and random problems: what the tests hold the code against."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from controller.planner.plan import UNBOUNDED, BoundKind, GroupBound, Problem
from tests.examples import LONG, SHARE

Row = Sequence[int]
Groups = Sequence[tuple[Row, Row]]


def tried(number: int) -> int:
    """Of so many random problems a tenth in a short run, as of the examples of a property."""
    return number if settings.get_current_profile_name() == LONG else number // SHARE


def one_at_a_time(
    total: int, weight: Row, start: Row, top: Row, order: Row, nests: Groups = ()
) -> list[int]:
    """One unit after another to the highest w / (2a + 1) that no bound stops, ties by the order."""
    held = list(start)
    inside = [[0] * len(cap) for _, cap in nests]
    for (group, _), sums in zip(nests, inside, strict=True):
        for row, units in enumerate(held):
            sums[group[row]] += units
    while sum(held) < total:
        may = [
            row
            for row in range(len(held))
            if weight[row] > 0
            and held[row] < top[row]
            and all(
                sums[group[row]] < cap[group[row]]
                for (group, cap), sums in zip(nests, inside, strict=True)
            )
        ]
        if not may:
            break
        best = max(may, key=lambda row: (Fraction(weight[row], 2 * held[row] + 1), -order[row]))
        held[best] += 1
        for (group, _), sums in zip(nests, inside, strict=True):
            sums[group[best]] += 1
    return held


def ints(values: Row) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def problem(
    total: int,
    weight: Row,
    *,
    lower: Row | None = None,
    upper: Row | None = None,
    room: Row | None = None,
    learnt: Row | None = None,
    present: Row | None = None,
    order: Row | None = None,
    groups: tuple[GroupBound, ...] = (),
) -> Problem:
    """A problem of which only what matters is said."""
    size = len(weight)
    free = [UNBOUNDED] * size
    return Problem(
        total=total,
        weight=ints(weight),
        lower=ints(lower or [0] * size),
        upper=ints(free if upper is None else upper),
        room=ints(free if room is None else room),
        learnt=ints(free if learnt is None else learnt),
        present=ints(present or [0] * size),
        order=ints(range(size) if order is None else order),
        groups=groups,
    )


def _often(dice: random.Random, values: Row, otherwise: int, chance: float) -> list[int]:
    return [value if dice.random() < chance else otherwise for value in values]


def random_groups(
    dice: random.Random, size: int, *, lowers: bool, most: int
) -> tuple[GroupBound, ...]:
    """None, one or two levels; the second cuts the groups of the first into subsets."""
    levels = dice.choice([0, 1, 1, 2])
    found = []
    outer = [0] * size
    width = 1
    for level in range(levels):
        parts = dice.randint(1, 3)
        group = [outer[row] * parts + dice.randrange(parts) for row in range(size)]
        width *= parts
        found.append(
            GroupBound(
                [BoundKind.DOMAIN_QUOTA, BoundKind.SUBSET_CAP][level],
                [f"{level}-{number}" for number in range(width)],
                ints(group),
                ints(_often(dice, [dice.randint(0, most) for _ in range(width)], UNBOUNDED, 0.7)),
                ints(
                    _often(dice, [dice.randint(0, most // 2) for _ in range(width)], 0, 0.4)
                    if lowers
                    else [0] * width
                ),
            )
        )
        outer = group
    return tuple(found)


def random_problem(dice: random.Random, *, fresh: bool = False, lowers: bool = True) -> Problem:
    """Small numbers, so that bounds meet, ties come up and weights are zero now and then."""
    size = dice.randint(1, 7)
    most = dice.choice([3, 8, 20])
    heavy = dice.choice([3, 10, 2**31 - 1])

    def some(top: int, otherwise: int, chance: float) -> list[int]:
        return _often(dice, [dice.randint(0, top) for _ in range(size)], otherwise, chance)

    order = list(range(size))
    dice.shuffle(order)
    return Problem(
        total=dice.randint(0, 2 * most + size),
        weight=ints(some(heavy, dice.choice([0, 1, 1]), 0.8)),
        lower=ints(some(most // 2, 0, 0.4) if lowers else [0] * size),
        upper=ints(some(most, UNBOUNDED, 0.5)),
        room=ints(some(most, UNBOUNDED, 0.5)),
        learnt=ints(some(most, UNBOUNDED, 0.2)),
        present=ints([0] * size if fresh else some(most, 0, 0.6)),
        order=ints(order),
        groups=random_groups(dice, size, lowers=lowers, most=most),
    )


seeds = st.integers(min_value=0, max_value=2**32)


def problems(*, fresh: bool = False, lowers: bool = True) -> st.SearchStrategy[Problem]:
    """`random_problem` by a drawn seed."""
    return seeds.map(lambda seed: random_problem(random.Random(seed), fresh=fresh, lowers=lowers))
