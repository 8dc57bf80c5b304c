"""How a wait for another gang ends: as its turn is over, and as it waits no longer itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .ganging import NS, Yard, member
from .test_gang_turns import at, crowded, gang, told

pytestmark = pytest.mark.proves("G8", "G16")


def small_behind_big() -> tuple[Yard, Callable[[], float | None]]:
    """`big` has the turn and `small` stands behind it; when that is looked at again."""
    yard = crowded()
    gang(yard, "small", 2, 2, created=at(0))
    assert "kept for WorkloadGroup shop/big" in told(yard, "small").message
    unit = yard.world.unit((NS, "small"))
    assert unit is not None
    return yard, lambda: yard.plugin.next_look(unit, yard.time.at)


# --- the turn is over -----------------------------------------------------------------------------


def test_one_that_wants_too_few_units_meanwhile_is_not_looked_at_without_end() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.store(member("small", 1, of="small", cpu="1", created=at(0)))
    yard.later(left + 1)
    told(yard, "small")
    assert look() is None


def test_one_that_is_denied_when_the_turn_is_over_is_not_looked_at_without_pause() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 1)
    told(yard, "small")
    yard.later(1.001)
    told(yard, "small")
    yard.handle.looked.clear()
    again = look()
    assert again is not None
    assert again > 0
    assert list(yard.handle.looked) == [(NS, "small")]
    assert told(yard, "small").assigned == 2, "what it was denied for has ended"


def test_a_look_is_given_though_the_turn_ends_while_the_decision_is_written() -> None:
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 0.01)
    told(yard, "small")
    yard.later(5)
    yard.handle.looked.clear()
    assert look() is None
    assert list(yard.handle.looked) == [(NS, "small")]
    assert look() is None
    assert len(yard.handle.looked) == 1, "one look, whoever asks"
    assert told(yard, "small").assigned == 2


def test_the_look_at_the_end_of_the_turn_finds_it_ended() -> None:
    """It is kept on another clock than the turn, which may go a little faster."""
    yard, look = small_behind_big()
    left = look()
    assert left is not None
    yard.later(left - 0.0005)
    assert told(yard, "small").assigned == 2


def test_who_is_edited_stands_behind_nobody() -> None:
    yard, look = small_behind_big()
    yard.plugin.memory.turns.over((NS, "small"))
    assert look() is None
