"""Planning, watching and learning in a loop ends in time, and keeps what runs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given

from controller.model.observedlimits import (
    FIRST_HOLD,
    LONGEST_HOLD,
    ObservedLimit,
    as_bounds,
    learn,
    next_expiry,
)
from controller.planner.plan import UNBOUNDED, Problem, apportion
from tests.examples import examples

from .plain import ints, random_problem, seeds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANY = examples(150)


class Members:
    """Clusters that run what they can, whatever they are asked, and what is believed of them."""

    def __init__(self, of: Problem, true: list[int], limits: Mapping[str, ObservedLimit]) -> None:
        self.names = [f"c{row}" for row in range(len(true))]
        self.of = of
        self.true = true
        self.limits = dict(limits)
        self.now = NOW

    def running(self) -> list[int]:
        return [min(int(s), t) for s, t in zip(self.of.present, self.true, strict=True)]

    def plan(self) -> list[int]:
        """Plan from what is known; the members are then asked for the new shares."""
        learnt = as_bounds(self.limits, {name: row for row, name in enumerate(self.names)})
        shares = apportion(replace(self.of, learnt=learnt)).shares
        self.of = replace(self.of, present=shares)
        return shares.tolist()

    def look(self) -> None:
        present = dict(zip(self.names, map(int, self.of.present), strict=True))
        running = dict(zip(self.names, self.running(), strict=True))
        missing = {name: asked - running[name] for name, asked in present.items()}
        self.limits = learn(self.limits, present=present, unschedulable=missing, now=self.now)

    def round(self) -> list[int]:
        self.look()
        return self.plan()


def members(seed: int, *, believed: bool = True) -> Members:
    dice = random.Random(seed)
    of = random_problem(dice)
    size = len(of.weight)
    true = [dice.choice([0, dice.randint(0, 12), UNBOUNDED]) for _ in range(size)]
    limits = {
        f"c{row}": ObservedLimit(dice.randint(0, 15), NOW + timedelta(days=1))
        for row in range(size)
        if believed and dice.random() < 0.3
    }
    return Members(replace(of, learnt=ints([UNBOUNDED] * size)), true, limits)


@given(seeds)
@MANY
def test_it_settles_within_as_many_rounds_as_clusters_and_one(seed: int) -> None:
    """No plan comes back, and what runs after the first round never stops running."""
    snapshot = members(seed)
    plans, ran = [], []
    for _ in range(len(snapshot.names) + 4):
        plans.append(snapshot.round())
        ran.append(snapshot.running())
    bound = len(snapshot.names) + 1
    assert all(plan == plans[bound - 1] for plan in plans[bound:]), plans
    changes = [tuple(p) for p, last in zip(plans, [None, *plans], strict=False) if p != last]
    assert len(set(changes)) == len(changes), plans
    for before, after in pairwise(ran):
        assert all(now >= was for now, was in zip(after, before, strict=True)), ran


@given(seeds)
@MANY
def test_once_settled_every_unit_asked_runs_and_pending_ones_have_nowhere_to_go(seed: int) -> None:
    snapshot = members(seed, believed=False)
    for _ in range(len(snapshot.names) + 2):
        shares = snapshot.round()
    assert snapshot.running() == shares
    known = replace(snapshot.of, learnt=ints([min(t, UNBOUNDED) for t in snapshot.true]))
    assert sum(shares) == int(apportion(replace(known, present=ints(shares))).shares.sum())


@given(seeds)
@MANY
def test_expiries_move_nothing_that_runs(seed: int) -> None:
    """Days of expiries and new attempts: a running unit stays, and attempts become rare."""
    snapshot = members(seed, believed=False)
    for _ in range(len(snapshot.names) + 2):
        snapshot.round()
    before = snapshot.running()
    for _ in range(20):
        due = next_expiry(snapshot.limits)
        if due is None:
            break
        snapshot.now = max(due, snapshot.now)
        snapshot.round()
        snapshot.round()
        after = snapshot.running()
        assert all(now >= was for now, was in zip(after, before, strict=True))
        before = after


class TestLearning:
    """One look at a time."""

    def look(
        self, limits: dict[str, ObservedLimit], asked: int, missing: int, now: datetime = NOW
    ) -> Any:
        return learn(limits, present={"a": asked}, unschedulable={"a": missing}, now=now)

    def test_nothing_missing_teaches_nothing(self) -> None:
        assert self.look({}, 5, 0) == {}

    def test_what_runs_is_the_limit(self) -> None:
        assert self.look({}, 5, 2) == {"a": ObservedLimit(3, NOW + FIRST_HOLD)}

    def test_more_missing_than_asked_is_a_late_report(self) -> None:
        assert self.look({}, 2, 5) == {"a": ObservedLimit(0, NOW + FIRST_HOLD)}

    def test_to_see_it_again_changes_nothing(self) -> None:
        limits = self.look({}, 5, 2)
        assert self.look(limits, 5, 2, NOW + FIRST_HOLD / 2) == limits

    def test_fewer_that_run_is_news(self) -> None:
        limits = self.look({}, 5, 2)
        later = NOW + timedelta(seconds=9)
        assert self.look(limits, 3, 2, later) == {"a": ObservedLimit(1, later + FIRST_HOLD)}

    def test_a_cluster_that_runs_more_than_believed_is_believed(self) -> None:
        limits = self.look({}, 5, 2)
        assert self.look(limits, 5, 0)["a"] == replace(limits["a"], replicas=5)

    def test_an_expired_limit_is_doubled_and_doubted(self) -> None:
        limits = self.look({}, 5, 2)
        then = NOW + FIRST_HOLD
        assert self.look(limits, 3, 0, then) == {
            "a": ObservedLimit(6, then + FIRST_HOLD, FIRST_HOLD, doubted=True)
        }

    def test_a_limit_of_nothing_is_tried_with_one_unit(self) -> None:
        limits = self.look({}, 5, 5)
        assert self.look(limits, 0, 0, NOW + FIRST_HOLD)["a"].replicas == 1

    def test_a_doubted_limit_that_proves_right_is_held_for_longer(self) -> None:
        limits = self.look(self.look({}, 5, 2), 3, 0, NOW + FIRST_HOLD)
        then = NOW + FIRST_HOLD + timedelta(minutes=1)
        assert self.look(limits, 5, 2, then) == {
            "a": ObservedLimit(3, then + 2 * FIRST_HOLD, 2 * FIRST_HOLD)
        }

    def test_no_limit_is_held_for_longer_than_the_longest(self) -> None:
        limits, now = self.look({}, 5, 2), NOW
        for _ in range(20):
            now = limits["a"].expires
            limits = self.look(self.look(limits, 3, 0, now), 5, 2, now)
        assert limits["a"].hold == LONGEST_HOLD

    def test_one_that_never_proves_right_is_forgotten(self) -> None:
        limits, rounds = self.look({}, 5, 2), 0
        while limits:
            limits = self.look(limits, 3, 0, limits["a"].expires)
            rounds += 1
        assert rounds == 18

    def test_a_cluster_that_holds_nothing_any_more_keeps_its_limit_till_then(self) -> None:
        limits = self.look({}, 5, 2)
        assert learn(limits, present={}, unschedulable={}, now=NOW) == limits

    def test_limits_are_bounds_for_the_planner(self) -> None:
        limits = self.look({}, 5, 2) | {"gone": ObservedLimit(1, NOW)}
        assert as_bounds(limits, {"b": 0, "a": 1}).tolist() == [UNBOUNDED, 3]

    def test_the_next_look_is_at_the_first_expiry(self) -> None:
        assert next_expiry({}) is None
        both = {"a": ObservedLimit(1, NOW + FIRST_HOLD), "b": ObservedLimit(1, NOW)}
        assert next_expiry(both) == NOW
