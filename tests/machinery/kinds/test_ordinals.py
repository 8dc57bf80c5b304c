"""Ranges of ordinals: no two clusters count the same pods, and nothing that runs is renumbered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.kinds.ordinals import (
    DISTANCE,
    in_words,
    known_ranges,
    overlapping,
    with_new_ranges,
)

CLUSTERS = st.sampled_from([f"m{n}" for n in range(8)])
STARTS = st.integers(0, 12_000)


@pytest.mark.proves("K28", "KD50")
def test_ranges_begin_where_the_template_does_and_are_a_thousand_apart() -> None:
    assert with_new_ranges({}, ["b", "c"], 0) == {"b": 0, "c": 1000}
    assert with_new_ranges({}, ["a", "b", "c"], 1000) == {"a": 1000, "b": 2000, "c": 3000}
    assert with_new_ranges({"b": 0, "c": 1000}, ["a", "c"], 0) == {"a": 2000, "b": 0, "c": 1000}
    # After the template's own start was edited, and beside what an earlier release gave.
    found = with_new_ranges({"a": 0, "b": 1500}, ["c", "d"], 500)
    assert found == {"a": 0, "b": 1500, "c": 2500, "d": 3500}
    assert in_words("db", 1000, 3) == "db-1000 to db-1002"
    assert in_words("db", 0, 1) == in_words("db", 0, 0) == "db-0"


@pytest.mark.proves("A4", "KD49", "KD52")
@given(
    st.dictionaries(CLUSTERS, STARTS),
    st.dictionaries(CLUSTERS, st.integers(0, 9).map(lambda n: n * DISTANCE)),
    st.lists(CLUSTERS, unique=True),
    STARTS,
)
def test_no_new_range_overlaps_and_what_a_cluster_tells_is_never_another(
    noted: dict[str, int], told: dict[str, int], clusters: list[str], first: int
) -> None:
    known = known_ranges(noted, told)
    assert told.items() <= known.items()
    assert known.items() <= {**noted, **told}.items()
    found = with_new_ranges(known, clusters, first)
    assert known.items() <= found.items()
    assert set(clusters) <= found.keys()
    for cluster in found.keys() - told.keys():
        others = {name: n for name, n in told.items() if name != cluster}
        assert not overlapping(found[cluster], others)
    for cluster in found.keys() - known.keys():
        others = {name: n for name, n in found.items() if name != cluster}
        assert not overlapping(found[cluster], others)


@pytest.mark.proves("B4", "KD53")
def test_ten_thousand_ranges_are_dealt_in_one_pass() -> None:
    clusters = [f"m{n:05}" for n in range(10_000)]
    found = with_new_ranges({}, clusters, 0)
    assert [*found.values()] == [n * DISTANCE for n in range(10_000)]
    assert with_new_ranges(found, clusters, 0) == found
