"""Subsets with any other rules: the plan against the loop over units, and what holds for all."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from controller.planner.indomain import WithinDomain
from controller.planner.plan import UNBOUNDED, Apportionment, Problem, apportion
from controller.planner.subsets import Subsets

from .bysubsets import SubsetLoop, counted_by_hand
from .plain import ints, tried
from .test_composed import drawn as without_subsets

FIRST = int(os.environ.get("PLANNER_SEED", "0"))
EACH = tried(400)


def subsets_of(dice: random.Random, size: int) -> Subsets:
    """One to four subsets in any state; in half of the cases no cluster lies in two."""
    number = dice.randint(1, 4)
    if dice.random() < 0.5:
        at = [dice.randint(0, number) for _ in range(size)]
        inside = np.array([[where == each for where in at] for each in range(number)])
    else:
        inside = np.array([[dice.random() < 0.5 for _ in range(size)] for _ in range(number)])
    often = dice.choice([0, 0.3, 1])
    return Subsets(
        names=[f"s{at}" for at in range(number)],
        inside=inside.reshape(number, size),
        cap=ints([dice.choice([UNBOUNDED, *range(9)]) for _ in range(number)]),
        closed=np.array([dice.random() < 0.15 for _ in range(number)]),
        overflow=np.array([dice.random() < often for _ in range(number)]),
        rank=ints([[dice.choice([0, 0, 3]) for _ in range(size)] for _ in range(number)]),
        crowded=np.array([dice.random() < 0.3 for _ in range(size)]),
        keeps=dice.choice(list(WithinDomain)),
        order=ints(dice.sample(range(size), size)),
        weight=ints([dice.randint(0, 5) for _ in range(size)]),
    )


def drawn(seed: int) -> Problem:
    """Every kind of rule in every combination; half of them shrink, where there is anything."""
    of = without_subsets(seed)
    dice = random.Random(-seed - 1)
    of = replace(of, subsets=subsets_of(dice, len(of.weight)))
    return replace(of, inside=WithinDomain.RANK) if dice.random() < 0.4 else of


def loop(plan: Apportionment) -> list[int]:
    """By hand, for the domains that were chosen."""
    chosen = plan.choice is not None and plan.choice.first.any()
    first = plan.choice.first.tolist() if plan.choice is not None and chosen else None
    return SubsetLoop(plan.problem, first).solved()


@pytest.mark.proves("W4", "W6", "W13", "W28")
@pytest.mark.parametrize("part", range(10))
def test_subsets_with_all_rules_are_the_loop_over_units(part: int) -> None:
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        plan = apportion(drawn(seed))
        assert plan.shares.tolist() == loop(plan), seed


@pytest.mark.proves("W33")
def test_units_count_to_the_first_subsets_as_far_as_any_sorting_of_them_can() -> None:
    for seed in range(FIRST, FIRST + tried(4000)):
        of = drawn(seed)
        assert of.subsets is not None
        counted, excess, outside = of.subsets.classified(of.present)
        by_hand = counted_by_hand(of.subsets, of.present.tolist())
        assert counted.sum(axis=1).tolist() == by_hand, seed
        assert of.subsets.counted(of.present).tolist() == by_hand, seed
        assert (counted.sum(axis=0) + excess.sum(axis=0) + outside == of.present).all(), seed
        assert min(counted.min(), excess.min(), outside.min()) >= 0, seed
        assert not counted[~of.subsets.inside].any(), seed
        assert not excess[of.subsets.home != np.arange(len(counted))[:, None]].any(), seed


@pytest.mark.proves("W2", "W6", "W15")
@pytest.mark.parametrize("part", range(5))
def test_what_subsets_promise_whatever_the_other_rules_say(part: int) -> None:
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        of = drawn(seed)
        assert of.subsets is not None
        plan, held = apportion(of), of.settled()
        shares = plan.shares
        assert int(shares.sum()) + plan.pending == of.total, seed
        assert plan.pending >= 0, seed
        grows = of.total >= int(held.sum())
        assert (shares >= held).all() if grows else (shares <= held).all(), seed
        waits = np.minimum(shares, of.present) - held
        new = shares > np.maximum(held, of.present)
        assert not (new & ~of.subsets.open_to(new)).any(), seed
        assert (shares <= np.maximum(of.without_room(), np.maximum(held, of.present))).all(), seed
        for count in of.counts:
            known = count.domain > 0
            used = {*count.domain[known & (shares > 0)].tolist()}
            kept = {*count.domain[known & (np.maximum(held, of.present) > 0)].tolist()}
            assert len(used) <= max(count.most or UNBOUNDED, len(kept)), seed
        for bound in of.caps():
            size = len(bound.upper)
            now, before, there = (
                np.bincount(bound.group, weights=units, minlength=size)
                for units in (shares, held, of.present)
            )
            assert (now <= np.maximum(bound.upper, np.maximum(before, there))).all(), (seed, bound)
        if not (waits > 0).any():
            over = of.subsets.classified(held)[1].sum()
            assert of.subsets.classified(shares)[1].sum() <= over, seed
        for row in np.flatnonzero(shares).tolist():
            assert plan.reasons(row), seed
        held_now = int(shares.sum())
        for obstacle in plan.binding:
            assert 0 <= obstacle.gain <= of.total - held_now, seed


@pytest.mark.proves("W2")
def test_one_more_unit_takes_none_away_from_subsets() -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = replace(drawn(seed), counts=())
        now, more = (apportion(replace(of, total=of.total + n)).shares for n in (0, 1))
        assert (more >= now).all(), seed
        assert int((more - now).sum()) <= 1, seed


@pytest.mark.proves("W2")
def test_a_plan_with_subsets_that_was_followed_is_its_own_plan() -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = drawn(seed)
        if of.domains is not None and of.domains.uncounted.any():
            continue  # what is placed anew counts, and what was there did not
        plan = apportion(of)
        again = apportion(replace(of, present=plan.shares, domains=plan.order))
        assert again.shares.tolist() == plan.shares.tolist(), seed
