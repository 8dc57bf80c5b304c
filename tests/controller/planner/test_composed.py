"""Any rules together: the plan against the loop over units, and what holds for all of them."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import numpy as np
import pytest

from controller.planner.indomain import WithinDomain
from controller.planner.plan import UNBOUNDED, Apportionment, Problem, apportion
from controller.planner.problem import DomainCount
from controller.planner.reasons import Reason, RuleKind
from controller.planner.unitcycle import OUTSIDE, DomainOrder, DomainQuota, Method

from .byhand import shrunk_by_hand
from .byunits import by_units
from .plain import ints, random_problem, tried

FIRST = int(os.environ.get("PLANNER_SEED", "0"))
EACH = tried(500)


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


def loop(plan: Apportionment) -> list[int]:
    """By hand, for the domains that were chosen."""
    of = plan.problem
    alone = of.domains is None and of.inside is WithinDomain.WEIGHT and of.nests()
    if alone and of.total < int(of.settled().sum()):
        return shrunk_by_hand(of)
    first = None if plan.choice is None or not plan.choice.first.any() else plan.choice.first
    return by_units(of, first)


@pytest.mark.proves("R13", "P9", "D3")
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


@pytest.mark.proves("R13")
def test_one_more_unit_takes_none_away_where_no_domains_are_chosen() -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = replace(drawn(seed), counts=())
        now, more = (apportion(replace(of, total=of.total + n)).shares for n in (0, 1))
        assert (more >= now).all(), seed
        assert int((more - now).sum()) <= 1, seed


@pytest.mark.proves("R13")
def test_a_plan_that_was_followed_is_its_own_plan() -> None:
    for seed in range(FIRST, FIRST + tried(2000)):
        of = drawn(seed)
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
