"""How a policy's domains share out units: one scheduling cycle for each unit, in closed form.

The rule, unit by unit. A listed domain below its number goes first: under Balance the one with the
highest `100*(desired-count)//desired`, under Fill the one with the highest
`100*count//desired`, equals in the order of the list. Beyond that only a Preferred policy goes on:
to the listed domain with the lowest count/desired, and when none of them has room to the clusters
that are in no listed domain. Inside a domain the rank score decides, then how many counted units a
cluster holds (most under Fill, least under Balance), then its name. Taking away is the same
backwards.

Nothing here counts units one by one. A domain's next units have scores that only ever fall under
Balance, so all domains' units merge by a threshold on the 101 scores; under Fill a domain that was
chosen stays the best until it is full; beyond the numbers, a threshold on count/desired leaves a
handful of units to be sorted exactly. So a hundred thousand units cost as much as ten.

Integers only; pure; standard library and numpy. The tests hold it against the loop over units.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from controller.apportion.divisor import Ints, Mask, first_come

OUTSIDE = -1
"""The domain of a cluster that is in no listed one."""
_BEST = 100
_FAR = 60
"""Halvings after which a threshold is as exact as a float can be."""


_Rule: TypeAlias = Callable[[int, Ints, Ints, Ints], Ints]


class Method(Enum):
    """Which domain below its number takes the next unit."""

    FILL = "Fill"
    BALANCE = "Balance"


@dataclass(frozen=True, slots=True)
class Quota:
    """A policy at one moment. Arrays have one entry a listed domain, in the order of the list.

    Args:
        desired: the domains' numbers.
        count: units of all counted Workloads, the one that is decided included.
        method: Fill or Balance.
        required: nothing goes beyond the numbers, nor to clusters outside.
        ordered: domains are ranked by the policy; otherwise only clusters are, by their score.
    """

    desired: Ints
    count: Ints
    method: Method
    required: bool
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters, shape (n,) each.

    Args:
        domain: an index into the quota's arrays, or OUTSIDE.
        room: new units that it can take; 0 where it is not feasible.
        present: units of the Workload that is decided.
        held: units of all counted Workloads on it.
        score: the rank score, the greater the better.
        order: distinct, by name.
    """

    domain: Ints
    room: Ints
    present: Ints
    held: Ints
    score: Ints
    order: Ints


def grow(quota: Quota, clusters: Clusters, units: int) -> Ints:
    """Units that each cluster takes, shape (n,); fewer in sum where nothing may take the rest."""
    if not quota.ordered:
        return _by_rank(quota, clusters, units)
    return _inside(clusters, domains_of(quota, clusters, units), quota.method)


def domains_of(quota: Quota, clusters: Clusters, units: int) -> Ints:
    """Units that each listed domain takes, and last the clusters outside: shape (domains + 1,)."""
    room = _by_domain(clusters, clusters.room, len(quota.desired))
    below = np.minimum(np.maximum(quota.desired - quota.count, 0), room[:-1])
    fill = _in_turn if quota.method is Method.FILL else _in_balance
    taken = fill(min(units, int(below.sum())), quota.desired, quota.count, below)
    outside, left = 0, units - int(taken.sum())
    if not quota.required and left:
        rest = room[:-1] - taken
        reached = quota.count + taken >= quota.desired
        rest = np.where(reached, rest, 0)
        more = _beyond(min(left, int(rest.sum())), quota.desired, quota.count + taken, rest)
        taken = taken + more
        outside = min(left - int(more.sum()), int(room[-1]))
    return np.append(taken, outside)


def shrink(quota: Quota, clusters: Clusters, units: int) -> Ints:
    """Units that each cluster gives back, shape (n,), of its present ones; at most `units`."""
    if not quota.ordered:
        plain = Clusters(
            np.zeros_like(clusters.domain),
            clusters.room,
            clusters.present,
            clusters.held,
            clusters.score,
            clusters.order,
        )
        return _back(plain, np.array([units, 0], dtype=np.int64), quota.method)
    own = _by_domain(clusters, clusters.present, len(quota.desired))
    outside = min(units, int(own[-1]))
    left = units - outside
    over = np.minimum(np.maximum(quota.count - quota.desired, 0), own[:-1])
    first = _kept_last(_beyond, min(left, int(over.sum())), quota.desired, quota.count, over)
    left -= int(first.sum())
    count, own_left = quota.count - first, np.minimum(own[:-1] - first, quota.count - first)
    if quota.method is Method.FILL:
        second = _out_of_turn(min(left, int(own_left.sum())), quota.desired, count, own_left)
    else:
        wanted = min(left, int(own_left.sum()))
        second = _kept_last(_in_balance, wanted, quota.desired, count, own_left)
    return _back(clusters, np.append(first + second, outside), quota.method)


def scores(quota: Quota) -> Ints:
    """The column of the next unit by domain, 0..100; 0 for a domain that is reached."""
    some = np.maximum(quota.desired, 1)
    count = quota.count if quota.method is Method.FILL else quota.desired - quota.count
    value: Ints = np.clip(_BEST * count // some, 0, _BEST)
    return value * (quota.count < quota.desired)


def sequence(quota: Quota, clusters: Clusters, units: int, *, most: int = 64) -> list[int]:
    """The domains (OUTSIDE last) that the first `most` units go to, one after the other."""
    turns: list[int] = []
    before = np.zeros(len(quota.desired) + 1, dtype=np.int64)
    for number in range(1, min(units, most) + 1):
        after = domains_of(quota, clusters, number)
        found = np.flatnonzero(after > before)
        if not len(found):
            break
        turns.append(int(found[0]) if found[0] < len(quota.desired) else OUTSIDE)
        before = after
    return turns


def _by_domain(clusters: Clusters, values: Ints, domains: int) -> Ints:
    """Sums by listed domain, and last of the clusters outside."""
    at = np.where(clusters.domain == OUTSIDE, domains, clusters.domain)
    return np.bincount(at, weights=values, minlength=domains + 1).astype(np.int64)


def _in_balance(units: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """The first units by falling score, equals by the list; a domain takes a whole level."""
    levels = np.arange(_BEST + 1, -2, -1, dtype=np.int64)[:, None]
    last = desired - -(-levels * desired // _BEST)
    # Units whose score is at least the level's; below level 0 there is nothing that is left out.
    reach = np.where(levels < 0, most, np.clip(last - count + 1, 0, most))
    level = int(np.argmax(reach.sum(axis=1) >= units))
    if level == 0:
        return np.zeros_like(most)
    sure: Ints = reach[level - 1]
    return sure + first_come(reach[level] - sure, units - int(sure.sum()))


def _in_turn(units: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """One domain after the other, the fullest first, equals by the list."""
    ratio = _BEST * count // np.maximum(desired, 1)
    line = np.argsort(-ratio, kind="stable")
    taken = np.zeros_like(most)
    taken[line] = first_come(most[line], units)
    return taken


def _out_of_turn(units: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """The reverse: the least full domain gives first, equals from the end of the list."""
    ratio = np.where(count >= desired, _BEST, _BEST * count // np.maximum(desired, 1))
    line = np.lexsort((-np.arange(len(most)), ratio))
    given = np.zeros_like(most)
    given[line] = first_come(most[line], units)
    return given


def _beyond(units: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """The first units by rising count/desired, equals by the list; domains of number 0 last."""
    taken = np.zeros_like(most)
    if units <= 0:
        return taken
    known = desired > 0
    low, high = 0.0, float((count + most + 1).max() / max(1, int(desired[known].min(initial=1))))
    for _ in range(_FAR):
        middle = (low + high) / 2
        enough = _up_to(middle, desired, count, most, known).sum() >= units
        low, high = (low, middle) if enough else (middle, high)
    # One less of each is surely among the first, whatever a float rounds away.
    taken = np.maximum(_up_to(low, desired, count, most, known) - 1, 0)
    for domain in _one_by_one(desired, count + taken, most - taken, units - int(taken.sum())):
        taken[domain] += 1
    nothing = np.where(known, 0, most)
    return taken + first_come(nothing, units - int(taken.sum()))


def _up_to(ratio: float, desired: Ints, count: Ints, most: Ints, known: Mask) -> Ints:
    reach = np.floor(ratio * desired).astype(np.int64) - count + 1
    return np.where(known, np.clip(reach, 0, most), 0)


def _one_by_one(desired: Ints, count: Ints, most: Ints, units: int) -> Iterator[int]:
    held, left = count.tolist(), most.tolist()
    numbers = desired.tolist()
    line = [(Fraction(held[d], n), d) for d, n in enumerate(numbers) if n > 0 and left[d] > 0]
    heapq.heapify(line)
    while units > 0 and line:
        _, domain = heapq.heappop(line)
        yield domain
        units -= 1
        held[domain] += 1
        left[domain] -= 1
        if left[domain] > 0:
            heapq.heappush(line, (Fraction(held[domain], numbers[domain]), domain))


def _kept_last(rule: _Rule, units: int, desired: Ints, count: Ints, most: Ints) -> Ints:
    """Of the last `most` units of each domain, those that the rule would have given last."""
    if units <= 0:
        return np.zeros_like(most)
    keep = rule(int(most.sum()) - units, desired, count - most, most)
    given: Ints = most - keep
    return given


def _inside(clusters: Clusters, units: Ints, method: Method) -> Ints:
    """The units of each domain over its clusters."""
    tie = -clusters.held if method is Method.FILL else clusters.held
    taken = _spread(clusters, units, clusters.room, clusters.score, tie, clusters.order)
    if method is Method.BALANCE:
        for rows in _partly(clusters, taken, clusters.room):
            taken[rows] = _level(clusters, rows, int(taken[rows].sum()))
    return taken


def _back(clusters: Clusters, units: Ints, method: Method) -> Ints:
    """The units that each domain gives back, from its clusters' present ones."""
    tie = clusters.held if method is Method.FILL else -clusters.held
    given = _spread(clusters, units, clusters.present, -clusters.score, tie, -clusters.order)
    if method is Method.BALANCE:
        for rows in _partly(clusters, given, clusters.present):
            given[rows] = _level_down(clusters, rows, int(given[rows].sum()))
    return given


def _spread(
    clusters: Clusters, units: Ints, most: Ints, score: Ints, tie: Ints, order: Ints
) -> Ints:
    """Each domain's units to its clusters in line: by score, then tie, then order."""
    at = np.where(clusters.domain == OUTSIDE, len(units) - 1, clusters.domain)
    line = np.lexsort((order, tie, -score, at))
    wanted, place = most[line], at[line]
    before = np.cumsum(wanted) - wanted
    totals = np.bincount(at, weights=most, minlength=len(units)).astype(np.int64)
    before -= (np.cumsum(totals) - totals)[place]
    taken = np.zeros_like(most)
    taken[line] = np.clip(units[place] - before, 0, wanted)
    return taken


def _partly(clusters: Clusters, taken: Ints, most: Ints) -> Iterator[Ints]:
    """The clusters of one domain and one score that got some of what they could take, not all."""
    line = np.lexsort((clusters.score, clusters.domain))
    domain, score = clusters.domain[line], clusters.score[line]
    new = np.ones(len(line), dtype=np.bool_)
    new[1:] = (domain[1:] != domain[:-1]) | (score[1:] != score[:-1])
    first = np.flatnonzero(new)
    if not len(first):
        return
    end = np.append(first[1:], len(line))
    got, whole = np.add.reduceat(taken[line], first), np.add.reduceat(most[line], first)
    # One cluster alone has nobody to be level with.
    for each in np.flatnonzero((got > 0) & (got < whole) & (end - first > 1)):
        yield line[first[each] : end[each]]


def _level(clusters: Clusters, rows: Ints, units: int) -> Ints:
    """Units to the clusters that hold least, equals by name."""
    held, room, order = clusters.held[rows], clusters.room[rows], clusters.order[rows]
    low, high = int(held.min()), int((held + room).max())
    while low < high:  # the highest level that the units suffice for
        middle = (low + high + 1) // 2
        enough = int(np.clip(middle - held, 0, room).sum()) <= units
        low, high = (middle, high) if enough else (low, middle - 1)
    taken = np.clip(low - held, 0, room)
    level = (held + taken == low) & (taken < room)
    return taken + _some(level, order, units - int(taken.sum()))


def _level_down(clusters: Clusters, rows: Ints, units: int) -> Ints:
    """Units from the clusters that hold most, equals from the last name on."""
    held, own, order = clusters.held[rows], clusters.present[rows], clusters.order[rows]
    low, high = int((held - own).min()), int(held.max())
    while low < high:  # the lowest level that does not take too many
        middle = (low + high) // 2
        enough = int(np.clip(held - middle, 0, own).sum()) <= units
        low, high = (low, middle) if enough else (middle + 1, high)
    given = np.clip(held - low, 0, own)
    level = (held - given == low) & (given < own)
    return given + _some(level, -order, units - int(given.sum()))


def _some(level: Ints, order: Ints, units: int) -> Ints:
    """One each for the first of those on the level."""
    found = np.flatnonzero(level)
    chosen = found[np.argsort(order[found])][: max(units, 0)]
    one = np.zeros(len(level), dtype=np.int64)
    one[chosen] = 1
    return one


def _by_rank(quota: Quota, clusters: Clusters, units: int) -> Ints:
    """Without an order of domains: clusters by rank and name, within the quota."""
    domains = len(quota.desired)
    gap = np.append(np.maximum(quota.desired - quota.count, 0), 0)
    at = np.where(clusters.domain == OUTSIDE, domains, clusters.domain)
    line = np.lexsort((clusters.order, -clusters.score))
    taken = np.zeros_like(clusters.room)
    wanted = clusters.room[line]
    if quota.required:
        grouped = line[np.argsort(at[line], kind="stable")]
        room, place = clusters.room[grouped], at[grouped]
        totals = np.bincount(at, weights=clusters.room, minlength=domains + 1).astype(np.int64)
        before = np.cumsum(room) - room - (np.cumsum(totals) - totals)[place]
        allowed = np.zeros_like(taken)
        allowed[grouped] = np.clip(gap[place] - before, 0, room)
        wanted = allowed[line]
    taken[line] = first_come(wanted, units)
    return taken
