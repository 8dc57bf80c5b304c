"""The table of domains finds the best choice of all, and keeps to its bounds at any size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planner.domains import (
    Effort,
    Level,
    in_turn,
    largest_capacity,
    one_level,
    two_levels,
)
from controller.planner.levels import Leaves, table
from tests.examples import examples

Case = tuple[list[int], list[int], list[bool], tuple[int, int], tuple[int, int]]


@st.composite
def cases(draw: Any, most: int = 9, outer: int = 4) -> Case:
    """Inner domains with room, what they lie in, what is held, and bounds that allow for that."""
    size = draw(st.integers(1, most))
    rooms = st.integers(1, 4) | st.integers(1, 60)
    room = draw(st.lists(rooms, min_size=size, max_size=size))
    parent = draw(st.lists(st.integers(0, outer - 1), min_size=size, max_size=size))
    held = draw(st.lists(st.sampled_from([False] * 5 + [True]), min_size=size, max_size=size))
    kept = {p for p, h in zip(parent, held, strict=True) if h}
    first = draw(st.integers(max(len(kept), 1), max(len(set(parent)), 1)))
    second = draw(st.integers(max(sum(held), 1), size))
    least = draw(st.integers(1, first)), draw(st.integers(1, second))
    return room, parent, held, least, (first, second)


def allowed(case: Case) -> Iterator[tuple[int, ...]]:
    """All sets of inner domains that keep to the bounds."""
    room, parent, held, least, most = case
    kept = {n for n, taken in enumerate(held) if taken}
    for size in range(least[1], most[1] + 1):
        for chosen in combinations(range(len(room)), size):
            used = len({parent[n] for n in chosen})
            if kept <= set(chosen) and least[0] <= used <= most[0]:
                yield chosen


def by_hand(case: Case) -> int | None:
    """The most room of all these sets."""
    return max((sum(case[0][n] for n in chosen) for chosen in allowed(case)), default=None)


def leaves(case: Case) -> Leaves:
    room, parent, held, _, _ = case
    numbered = np.unique(parent, return_inverse=True)[1].astype(np.int64)
    return Leaves(np.array(room, dtype=np.int64), np.array(held), numbered)


def checked(case: Case, found: Any) -> int | None:
    """The room of a choice that keeps to the bounds."""
    if found is None:
        return None
    room, parent, held, least, most = case
    chosen = found.tolist()
    assert len(set(chosen)) == len(chosen)
    assert least[0] <= len({parent[n] for n in chosen}) <= most[0]
    assert least[1] <= len(chosen) <= most[1]
    assert {n for n, taken in enumerate(held) if taken} <= set(chosen)
    return sum(room[n] for n in chosen)


@pytest.mark.proves("D3")
@examples(300)
@given(cases())
def test_the_table_finds_what_a_search_through_all_choices_finds(case: Case) -> None:
    assert checked(case, table(case[4], leaves(case)).best(case[3])) == by_hand(case)


@pytest.mark.proves("D3")
@examples(300)
@given(cases(), st.integers(0, 150))
def test_of_two_levels_that_nest_no_choice_has_more_of_the_room_that_is_needed(
    case: Case, need: int
) -> None:
    room, parent, held, least, most = case
    levels = [
        Level(np.array(parent), least[0], most[0]),
        Level(np.arange(len(room)), least[1], most[1]),
    ]
    used = largest_capacity(levels, np.array(held), np.array(room), need)
    found = checked(case, None if used is None else np.flatnonzero(used))
    best = by_hand(case)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert min(found, need) == min(best, need)


def test_no_choice_is_none() -> None:
    region, cluster = np.array([0, 1, 2]), np.array([0, 1, 2])
    room, held = np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.bool_)
    assert largest_capacity([Level(region, 3, 3), Level(cluster, 1, 2)], held, room, 3) is None
    assert largest_capacity([Level(region, 4, 4)], held, room, 3) is None
    nothing = np.zeros(0, dtype=np.int64)
    assert largest_capacity([Level(nothing, 1, 1)], held[:0], nothing, 3) is None


def test_in_turn_the_first_ones_are_taken_and_every_domain_keeps_one() -> None:
    region = np.array([5, 5, 5, 2, 7, 2])
    held = np.zeros(6, dtype=np.bool_)
    levels = [Level(region, 1, 2), Level(np.arange(6), 1, 3)]
    assert in_turn(levels, held).tolist() == [True, True, False, True, False, False]


def test_what_is_held_goes_before_the_first_of_another_region() -> None:
    region, held = np.array([0, 0, 1]), np.array([True, True, False])
    levels = [Level(region, 1, 2), Level(np.arange(3), 1, 2)]
    assert in_turn(levels, held).tolist() == [True, True, False]


@pytest.mark.proves("D3")
@examples(300)
@given(cases(), st.integers(0, 150))
def test_the_best_are_kept_as_long_as_there_is_room_enough(case: Case, need: int) -> None:
    """Domain by domain from the best on: one that is not kept could not have been."""
    best, found = by_hand(case), two_levels(case[3], case[4], leaves(case), need, Effort())
    value = checked(case, found)
    if value is None or best is None or best < need:
        assert value == best
        return
    assert value >= need
    chosen = {case[1][n] for n in found.tolist()}
    kept: set[int] = set()
    for domain in sorted(set(case[1])):
        if domain in chosen:
            kept.add(domain)
        else:
            assert not _possible(case, kept | {domain}, need)


def _possible(case: Case, outer: set[int], need: int) -> bool:
    """Whether some choice that uses these outer domains has the room."""
    room, parent = case[:2]
    return any(
        outer <= {parent[n] for n in chosen} and sum(room[n] for n in chosen) >= need
        for chosen in allowed(case)
    )


@examples(300)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 8), st.integers(0, 60))
def test_on_one_level_the_first_choice_in_the_order_of_the_best(
    room: list[int], most: int, need: int
) -> None:
    number = min(most, len(room))
    there = Leaves(
        np.array(room), np.zeros(len(room), dtype=np.bool_), np.zeros(len(room), dtype=np.int64)
    )
    found = sorted(one_level(number, there, need, Effort()).tolist())
    ways = [list(each) for each in combinations(range(len(room)), number)]
    enough = [each for each in ways if sum(room[n] for n in each) >= need]
    if enough:
        assert found == enough[0]
    else:
        assert sum(room[n] for n in found) == max(sum(room[n] for n in each) for each in ways)
