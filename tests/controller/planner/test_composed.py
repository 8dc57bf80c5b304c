"""All rules together, subsets among them: the plan against a loop over units, and its invariants."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from controller.planner.indomain import WithinDomain
from controller.planner.plan import UNBOUNDED, Apportionment, Problem, apportion
from controller.planner.problem import DomainCount
from controller.planner.reasons import Reason, RuleKind
from controller.planner.replicacycle import OUTSIDE, DomainOrder, DomainQuota, Method
from controller.planner.subsets import Subsets

from .byhand import shrunk_by_hand
from .bysubsets import SubsetLoop, counted_by_hand
from .byunits import by_units
from .plain import ints, random_problem, tried

FIRST = int(os.environ.get("PLANNER_SEED", "0"))
EACH, OF_SUBSETS = tried(500), tried(400)
Draw = Callable[[int], Problem]


def order_of(dice: random.Random, of: Problem) -> DomainOrder:
    """Quotas of one to four domains, in any state."""
    size, domains = len(of.weight), dice.randint(1, 4)
    domain = ints([dice.randint(OUTSIDE, domains - 1) for _ in range(size)])
    uncounted = np.array([dice.random() < 0.1 for _ in range(size)])
    held = np.where(uncounted, 0, of.present) + ints([dice.choice([0, 0, 2]) for _ in range(size)])
    inside = np.where(domain == OUTSIDE, domains, domain)
    count = np.bincount(inside, weights=held, minlength=domains + 1).astype(np.int64)[:-1]
    big = dice.random() < 0.2
    desired = ints([dice.randint(0, 300 if big else 12) for _ in range(domains)])
    method, required = dice.choice(list(Method)), dice.random() < 0.6
    quota = DomainQuota(desired, count, method, required, ordered=dice.random() < 0.85)
    names = [f"d{number}" for number in range(domains)]
    return DomainOrder(names, domain, quota, held, uncounted)


def counts_of(dice: random.Random, size: int) -> tuple[DomainCount, ...]:
    """One or two bounds on the number of domains."""
    found = []
    for number in range(dice.choice([0, 1, 1, 2])):
        domain = ints([dice.randint(0 if dice.random() < 0.1 else 1, 4) for _ in range(size)])
        least = dice.choice([1, 1, 2])
        most = dice.choice([None, least, least + 1])
        found.append(DomainCount(f"key-{number}", domain, least, most))
    return tuple(found)


def drawn(seed: int) -> Problem:
    """Every kind of rule in every combination; half of them shrink, where there is anything."""
    dice = random.Random(seed)
    of = random_problem(dice)
    size = len(of.weight)
    of = replace(
        of,
        score=ints([dice.choice([0, 0, 7]) for _ in range(size)]),
        names=[f"c{number}" for number in range(size)],
        counts=counts_of(dice, size) if dice.random() < 0.4 else (),
        inside=dice.choice([WithinDomain.WEIGHT, WithinDomain.FEWEST]),
    )
    if dice.random() < 0.8:
        of = replace(of, domains=order_of(dice, of))
        if dice.random() < 0.5:
            of = replace(of, inside=WithinDomain.RANK)
    if dice.random() < 0.5:
        of = replace(of, groups=())
    held = int(of.settled().sum())
    return replace(of, total=dice.randint(0, held)) if seed % 2 and held else of


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


def with_subsets(seed: int) -> Problem:
    """The same, and subsets."""
    of = drawn(seed)
    dice = random.Random(-seed - 1)
    of = replace(of, subsets=subsets_of(dice, len(of.weight)))
    return replace(of, inside=WithinDomain.RANK) if dice.random() < 0.4 else of


DRAWS = [
    pytest.param(drawn, marks=pytest.mark.proves("R13"), id="rules"),
    pytest.param(with_subsets, marks=pytest.mark.proves("W2"), id="subsets"),
]


def loop(plan: Apportionment) -> list[int]:
    """By hand, for the domains that were chosen."""
    of = plan.problem
    alone = of.domains is None and of.inside is WithinDomain.WEIGHT and of.nests()
    if alone and of.total < int(of.settled().sum()):
        return shrunk_by_hand(of)
    first = None if plan.choice is None or not plan.choice.first.any() else plan.choice.first
    return by_units(of, first)


def loop_of_subsets(plan: Apportionment) -> list[int]:
    """By hand, for the domains that were chosen."""
    chosen = plan.choice is not None and plan.choice.first.any()
    first = plan.choice.first.tolist() if plan.choice is not None and chosen else None
    return SubsetLoop(plan.problem, first).solved()


@pytest.mark.proves(
    "P3", "P8", "R12", "R13", "P9", "D3", "K2", "K3", "K8", "K9", "K11", "K12", "K13", "K23", "K29"
)
@pytest.mark.parametrize("part", range(10))
def test_all_rules_together_are_the_loop_over_units(part: int) -> None:
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        of = drawn(seed)
        plan = apportion(of)
        within, held = plan.problem, of.settled()
        alone = within.domains is None and within.inside is WithinDomain.WEIGHT and within.nests()
        if alone and of.total < int(held.sum()) and any(b.lower.any() for b in within.groups):
            continue  # bounds from below on groups while shrinking: the planner's own tests
        assert plan.shares.tolist() == loop(plan), seed


@pytest.mark.proves("R13", "P7", "D3", "R12")
@pytest.mark.parametrize("part", range(10))
def test_every_bound_is_kept_whatever_the_others_say(part: int) -> None:
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        of = drawn(seed)
        plan, held = apportion(of), of.settled()
        shares = plan.shares
        assert int(shares.sum()) + plan.pending == of.total, seed
        grows = of.total >= int(held.sum())
        assert (shares >= held).all() if grows else (shares <= held).all(), seed
        assert grows or not plan.pending, seed
        assert (shares <= np.maximum(of.cap(), held)).all(), seed
        for bound in of.caps():
            size = len(bound.upper)
            now = np.bincount(bound.group, weights=shares, minlength=size)
            before = np.bincount(bound.group, weights=held, minlength=size)
            assert (now <= np.maximum(bound.upper, before)).all(), (seed, bound)
        outside = np.zeros(len(shares), dtype=np.bool_)
        for count in of.counts:
            outside |= count.domain == 0
        assert (shares <= held)[outside].all(), seed
        for count in of.counts:
            used, kept = (
                len({*count.domain[(units > 0) & ~outside].tolist()}) for units in (shares, held)
            )
            assert used <= max(count.most or UNBOUNDED, kept), seed


@pytest.mark.proves("W4", "W6", "W13", "W28")
@pytest.mark.parametrize("part", range(10))
def test_subsets_with_all_rules_are_the_loop_over_units(part: int) -> None:
    for seed in range(FIRST + part * OF_SUBSETS, FIRST + (part + 1) * OF_SUBSETS):
        plan = apportion(with_subsets(seed))
        assert plan.shares.tolist() == loop_of_subsets(plan), seed


@pytest.mark.proves("W33")
def test_units_count_to_the_first_subsets_as_far_as_any_sorting_of_them_can() -> None:
    for seed in range(FIRST, FIRST + tried(4000)):
        of = with_subsets(seed)
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
    for seed in range(FIRST + part * OF_SUBSETS, FIRST + (part + 1) * OF_SUBSETS):
        of = with_subsets(seed)
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


@pytest.mark.parametrize("draw", DRAWS)
def test_one_more_unit_takes_none_away_where_no_domains_are_chosen(draw: Draw) -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = replace(draw(seed), counts=())
        now, more = (apportion(replace(of, total=of.total + n)).shares for n in (0, 1))
        assert (more >= now).all(), seed
        assert int((more - now).sum()) <= 1, seed


@pytest.mark.parametrize("draw", DRAWS)
def test_a_plan_that_was_followed_is_its_own_plan(draw: Draw) -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = draw(seed)
        if of.domains is not None and of.domains.uncounted.any():
            continue  # what is placed anew counts, and what was there did not
        plan = apportion(of)
        again = apportion(replace(of, present=plan.shares, domains=plan.order))
        assert again.shares.tolist() == plan.shares.tolist(), seed


def without_quota(of: Problem, reason: Reason) -> Problem | None:
    """The problem without a quota of its domains; None where another bound is meant."""
    order = of.domains
    if order is None or reason.name not in order.names or not order.quota.ordered:
        return None
    desired = order.quota.desired.copy()
    desired[list(order.names).index(reason.name)] = UNBOUNDED
    return replace(of, domains=replace(order, quota=replace(order.quota, desired=desired)))


@pytest.mark.proves("R13", "P9")
def test_every_number_has_its_reasons_and_a_bound_that_is_lifted_helps_by_so_many() -> None:
    for seed in (*range(FIRST, FIRST + tried(1500)), 700802, 701470):
        of = drawn(seed)
        plan = apportion(of)
        for row in np.flatnonzero(plan.shares).tolist():
            told = {reason.kind for reason in plan.reasons(row)}
            kept = int(plan.shares[row]) <= int(of.present[row])
            assert told or (of.inside is WithinDomain.RANK and of.domains is not None), seed
            assert (RuleKind.KEPT in told) or not kept, seed
            if of.inside is WithinDomain.FEWEST and not kept:
                assert RuleKind.PACKED in told, seed
        held = int(plan.shares.sum())
        for obstacle in plan.binding:
            assert 0 <= obstacle.gain <= of.total - held, seed
            within = without_quota(plan.problem, obstacle.reason)
            if within is not None:
                assert int(apportion(within).shares.sum()) == held + obstacle.gain, seed
        for pair in plan.contradictions:
            assert pair.row < 0 or plan.shares[pair.row] < of.lower[pair.row], seed
