"""Growing and shrinking where more than weights decide: domains in their order, then inside them.

Each step gives one replica after the other to the first cluster in line that no bound stops, in
closed form.

Shrinking keeps replicas by layers: lower bounds, replicas within all bounds, replicas without
weight, replicas over the bounds of groups, those over the bounds of clusters. In the layer of the
total the domains give back in their order.

Subsets take replicas one after the other, each within its cap and by the rules between its
clusters; one that overflows is filled up before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.planner.indomain import (
    WithinDomain,
    given_by_rank,
    grow,
    in_line,
    ranked,
    taken_by_rank,
    taken_by_score,
    taken_packed,
)
from controller.planner.problem import LastStep, Problem
from controller.planner.replicacycle import decline, growth
from controller.planner.subsets import Subsets
from controller.planner.webster import (
    MAX_REPLICAS,
    Ints,
    Nest,
    divide,
    sums,
    until_full,
)


def by_weight_alone(problem: Problem) -> bool:
    """Whether weights decide between all clusters, within groups that nest."""
    return problem.domains is None and problem.inside is WithinDomain.WEIGHT and problem.nests()


def hand_out(
    problem: Problem,
    weight: Ints,
    start: Ints,
    top: Ints,
    nests: Sequence[Nest],
    *,
    lowers: bool = False,
    overflow: bool = False,
) -> Ints:
    """Return the replicas of each cluster once all are handed out, or no more fit.

    A cluster of weight 0 takes nothing beyond its `start`; `top` is the most that each may hold,
    both shape (n,). `nests` are bounds on groups, which may lie across the domains. `lowers`: lower
    bounds are served; packing opens as few clusters as it can for them. `overflow`: subsets that
    overflow pass the room of their clusters.
    """
    if problem.subsets is None:
        if not by_weight_alone(problem):
            return grow_by_rule(problem, weight, start, top, nests, lowers=lowers)
        return divide(
            problem.total, weight=weight, start=start, top=top, order=problem.order, nests=nests
        )
    turns = by_subset(
        problem, problem.subsets, weight, start, top, nests, lowers=lowers, overflow=overflow
    )
    *_, held = (start, *turns)
    return held


def by_subset(
    problem: Problem,
    subsets: Subsets,
    weight: Ints,
    start: Ints,
    top: Ints,
    nests: Sequence[Nest],
    *,
    lowers: bool = False,
    overflow: bool = False,
) -> Iterator[Ints]:
    """Yield each cluster's replicas after each turn of a subset; arguments as for `hand_out`."""
    held = start
    # Overflow goes to clusters that lack nothing but room.
    able = subsets.crowded | ((weight > 0) & (problem.room > problem.present))
    over, passed = np.where(able, np.maximum(weight, 1), 0), problem.without_room()
    for at in np.flatnonzero(~subsets.closed).tolist():
        if int(held.sum()) >= problem.total:
            return
        held = _into(problem, subsets, at, weight, held, top, nests, lowers=lowers)
        yield held
        if overflow and subsets.overflow[at]:
            held = _into(problem, subsets, at, over, held, passed, nests, lowers=lowers)
            yield held


def _into(
    problem: Problem,
    subsets: Subsets,
    at: int,
    weight: Ints,
    held: Ints,
    top: Ints,
    nests: Sequence[Nest],
    *,
    lowers: bool,
) -> Ints:
    """Hand replicas to one subset until the subset is at its cap, or takes no more."""
    rows = np.flatnonzero(subsets.inside[at] & (weight > 0) & (top > held))
    if not len(rows):
        return held
    alone = replace(problem, score=subsets.score(at, problem.scored(), rows), subsets=None)
    # A replica in a cluster of several subsets may count to another one; then there is room again.
    while True:
        replicas = min(subsets.left(at, held), problem.total - int(held.sum()))
        if replicas <= 0:
            return held
        part, inside = _among(alone, rows, held, replicas, nests)
        after = held.copy()
        after[rows] = hand_out(part, weight[rows], held[rows], top[rows], inside, lowers=lowers)
        placed, held = int(after.sum() - held.sum()), after
        if placed < replicas:
            return held


def _among(
    problem: Problem, rows: Ints, held: Ints, replicas: int, nests: Sequence[Nest]
) -> tuple[Problem, list[Nest]]:
    """Return the problem of some clusters, the others' shares fixed; `score` is of `rows` alone."""
    others = np.ones(len(held), dtype=np.bool_)
    others[rows] = False
    order = problem.domains
    if order is not None:
        order = order.after(np.where(others, held - problem.present, 0))
        columns = {name: getattr(order, name)[rows] for name in ("domain", "held", "uncounted")}
        order = replace(order, **columns)
    part = replace(
        problem,
        total=int(held[rows].sum()) + replicas,
        present=problem.present[rows],
        order=problem.order[rows],
        domains=order,
        groups=tuple(replace(bound, group=bound.group[rows]) for bound in problem.groups),
    )
    kept = np.where(others, held, 0)
    return part, [Nest(nest.group[rows], nest.cap - _inside(nest, kept)) for nest in nests]


def stay(problem: Problem, held: Ints, nests: Sequence[Nest]) -> Ints:
    """Let present replicas that found no place elsewhere stay where they wait.

    Of the others, those stay that pass no bound.
    """
    subsets, present = problem.subsets, problem.present
    replicas = min(problem.total, int(present.sum()))
    if subsets is None or replicas <= int(held.sum()):
        return held
    score, top = subsets.best_first(problem.scored()), np.maximum(present, held)
    waiting = replace(problem, total=replicas, inside=WithinDomain.RANK, score=score, subsets=None)
    after = hand_out(waiting, np.ones_like(held), held, top, nests)
    return after + taken_by_score(after, top, score, problem.order, replicas - int(after.sum()))


def grow_by_rule(
    problem: Problem, weight: Ints, start: Ints, top: Ints, nests: Sequence[Nest], *, lowers: bool
) -> Ints:
    """Hand out replicas by domains and rules; arguments as for `hand_out`."""
    step = _Growth(problem, weight, lowers)
    held, top = start, np.where(weight > 0, np.minimum(np.maximum(top, start), MAX_REPLICAS), start)
    while True:
        for nest in nests:
            top = np.where((_inside(nest, held) >= nest.cap)[nest.group], held, top)
        replicas = problem.total - int(held.sum())
        after = step.taken(held, top, replicas)
        if not _passes(nests, held, after):
            return after
        low, high = 0, int((after - held).sum())
        while high - low > 1:
            middle = (low + high) // 2
            passes = _passes(nests, held, step.taken(held, top, middle))
            low, high = (low, middle) if passes else (middle, high)
        held = step.taken(held, top, low)


def _inside(nest: Nest, held: Ints) -> Ints:
    return sums(nest.group, held, len(nest.cap))


def _passes(nests: Sequence[Nest], before: Ints, after: Ints) -> bool:
    """Whether a group has got more than its cap, and more than it had."""
    return any(
        bool((_inside(nest, after) > np.maximum(nest.cap, _inside(nest, before))).any())
        for nest in nests
    )


@dataclass(frozen=True, slots=True)
class _Growth:
    problem: Problem
    weight: Ints
    lowers: bool

    def taken(self, start: Ints, top: Ints, replicas: int) -> Ints:
        problem, room = self.problem, np.maximum(top - start, 0)
        if replicas <= 0:
            return start
        order = problem.domains
        if order is None:
            return self._inside(np.zeros_like(start), start, top, np.array([replicas]))
        order = order.after(start - problem.present)
        clusters = ranked(order, problem.scored(), problem.order, room)
        if not order.quota.ordered:
            return start + grow(order.quota, clusters, replicas)
        by_domain = growth(order.quota, order.by_domain(room), replicas)
        if problem.inside is WithinDomain.RANK:
            return start + taken_by_rank(clusters, order.place, by_domain, order.quota.method)
        return self._inside(order.place, start, top, by_domain)

    def _inside(self, place: Ints, start: Ints, top: Ints, replicas: Ints) -> Ints:
        order = self.problem.order
        if self.problem.inside is WithinDomain.RANK:
            score = self.problem.scored()
            return start + taken_by_score(start, top, score, order, int(replicas[0]))
        if self.problem.inside is WithinDomain.FEWEST:
            return start + taken_packed(place, start, top, order, replicas, lowers=self.lowers)
        cap = sums(place, start, len(replicas)) + replicas
        return until_full(self.weight, start, np.maximum(top, start), order, place, cap)


def decline_to(problem: Problem, held: Ints, nests: Sequence[Nest]) -> tuple[Ints, LastStep]:
    """Return the replicas to keep, `total` in all; see the module for what leaves first."""
    weight = np.maximum(problem.weight, 1)
    below = np.zeros_like(held)
    for layer in _layers(problem, held, nests):
        replicas = int(layer.top.sum()) - problem.total
        if replicas >= 0:
            kept = layer.top - _given(problem, weight, below, layer, replicas)
            return kept, LastStep(weight, below, layer.top, bounded=layer.top is not held)
        below = layer.top
    raise AssertionError("more is wanted than is held: that is no shrinking")


@dataclass(frozen=True, slots=True)
class _Layer:
    top: Ints
    fullest: Ints
    other: Ints
    score: Ints


def _layers(problem: Problem, held: Ints, nests: Sequence[Nest]) -> Iterator[_Layer]:
    """Yield the layers in rising order, those that are kept first coming first."""
    within = np.minimum(problem.cap(), held)
    floor = np.minimum(problem.lower, within)
    inside, none, score = within, np.zeros_like(held), problem.scored()
    for nest in nests:
        inside = _trimmed(problem, inside, floor, nest)
    floor = np.minimum(floor, inside)
    if problem.subsets is not None:
        yield from _by_cost(problem, problem.subsets, floor, inside)
    else:
        mine = np.where(problem.weight > 0, inside, floor)
        yield _Layer(floor, floor, none, score)
        # A cluster that keeps a lower bound stays in use: what it has beside empties no cluster.
        yield _Layer(mine, mine, floor == 0, score)
    if nests or problem.subsets is not None:
        yield _Layer(inside, inside, none, score)
    yield _Layer(within, within, none, score)
    yield _Layer(held, within, none, score)


def _by_cost(problem: Problem, subsets: Subsets, floor: Ints, held: Ints) -> Iterator[_Layer]:
    """Yield lower bounds, then all replicas, each from the highest deletion cost to the lowest."""
    counted, excess, outside = subsets.classified(held)
    classes = (*counted, *excess, outside)
    every = np.arange(len(held))
    scores = [subsets.score(at, problem.scored(), every) for at in range(len(subsets.names))]
    heavy = (problem.weight > 0) | subsets.crowded
    for bound, least in ((floor, np.zeros_like(floor)), (held, floor)):
        before = np.zeros_like(held)
        for replicas, score in zip(classes, (*scores, *scores, problem.scored()), strict=True):
            after = before + replicas
            if not replicas.any():
                continue
            for top in (np.where(heavy, after, before), after):
                kept = np.maximum(np.minimum(top, bound), least)
                yield _Layer(kept, kept, floor == 0, score)
            before = after


def _trimmed(problem: Problem, held: Ints, floor: Ints, nest: Nest) -> Ints:
    """Take off each group the replicas over its cap, its lower bounds last."""
    weight, none = np.maximum(problem.weight, 1), np.zeros_like(held)
    for group in np.flatnonzero(_inside(nest, held) > nest.cap).tolist():
        inside = nest.group == group
        for least in (np.minimum(floor, held), none):
            replicas = int(held[inside].sum() - nest.cap[group])
            if replicas <= 0:
                break
            below = np.where(inside, least, held)
            replicas = min(replicas, int((held - below).sum()))
            layer = _Layer(held, held, none, problem.scored())
            held = held - _given(problem, weight, below, layer, replicas)
    return held


def _given(problem: Problem, weight: Ints, below: Ints, above: _Layer, replicas: int) -> Ints:
    """Return `replicas` to take away of those between `below` and the layer."""
    own, order = above.top - below, problem.domains
    if order is None:
        place, by_domain = np.zeros_like(own), np.array([replicas], dtype=np.int64)
    else:
        order = order.after(above.top - problem.present)
        clusters = ranked(order, above.score, problem.order, own)
        place, size = order.leaving, len(order.names) + 1
        if not order.quota.ordered:
            place, by_domain = np.zeros_like(own), np.array([replicas], dtype=np.int64)
        else:
            by_domain = decline(order.quota, sums(place, own, size), replicas)
        if problem.inside is WithinDomain.RANK:
            return given_by_rank(clusters, place, by_domain, order.quota.method)
    kept = sums(place, own, len(by_domain)) - by_domain
    if problem.inside is WithinDomain.RANK:
        return own - taken_by_score(below, above.top, above.score, problem.order, int(kept[0]))
    if problem.inside is WithinDomain.FEWEST:
        line = np.lexsort((problem.order, -above.fullest, above.other, place))
        return own - in_line(line, place, own, kept)
    cap = sums(place, below, len(by_domain)) + kept
    return above.top - until_full(weight, below, above.top, problem.order, place, cap)
