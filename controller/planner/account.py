"""Why a plan looks as it does: read off the finished shares, so the planner carries nothing for it.

Clusters that draw on the same replicas form a block: those whose innermost full group is the same,
or that are in no full group. Within a block, weight alone divides the replicas of the clusters that
nothing else stopped; against that division a share is exact or rounded. Two clusters of a block
stood level when the last replica of the one and the next of the other have the same priority,
`w/(2a-1)` and `w'/(2a'+1)`, compared as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from controller.planner.indomain import WithinDomain
from controller.planner.problem import UNBOUNDED, BoundKind, GroupBound, LastStep, Problem
from controller.planner.reasons import Obstacle, Reason, RuleKind
from controller.planner.replicacycle import OUTSIDE
from controller.planner.subsets import Subsets
from controller.planner.webster import Ints, Mask, sums

_WHY = {BoundKind.DOMAIN_QUOTA: RuleKind.DOMAIN_QUOTA, BoundKind.SUBSET_CAP: RuleKind.SUBSET_CAP}


@dataclass(frozen=True, slots=True)
class PlanColumns:
    """The columns that the reasons are read from, of shape (n,) or one entry a block.

    Args:
        full: for each level of groups, each cluster's group and whether that is full; empty where
            replicas over bounds were being cut. The last entry are the domains of an order: none
            draws on another's replicas.
        block: the block of each cluster, 0 for those in no full group.
        open: takes the next replica of its block when the weights say so.
        free: open, and nothing but the weights made its share.
        following: for each block with open clusters, the highest priority of a next replica.
        replicas: for each block, the replicas of its free clusters.
        weights: for each block, the weights of its free clusters.
        sorted: the replicas by subset, see `Subsets.classified`.
    """

    problem: Problem
    shares: Ints
    last: LastStep
    full: tuple[tuple[Ints, Mask], ...]
    block: Ints
    open: Mask
    free: Mask
    following: frozenset[float]
    replicas: Ints
    weights: Ints
    sorted: tuple[Ints, Ints, Ints] | None = None

    @classmethod
    def of(cls, problem: Problem, shares: Ints, last: LastStep) -> PlanColumns:
        full = tuple(_full(problem, shares)) if last.bounded else ()
        every = np.ones(len(shares), dtype=np.bool_)
        drawing = _drawing(problem)
        if drawing is not None:
            full = (*full, (drawing, every))
        block, blocks = np.zeros_like(shares), 1
        for group, at in full:
            block = np.where(at, blocks + group, block)
            blocks += int(group.max(initial=0)) + 1
        open_ = (shares < last.top) & (last.weight > 0)
        if problem.subsets is not None and problem.subsets.overlaps:
            open_ = ~every  # clusters of several subsets got their replicas in several turns
        free = open_ & ((shares > last.base) | (last.base == 0))
        replicas = sums(block, np.where(free, shares, 0), blocks)
        weights = sums(block, np.where(free, last.weight, 0), blocks)
        following = np.zeros(blocks)
        np.maximum.at(following, block[open_], (last.weight / (2 * shares + 1))[open_])
        ahead = frozenset(following.tolist())
        counted = None if problem.subsets is None else problem.subsets.classified(shares)
        return cls(
            problem, shares, last, full, block, open_, free, ahead, replicas, weights, counted
        )

    def reasons(self, row: int) -> tuple[Reason, ...]:
        """Return the reasons of one share: present replicas, weights, then bounds."""
        by_rule = self._by_weight if self.problem.inside is WithinDomain.WEIGHT else self._by_order
        own = (*self._of_domain(row), *self._of_subsets(row))
        return (*self._before(row), *by_rule(row), *own, *self._stops(row))

    def obstacles(self, placed: Callable[[Problem], int]) -> tuple[Obstacle, ...]:
        """Return bounds of clusters by kind, full groups from the outermost, domains, then subsets.

        `placed` returns how many replicas a plan for a problem places.
        """
        of = self.problem
        alone = of.domains is None and of.inside is WithinDomain.WEIGHT and of.nests()
        most = _most if alone and of.subsets is None else placed
        groups = (*self._group_obstacles(), *self._quota_obstacles(), *self._subset_obstacles())
        found = (*self._own_obstacles(), *groups)
        held = int(self.shares.sum())
        return tuple(
            Obstacle(reason, max(min(of.total, most(lifted)) - held, 0))
            if isinstance(lifted, Problem)
            else Obstacle(reason, min(of.total - held, lifted))
            for reason, lifted in found
        )

    def _before(self, row: int) -> Iterator[Reason]:
        problem, share = self.problem, int(self.shares[row])
        kept = min(int(problem.present[row]), int(problem.learnt[row]), share)
        if kept:
            yield Reason(RuleKind.KEPT, kept)
        lower = int(problem.lower[row])
        if lower and share == lower:
            yield Reason(RuleKind.LOWER, lower)
        elif kept < share < lower:
            yield Reason(RuleKind.LOWER, share, of=lower)
        elif max(kept, lower) < share == self.last.base[row]:
            for bound in problem.groups:
                group = int(bound.group[row])
                if bound.lower[group]:
                    yield Reason(RuleKind.GROUP_LOWER, int(bound.lower[group]), bound.names[group])

    def _by_weight(self, row: int) -> Iterator[Reason]:
        share, weight = int(self.shares[row]), int(self.last.weight[row])
        if not weight:
            yield Reason(RuleKind.NO_WEIGHT, 0)
        if self.free[row]:
            replicas, weights = (int(of[self.block[row]]) for of in (self.replicas, self.weights))
            part, rest = divmod(replicas * weight, weights)
            yield Reason(RuleKind.WEIGHT, part, of=replicas)
            if share * weights > replicas * weight:
                yield Reason(RuleKind.REMAINDER, share - part, of=100 * rest // weights)
        level = self._level(row)
        if level:
            yield Reason(RuleKind.TIE, level)

    def _by_order(self, row: int) -> Iterator[Reason]:
        problem, share = self.problem, int(self.shares[row])
        kept = min(int(problem.present[row]), int(problem.learnt[row]), share)
        if problem.inside is WithinDomain.FEWEST and share > kept:
            yield Reason(RuleKind.PACKED, share - kept)

    def _of_domain(self, row: int) -> Iterator[Reason]:
        order = self.problem.domains
        if order is None or not self.shares[row] or order.domain[row] == OUTSIDE:
            return
        at = int(order.domain[row])
        quota = order.after(self.shares - self.problem.present).quota
        held, desired = int(quota.count[at]), int(quota.desired[at])
        kind = RuleKind.DOMAIN_QUOTA if held == desired else RuleKind.DOMAIN
        yield Reason(kind, held, name=order.names[at], of=desired)

    def _of_subsets(self, row: int) -> Iterator[Reason]:
        of, subsets, share = self.problem, self.problem.subsets, int(self.shares[row])
        if subsets is None or self.sorted is None:
            return
        counted, excess, outside = self.sorted
        for replicas, kind in ((counted, RuleKind.SUBSET), (excess, RuleKind.EXCESS)):
            for at in np.flatnonzero(replicas[:, row]).tolist():
                yield Reason(kind, int(replicas[at, row]), subsets.names[at])
        if outside[row]:
            yield Reason(RuleKind.NO_SUBSET, int(outside[row]))
        waiting, beyond = share - int(of.learnt[row]), share - int(of.room[row])
        over = np.flatnonzero(subsets.overflow & (counted[:, row] > 0))
        if waiting > 0:
            yield Reason(RuleKind.WAITING, waiting)
        elif beyond > 0 and len(over):
            yield Reason(RuleKind.OVERFLOW, beyond, subsets.names[int(over[-1])])

    def _level(self, row: int) -> int:
        """Count the clusters that stood as high in line for this one's last replica."""
        share, weight = int(self.shares[row]), int(self.last.weight[row])
        if not weight or share <= self.last.base[row]:
            return 0
        if weight / (2 * share - 1) not in self.following:
            return 0
        rivals = self.open
        for group, full in self.full:
            # A full group stops a rival only if this cluster is not in the group.
            rivals = rivals & (~full | (group == group[row]))
        level = self.last.weight * (2 * share - 1) == weight * (2 * self.shares + 1)
        return int((rivals & level).sum())

    def _stops(self, row: int) -> Iterator[Reason]:
        problem, share = self.problem, int(self.shares[row])
        for kind, own in _own_bounds(problem):
            if share == own[row] < UNBOUNDED:
                yield Reason(kind, share)
        counted = problem.groups if self.last.bounded else ()
        for bound, (group, full) in zip(counted, self.full, strict=False):
            if full[row]:
                at = int(group[row])
                yield Reason(_WHY[bound.kind], int(bound.upper[at]), bound.names[at])
        if problem.subsets is not None:
            for at in self._full_subsets(problem.subsets):
                if problem.subsets.inside[at, row]:
                    yield capped(problem.subsets, at)

    def _own_obstacles(self) -> Iterator[tuple[Reason, Problem]]:
        problem, subsets = self.problem, self.problem.subsets
        able = self.last.weight > 0
        if subsets is not None:
            able = subsets.open_to(able | subsets.crowded)
        for kind, bound in _own_bounds(problem):
            at = (self.shares >= bound) & able & (bound < UNBOUNDED)
            if at.any():
                yield Reason(kind, int(bound[at].sum())), _without(problem, kind)
        if subsets is not None and problem.inside is WithinDomain.RANK:
            return  # a filter refuses clusters without weight, and says so
        idle = problem.weight == 0
        stopped = idle if idle.all() else idle & (self.shares < problem.cap())
        if stopped.any():
            lifted = replace(problem, weight=np.maximum(problem.weight, 1))
            yield Reason(RuleKind.NO_WEIGHT, int(stopped.sum())), lifted

    def _group_obstacles(self) -> Iterator[tuple[Reason, Problem]]:
        problem = self.problem
        for depth, (bound, held) in enumerate(_held_by_groups(problem, self.shares)):
            for group in map(int, np.flatnonzero(held >= bound.upper)):
                upper = bound.upper.copy()
                upper[group] = UNBOUNDED
                groups = list(problem.groups)
                groups[depth] = replace(bound, upper=upper)
                reason = Reason(_WHY[bound.kind], int(bound.upper[group]), bound.names[group])
                yield reason, replace(problem, groups=tuple(groups))

    def _quota_obstacles(self) -> Iterator[tuple[Reason, Problem | int]]:
        """Yield full domains and their room; where groups bind too, the problem without it."""
        of, order = self.problem, self.problem.domains
        if order is None or not order.quota.required:
            return
        quota = order.after(self.shares - of.present).quota
        room = order.by_domain(np.clip(_reach(of) - self.shares, 0, of.total))
        for at in np.flatnonzero(quota.count >= quota.desired).tolist():
            desired = order.quota.desired.copy()
            desired[at] = UNBOUNDED
            lifted = replace(order, quota=replace(order.quota, desired=desired))
            reason = Reason(RuleKind.DOMAIN_QUOTA, int(quota.desired[at]), order.names[at])
            yield reason, replace(of, domains=lifted) if of.groups else int(room[at])

    def _full_subsets(self, subsets: Subsets) -> list[int]:
        counted = np.zeros_like(subsets.cap) if self.sorted is None else self.sorted[0].sum(axis=1)
        found: list[int] = subsets.full(counted).tolist()
        return found

    def _subset_obstacles(self) -> Iterator[tuple[Reason, Problem | int]]:
        of, subsets = self.problem, self.problem.subsets
        if subsets is None:
            return
        for at in self._full_subsets(subsets):
            cap = subsets.cap.copy()
            cap[at] = UNBOUNDED
            yield capped(subsets, at), replace(of, subsets=replace(subsets, cap=cap))
        for at in np.flatnonzero(subsets.closed).tolist():
            closed = subsets.closed.copy()
            closed[at] = False
            yield shut(subsets, at), replace(of, subsets=replace(subsets, closed=closed))


def capped(subsets: Subsets, at: int) -> Reason:
    return Reason(RuleKind.SUBSET_CAP, int(subsets.cap[at]), subsets.names[at])


def shut(subsets: Subsets, at: int) -> Reason:
    return Reason(RuleKind.SUBSET_CLOSED, 0, subsets.names[at])


def _drawing(problem: Problem) -> Ints | None:
    """Number the clusters of one subset and one domain: they draw on the same replicas."""
    order, subsets = problem.domains, problem.subsets
    if subsets is None:
        return None if order is None else order.place
    if order is None:
        return subsets.home
    return subsets.home * (len(order.names) + 1) + order.place


def _own_bounds(problem: Problem) -> tuple[tuple[RuleKind, Ints], ...]:
    return (
        (RuleKind.UPPER, problem.upper),
        (RuleKind.ROOM, problem.room),
        (RuleKind.LEARNT, problem.learnt),
    )


def _without(problem: Problem, kind: RuleKind) -> Problem:
    free = np.full_like(problem.upper, UNBOUNDED)
    if kind is RuleKind.UPPER:
        return replace(problem, upper=free)
    if kind is RuleKind.ROOM and problem.subsets is not None:
        weight = np.where(problem.subsets.crowded, np.maximum(problem.weight, 1), problem.weight)
        return replace(problem, room=free, weight=weight)
    if kind is RuleKind.ROOM:
        return replace(problem, room=free)
    return replace(problem, learnt=free)


def _held_by_groups(problem: Problem, shares: Ints) -> Iterator[tuple[GroupBound, Ints]]:
    for bound in problem.groups:
        yield bound, sums(bound.group, shares, len(bound.upper))


def _full(problem: Problem, shares: Ints) -> Iterator[tuple[Ints, Mask]]:
    for bound, held in _held_by_groups(problem, shares):
        yield bound.group, (held >= bound.upper)[bound.group]


def _reach(problem: Problem) -> Ints:
    """Return the most that each may hold; without weight its lower bound."""
    cap = problem.cap()
    return np.where(problem.weight > 0, cap, np.minimum(cap, problem.lower))


def _most(problem: Problem) -> int:
    """Return the most replicas that the bounds let in, present ones included, for any total."""
    held = problem.settled()
    reach, start = np.maximum(_reach(problem), held), held
    place = np.arange(len(held))
    for bound in reversed(problem.groups):
        size = len(bound.upper)
        outer = np.zeros(len(reach), dtype=np.int64)
        outer[place] = bound.group
        reach, start = sums(outer, reach, size), sums(outer, start, size)
        reach = np.maximum(np.minimum(reach, bound.upper), start)
        place = bound.group
    return int(reach.sum())
