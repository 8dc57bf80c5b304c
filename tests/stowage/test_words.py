"""Reasons and times of a status in words, also where somebody else wrote them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crds.fields.why import ChangeCause
from stowage.console import words

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

pytestmark = pytest.mark.proves("U1")


@pytest.mark.parametrize("word", ["{0}", "{", "{name.__class__}", "Moved"])
def test_a_cause_that_is_not_known_is_told_as_it_is(word: str) -> None:
    assert words.cause(word, "zone-1") == f"{word} zone-1"
    assert words.cause(word, "") == word


def test_a_cause_that_is_known_is_told_in_words() -> None:
    assert words.cause("ClusterGone", "{0}") == "cluster {0} gone"
    assert words.cause("Scaled", "") == "scaled"
    assert words.cause("ClusterLost", "m1") == "cluster m1 lost"


@pytest.mark.parametrize("cause", ChangeCause)
def test_every_cause_of_ours_has_words(cause: ChangeCause) -> None:
    assert not words.cause(cause, "m1").startswith(cause)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00", "soon"])
def test_a_time_that_no_clock_here_shows_is_told_as_it_is(text: str) -> None:
    assert words.moment(text, NOW) == text
