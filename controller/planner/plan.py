"""How a number of replicas becomes shares: one planner for growing, shrinking and standing still.

For every input:

- sum(shares) + pending == total, and no cluster gets more than its bounds, its room, the bounds of
  its groups and the quota of its domain allow, except for the replicas that it holds already.
- Without an order of domains, as many replicas as possible are placed within all upper bounds, and
  all lower bounds are met where a placement can. (Quotas that cross bounds on groups, and subsets
  that share clusters or cross either, are served in order, which may waste some.)
- Placed replicas do not move. Among the same clusters, one more replica never takes one away, and
  one fewer never adds one.
- Above the lower bounds, domains take replicas in their order, and within a domain they follow the
  weights, the rank or the packing (`controller.planner.indomain`). Replicas over a bound leave
  first, whatever their weight, then replicas of weight 0.
- Subsets take replicas in their order, each up to its cap, lower bounds first. A subset that
  overflows is filled up to its cap on clusters that may take replicas, whatever room they have.
  The lowest deletion cost leaves first, after replicas over a bound. With subsets, present
  replicas that were free to go stay where they wait, unless as many found a place elsewhere.
- Equal inputs give equal shares: the injected order breaks ties.

Pure, integers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from controller.planner.account import PlanColumns, capped, shut
from controller.planner.choice import Choice, chosen, contradictions
from controller.planner.indomain import WithinDomain
from controller.planner.problem import (
    UNBOUNDED,
    BoundKind,
    DomainCount,
    GroupBound,
    LastStep,
    Problem,
    quotas,
)
from controller.planner.reasons import Contradiction, Obstacle, Reason
from controller.planner.replicacycle import TURNS, DomainOrder, assignment_order
from controller.planner.steps import by_subset, by_weight_alone, decline_to, hand_out, stay
from controller.planner.webster import Ints, Mask, Nest, divide

__all__ = [
    "UNBOUNDED",
    "Apportionment",
    "BoundKind",
    "DomainCount",
    "GroupBound",
    "Problem",
    "apportion",
]


@dataclass(frozen=True)
class Apportionment:
    """The shares, shape (n,), and the replicas that no cluster may take; reasons come on demand.

    `asked` is the problem as given, `problem` that of the chosen clusters.
    """

    asked: Problem
    problem: Problem
    choice: Choice | None
    shares: Ints
    pending: int
    last: LastStep

    @cached_property
    def account(self) -> PlanColumns:
        """Return the columns that `reasons` and `binding` read."""
        return PlanColumns.of(self.problem, self.shares, self.last)

    @cached_property
    def contradictions(self) -> tuple[Contradiction, ...]:
        return contradictions(self.asked, self.choice, self.shares)

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Return the reasons of one cluster's share, also of a share of zero."""
        return self.account.reasons(row)

    @property
    def binding(self) -> tuple[Obstacle, ...]:
        """Return the bounds that keep the pending replicas out; empty where there is no cluster."""
        return self.account.obstacles(_placed_by) if self.pending else ()

    @property
    def choosing(self) -> tuple[str, ...]:
        """Return counts of domains that cannot be met, and choices untried."""
        return () if self.choice is None else (*self.choice.lacks, *self.choice.untried)

    @property
    def order(self) -> DomainOrder | None:
        """Return the given domains with the counts that these shares leave."""
        order = self.asked.domains
        return None if order is None else order.after(self.shares - self.asked.present)

    @property
    def full(self) -> tuple[str, ...]:
        """Return the listed domains that hold their number, or more."""
        order = self.order
        if order is None:
            return ()
        full = np.flatnonzero(order.quota.count >= order.quota.desired)
        return tuple(order.names[at] for at in full.tolist())

    @property
    def beyond_quotas(self) -> bool:
        """Whether the quotas of domains with clusters let in too few of the new replicas."""
        order, held = self.asked.domains, self.asked.settled()
        if order is None or not order.quota.required or order.uncounted.all():
            return False
        before = order.after(held - self.asked.present)
        known = before.by_domain(np.ones_like(held)) > 0
        return self.asked.total - int(held.sum()) > int(before.quota.gap[known].sum())

    @cached_property
    def counted(self) -> Ints:
        """Return the replicas that count to each subset, shape (subsets,)."""
        subsets = self.asked.subsets
        return np.zeros(0, dtype=np.int64) if subsets is None else subsets.counted(self.shares)

    @property
    def subsets_full(self) -> tuple[str, ...]:
        subsets = self.asked.subsets
        if subsets is None:
            return ()
        return tuple(subsets.names[at] for at in subsets.full(self.counted).tolist())

    @property
    def subsets_shut(self) -> tuple[Reason, ...]:
        """Return why subsets take no more replicas: they are at their cap, or closed."""
        subsets = self.asked.subsets
        if subsets is None:
            return ()
        full, closed = subsets.full(self.counted).tolist(), np.flatnonzero(subsets.closed).tolist()
        return (*(capped(subsets, at) for at in full), *(shut(subsets, at) for at in closed))

    @property
    def rows_shut(self) -> Mask:
        """Return the clusters of subsets that all take no more replicas, shape (n,)."""
        subsets = self.asked.subsets
        if subsets is None:
            return np.zeros(len(self.shares), dtype=np.bool_)
        shut = {each.name for each in self.subsets_shut}
        takes = np.array([name not in shut for name in subsets.names], dtype=np.bool_)
        found: Mask = np.any(subsets.inside, axis=0) & ~np.any(subsets.inside[takes], axis=0)
        return found

    @property
    def beyond_caps(self) -> bool:
        """Whether the caps of subsets with clusters let in too few of the new replicas."""
        subsets, held = self.asked.subsets, self.asked.settled()
        known = None if subsets is None else subsets.inside.any(axis=1)
        if subsets is None or known is None or not known.any():
            return False
        gap = int((subsets.cap - subsets.counted(held))[known].sum())
        return self.asked.total - int(held.sum()) > gap

    def assignment_order(self) -> list[int]:
        """Return the domains, or OUTSIDE, that took the first `TURNS` new replicas, in order."""
        order = self.problem.domains
        if order is None or not order.quota.ordered:
            return []
        return list(islice(self._turns(order), TURNS))

    def _turns(self, order: DomainOrder) -> Iterator[int]:
        of, before = self.problem, self.problem.settled()
        most = _takes(of, before)
        steps: Iterable[Ints] = (most,)
        if of.subsets is not None:
            steps = by_subset(of, of.subsets, of.weight, before, most, _nests(of), overflow=True)
        for after in steps:
            now = order.after(before - of.present)
            room = now.by_domain(np.maximum(after - before, 0))
            yield from assignment_order(now.quota, room, of.total - int(before.sum()))
            before = after


def _placed_by(problem: Problem) -> int:
    return int(_planned(problem).shares.sum())


def apportion(problem: Problem) -> Apportionment:
    """Return the plan for a problem; see the module for its promises.

    Raises:
        ValueError: the problem is invalid, see `Problem.check`.
    """
    problem.check()
    return _planned(problem)


def _planned(problem: Problem) -> Apportionment:
    within, choice = _unordered(problem), None
    first = None
    if problem.counts:
        choice = chosen(within)
        within = choice.within(within)
        if choice.first.any():
            first = choice.first
            within = replace(within, lower=_served(within, first))
    held = within.settled()
    grows = within.total >= int(held.sum())
    shares, last = _grow(within, held, first) if grows else _shrink(within, held)
    return Apportionment(problem, within, choice, shares, problem.total - int(shares.sum()), last)


def _unordered(problem: Problem) -> Problem:
    """Turn quotas of domains without order into bounds on groups, where no rank decides."""
    order = problem.domains
    if order is None or order.quota.ordered or problem.inside is WithinDomain.RANK:
        return problem
    groups = (quotas(order, problem.present),) if order.quota.required else ()
    return replace(problem, domains=None, groups=(*groups, *problem.groups))


def _grow(problem: Problem, held: Ints, first: Mask | None) -> tuple[Ints, LastStep]:
    return _fill(problem, start=held, top=np.maximum(problem.cap(), held), first=first)


def _shrink(problem: Problem, held: Ints) -> tuple[Ints, LastStep]:
    """Keep the replicas within all bounds, then those without weight, then those over a bound."""
    if problem.subsets is not None or not by_weight_alone(problem):
        return decline_to(problem, held, _nests(problem))
    within = np.minimum(problem.cap(), held)
    kept, last = _fill(problem, start=np.zeros_like(held), top=within)
    weight = np.maximum(problem.weight, 1)
    for top, bounded in ((within, True), (held, False)):
        if int(kept.sum()) == problem.total:
            break
        last = LastStep(weight, kept, top, bounded)
        kept = hand_out(problem, weight, kept, top, _nests(problem) if bounded else ())
    return kept, last


def _fill(
    problem: Problem, *, start: Ints, top: Ints, first: Mask | None = None
) -> tuple[Ints, LastStep]:
    """Serve first replicas, lower bounds of clusters, of groups from the innermost, the rest."""
    if problem.subsets is not None:
        top = np.where(problem.subsets.open_to(problem.weight >= 0), top, start)
    floor = np.minimum(top, problem.lower)
    nests, base = _nests(problem), start
    wished = np.where(problem.lower > 0, np.maximum(problem.weight, 1), problem.weight)
    if first is not None:
        base = hand_out(problem, wished, base, np.minimum(floor, first), nests, lowers=True)
    if (floor > base).any():
        base = hand_out(problem, wished, base, floor, nests, lowers=True)
    for depth, bound in reversed(list(enumerate(problem.groups))):
        if bound.lower.any():
            least = Nest(bound.group, np.minimum(bound.lower, bound.upper))
            base = hand_out(
                problem, problem.weight, base, top, [*nests[:depth], least, *nests[depth + 1 :]]
            )
    shares = hand_out(problem, problem.weight, base, top, nests, overflow=True)
    return stay(problem, shares, nests), LastStep(problem.weight, base, top, bounded=True)


def _nests(problem: Problem) -> list[Nest]:
    return [Nest(bound.group, bound.upper) for bound in problem.groups]


def _takes(problem: Problem, held: Ints) -> Ints:
    return np.where(problem.weight > 0, np.maximum(problem.cap(), held), held)


def _served(problem: Problem, first: Mask) -> Ints:
    """Return the lower bounds, with a replica for each of `first` before any other bound."""
    held, cap = problem.settled(), problem.cap()
    grows = problem.total >= int(held.sum())
    top = np.maximum(cap, held) if grows else np.minimum(cap, held)
    start = np.maximum(held if grows else 0, np.minimum(top, first))
    floor = np.maximum(np.minimum(top, problem.lower), start)
    if int(floor.sum()) <= problem.total:
        return np.maximum(problem.lower, first)
    weight = np.maximum(problem.weight, 1)
    return divide(problem.total, weight=weight, start=start, top=floor, order=problem.order)
