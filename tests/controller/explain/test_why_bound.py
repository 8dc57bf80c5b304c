"""The why of a Workload stays within 16 KiB, whoever named its rules, causes and domains."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.explain import history
from controller.explain.history import Occasion, ShareDifference
from machinery.types.api import (
    PlacementChange,
    PlacementReasons,
    PlacementRule,
    PlacementStep,
    ReasonCount,
)
from machinery.types.bounds import MOST_UNITS

pytestmark = pytest.mark.proves("U1")

MOST_BYTES = 16 * 1024
LONGEST_WORD, LONGEST_NAME = 64, 317
ALPHABET = st.sampled_from('a"\\\n\x01é語🜁')
WORDS = st.builds(str.__mul__, ALPHABET, st.integers(1, LONGEST_WORD))
NAMES = st.builds(str.__mul__, ALPHABET, st.integers(0, LONGEST_NAME))


def written(reasons: Any, counts: Any, changes: Any) -> int:
    """The bytes of the three fields in a status."""
    fields = {"reasons": reasons, "reasonCounts": counts, "history": changes}
    return len(msgspec.json.encode(fields))


@example("Weight", "\x01" * LONGEST_WORD, "", 300, 16, 0)
@example("Weight", "w" * LONGEST_WORD, "", 300, 16, 1)
@example("\x01" * LONGEST_WORD, "\x01" * LONGEST_WORD, "\x01" * LONGEST_NAME, 300, 16, 9)
@given(WORDS, WORDS, NAMES, st.integers(1, 300), st.integers(0, 20), st.integers(0, 9))
def test_hostile_names_do_not_lead_beyond_the_bound(
    word: str, theirs: str, name: str, clusters: int, foreign: int, most: int
) -> None:
    rule = PlacementRule(word, {"number": MOST_UNITS, "of": MOST_UNITS}, name)
    names = [f"cluster-with-a-long-name-{n:03}" for n in range(clusters)]
    step = PlacementStep(1, "2026-01-01T00:00:00Z", word, name, [rule] * min(most, 3))
    kept = [PlacementReasons(each, [step] * 8) for each in names]
    counts = [ReasonCount(f"{theirs[:-2]}{n:02}", 12, 30) for n in range(foreign)]
    past = [PlacementChange("2026-01-01T00:00:00Z", word, name, MOST_UNITS, MOST_UNITS)] * 20
    before, at = dict.fromkeys(names, 8), Occasion("2026-01-02T00:00:00Z", word, name)
    for units in (9, 3, MOST_UNITS):
        after = dict.fromkeys(names, units)
        shares = ShareDifference(before, after, names)
        kept, counts = history.carried(kept, counts, shares, at, lambda _: [rule] * most)
        past = history.lengthened(past, shares, at, lambda _: [rule] * most, units * clusters)
        assert written(kept, counts, past) <= MOST_BYTES
        assert sum(each.clusters for each in counts) == clusters - len(kept)
        before = after


def test_as_many_counts_as_there_are_rules_fit() -> None:
    """What the planner itself can say is told whole."""
    counts = [ReasonCount(f"DomainQuota{n:02}", 60, 600) for n in range(history.MOST_COUNTS)]
    names = [f"m{n:04}" for n in range(60 * history.MOST_COUNTS + history.MOST_SHARES)]
    shares = ShareDifference(dict.fromkeys(names, 10), dict.fromkeys(names, 10), [])
    _, listed = history.carried([], counts, shares, Occasion("now", "Scaled"), lambda _: [])
    assert len(listed) == history.MOST_COUNTS
    assert history.UNTOLD not in {each.rule for each in listed}
