"""How a number of replicas becomes shares: one planner for growing, shrinking and standing still.

What it promises, for every input:

- sum(shares) + pending == total, and no cluster gets more than its bounds, its room and the bounds
  of its groups allow, except for what it holds already.
- Where a placement within all upper bounds exists, all units are placed; otherwise as many as can
  be.
- What is placed does not move: growing starts from the present shares and hands out only the rest,
  shrinking takes only from them. One more unit never takes one away, one fewer never adds one.
- Above the lower bounds, units follow the weights (Webster, see `divisor`); what is over a bound
  shrinks before anything else does.
- Equal inputs give equal shares: ties are decided by the injected order.

A lower bound is a wish with precedence: lower bounds are served first, in Webster's order, as far
as total and upper bounds allow. Pure, integers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from controller.apportion.divisor import MAX_UNITS, Ints, Nest, hand_out

UNBOUNDED = MAX_UNITS


class BoundKind(Enum):
    """What a bound on a group of clusters stands for."""

    DOMAIN_QUOTA = "domain quota"
    SUBSET_CAP = "subset cap"


@dataclass(frozen=True, slots=True)
class GroupBound:
    """Disjoint groups of clusters with an upper and a lower bound each.

    Args:
        kind: what the bound is, for the reasons.
        names: one for each group (a domain's value, a subset's name).
        group: shape (n,), an index into the others for each cluster.
        upper: shape (groups,), units.
        lower: shape (groups,), units.
    """

    kind: BoundKind
    names: Sequence[str]
    group: Ints
    upper: Ints
    lower: Ints


@dataclass(frozen=True, slots=True)
class Problem:
    """A total and what binds it. All arrays have one entry a cluster, in units.

    Args:
        total: units wanted.
        weight: relative; 0 takes no unit beyond its lower bound.
        lower: units to be served first.
        upper: the rule's most.
        room: units of this Workload that the cluster can hold in all, its present ones included.
        learnt: units that the cluster was seen to hold when it had more; UNBOUNDED where unknown.
            Present units above it do not run, and are free to go elsewhere.
        present: units placed now.
        order: distinct; of equal priorities the lowest goes first.
        groups: bounds on groups, outermost first, each nested in the one before.
    """

    total: int
    weight: Ints
    lower: Ints
    upper: Ints
    room: Ints
    learnt: Ints
    present: Ints
    order: Ints
    groups: tuple[GroupBound, ...] = ()

    def cap(self) -> Ints:
        """Shape (n,): the least of the three bounds on a single cluster."""
        return np.minimum(np.minimum(self.upper, self.room), self.learnt)

    def settled(self) -> Ints:
        """Shape (n,): the present units that run, as far as is known."""
        return np.minimum(self.present, self.learnt)


@dataclass(frozen=True, slots=True)
class Plan:
    """The shares, shape (n,), and the units that no cluster may take."""

    shares: Ints
    pending: int


def apportion(problem: Problem) -> Plan:
    """The plan for a problem; see the module for what it promises.

    Raises:
        ValueError: more than `divisor.MAX_UNITS` units, or a weight above `divisor.MAX_WEIGHT`.
    """
    held = problem.settled()
    shares = _grow(problem, held) if problem.total >= int(held.sum()) else _shrink(problem, held)
    return Plan(shares, problem.total - int(shares.sum()))


def _grow(problem: Problem, held: Ints) -> Ints:
    return _fill(problem, start=held, top=np.maximum(problem.cap(), held), bounded=True)


def _shrink(problem: Problem, held: Ints) -> Ints:
    """Keep what is within all bounds, then what stands over them as far as the total goes."""
    within = np.minimum(problem.cap(), held)
    kept = _fill(problem, start=np.zeros_like(held), top=within, bounded=True)
    return _fill(problem, start=kept, top=held, bounded=False)


def _fill(problem: Problem, *, start: Ints, top: Ints, bounded: bool) -> Ints:
    """Lower bounds of clusters, then those of groups, then the rest."""
    floor = np.minimum(top, problem.lower)
    wished = np.where(problem.lower > 0, np.maximum(problem.weight, 1), problem.weight)
    caps = [Nest(bound.group, bound.upper) for bound in problem.groups] if bounded else []
    held = start
    if (floor > held).any():
        held = _hand_out(problem, wished, held, floor, caps)
    for bound in problem.groups:
        if bound.lower.any():
            least = Nest(bound.group, np.minimum(bound.lower, bound.upper))
            held = _hand_out(problem, problem.weight, held, top, [least, *caps])
    weight = problem.weight if bounded else np.maximum(problem.weight, 1)
    return _hand_out(problem, weight, held, top, caps)


def _hand_out(
    problem: Problem, weight: Ints, start: Ints, top: Ints, nests: Sequence[Nest]
) -> Ints:
    return hand_out(
        problem.total, weight=weight, start=start, top=top, order=problem.order, nests=nests
    )
