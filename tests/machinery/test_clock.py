"""Times that objects say are read as they are stored, and never trusted to be valid."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from machinery.clock import stored_time

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-05-01T12:00:00", "0001-01-01T00:00:00+23:00"])
def test_what_is_no_moment_is_none(text: str) -> None:
    assert stored_time(text) is None


def test_a_moment_is_in_utc_and_no_later_than_asked() -> None:
    assert stored_time("2026-05-01T14:00:00+02:00") == NOW
    assert stored_time("2026-05-01T12:00:00Z", not_after=NOW) == NOW
    assert stored_time("2026-05-01T12:00:01.000000Z", not_after=NOW) is None
