"""What time it is on a server, by the `Date` of its answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from machinery.api.server_time import ServerClock, ServerTime

pytestmark = pytest.mark.proves("N13")

NOON = "Thu, 01 Jan 2026 12:00:00 GMT"


class _Clock:
    """Both of its hands are set by the test."""

    def __init__(self) -> None:
        self.wall = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.passed = 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)

    def go_on(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.passed += seconds


def test_two_clocks_that_go_alike_agree_however_long_ago_the_answer_came() -> None:
    clock = _Clock()
    hub = ServerTime(clock)
    hub.saw(NOON)
    clock.go_on(3600)
    assert hub.ahead() == 0.0
    assert hub.difference() == ""


@pytest.mark.parametrize(
    ("set_by", "said"),
    [(31, "ahead of the hub's"), (-31, "behind the hub's"), (30, ""), (-30, "")],
)
def test_a_clock_that_is_set_shows_before_the_next_answer(set_by: int, said: str) -> None:
    clock = _Clock()
    hub = ServerTime(clock)
    hub.saw(NOON)
    clock.wall += timedelta(seconds=set_by)
    assert hub.ahead() == set_by
    assert hub.difference().endswith(said)
    assert bool(hub.difference()) == bool(said)


def test_the_same_date_once_more_is_no_news() -> None:
    clock = _Clock()
    hub = ServerTime(clock)
    hub.saw(NOON)
    clock.go_on(0.9)
    hub.saw(NOON)
    assert hub.ahead() == pytest.approx(0.0)


@pytest.mark.parametrize("date", [None, "", "noon", "Thu, 01 Jan 2026", "x" * 4000, "0" * 39])
def test_what_is_no_date_is_left_out(date: str | None) -> None:
    hub = ServerTime(_Clock())
    hub.saw(date)
    assert hub.ahead() == 0.0
    assert hub.difference() == ""


@pytest.mark.proves("A10")
@pytest.mark.parametrize("set_by", [600, -600, 31])
def test_a_wall_clock_that_is_wrong_shows_the_servers_time(set_by: int) -> None:
    clock = _Clock()
    hub = ServerTime(clock)
    ours = ServerClock(clock, hub)
    clock.wall += timedelta(seconds=set_by)
    assert ours.now() == clock.wall, "nothing is known of another time"
    hub.saw(NOON)
    clock.go_on(5)
    assert ours.now() == datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)
    assert ours.monotonic() == clock.monotonic()
    clock.wall -= timedelta(seconds=set_by - 30)
    assert ours.now() == clock.wall, "they agree again"
