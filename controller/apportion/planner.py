"""How a number of replicas becomes shares: one planner for growing, shrinking and standing still.

What it promises, for every input:

- sum(shares) + pending == total, and no cluster gets more than its bounds, its room and the bounds
  of its groups allow, except for what it holds already.
- Where a placement within all upper bounds exists, all units are placed; otherwise as many as can
  be. Where one exists that meets all lower bounds too, it meets them.
- What is placed does not move: growing starts from the present shares and hands out only the rest,
  shrinking takes only from them. One more unit never takes one away, one fewer never adds one.
- Above the lower bounds, units follow the weights (Webster, see `divisor`); what is over a bound
  shrinks before anything else does.
- Equal inputs give equal shares: ties are decided by the injected order.

A lower bound is a wish with precedence: lower bounds are served first, in Webster's order, as far
as total and upper bounds allow; those of clusters before those of groups, and those of inner groups
before those of outer ones, because what serves the inner counts for the outer too. Pure, integers
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.apportion.account import Account
from controller.apportion.divisor import Ints, Nest, hand_out
from controller.apportion.problem import UNBOUNDED, BoundKind, GroupBound, LastStep, Problem
from controller.reasons import Obstacle, Reason

__all__ = ["UNBOUNDED", "BoundKind", "GroupBound", "Plan", "Problem", "apportion"]


@dataclass(frozen=True)
class Plan:
    """The shares, shape (n,), and the units that no cluster may take; why, when somebody asks."""

    problem: Problem
    shares: Ints
    pending: int
    last: LastStep

    @cached_property
    def account(self) -> Account:
        """Everything that `reasons` and `binding` read, computed once when one of them is asked."""
        return Account.of(self.problem, self.shares, self.last)

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """What made one cluster's share, zero included."""
        return self.account.reasons(row)

    @property
    def binding(self) -> tuple[Obstacle, ...]:
        """What keeps the pending units out, and how many each would let in.

        Empty where nothing is pending, and where there is no cluster.
        """
        return self.account.obstacles() if self.pending else ()


def apportion(problem: Problem) -> Plan:
    """The plan for a problem; see the module for what it promises.

    Raises:
        ValueError: more than `divisor.MAX_UNITS` units, or a weight above `divisor.MAX_WEIGHT`.
    """
    held = problem.settled()
    grows = problem.total >= int(held.sum())
    shares, last = _grow(problem, held) if grows else _shrink(problem, held)
    return Plan(problem, shares, problem.total - int(shares.sum()), last)


def _grow(problem: Problem, held: Ints) -> tuple[Ints, LastStep]:
    return _fill(problem, start=held, top=np.maximum(problem.cap(), held))


def _shrink(problem: Problem, held: Ints) -> tuple[Ints, LastStep]:
    """Keep what is within all bounds, then what stands over them as far as the total goes."""
    within = np.minimum(problem.cap(), held)
    kept, last = _fill(problem, start=np.zeros_like(held), top=within)
    if int(kept.sum()) == problem.total:
        return kept, last
    weight = np.maximum(problem.weight, 1)
    shares = _hand_out(problem, weight, kept, held, ())
    return shares, LastStep(weight, kept, held, bounded=False)


def _fill(problem: Problem, *, start: Ints, top: Ints) -> tuple[Ints, LastStep]:
    """Lower bounds of clusters, then those of groups from the innermost, then the rest."""
    floor = np.minimum(top, problem.lower)
    caps = [Nest(bound.group, bound.upper) for bound in problem.groups]
    base = start
    if (floor > base).any():
        wished = np.where(problem.lower > 0, np.maximum(problem.weight, 1), problem.weight)
        base = _hand_out(problem, wished, base, floor, caps)
    for depth, bound in reversed(list(enumerate(problem.groups))):
        if bound.lower.any():
            least = Nest(bound.group, np.minimum(bound.lower, bound.upper))
            nests = [*caps[:depth], least, *caps[depth + 1 :]]
            base = _hand_out(problem, problem.weight, base, top, nests)
    shares = _hand_out(problem, problem.weight, base, top, caps)
    return shares, LastStep(problem.weight, base, top, bounded=True)


def _hand_out(
    problem: Problem, weight: Ints, start: Ints, top: Ints, nests: Sequence[Nest]
) -> Ints:
    return hand_out(
        problem.total, weight=weight, start=start, top=top, order=problem.order, nests=nests
    )
