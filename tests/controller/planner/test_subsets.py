"""Subsets by example: their costs, caps, marks and reasons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controller.planner.indomain import WithinDomain
from controller.planner.plan import UNBOUNDED, Problem, apportion
from controller.planner.problem import DomainCount
from controller.planner.subsets import Subsets

from .plain import ints, problem

FREE = UNBOUNDED


def subsets(inside: Sequence[str], cap: Sequence[int], size: int, **said: Any) -> Subsets:
    """Named a, b, ...; each says its clusters by their digits: `subsets(["0", "12"], [1, 5], 3)`."""
    number = len(inside)
    return Subsets(
        names=[chr(ord("a") + at) for at in range(number)],
        inside=np.array(
            [[str(row) in each for row in range(size)] for each in inside], dtype=np.bool_
        ).reshape(number, size),
        cap=ints(cap),
        closed=np.array([chr(ord("a") + at) in said.get("closed", "") for at in range(number)]),
        overflow=np.array([chr(ord("a") + at) in said.get("overflow", "") for at in range(number)]),
        rank=ints(said.get("rank", np.zeros((number, size), dtype=np.int64))).reshape(number, size),
        crowded=np.array([str(row) in said.get("crowded", "") for row in range(size)], np.bool_),
    )


def spread(total: int, inside: Sequence[str], cap: Sequence[int], **said: Any) -> Problem:
    """A problem of as many clusters as are named, by rank."""
    size = said.pop("size", 1 + max(int(digit) for digit in "".join(inside)))
    columns = {name: said.pop(name) for name in ("room", "present", "learnt") if name in said}
    weight = [int(str(row) not in said.get("crowded", "")) for row in range(size)]
    of = problem(total, weight, **columns)
    return replace(of, inside=WithinDomain.RANK, subsets=subsets(inside, cap, size, **said))


def shares(of: Problem) -> list[int]:
    return apportion(of).shares.tolist()


def scaled(of: Problem, *totals: int) -> list[list[int]]:
    """The shares after each total, one after the other."""
    found = []
    for total in totals:
        of = replace(of, total=total)
        of = replace(of, present=apportion(of).shares)
        found.append(of.present.tolist())
    return found


@pytest.mark.proves("W13", "W14")
def test_units_that_are_too_many_go_before_those_of_the_last_subset() -> None:
    of = spread(10, ["0", "1"], [4, 3], present=[7, 3])
    assert of.subsets is not None
    counted, excess, outside = of.subsets.classified(of.present)
    assert counted.tolist() == [[4, 0], [0, 3]]
    assert excess.tolist() == [[3, 0], [0, 0]]
    assert outside.tolist() == [0, 0]
    inside, over, none = of.subsets.cost()
    assert (inside.tolist(), over.tolist(), none) == ([200, 100], [-100, -200], -300)
    assert scaled(of, 10, 7, 5, 3) == [[7, 3], [4, 3], [4, 1], [3, 0]]


@pytest.mark.proves("W15")
def test_another_cap_moves_nothing_and_counts_when_units_go() -> None:
    of = spread(6, ["0", "1"], [4, FREE], present=[4, 2])
    tighter = replace(of, subsets=subsets(["0", "1"], [1, FREE], 2))
    assert scaled(tighter, 6, 7, 5, 2) == [[4, 2], [4, 3], [2, 3], [1, 1]]


def test_of_a_subset_that_shrinks_packed_a_cluster_with_a_lower_bound_stays_in_use() -> None:
    """One cluster is left, though the other one is fuller: its bound keeps it in use anyway."""
    of = replace(
        problem(3, [1, 1], lower=[1, 0], present=[3, 5]),
        inside=WithinDomain.FEWEST,
        subsets=subsets(["01"], [FREE], 2),
    )
    assert scaled(of, 8, 4, 3, 1) == [[3, 5], [3, 1], [3, 0], [1, 0]]


@pytest.mark.proves("W33")
def test_what_is_there_counts_where_there_is_room() -> None:
    both = subsets(["01", "12"], [2, 3], 3)
    counted, excess, _ = both.classified(ints([2, 3, 0]))
    assert counted.tolist() == [[2, 0, 0], [0, 3, 0]]
    assert not excess.any()
    three = subsets(["01", "0", "12"], [2, 2, 0], 3)
    counted, excess, _ = three.classified(ints([2, 2, 0]))
    assert counted.sum(axis=1).tolist() == [2, 2, 0]
    assert not excess.any()


def test_clusters_of_no_subset_take_nothing_new_and_give_first() -> None:
    of = spread(6, ["0"], [3], size=2, present=[0, 2])
    plan = apportion(of)
    assert (plan.shares.tolist(), plan.pending) == ([3, 2], 1)
    assert scaled(replace(of, present=ints([3, 2])), 4, 3, 2) == [[3, 1], [3, 0], [2, 0]]


def test_own_clusters_then_preferred_ones() -> None:
    shared = spread(3, ["0", "012"], [1, FREE], room=[2, 2, 2], rank=[[0] * 3, [9, 0, 5]])
    assert shares(shared) == [1, 0, 2]
    assert shares(replace(shared, total=6)) == [2, 2, 2]
    assert scaled(shared, 6, 4, 2, 1) == [[2, 2, 2], [1, 1, 2], [1, 0, 1], [1, 0, 0]]


def test_an_overflowing_subset_is_filled_whatever_its_room() -> None:
    of = spread(9, ["01", "2"], [6, FREE], room=[2, 1, 4], overflow="a")
    assert shares(of) == [5, 1, 3]
    assert shares(replace(of, total=12)) == [5, 1, 4]
    crowded = spread(9, ["01", "2"], [6, FREE], room=[0, 0, 9], overflow="a", crowded="1")
    assert shares(replace(crowded, weight=ints([0, 0, 1]))) == [0, 6, 3]


def test_a_closed_subset_takes_nothing_and_its_waiting_units_stay_where_no_place_is() -> None:
    of = spread(6, ["0", "1"], [4, FREE], present=[4, 0], learnt=[1, FREE], closed="a")
    assert shares(of) == [1, 5]
    assert shares(replace(of, room=ints([9, 3]))) == [1, 3]
    assert shares(replace(of, room=ints([9, 2]))) == [2, 2]
    assert shares(replace(of, room=ints([9, 0]))) == [4, 0]
    assert shares(replace(of, total=4, room=ints([9, 2]))) == [2, 2]


def test_domains_are_chosen_for_the_first_subset_and_by_what_caps_let_in() -> None:
    def one_of(of: Problem, *domain: int) -> list[int]:
        return shares(replace(of, counts=(DomainCount("zone", ints(domain), 1, 1),)))

    ordered = spread(2, ["1", "0"], [FREE, FREE], room=[9, 9])
    assert one_of(ordered, 1, 2) == [0, 2]
    capped = spread(6, ["0", "1"], [2, FREE], room=[9, 9])
    assert one_of(capped, 1, 2) == [0, 6]
    outside = spread(2, ["1"], [FREE], size=2, room=[9, 1])
    assert one_of(outside, 1, 2) == [0, 1]
    passing = spread(6, ["0", "1"], [FREE, FREE], room=[0, 4], overflow="a", crowded="0")
    assert one_of(passing, 1, 2) == [6, 0]
    assert one_of(spread(6, ["0", "1"], [9, FREE], closed="a"), 1, 2) == [0, 6]


def test_weights_decide_inside_a_subset_and_are_told_of_it_alone() -> None:
    of = problem(9, [1, 2, 5, 7])
    of = replace(of, subsets=subsets(["01", "2"], [6, FREE], 4))
    assert shares(of) == [2, 4, 3, 0]
    assert told(of, 1) == [
        "its weight's share of 6 replicas is 4",
        "4 in subset a",
        "subset a is at its cap of 6",
    ]
    assert told(of, 3) == []
    assert scaled(of, 9, 6, 3) == [[2, 4, 3, 0], [2, 4, 0, 0], [1, 2, 0, 0]]


def test_a_lower_bound_and_the_cap_of_its_subset_contradict() -> None:
    of = replace(spread(6, ["0", "1"], [2, FREE]), lower=ints([4, 0]), names=["x", "y"])
    plan = apportion(of)
    assert plan.shares.tolist() == [2, 4]
    said = [str(each) for each in plan.contradictions]
    assert said == ["minReplicas 4 of cluster x and cap 2 of a contradict each other"]


def test_without_a_cluster_all_units_are_pending() -> None:
    of = replace(problem(3, []), inside=WithinDomain.RANK, subsets=subsets(["", ""], [2, FREE], 0))
    plan = apportion(of)
    assert (plan.pending, plan.subsets_full, plan.beyond_caps) == (3, (), False)


def refused(**said: Any) -> Problem:
    of = spread(1, ["0", "1"], [1, 1])
    assert of.subsets is not None
    return replace(of, subsets=replace(of.subsets, **said))


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (refused(cap=ints([1, -1])), "subsets.cap[1]: 0 to 2147483647, found -1"),
        (refused(cap=ints([2**31, 1])), "subsets.cap[0]: 0 to 2147483647, found 2147483648"),
        (refused(cap=ints([1])), "subsets.cap: of shape (2,), found (1,)"),
        (refused(rank=ints([1])), "subsets.rank: of shape (2, 2), found (1,)"),
        (
            refused(crowded=np.zeros(3, dtype=np.bool_)),
            "subsets.crowded: of shape (2,), found (3,)",
        ),
    ],
)
def test_what_is_no_subset_is_refused(of: Problem, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        apportion(of)


def told(of: Problem, row: int) -> list[str]:
    return [str(reason) for reason in apportion(of).reasons(row)]


@pytest.mark.proves("W4", "W6")
def test_a_share_says_which_subset_it_counts_to_and_what_waits() -> None:
    of = spread(
        9, ["01", "2"], [6, FREE], room=[2, 1, 2, 9], overflow="a", size=4, present=[0, 0, 0, 1]
    )
    assert told(of, 0) == [
        "5 in subset a",
        "3 wait for room here, as subset a is filled whatever its room",
        "subset a is at its cap of 6",
    ]
    assert told(of, 1) == ["1 in subset a", "it has room for 1", "subset a is at its cap of 6"]
    assert told(of, 2) == ["2 in subset b", "it has room for 2"]
    assert told(of, 3) == ["1 stays where it is", "1 in no subset"]
    over = spread(3, ["0"], [2], present=[3])
    assert told(over, 0)[1:3] == ["2 in subset a", "1 beyond the cap of subset a"]
    waiting = spread(4, ["0", "1"], [3, 1], present=[3, 0], learnt=[1, FREE], closed="a")
    assert "1 waits here for a node, as no other cluster takes it" in told(waiting, 0)


@pytest.mark.proves("W6", "W28")
def test_what_keeps_units_out_is_told_with_what_it_would_let_in() -> None:
    of = spread(9, ["0", "1"], [4, 3], room=[5, 9])
    plan = apportion(of)
    assert (plan.subsets_full, plan.beyond_caps, plan.pending) == (("a", "b"), True, 2)
    assert [(str(each.reason), each.gain) for each in plan.binding] == [
        ("subset a is at its cap of 4", 1),
        ("subset b is at its cap of 3", 2),
    ]
    roomy = apportion(replace(of, subsets=subsets(["0", "1"], [4, FREE], 2), total=20))
    assert (roomy.subsets_full, roomy.beyond_caps) == (("a",), False)
    closed = apportion(spread(4, ["0", "1"], [4, FREE], room=[9, 3], closed="a"))
    assert [str(each) for each in closed.binding] == [
        "clusters that could take more have room for 3 in all; without that, 1 more could be placed",
        (
            "subset a takes no more while its replicas wait for a node; "
            "without that, 1 more could be placed"
        ),
    ]
    assert not closed.beyond_caps
