"""The closed form of a policy: worked examples; `test_composed` has it against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from controller.planner.indomain import Clusters, grow, taken_by_rank
from controller.planner.replicacycle import (
    DomainQuota,
    Method,
    assignment_order,
    growth,
    scores,
)
from controller.planner.webster import sums

FILL, BALANCE = Method.FILL, Method.BALANCE
FAR = 10**6


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


@pytest.mark.parametrize("method", Method)
def test_counts_and_rooms_that_no_fleet_has_come_to_an_end(method):
    """As they follow from statuses, which anybody may have written."""
    desired, none = np.array([3, 2**31 - 1, 7]), np.zeros(3, dtype=np.int64)
    quota = DomainQuota(desired, desired + np.array([2**34, 0, 2**31]), method, required=False)
    room = np.array([2**41, 2**31, 2**41, 0])
    assert growth(quota, room, 2**31 - 1).sum() == 2**31 - 1
    held = np.array([2**31 - 1, -(2**31), 0])
    clusters = Clusters(none, np.full(3, 2**31 - 1), none, held, none, np.arange(3))
    level = taken_by_rank(clusters, none, np.array([2**31 - 1]), method)
    assert level.tolist() == ([2**31 - 1, 0, 0] if method is FILL else [0, 2**31 - 1, 0])
