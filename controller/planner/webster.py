"""Replicas handed out one at a time to the cluster most below its weight, in closed form.

The rule is Webster's: a cluster of weight `w` with `a` replicas has the priority `w/(2a+1)`. The
highest takes the next replica; the injected order breaks ties.

`divide` reaches the result of that loop in two exact steps:

- A cap on a group lets through the first replicas of the group's own line, so a bound on each
  cluster replaces the cap, from the innermost nest outwards.
- Within a block of clusters that draw on one number of replicas, `_around` searches the divisor at
  which they run out. Replicas clearly before it are taken at once; only those around it are sorted.

Replicas, weights and their products stay below 2**63. A reciprocal priority is (2a - 1) / w, below
2**32 over 2**31; 62 binary places tell any two apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

MAX_WEIGHT = 2**31 - 1
MAX_REPLICAS = 2**31 - 1
"""The most that a field of Kubernetes counts; products of the two fit into 63 bits."""

WEBSTER, ADAMS = 1, 0
"""The divisors of a rule: 1, 3, 5 and so on, or 0, 1, 2."""

_PLACES = 31
"""Binary places of a divisor after the first one."""

_LEAST, _MOST = 2.0**-32, 2.0**32 - 2.0
"""Divisors at which no cluster gets a replica, and at which every cluster reaches its top."""

_CUT = 52 - _PLACES
"""Bits of a float64 beyond those places."""

_FEW = 512
"""The number of replicas that are sorted however few clusters there are."""

_FARTHER = 4.0
"""How much farther the search goes each time that it ends on the side where it came from."""

_HASTE = 6
"""Steps after which ties are thought to be the reason, and how often the search halves."""

_BLOCK = np.zeros(0, dtype=np.int64)
"""The block of each cluster, where there is one block."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Disjoint groups of clusters, each with the most replicas that it may hold in all.

    `group` has one entry a cluster, an index into `cap`; every cluster is in exactly one group. In
    a sequence of nests, outermost first, each group lies within one group of the nest before it.
    """

    group: Ints
    cap: Ints


def first_come(wanted: Ints, replicas: int, line: Ints | slice = slice(None)) -> Ints:
    """Serve each entry as much as it wants, in the order of `line`, until none is left."""
    served, asked = np.zeros_like(wanted), wanted[line]
    served[line] = np.clip(replicas - (np.cumsum(asked) - asked), 0, asked)
    return served


def divide(
    total: int, *, weight: Ints, start: Ints, top: Ints, order: Ints, nests: Sequence[Nest] = ()
) -> Ints:
    """Return the replicas of each cluster once `total` are held in all, or no more fit.

    Args:
        total: replicas to be held in the end, those of `start` included.
        weight: shape (n,), 0..MAX_WEIGHT; weight 0 takes no replica beyond its start.
        start: shape (n,), replicas held to begin with; they stay, even above a cap.
        top: shape (n,), the most that a cluster may hold; below its start means no more.
        order: shape (n,), distinct; of equal priorities the lowest goes first.
        nests: bounds on groups of clusters, outermost first.

    Raises:
        ValueError: a weight or a total beyond what is compared exactly.
    """
    if len(weight) and int(weight.max()) > MAX_WEIGHT:
        raise ValueError(f"a weight is at most {MAX_WEIGHT}, found {int(weight.max())}")
    if total > MAX_REPLICAS:
        raise ValueError(f"at most {MAX_REPLICAS} replicas are divided at once, asked for {total}")
    if total <= int(start.sum()):
        return start.copy()
    reach = np.where(weight > 0, np.maximum(start, np.minimum(top, MAX_REPLICAS)), start)
    for nest in reversed(nests):
        reach = until_full(weight, start, reach, order, nest.group, nest.cap)
    whole = np.zeros(len(start), dtype=np.int64)
    return until_full(weight, start, reach, order, whole, np.array([total], dtype=np.int64))


def until_full(
    weight: Ints,
    start: Ints,
    top: Ints,
    order: Ints,
    group: Ints,
    cap: Ints,
    *,
    rule: int = WEBSTER,
) -> Ints:
    """Return the replicas of each cluster when its group holds its `cap`, or can take no more.

    `top` is at most 2**31 by Webster's rule, 2**32 by Adams', which needs a `start` of at least 1.
    Equals go by `order`.
    """
    # Groups that can take no more than their cap need no division: their clusters reach the top.
    tight = sums(group, top, len(cap)) > cap
    if not tight.any():
        return top
    if len(cap) == 1:
        return _share_out(weight, start, top, order, group, cap, rule)
    held = top.copy()
    inside = np.flatnonzero(tight[group])
    number = np.cumsum(tight) - 1
    block, quota = number[group[inside]], cap[tight]
    held[inside] = _share_out(
        weight[inside], start[inside], top[inside], order[inside], block, quota, rule
    )
    return held


def _share_out(
    weight: Ints, start: Ints, top: Ints, order: Ints, block: Ints, quota: Ints, rule: int
) -> Ints:
    """Divide each block's quota over its clusters; every block can take more than its quota."""
    found = _few(weight, start, top, int(quota[0]), rule) if len(quota) == 1 else None
    sure, reach = found or _around(weight, start, top, block, quota, rule)
    left = np.maximum(quota - sums(block, sure, len(quota)), 0)
    spare = reach - sure
    if len(left) == 1 and int(spare.sum()) <= left[0]:
        return reach
    near = spare.nonzero()[0]
    spare = spare[near]
    who = near.repeat(spare)
    replica = sure[who] + np.arange(len(who)) - (spare.cumsum() - spare).repeat(spare)
    whole, rest = np.divmod((replica << rule) + rule, weight[who])
    upper, rest = np.divmod(rest << _PLACES, weight[who])
    keys = (order[who], (rest << _PLACES) // weight[who], upper, whole)
    if len(left) == 1:
        taken = who[np.lexsort(keys)[: left[0]]]
    else:
        blocks = block[who]
        line = np.lexsort((*keys, blocks))
        counts = np.bincount(blocks, minlength=len(left))
        before = counts.cumsum() - counts
        taken = who[line][np.arange(len(who)) < (before + left)[blocks[line]]]
    return sure + np.bincount(taken, minlength=len(sure))


def _few(weight: Ints, start: Ints, top: Ints, quota: int, rule: int) -> tuple[Ints, Ints] | None:
    """Do as `_around` for one block that gives fewer replicas than it has clusters to take one.

    None where too many other replicas stand before the end of the quota as well.
    """
    missing = quota - int(start.sum())
    takes = (top > start) & (weight > 0)
    if not 0 < missing <= int(np.count_nonzero(takes)):
        return None
    # The first replica of each of so many clusters stands before the end of the quota.
    next_ = np.where(takes, ((start << rule) + rule) / np.maximum(weight, 1), np.inf)
    last = np.partition(next_, missing - 1)[missing - 1] if missing > 1 else next_.min()
    x = ((_digits(last[np.newaxis]) + 1) << _CUT).view(np.float64)  # not below the exact number
    reach = np.minimum(np.maximum(_replicas(weight, x, _BLOCK, rule), start), top)
    return (start, reach) if int((reach - start).sum()) <= _sorted(len(start)) else None


def _around(
    weight: Ints, start: Ints, top: Ints, block: Ints, quota: Ints, rule: int
) -> tuple[Ints, Ints]:
    """Return each cluster's replicas a little before its block's quota runs out, and after.

    At the divisor x a cluster holds each replica whose number in line is at most x. The search for
    the x at which a block holds its quota goes along the slope of the block's replicas, and a
    little too far, so that it soon has an x on each side; every sixth step halves the interval.
    """
    size, clusters = len(quota), len(weight)
    few = clusters << (WEBSTER - rule)

    def held_at(guess: Ints) -> tuple[Ints, Ints]:
        replicas = _replicas(weight, (guess << _CUT).view(np.float64), block, rule)
        return replicas, np.minimum(np.maximum(replicas, start), top)

    least, most = sums(block, start, size), sums(block, top, size)
    low, high = np.full(size, _digits(_LEAST)), np.full(size, _digits(_MOST))
    wanted = np.maximum(quota, least)
    high = np.where(wanted > least, high, low)
    rates = weight / (1 + rule)
    pace: NDArray[Any] = _sums(block, rates, size)
    width = np.sqrt(np.bincount(block, minlength=size))
    x, missing, before = np.zeros(size), wanted, np.zeros(size, dtype=np.bool_)
    step = 0
    while True:
        step += 1
        x = x + missing / np.maximum(pace, 0.5)
        guess = _digits(np.minimum(np.maximum(x, _LEAST), _MOST))
        halved = (guess <= low) | (guess >= high) | (step % _HASTE == 0)
        guess = np.where(halved, (low + high) >> 1, guess)
        x = (guess << _CUT).view(np.float64)
        could, replicas = held_at(guess)
        held = sums(block, replicas, size)
        missing = wanted - held
        under, over = missing >= 0, missing <= 0
        low, high = np.where(under, guess, low), np.where(over, guess, high)
        least, most = np.where(under, held, least), np.where(over, held, most)
        apart = int((most - least).sum())
        if apart <= (_sorted(clusters) if step < _HASTE else few):
            other = held_at(np.where(under, high, low))[1]
            return np.minimum(replicas, other), np.maximum(replicas, other)
        pace = _sums(block, rates * ((could >= start) & (could < top)), size)
        width = np.where(under == before, width * _FARTHER, width)
        missing, before = missing + np.where(under, width, -width), under


def _sorted(clusters: int) -> int:
    """Return the number of replicas up to which sorting is cheaper than searching on."""
    return max(clusters >> 1, _FEW)


def _digits(x: Floats | float) -> Ints:
    """Return the first 32 binary digits of a divisor and its power of two, as one number."""
    digits: Ints = np.asarray(x, dtype=np.float64).view(np.int64) >> _CUT
    return digits


def _replicas(weight: Ints, x: Floats, block: Ints, rule: int) -> Ints:
    """Return how many replicas of each cluster stand before its block's divisor, or at it."""
    digits: Any
    places: Any
    if len(x) == 1:
        part, power = math.frexp(x[0])
        digits, places = int(part * 2.0**32), 32 - power
    else:
        parts, powers = np.frexp(x)
        digits = (parts * 2.0**32).astype(np.int64)[block]
        places = (32 - powers.astype(np.int64))[block]
    replicas: Ints = ((weight * digits >> places) + 1) >> rule
    return replicas


def sums(group: Ints, values: Ints, size: int) -> Ints:
    """Add up the values of each group, shape (size,); exact below 2**53."""
    return _sums(group, values, size).astype(np.int64)


def _sums(group: Ints, values: NDArray[Any], size: int) -> NDArray[Any]:
    if size == 1:
        return np.array([values.sum()])
    return np.bincount(group, weights=values, minlength=size)
