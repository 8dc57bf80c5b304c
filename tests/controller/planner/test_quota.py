"""The closed form of a policy against one scheduling cycle for each unit, written out plainly."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.planner.indomain import Clusters, given_by_rank, grow
from controller.planner.unitcycle import (
    OUTSIDE,
    DomainQuota,
    Method,
    assignment_order,
    decline,
    growth,
    scores,
)
from controller.planner.webster import Ints, sums
from tests.examples import examples

FILL, BALANCE = Method.FILL, Method.BALANCE
FAR = 10**6


def shrink(quota: DomainQuota, clusters: Clusters, units: int) -> Ints:
    """The present units that each cluster gives back by rank, as a shrinking step takes them."""
    place, size = clusters.place(len(quota.desired)), len(quota.desired) + 1
    if not quota.ordered:
        place, given = np.zeros_like(place), np.array([units], dtype=np.int64)
    else:
        given = decline(quota, sums(place, clusters.present, size), units)
    return given_by_rank(clusters, place, given, quota.method)


class Plain:
    """The same policy and clusters as lists, one unit at a time."""

    def __init__(self, quota: DomainQuota, clusters: Clusters) -> None:
        self.quota = quota
        self.desired, self.count = quota.desired.tolist(), quota.count.tolist()
        self.domain, self.room = clusters.domain.tolist(), clusters.room.tolist()
        self.present, self.held = clusters.present.tolist(), clusters.held.tolist()
        self.score, self.order = clusters.score.tolist(), clusters.order.tolist()
        self.change = [0] * len(self.room)

    def score_of(self, domain: int) -> int:
        desired, count = self.desired[domain], self.count[domain]
        if self.quota.method is FILL:
            return 100 * count // desired
        return 100 * (desired - count) // desired

    def turn(self, cluster: int) -> Any:
        """The smaller goes first; None where nothing may go."""
        domain = self.domain[cluster]
        fill = self.quota.method is FILL
        inside = (
            -self.score[cluster],
            -self.held[cluster] if fill else self.held[cluster],
            self.order[cluster],
        )
        below = domain != OUTSIDE and self.count[domain] < self.desired[domain]
        if self.quota.required and not below:
            return None
        if not self.quota.ordered:
            return (-self.score[cluster], self.order[cluster])
        if below:
            return (0, -self.score_of(domain), domain, *inside)
        if domain == OUTSIDE:
            return (3, 0, 0, *inside)
        if not self.desired[domain]:
            return (2, 0, domain, *inside)
        return (1, Fraction(self.count[domain], self.desired[domain]), domain, *inside)

    def grow(self, units: int) -> list[int]:
        for _ in range(units):
            line = [
                (turn, c)
                for c in range(len(self.room))
                if self.room[c] > self.change[c] and (turn := self.turn(c)) is not None
            ]
            if not line:
                break
            self.move(min(line)[1], 1)
        return self.change

    def move(self, cluster: int, sign: int) -> None:
        self.change[cluster] += 1
        self.held[cluster] += sign
        if self.domain[cluster] != OUTSIDE:
            self.count[self.domain[cluster]] += sign

    def last(self, cluster: int) -> Any:
        """The smaller gives first."""
        domain = self.domain[cluster]
        fill = self.quota.method is FILL
        inside = (
            self.score[cluster],
            self.held[cluster] if fill else -self.held[cluster],
            -self.order[cluster],
        )
        if not self.quota.ordered:
            return inside
        if domain == OUTSIDE:
            return (0, 0, 0, *inside)
        desired, count = self.desired[domain], self.count[domain]
        if count > desired:
            if not desired:
                return (1, 0, -domain, *inside)
            return (2, -Fraction(count - 1, desired), -domain, *inside)
        if fill:
            ratio = 100 if count >= desired else 100 * count // max(desired, 1)
            return (3, ratio, -domain, *inside)
        return (3, 100 * (desired - count + 1) // max(desired, 1), -domain, *inside)

    def shrink(self, units: int) -> list[int]:
        for _ in range(units):
            line = [
                (self.last(c), c)
                for c in range(len(self.present))
                if self.present[c] > self.change[c]
            ]
            if not line:
                break
            self.move(min(line)[1], -1)
        return self.change


@st.composite
def cases(draw: Any, *, ordered: bool = True) -> tuple[DomainQuota, Clusters]:
    domains = draw(st.integers(1, 4))
    size = draw(st.integers(1, 7))

    def column(least: int, most: int, length: int = size) -> np.ndarray:
        return np.array(
            draw(st.lists(st.integers(least, most), min_size=length, max_size=length)),
            dtype=np.int64,
        )

    domain, present = column(OUTSIDE, domains - 1), column(0, 5)
    held = present + column(0, 3)
    at = np.where(domain == OUTSIDE, domains, domain)
    count = np.bincount(at, weights=held, minlength=domains + 1).astype(np.int64)[:-1]
    big = draw(st.booleans())
    desired = column(0, 400 if big else 9, domains)
    order = np.array(draw(st.permutations(range(size))), dtype=np.int64)
    quota = DomainQuota(
        desired,
        count,
        draw(st.sampled_from(Method)),
        draw(st.booleans()),
        ordered,
    )
    room = column(0, 60 if big else 6)
    return quota, Clusters(domain, room, present, held, column(0, 2), order)


@pytest.mark.proves("K2", "K3", "K8", "K9", "K11", "K12", "K13")
@examples(1500)
@given(cases(), st.integers(0, 90))
def test_growing_is_one_cycle_for_each_unit(case, units):
    quota, clusters = case
    assert grow(quota, clusters, units).tolist() == Plain(quota, clusters).grow(units)


@pytest.mark.proves("K29")
@examples(1500)
@given(cases(), st.integers(0, 40))
def test_shrinking_is_one_cycle_for_each_unit(case, units):
    quota, clusters = case
    assert shrink(quota, clusters, units).tolist() == Plain(quota, clusters).shrink(units)


@pytest.mark.proves("K23")
@examples(500)
@given(cases(ordered=False), st.integers(0, 60))
def test_without_the_order_of_domains_the_quota_still_holds(case, units):
    quota, clusters = case
    taken = grow(quota, clusters, units)
    assert taken.tolist() == Plain(quota, clusters).grow(units)
    given_ = shrink(quota, clusters, units)
    assert int(given_.sum()) == min(units, int(clusters.present.sum()))
    assert (given_ <= clusters.present).all()


@examples(500)
@given(cases(), st.integers(0, 60))
def test_one_more_unit_takes_none_away(case, units):
    quota, clusters = case
    assert (grow(quota, clusters, units + 1) >= grow(quota, clusters, units)).all()
    assert (shrink(quota, clusters, units + 1) >= shrink(quota, clusters, units)).all()


def policy(
    numbers: dict[str, int], method: Method, *, required: bool, count: tuple[int, ...] = ()
) -> tuple[DomainQuota, Clusters]:
    """One roomy cluster in each domain."""
    size = len(numbers)
    desired = np.array(list(numbers.values()), dtype=np.int64)
    held = np.array(count or (0,) * size, dtype=np.int64)
    every = np.arange(size, dtype=np.int64)
    none = np.zeros(size, dtype=np.int64)
    room = np.full(size, FAR, dtype=np.int64)
    return DomainQuota(desired, held, method, required), Clusters(
        every, room, none, held, none, every
    )


def order_of(numbers: dict[str, int], method: Method, units: int) -> str:
    names = list(numbers)
    quota, clusters = policy(numbers, method, required=True)
    room = sums(clusters.place(len(names)), clusters.room, len(names) + 1)
    found = assignment_order(quota, room, units)
    return " ".join(names[domain] for domain in found)


@pytest.mark.proves("K11")
def test_the_sequence_of_balance():
    assert order_of({"A": 5, "B": 3}, BALANCE, 8) == "A B A B A A B A"


@pytest.mark.proves("K12")
def test_the_sequence_of_fill():
    assert order_of({"m": 2, "h": 3}, FILL, 9) == "m m h h h"


@pytest.mark.proves("K26", "K27")
@pytest.mark.parametrize(
    ("numbers", "required", "units", "expected"),
    [
        ({"member": 1, "host": 3}, False, 6, [2, 4]),
        ({"A": 5, "B": 3}, False, 12, [7, 5]),
        ({"member": 1, "host": 3}, True, 6, [1, 3]),
        ({"member": 2, "host": 3}, True, 5, [2, 3]),
        ({"A": 5, "B": 3}, True, 8, [5, 3]),
        ({"A": 0, "B": 0}, False, 5, [5, 0]),
        ({"A": 0, "B": 0}, True, 5, [0, 0]),
    ],
)
@pytest.mark.parametrize("method", Method)
def test_worked_examples(numbers, required, units, expected, method):
    assert grow(*policy(numbers, method, required=required), units).tolist() == expected


@pytest.mark.proves("K11", "K12", "K13")
def test_the_column_of_the_next_unit():
    quota, _ = policy({"A": 5, "B": 3, "C": 0, "D": 2}, BALANCE, required=True, count=(4, 0, 0, 2))
    assert scores(quota).tolist() == [20, 100, 0, 0]
    quota, _ = policy({"A": 5, "B": 3, "C": 0, "D": 2}, FILL, required=False, count=(4, 0, 0, 2))
    assert scores(quota).tolist() == [80, 0, 0, 0]


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("required", [False, True])
def test_a_hundred_thousand_units(method, required):
    quota, clusters = policy({"A": 70_001, "B": 30_000}, method, required=required)
    expected = [70_001, 30_000] if required else [84_001, 36_000]
    assert grow(quota, clusters, 120_001).tolist() == expected
    assert growth(quota, np.array([FAR, FAR, FAR]), 100_000).sum() == 100_000
