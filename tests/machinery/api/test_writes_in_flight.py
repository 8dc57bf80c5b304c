"""A change without an answer may take effect until the time that its server was given is over."""

from __future__ import annotations

import pytest

from machinery.api.client import MOST_UNANSWERED, WritesInFlight
from tests.fakeclock import FakeClock


@pytest.mark.proves("SC5")
async def test_a_write_is_in_flight_until_its_answer_or_the_end_of_its_time() -> None:
    clock = FakeClock()
    writes = WritesInFlight(clock)
    assert writes.seconds == 0
    first, second = writes.sent(10.0), writes.sent(4.0)
    assert writes.seconds == 10
    writes.answered(first)
    assert writes.seconds == 4
    await clock.advance(3)
    assert writes.seconds == pytest.approx(1)
    await clock.advance(2)
    assert writes.seconds == 0, "nobody answered, and its time is over"
    writes.answered(second)
    for _ in range(3 * MOST_UNANSWERED):
        writes.sent(0.5)
        await clock.advance(1)
    assert len(writes._until) <= MOST_UNANSWERED + 1
