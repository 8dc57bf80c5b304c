"""Every reason of every share is a true statement, and what rounding and ties did is always told."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given

from controller.planner.plan import (
    UNBOUNDED,
    Apportionment,
    BoundKind,
    GroupBound,
    Problem,
    apportion,
)
from controller.planner.reasons import Obstacle, Reason, RuleKind
from tests.examples import examples

from .plain import ints, problem, problems, random_problem

MANY = examples(300)
GROUPS = {RuleKind.DOMAIN_QUOTA: BoundKind.DOMAIN_QUOTA, RuleKind.SUBSET_CAP: BoundKind.SUBSET_CAP}
OWN = {RuleKind.UPPER: "upper", RuleKind.ROOM: "room", RuleKind.LEARNT: "learnt"}


def kinds(plan: Apportionment, row: int) -> list[RuleKind]:
    return [reason.kind for reason in plan.reasons(row)]


def held_in(bound: GroupBound, plan: Apportionment, group: int) -> int:
    return sum(int(units) for units in plan.shares[bound.group == group])


def full_groups(plan: Apportionment, row: int) -> list[tuple[GroupBound, int]]:
    """The full groups of a row, outermost first; none where surplus over bounds is being cut."""
    if not plan.last.bounded:
        return []
    groups = [(bound, int(bound.group[row])) for bound in plan.problem.groups]
    return [(b, g) for b, g in groups if held_in(b, plan, g) >= b.upper[g]]


class Truth:
    """What can be said of a finished plan, worked out cluster by cluster with fractions."""

    def __init__(self, plan: Apportionment) -> None:
        self.plan = plan
        self.shares = plan.shares.tolist()
        self.weight = plan.last.weight.tolist()
        self.base = plan.last.base.tolist()
        self.rows = range(len(self.shares))
        found = [full_groups(plan, row) for row in self.rows]
        self.block = [(id(f[-1][0]), f[-1][1]) if f else None for f in found]
        self.open = [
            self.weight[r] > 0 and self.shares[r] < int(plan.last.top[r]) for r in self.rows
        ]
        self.free = [
            self.open[r] and (self.shares[r] > self.base[r] or not self.base[r]) for r in self.rows
        ]

    def units(self, row: int) -> int:
        same = [r for r in self.rows if self.free[r] and self.block[r] == self.block[row]]
        return sum(self.shares[r] for r in same)

    def exact(self, row: int) -> Fraction | None:
        """The part of the units that the weights alone give; None where more than weights spoke."""
        if not self.free[row]:
            return None
        same = [r for r in self.rows if self.free[r] and self.block[r] == self.block[row]]
        return Fraction(self.units(row) * self.weight[row], sum(self.weight[r] for r in same))

    def level(self, row: int) -> list[int]:
        """The clusters that could have taken this one's last unit, and stood as high in line."""
        if not self.weight[row] or self.shares[row] <= self.base[row]:
            return []
        last = Fraction(self.weight[row], 2 * self.shares[row] - 1)
        return [
            r
            for r in self.rows
            if self.open[r]
            and all(int(b.group[row]) == group for b, group in full_groups(self.plan, r))
            and Fraction(self.weight[r], 2 * self.shares[r] + 1) == last
        ]

    def holds(self, row: int, reason: Reason) -> bool:
        """Whether one reason of one row is true."""
        plan, of = self.plan, self.plan.problem
        share = self.shares[row]
        match reason.kind:
            case RuleKind.KEPT:
                return 0 < reason.number == min(int(of.settled()[row]), share)
            case RuleKind.LOWER if reason.of:
                return reason.of == of.lower[row] > share == reason.number
            case RuleKind.LOWER:
                return share == reason.number == of.lower[row]
            case RuleKind.UPPER | RuleKind.ROOM | RuleKind.LEARNT:
                return share == reason.number == getattr(of, OWN[reason.kind])[row] < UNBOUNDED
            case RuleKind.DOMAIN_QUOTA | RuleKind.SUBSET_CAP:
                return any(
                    bound.kind is GROUPS[reason.kind]
                    and bound.names[group] == reason.name
                    and bound.upper[group] == reason.number
                    for bound, group in full_groups(plan, row)
                )
            case RuleKind.GROUP_LOWER:
                return any(
                    bound.names[int(bound.group[row])] == reason.name
                    and bound.lower[bound.group[row]] == reason.number
                    and share == self.base[row]
                    for bound in of.groups
                )
            case RuleKind.NO_WEIGHT:
                return of.weight[row] == 0
            case RuleKind.WEIGHT:
                exact = self.exact(row)
                return (
                    exact is not None
                    and reason.number == int(exact)
                    and reason.of == self.units(row)
                )
            case RuleKind.REMAINDER:
                exact = self.exact(row)
                return (
                    exact is not None
                    and share > exact
                    and reason.number == share - int(exact)
                    and reason.of == int(100 * (exact - int(exact)))
                )
            case RuleKind.TIE:
                level = self.level(row)
                first = all(of.order[row] < of.order[other] for other in level)
                return 0 < reason.number == len(level) and first
        return False


@given(problems())
@MANY
def test_every_share_has_its_reasons_and_every_reason_is_true(of: Problem) -> None:
    """Rounding and ties are told exactly where they happened."""
    plan = apportion(of)
    truth = Truth(plan)
    for row in truth.rows:
        reasons = plan.reasons(row)
        assert reasons or not truth.shares[row], (row, of)
        for reason in reasons:
            assert truth.holds(row, reason), (row, reason, plan.shares, of)
        exact = truth.exact(row)
        rounded = exact is not None and truth.shares[row] > exact
        assert (RuleKind.REMAINDER in kinds(plan, row)) == rounded
        assert (RuleKind.TIE in kinds(plan, row)) == bool(truth.level(row))


@given(problems())
@MANY
def test_what_stops_a_cluster_is_told_while_units_are_pending(of: Problem) -> None:
    plan = apportion(of)
    if not plan.pending:
        return
    stops = {
        RuleKind.UPPER,
        RuleKind.ROOM,
        RuleKind.LEARNT,
        RuleKind.DOMAIN_QUOTA,
        RuleKind.SUBSET_CAP,
        RuleKind.NO_WEIGHT,
    }
    for row, share in enumerate(plan.shares.tolist()):
        over = share > of.cap()[row]
        assert over or stops & set(kinds(plan, row)), (row, of)


def lifted(of: Problem, obstacle: Obstacle) -> Problem:
    """The problem without the bound that an obstacle names."""
    reason = obstacle.reason
    if reason.kind in OWN:
        return replace(of, **{OWN[reason.kind]: ints([UNBOUNDED] * len(of.weight))})
    if reason.kind is RuleKind.NO_WEIGHT:
        return replace(of, weight=ints([max(int(weight), 1) for weight in of.weight]))
    groups = []
    for bound in of.groups:
        upper = bound.upper.copy()
        if bound.kind is GROUPS[reason.kind]:
            upper[list(bound.names).index(reason.name)] = UNBOUNDED
        groups.append(replace(bound, upper=upper))
    return replace(of, groups=tuple(groups))


def test_what_would_help_helps_by_so_many() -> None:
    dice = random.Random(22)
    seen: Counter[RuleKind] = Counter()
    for _ in range(1200):
        of = random_problem(dice)
        plan = apportion(of)
        assert bool(plan.binding) == bool(plan.pending)
        for obstacle in plan.binding:
            without = apportion(lifted(of, obstacle))
            assert plan.pending - without.pending == obstacle.gain, (obstacle, of)
            seen[obstacle.reason.kind] += bool(obstacle.gain)
    assert min(seen[kind] for kind in (*OWN, *GROUPS, RuleKind.NO_WEIGHT)) > 10, seen


class TestByExample:
    """What a user reads."""

    def told(self, of: Problem) -> list[list[str]]:
        plan = apportion(of)
        return [[str(reason) for reason in plan.reasons(row)] for row in range(len(of.weight))]

    def test_weights_and_rounding(self) -> None:
        assert self.told(problem(10, [3, 2, 1])) == [
            ["its weight's share of 10 replicas is 5"],
            ["its weight's share of 10 replicas is 3"],
            ["its weight's share of 10 replicas is 1",
             "rounded up by 1: its exact share is 0.66 larger"],
        ]  # fmt: skip

    def test_a_tie(self) -> None:
        assert self.told(problem(1, [1, 1, 1])) == [
            ["its weight's share of 1 replica is 0",
             "rounded up by 1: its exact share is 0.33 larger",
             "as high in line as 2 more, and first in the order"],
            ["its weight's share of 1 replica is 0"],
            ["its weight's share of 1 replica is 0"],
        ]  # fmt: skip

    def test_bounds(self) -> None:
        of = problem(
            20,
            [1, 1, 1, 1, 0],
            lower=[0, 0, 6, 0, 0],
            upper=[2, 99, 99, 99, 99],
            room=[9, 3, 99, 99, 99],
            learnt=[9, 9, 99, 4, 99],
            present=[0, 1, 0, 0, 1],
        )
        assert self.told(of) == [
            ["at its upper bound of 2"],
            ["1 stays where it is", "it has room for 3"],
            ["its weight's share of 10 replicas is 10"],
            ["it was seen to run 4 and no more"],
            ["1 stays where it is", "its weight is 0"],
        ]

    def test_part_of_a_lower_bound(self) -> None:
        assert self.told(problem(3, [1, 0], lower=[5, 0])) == [
            ["3 of its lower bound of 5"],
            ["its weight is 0"],
        ]

    @pytest.mark.proves("K26")
    def test_the_quotas_of_the_worked_example(self) -> None:
        domains = GroupBound(
            BoundKind.DOMAIN_QUOTA, ["member", "host"], ints([0, 1]), ints([1, 3]), ints([0, 0])
        )
        plan = apportion(problem(6, [10, 10], groups=(domains,)))
        assert (plan.shares.tolist(), plan.pending) == ([1, 3], 2)
        assert [str(reason) for reason in plan.reasons(0)] == [
            "its weight's share of 1 replica is 1",
            "domain member is at its quota of 1",
        ]
        assert [str(obstacle) for obstacle in plan.binding] == [
            "domain member is at its quota of 1; without that, 2 more could be placed",
            "domain host is at its quota of 3; without that, 2 more could be placed",
        ]

    def test_two_bounds_that_only_help_together(self) -> None:
        subset = GroupBound(BoundKind.SUBSET_CAP, ["all"], ints([0]), ints([2]), ints([0]))
        plan = apportion(problem(5, [1], room=[2], groups=(subset,)))
        no_help = "to lift this alone would not help"
        assert [str(obstacle) for obstacle in plan.binding] == [
            f"clusters that could take more have room for 2 in all; {no_help}",
            f"subset all is at its cap of 2; {no_help}",
        ]

    def test_clusters_that_could_take_none_anyway_are_not_told_of(self) -> None:
        """A cluster that was filtered has neither weight nor room: its weight is not the matter."""
        plan = apportion(problem(5, [1, 0, 0], room=[2, 0, 4]))
        assert plan.binding == (
            Obstacle(Reason(RuleKind.ROOM, 2), 3),
            Obstacle(Reason(RuleKind.NO_WEIGHT, 1), 3),
        )

    def test_no_cluster_no_obstacle(self) -> None:
        plan = apportion(problem(5, []))
        assert (plan.pending, plan.binding) == (5, ())

    def test_weights_all_zero(self) -> None:
        plan = apportion(problem(5, [0, 0]))
        assert plan.binding == (Obstacle(Reason(RuleKind.NO_WEIGHT, 2), 5),)
        assert str(plan.binding[0]) == (
            "2 clusters have weight 0; without that, 5 more could be placed"
        )
