"""Chooses the clusters where the number of domains is bounded: maxDomains and minDomains.

The counts narrow the clusters in their order, such as regions, then the clusters in them. The best
domains go first, by their best cluster's score, or by weight where rules give weights. If they have
too little room, or cannot keep to a later count, all counts are solved together
(`controller.planner.domains`).

- Room is what a cluster can take within all other bounds; 0 where its weight is 0. Of clusters that
  share a quota or a cap, the roomiest are assumed to take it. A cluster without room and replicas
  does not count in its domain.
- A cluster that holds replicas keeps them and may take more, also beyond `most` domains.
- With fewer domains than `least`, or if no choice keeps to all counts, nothing new is placed. With
  fewer replicas than `least`, each has a domain of its own.
- A cluster without a domain keeps its replicas and gets no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from controller.planner.domains import Effort, Level, in_turn, largest_capacity, met
from controller.planner.indomain import in_line
from controller.planner.levels import first_of_each
from controller.planner.problem import BoundKind, DomainCount, GroupBound, Problem
from controller.planner.reasons import Contradiction, Reason, RuleKind
from controller.planner.subsets import Subsets
from controller.planner.webster import MAX_REPLICAS, Ints, Mask, sums

UNTRIED = (
    "spreadConstraints allow more choices of domains than were tried: another may hold more "
    "replicas; one constraint, or two with keys whose domains lie within each other, are tried "
    "through"
)

NAMED = 3
"""Contradictions of one kind that are named."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The clusters that may take replicas, and those that get one before weights count.

    `lacks` says which count cannot be met; then `open` is empty.
    """

    open: Mask
    first: Mask
    lacks: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()

    def within(self, problem: Problem) -> Problem:
        weight = np.where(self.open, problem.weight, 0)
        room = np.where(self.open, problem.room, problem.present)
        subsets = problem.subsets
        if subsets is not None:
            subsets = replace(subsets, crowded=subsets.crowded & self.open)
        return replace(problem, weight=weight, room=room, subsets=subsets, counts=())


@dataclass(frozen=True, slots=True)
class Field:
    """The clusters to choose from, shape (n,) each.

    Args:
        able: may take replicas.
        held: in use.
        most: replicas that each may hold; None where every cluster runs all replicas.
        stays: replicas that each keeps.
        score: the greater the better.
        order: distinct, breaks ties.
    """

    able: Mask
    held: Mask
    most: Ints | None
    stays: Ints
    score: Ints
    order: Ints


def chosen(problem: Problem) -> Choice:
    """Return the choice for a problem; all clusters where the problem counts no domains."""
    stays, most = problem.settled(), np.where(problem.weight > 0, problem.cap(), 0)
    for bound in problem.caps():
        most = _shared(most, stays, bound)
    score, held = _by_weight(problem) if problem.ruled else problem.scored(), stays > 0
    if problem.subsets is not None:
        held = problem.present > 0  # replicas without a place elsewhere stay
        score = problem.subsets.best_first(score)
        most = _in_subsets(problem, problem.subsets, most, stays)
    field = Field(most > 0, held, most, stays, score, problem.order)
    return choose(problem.counts, field, problem.total)


def _by_weight(problem: Problem) -> Ints:
    """Return scores: the weight of the first count's domain, the cluster's own, then its score."""
    weight, score = problem.weight, problem.scored()
    domain = problem.counts[0].domain if problem.counts else np.arange(len(weight))
    together = sums(domain, weight, int(domain.max(initial=0)) + 1)[domain]
    both = together * (int(weight.max(initial=0)) + 1) + weight
    return both * (int(score.max(initial=0)) + 1) + score


def _in_subsets(problem: Problem, subsets: Subsets, most: Ints, stays: Ints) -> Ints:
    able = (problem.weight > 0) & (problem.room > problem.present)
    most = np.where(subsets.passing(able), np.maximum(problem.without_room(), most), most)
    most = np.where(subsets.open_to(most > 0), most, 0)
    size, counted = len(subsets.names), subsets.counted(stays)
    shared = subsets.inside.sum(axis=0) > 1
    group = np.where(shared, size + 1, subsets.home)
    own = sums(group, stays, size + 2)
    gap = np.where(subsets.closed, 0, subsets.cap - counted)
    upper = own + np.append(gap, [0, MAX_REPLICAS])
    names = (*subsets.names, "", "")
    return _shared(most, stays, GroupBound(BoundKind.SUBSET_CAP, names, group, upper, 0 * upper))


def _shared(most: Ints, stays: Ints, bound: GroupBound) -> Ints:
    """Return the replicas that each may hold when the roomiest take the rest of a group's bound."""
    gap = np.maximum(bound.upper - sums(bound.group, stays, len(bound.upper)), 0)
    open_ = np.maximum(most - stays, 0)
    taken = in_line(np.lexsort((-open_, bound.group)), bound.group, open_, gap)
    # A cluster that found nothing left may still take one replica in place of another cluster.
    able = (open_ > 0) & (gap[bound.group] > 0)
    return np.where(open_ > 0, stays + np.maximum(taken, able), most)


def contradictions(
    asked: Problem, choice: Choice | None, shares: Ints
) -> tuple[Contradiction, ...]:
    """Return the pairs of bounds that cannot both be kept to; the first `NAMED` of each kind."""
    return (
        *islice(_of_lower_bounds(asked, choice, shares), NAMED),
        *islice(_of_counts(asked, choice, shares), NAMED),
    )


def _of_lower_bounds(
    asked: Problem, choice: Choice | None, shares: Ints
) -> Iterator[Contradiction]:
    left_out = np.zeros(len(shares), dtype=np.bool_) if choice is None else ~choice.open
    full = _full(asked, shares)
    for row in np.flatnonzero(shares < asked.lower).tolist():
        name, share = asked.names[row] if asked.names else str(row), int(shares[row])
        lower = Reason(RuleKind.LOWER, int(asked.lower[row]), name)
        stop = full.get(row)
        for kind, own in ((RuleKind.UPPER, asked.upper), (RuleKind.LEARNT, asked.learnt)):
            if share >= own[row]:
                stop = Reason(kind, int(own[row]), name)
        if stop is None and left_out[row] and share < asked.cap()[row]:
            stop = _most(asked)
        if stop is not None:
            yield Contradiction(lower, stop, row)


def _of_counts(asked: Problem, choice: Choice | None, shares: Ints) -> Iterator[Contradiction]:
    """Yield required domains that are full, and quotas that only excluded clusters could ease."""
    if choice is None:
        return
    free, full = (asked.weight > 0) & (shares < asked.cap()), _full(asked, shares)
    for count in asked.counts:
        used = {*count.domain[shares > 0].tolist()} - {0}
        if len(used) < min(count.least, asked.total):
            for row, quota in full.items():
                if free[row] and count.domain[row] not in {*used, 0}:
                    yield Contradiction(Reason(RuleKind.MIN_DOMAINS, count.least, count.key), quota)
                    used.add(int(count.domain[row]))
    most, stopped = _most(asked), np.zeros_like(free)
    stopped[list(full)] = True
    if most is None or choice.lacks or int(shares.sum()) >= asked.total:
        return
    if (free & ~stopped & ~choice.open).any():
        names = {quota: None for row, quota in full.items() if free[row] and choice.open[row]}
        yield from (Contradiction(most, quota) for quota in names)


def _full(asked: Problem, shares: Ints) -> dict[int, Reason]:
    """Return the bound of each cluster whose group is full: the innermost of several."""
    found: dict[int, Reason] = {}
    for bound in asked.caps():
        full = sums(bound.group, shares, len(bound.upper)) >= bound.upper
        for row in np.flatnonzero(full[bound.group]).tolist():
            group = int(bound.group[row])
            kind = (
                RuleKind.DOMAIN_QUOTA
                if bound.kind is BoundKind.DOMAIN_QUOTA
                else RuleKind.SUBSET_CAP
            )
            if bound.names[group]:
                found[row] = Reason(kind, bound.told(group), bound.names[group])
    if asked.subsets is not None:
        found.update(_capped(asked.subsets, shares))
    return found


def _capped(subsets: Subsets, shares: Ints) -> Iterator[tuple[int, Reason]]:
    counted = subsets.counted(shares)
    for row in np.flatnonzero(subsets.shut(counted)).tolist():
        home = int(subsets.home[row])
        if not subsets.closed[home]:
            yield row, Reason(RuleKind.SUBSET_CAP, int(subsets.cap[home]), subsets.names[home])


def _most(asked: Problem) -> Reason | None:
    return next(
        (Reason(RuleKind.MAX_DOMAINS, each.most, each.key) for each in asked.counts if each.most),
        None,
    )


def choose(counts: Sequence[DomainCount], field: Field, replicas: int) -> Choice:
    """Apply the counts to the clusters that may take replicas, and to those that hold some."""
    left = field.able | field.held
    if not counts or not left.any():
        return Choice(left, np.zeros_like(left))
    left = left & np.logical_and.reduce([each.domain > 0 for each in counts])
    rows = _best_first(field, left, counts[0].domain)
    levels = [Level(each.domain[rows], each.least, each.most or len(left)) for each in counts]
    effort, held = Effort(), field.held[rows]
    used = _used(levels, held, *_wanted(field, rows, replicas), effort)
    lacks = (_lacks(counts, levels, effort),) if used is None else ()
    untried = (UNTRIED,) if effort.short and used is not None else ()
    chosen = np.zeros(len(rows), dtype=np.bool_) if used is None else used
    first = _first(levels, held, chosen, replicas - int(field.stays.sum()))
    return Choice(_mask(left, rows[chosen]), _mask(left, rows[first]), lacks, untried)


def _wanted(field: Field, rows: Ints, replicas: int) -> tuple[Ints, int]:
    if field.most is None:
        return np.ones(len(rows), dtype=np.int64), 0
    stays = field.stays
    room = np.maximum(np.minimum(field.most[rows], max(replicas, 1)), stays[rows])
    return room, replicas - int(stays.sum() - stays[rows].sum())


def _best_first(field: Field, rows: Mask, domain: Ints) -> Ints:
    """Sort the clusters: those in use, then by score, then by the best domain.

    Of equal clusters the best domain is the roomier one, then the one with the greater sum of
    scores.
    """
    found = np.flatnonzero(rows)
    better = field.score[found] + np.where(field.held[found], int(field.score.max()) + 1, 0)
    takes = np.bincount(domain[found], None if field.most is None else field.most[found])
    total = np.bincount(domain[found], weights=field.score[found])
    ties = (field.order[found], -total[domain[found]], -takes[domain[found]])
    line: Ints = found[np.lexsort((*ties, -better))]
    return line


def _used(
    levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort
) -> Mask | None:
    best = in_turn(levels, held)
    if met(levels, best) and int(room[best].sum()) >= need:
        return best
    return largest_capacity(levels, held, room, need, effort)


def _first(levels: Sequence[Level], held: Mask, used: Mask, replicas: int) -> Ints:
    """Return the best cluster of each domain that must be used, those in use first."""
    first = np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(used | held)
    lines = [(candidates[first_of_each(each.domain[candidates])], each) for each in levels]
    # The coarsest level comes first, so that its clusters count for the finer ones too.
    for line, level in sorted(lines, key=lambda pair: len(pair[0])):
        covered = np.zeros(int(level.domain.max(initial=0)) + 1, dtype=np.bool_)
        covered[level.domain[first]] = True
        lacking = max(level.least - int(np.count_nonzero(covered)), 0)
        added = line[~covered[level.domain[line]]][:lacking]
        # No more unused clusters are named than there are replicas to place.
        new = ~held[added]
        added = added[~new | (np.cumsum(new) <= replicas)]
        replicas -= int(np.count_nonzero(~held[added]))
        first = np.concatenate((first, added))
    return first


def _mask(like: Mask, rows: Ints) -> Mask:
    mask = np.zeros_like(like)
    mask[rows] = True
    return mask


def _lacks(counts: Sequence[DomainCount], levels: Sequence[Level], effort: Effort) -> str:
    """Say which count has too few domains, or that no choice was found which meets them all."""
    for count, level in zip(counts, levels, strict=True):
        found = len(first_of_each(level.domain))
        if found < level.least:
            return (
                f"spreadConstraints need {_domains(level.least, count)}, "
                f"{found} {'has' if found == 1 else 'have'} clusters that would do"
            )
    bounds = " with ".join(_bounds(count) for count in counts)
    if effort.short:
        return (
            "no choice of domains was found that meets all spreadConstraints, and there are more "
            f"than could be tried: {bounds}; give fewer of them, or wider ones"
        )
    return f"spreadConstraints cannot be met together by the clusters that would do: {bounds}"


def _bounds(count: DomainCount) -> str:
    if count.most is None:
        return f"at least {_domains(count.least, count)}"
    if count.least == 1:
        return f"at most {_domains(count.most, count)}"
    return f"{count.least} to {_domains(count.most, count)}"


def _domains(number: int, count: DomainCount) -> str:
    return f"{number} domain{'s' if number > 1 else ''} of {count.key}"
