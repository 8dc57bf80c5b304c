"""`tests/promql.py` evaluates as Prometheus does.

The expected values are those of Prometheus' own promql/promqltest/testdata (functions.test and
staleness.test of 3.x), a minute where that data has its interval of four or five.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import promql_parser as promql
import pytest

from tests.promql import STALE, Vector, evaluated

pytestmark = pytest.mark.proves("RB21")

Values = Sequence[float | None]


def steps(first: float, each: float, count: int) -> list[float]:
    """As `first+each x count` in Prometheus' test data, which is one value more than its count."""
    return [first + each * at for at in range(count + 1)]


def instant(expression: str, at: int, values: Values) -> float | None:
    found: Vector = evaluated(promql.parse(expression), {"counter": values}, at)
    assert len(found) <= 1
    return next(iter(found.values()), None)


@pytest.mark.parametrize(
    ("minutes", "at", "values", "expected"),
    [
        (10, 10, steps(0, 10, 10), 100),
        (10, 10, steps(0, 18, 5) + steps(0, 18, 5), 160),
        (10, 10, steps(10, 10, 10), 100),
        (10, 10, steps(1, 10, 10), 100),
        # the beginning lies in the range: half an interval before it, and not below zero
        (20, 10, steps(0, 10, 10), 100),
        (20, 10, steps(0, 18, 5) + steps(0, 18, 5), 162),
        (20, 10, steps(10, 10, 10), 105),
        (20, 10, steps(1, 10, 10), 101),
        (6, 6, [0, 1, 2, 3, 2, 3, 4], 7),
        (1, 10, [*steps(0, 10, 9), 0, 10], None),
        (2, 10, [*steps(0, 10, 8), 0, 0], 0),
    ],
)
def test_increases_are_extrapolated_and_know_resets(
    minutes: int, at: int, values: Values, expected: float | None
) -> None:
    found = instant(f"increase(counter[{minutes}m])", at, values)
    assert found is None if expected is None else found == pytest.approx(expected)


def test_a_rate_is_an_increase_by_the_seconds_of_its_range() -> None:
    assert instant("rate(counter[10m])", 10, steps(0, 80, 10)) == pytest.approx(80 / 60)
    missed = [value if at % 3 else None for at, value in enumerate(steps(600, 80, 12))]
    assert instant("rate(counter[5m])", 11, missed) == pytest.approx(80 / 60)


@pytest.mark.parametrize(
    ("at", "values", "expected"),
    [
        (1, [0, 1, STALE, 2], 1),
        (2, [0, 1, STALE, 2], None),
        (3, [0, 1, STALE, 2], 2),
        (4, [7, None, None, None, None, None], 7),
        (5, [7, None, None, None, None, None], None),
    ],
)
def test_a_value_counts_for_five_minutes_or_until_it_is_stale(
    at: int, values: Values, expected: float | None
) -> None:
    assert instant("counter", at, values) == expected


def test_a_range_passes_over_stale_markers() -> None:
    assert math.isnan(STALE)
    assert instant("increase(counter[4m])", 3, [0, 1, STALE, 3]) == pytest.approx(3)
