"""What was tried in vain rests, longer each time, whoever asks; something else is tried at once."""

from __future__ import annotations

import pytest

from machinery.runtime.backoff import KeyedBackoff, steady
from tests.fakeclock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pauses(clock: FakeClock) -> KeyedBackoff[str]:
    return KeyedBackoff(clock=clock, base=2.0, cap=60.0, jitter=steady)


@pytest.mark.proves("R4")
async def test_pauses_grow_up_to_a_limit(pauses: KeyedBackoff[str], clock: FakeClock):
    waits = []
    for _ in range(9):
        waits.append(pauses.failed("a"))
        assert pauses.remaining("a") == waits[-1]
        assert pauses.remaining("b") == 0
        await clock.advance(waits[-1])
        assert pauses.remaining("a") == 0
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30, 30]


@pytest.mark.proves("R4")
async def test_whoever_asks_within_a_pause_does_not_make_it_longer(
    pauses: KeyedBackoff[str], clock: FakeClock
):
    pauses.failed("a", "x", reason="first")
    await clock.advance(0.5)
    for _ in range(100):
        assert pauses.failed("a", "x", reason="again") == 0.5
    assert pauses.reason("a") == "first"
    await clock.advance(0.5)
    assert pauses.failed("a", "x") == 2


async def test_something_else_begins_anew(pauses: KeyedBackoff[str], clock: FakeClock):
    for _ in range(5):
        await clock.advance(pauses.failed("a", "x"))
    assert pauses.remaining("a", "y") == 0
    assert pauses.failed("a", "y") == 1
    pauses.reset("a")
    assert pauses.failed("a", "y") == 1
    pauses.failed("b")
    pauses.reset_where(lambda key: key == "a")
    assert (pauses.remaining("a", "y"), len(pauses._pending)) == (0, 1)


def test_a_guard_is_never_longer_than_what_asks_for_it(clock: FakeClock):
    for seed in (0.0, 0.3, 0.99):
        asking: KeyedBackoff[str] = KeyedBackoff(
            clock=clock, base=1.0, cap=30.0, jitter=lambda s=seed: s
        )
        guard: KeyedBackoff[str] = KeyedBackoff(clock=clock, base=1.0, cap=30.0, jitter=steady)
        assert guard.failed("a") <= asking.failed("a")
