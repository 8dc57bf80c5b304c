"""A condition keeps the moment of its last change, and what is no condition is passed over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from machinery.types.conditions import among, find, holds, renewed

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def ready(old: dict[str, Any], *, true: bool, now: datetime) -> dict[str, Any]:
    return renewed(old, type_="Ready", true=true, reason="Why", message="so", now=now, generation=3)


def test_the_time_is_that_of_the_last_change() -> None:
    first = ready({}, true=True, now=NOW)
    assert first == {
        "type": "Ready",
        "status": "True",
        "reason": "Why",
        "message": "so",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 3,
    }
    later = NOW + timedelta(hours=1)
    assert ready(first, true=True, now=later) == first
    assert ready(first, true=False, now=later)["lastTransitionTime"] == "2026-01-02T04:04:05Z"
    assert ready({"status": "True"}, true=True, now=later)["lastTransitionTime"].startswith("2026")


def test_a_condition_is_found_by_its_type() -> None:
    status = {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]}
    assert find(status, "B") == {"type": "B", "status": "True"}
    assert find(status, "C") == {}
    assert [holds(status, each) for each in "ABC"] == [False, True, False]


@pytest.mark.parametrize("said", [None, "True", 3, {"type": "A"}, ["A", None, 4, []]])
def test_what_is_no_condition_is_passed_over(said: Any) -> None:
    assert among(said, "A") == {}
    assert not holds({"conditions": said}, "A")
