"""Columns against Python's integers, which never wrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.snapshot.columns import CEILING, plus, sums, times

amounts = st.one_of(
    st.integers(0, CEILING),
    st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**61, CEILING - 1, CEILING]),
)
columns = st.lists(st.tuples(amounts, amounts), max_size=12)


@pytest.mark.proves("S2")
@given(columns)
def test_nothing_wraps(pairs: list[tuple[int, int]]) -> None:
    a = np.array([one for one, _ in pairs], dtype=np.int64)
    b = np.array([other for _, other in pairs], dtype=np.int64)
    assert plus(a, b).tolist() == [min(x + y, CEILING) for x, y in pairs]
    assert times(a, b).tolist() == [min(x * y, CEILING) for x, y in pairs]
    assert times(a, 2**31).tolist() == [min(x * 2**31, CEILING) for x, _ in pairs]


@pytest.mark.proves("S2")
@given(st.lists(st.tuples(st.integers(0, 3), amounts), max_size=20))
def test_nor_do_sums_by_group(values: list[tuple[int, int]]) -> None:
    group = np.array([g for g, _ in values], dtype=np.int64)
    column = np.array([v for _, v in values], dtype=np.int64)
    expected = [min(sum(v for g, v in values if g == each), CEILING) for each in range(4)]
    assert sums(group, column, 4).tolist() == expected


@pytest.mark.proves("S2")
def test_a_sum_over_ten_thousand_clusters_is_exact_and_cut_only_at_the_end() -> None:
    group = np.repeat(np.arange(10_000), 64)
    column = np.full(len(group), CEILING, dtype=np.int64)
    assert (sums(group, column, 10_000) == CEILING).all()
    one = np.full(len(group), 2**40 + 1, dtype=np.int64)
    assert (sums(np.zeros_like(group), one, 1) == len(group) * (2**40 + 1)).all()
