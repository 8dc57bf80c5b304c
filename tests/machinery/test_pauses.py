"""What was tried in vain rests, longer each time, whoever asks; something else is tried at once."""

from __future__ import annotations

import pytest

from machinery.runtime.keyed_backoff import Pauses, steady
from tests.fakeclock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pauses(clock: FakeClock) -> Pauses[str]:
    return Pauses(clock=clock, base=2.0, cap=60.0, jitter=steady)


@pytest.mark.proves("R4")
async def test_pauses_grow_up_to_a_limit(pauses: Pauses[str], clock: FakeClock):
    waits = []
    for _ in range(9):
        waits.append(pauses.hold("a"))
        assert pauses.left("a") == waits[-1]
        assert pauses.left("b") == 0
        await clock.advance(waits[-1])
        assert pauses.left("a") == 0
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30, 30]


@pytest.mark.proves("R4")
async def test_whoever_asks_within_a_pause_does_not_make_it_longer(
    pauses: Pauses[str], clock: FakeClock
):
    pauses.hold("a", "x", why="first")
    await clock.advance(0.5)
    for _ in range(100):
        assert pauses.hold("a", "x", why="again") == 0.5
    assert pauses.why("a") == "first"
    await clock.advance(0.5)
    assert pauses.hold("a", "x") == 2


async def test_something_else_begins_anew(pauses: Pauses[str], clock: FakeClock):
    for _ in range(5):
        await clock.advance(pauses.hold("a", "x"))
    assert pauses.left("a", "y") == 0
    assert pauses.hold("a", "y") == 1
    pauses.over("a")
    assert pauses.hold("a", "y") == 1
    pauses.hold("b")
    pauses.drop(lambda key: key == "a")
    assert (pauses.left("a", "y"), len(pauses)) == (0, 1)


def test_a_guard_is_never_longer_than_what_asks_for_it(clock: FakeClock):
    for seed in (0.0, 0.3, 0.99):
        asking: Pauses[str] = Pauses(clock=clock, base=1.0, cap=30.0, jitter=lambda s=seed: s)
        guard: Pauses[str] = Pauses(clock=clock, base=1.0, cap=30.0, jitter=steady)
        assert guard.hold("a") <= asking.hold("a")
