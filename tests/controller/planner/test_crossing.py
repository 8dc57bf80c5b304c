"""Constraints that cross: a good choice within the budget, and word of it where it is not the best."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from controller.planner.domains import Effort, Level, largest_capacity
from controller.planner.levels import STEPS

from .crossings import Asked, by_hand, nasty, small
from .plain import tried

pytestmark = pytest.mark.proves("P4")

CASES = tried(5000)


def chosen(asked: Asked, effort: Effort) -> np.ndarray | None:
    return largest_capacity(asked.levels, asked.held, asked.room, asked.need, effort)


@pytest.mark.parametrize("part", range(4))
def test_of_few_clusters_it_is_the_best_choice_or_says_that_another_may_be(part: int) -> None:
    found = short = worse = 0
    for seed in range(part * CASES // 4, (part + 1) * CASES // 4):
        asked, effort = small(random.Random(seed)), Effort()
        used = chosen(asked, effort)
        best = asked.value(used) == by_hand(asked)
        assert best or effort.short, seed
        short, worse = short + effort.short, worse + (not best)
        if used is not None:
            found += 1
            assert asked.kept(used), seed
    assert found > CASES // 10
    assert worse <= 1 + CASES // 400
    assert short < CASES // 40


def test_on_hundreds_of_clusters_no_constraints_cost_more_than_the_budget() -> None:
    cases = short = 0
    for asked in nasty(300):
        effort = Effort()
        used = chosen(asked, effort)
        cases, short = cases + 1, short + effort.short
        assert 0 <= effort.left <= STEPS, asked.name
        assert used is None or asked.kept(used), asked.name
    assert cases > 300
    assert 0 < short < cases


def test_nothing_is_looked_for_where_there_is_no_effort_left() -> None:
    dice = np.random.default_rng(1)
    levels = [Level(dice.integers(0, 9, 100), 1, 2) for _ in range(3)]
    asked = Asked("none", levels, np.zeros(100, dtype=np.bool_), np.ones(100, dtype=np.int64), 99)
    effort = Effort(0)
    assert chosen(asked, effort) is None
    assert effort.short


def test_labels_that_sort_alike_are_one_level_with_both_bounds() -> None:
    domain = np.arange(500) % 50
    levels = [Level(domain, 1, 9), Level(domain[::-1].copy(), 3, 60), Level(domain * 2, 4, 7)]
    asked = Asked("alike", levels[::2], np.zeros(500, dtype=np.bool_), np.ones(500, dtype=int), 999)
    effort = Effort()
    used = chosen(asked, effort)
    assert used is not None
    assert levels[0].count(used) == 7
    assert not effort.short
    contrary = replace(asked, levels=[Level(domain, 1, 3), Level(domain, 4, 9)])
    assert chosen(contrary, Effort()) is None


def test_the_first_of_the_best_stay_where_crossing_constraints_let_them() -> None:
    """Region 0 with provider 0 stands first and has room; the roomier ones behind stay unused."""
    region, provider = np.arange(40) % 4, np.arange(40) // 10
    room = np.where(np.arange(40) >= 20, 50, 5)
    levels = [Level(region, 1, 2), Level(provider, 1, 1)]
    used = largest_capacity(levels, np.zeros(40, dtype=np.bool_), room, 20)
    assert used is not None
    assert set(provider[used].tolist()) == {0}


def test_two_levels_are_chosen_by_room_where_the_first_of_either_lead_away_from_it() -> None:
    """The room is in the last region with the last provider, and nothing points there but room."""
    levels = [Level(np.arange(9) // 3, 1, 1), Level(np.arange(9) % 3, 1, 1)]
    room = np.array([1] * 8 + [100])
    used = largest_capacity(levels, np.zeros(9, dtype=np.bool_), room, 100)
    assert used is not None
    assert np.flatnonzero(used).tolist() == [8]


def test_no_room_at_all_may_be_needed() -> None:
    """Where more is held on clusters without a label than is wanted, less than none is needed."""
    region, provider = np.arange(40) % 4, np.arange(40) // 10
    levels = [Level(region, 2, 2), Level(provider, 2, 3)]
    for need in (0, -3):
        used = largest_capacity(
            levels, np.zeros(40, dtype=np.bool_), np.ones(40, dtype=np.int64), need
        )
        assert used is not None
        assert all(level.least <= level.count(used) <= level.most for level in levels)
