"""Durations: what Kubernetes writes is understood, and nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from machinery.types import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("24h", 86400),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("1m1m", 120),
    ],
)
def test_sums_of_numbers_with_units(text: str, seconds: float) -> None:
    assert durations.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "1", "h", "1d", "-1h", "1h ", " 1h", "1h-1m", "1.h", "\u0661h", "1h\n", "9" * 10 + "h"],
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        durations.parse(text)


def test_what_no_calendar_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than any calendar"):
        durations.parse("999999999h" * 40)
