"""A wait for another gang ends as that one's turn is over, or as it waits no longer itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.features.workloadgroup.compiled import WorkloadGroup
from controller.features.workloadgroup.fairness import Findings
from controller.features.workloadgroup.feature import WorkloadGroups
from controller.features.workloadgroup.memory import Denial, GroupMemory
from crds.workload import ScheduledReason
from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member
from tests.controller.features.workloadgroup.test_turns import (
    at,
    come,
    crowded,
    gang,
    held,
    resized,
    told,
    two_that_hold,
)

pytestmark = pytest.mark.proves("G8", "G16")


def small_behind_big() -> tuple[Yard, Callable[[], float | None]]:
    """`big` has the turn and `small` stands behind it; when that is looked at again."""
    yard = crowded()
    assert "kept for WorkloadGroup shop/big" in come(yard, "small", 2, 2, created=at(0)).message
    info = yard.world.info((NS, "small"))
    assert info is not None
    return yard, lambda: yard.plugin.next_look(info, yard.time.at)


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


# --- it waits no longer itself --------------------------------------------------------------------


def feature_of(yard: Yard) -> WorkloadGroups:
    """The feature that hears what is stored in the yard."""
    feature = WorkloadGroups()
    feature.ledger, feature.memory = yard.groups, yard.plugin.memory
    feature.attach(yard.handle)
    return feature


def stored(yard: Yard, feature: WorkloadGroups, name: str, units: int, **how: Any) -> None:
    """The Workload of that name, now of so many units, as the informer tells it."""
    old = yard.workloads[NS, name]
    given = {"of": name, "cpu": "1", "created": old.metadata.creation_timestamp, **how}
    feature.workload_changed(old, yard.store(member(name, units, **given)))


def made_way() -> Yard:
    """`b` gave way for `a`, and neither holds anything; there is room for nine units of `b`."""
    yard = two_that_hold()
    yard.give_back("a")
    told(yard, "a")
    yard.give_back("b")
    assert "gives way to WorkloadGroup shop/a" in told(yard, "b").message
    yard.give_back("a")
    resized(yard, "c", None)
    resized(yard, "d", "4900m")
    return yard


def test_who_gave_way_for_one_that_wants_too_few_units_may_hold_again() -> None:
    yard = made_way()
    feature = feature_of(yard)
    yard.handle.looked.clear()
    stored(yard, feature, "a", 5)
    assert list(yard.handle.looked) == [(NS, "b")]
    assert told(yard, "b").reason is ScheduledReason.WAITING_FOR_GROUP
    assert held(yard, "b")


def test_who_gave_way_for_one_that_was_placed_by_hand_may_hold_again() -> None:
    yard = made_way()
    feature = feature_of(yard)
    yard.handle.looked.clear()
    stored(yard, feature, "a", 10, present={"far": 10})
    assert list(yard.handle.looked) == [(NS, "b")]
    assert told(yard, "b").reason is ScheduledReason.WAITING_FOR_GROUP


@pytest.mark.parametrize("how", ["fewer units", "placed by hand", "minMember", "fault", "deleted"])
def test_those_behind_one_that_waits_no_more_start_at_once(how: str) -> None:
    yard, _ = small_behind_big()
    feature = feature_of(yard)
    yard.handle.looked.clear()

    def edited(**spec: Any) -> WorkloadGroup:
        return group("big", spec.pop("least", 8), created=at(400), generation=2, **spec)

    before = group("big", 8, created=at(400))
    if how == "fewer units":
        stored(yard, feature, "big", 7)
    elif how == "placed by hand":
        stored(yard, feature, "big", 8, present={"far": 8})
    elif how == "deleted":
        feature.watches[0].handler(before, None)
    else:
        spec = {"least": 9} if how == "minMember" else {"scheduleTimeoutSeconds": 10**6}
        feature.group_changed(before, edited(**spec))
    assert (NS, "small") in yard.handle.looked
    assert told(yard, "small").assigned == 2, "it is denied no longer"


def test_one_that_wants_fewer_units_and_enough_keeps_its_turn() -> None:
    yard = crowded()
    yard.group(group("big", 7, created=at(400)))
    gang(yard, "small", 2, 2, created=at(0))
    told(yard, "big")
    told(yard, "small")
    feature = feature_of(yard)
    yard.handle.looked.clear()
    stored(yard, feature, "big", 7)
    assert not yard.handle.looked
    yard.later(4)
    assert told(yard, "small").assigned == 0


def test_who_comes_back_for_a_short_denial_is_told_though_a_longer_one_went_before() -> None:
    """Two profiles may deny for different times, and the clock may be set."""
    memory, key = GroupMemory(), (NS, "small")

    def due(seconds: int, who: str) -> bool:
        memory.deny(key, Denial(make.NOW, seconds, Findings(0, "uid", 1, 1)))
        memory.ask(key)
        until = memory.denied(key, make.NOW)
        assert until is not None
        return memory.due(key, until.until, (NS, who))

    assert due(900, "one")
    assert due(3, "another")
