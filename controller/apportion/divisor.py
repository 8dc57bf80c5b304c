"""Units handed out one at a time to the cluster most below its weight, in closed form.

The rule is Webster's: a cluster of weight `w` that holds `a` units stands in line with the
priority `w / (2a + 1)`, the highest takes the next unit, and equal priorities go by an injected
order. Bounds only ever take a cluster out of the line. Because each unit is given without knowing
how many will follow, one more unit never takes one away elsewhere (house monotonicity), and because
the bounds are nested, giving greedily wastes nothing: whatever can be placed within them is placed.

`hand_out` reaches the same result without the loop, in two steps that are each exact:

- A cap on a group lets through the first units of the group's own line. How far each cluster gets
  until the group is full depends on nobody outside, so the cap is replaced by a bound on each
  cluster. Done from the innermost nest outwards, only bounds on clusters remain.
- Within a block of clusters that draw on one number of units, everything clearly above the priority
  at which they run out is taken at once, and only the few units around it are sorted.

Pure; integers in and out; standard library and numpy. The tests hold it against the plain loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

MAX_WEIGHT = 2**31 - 1
MAX_UNITS = 2**19
"""Below these two, different priorities are different float64 values, so that a sort is exact."""

_ROUNDS = 64
"""Halvings that bring any bracket to the spacing of floats; Newton's steps need two to eight."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Disjoint groups of clusters, each with the most units that it may hold in all.

    `group` has one entry a cluster, an index into `cap`; every cluster is in exactly one group.
    A sequence of nests goes from the outermost to the innermost; each group of a nest lies wholly
    within one group of the nest before it.
    """

    group: Ints
    cap: Ints


def hand_out(
    total: int, *, weight: Ints, start: Ints, top: Ints, order: Ints, nests: Sequence[Nest] = ()
) -> Ints:
    """The units that each cluster holds once `total` are held in all, or no more fit.

    Args:
        total: units to be held in the end, those of `start` included.
        weight: shape (n,), 0..MAX_WEIGHT; weight 0 takes no unit beyond its start.
        start: shape (n,), units held to begin with; they stay, even above a cap.
        top: shape (n,), the most that a cluster may hold; below its start means no more.
        order: shape (n,), distinct; of equal priorities the lowest goes first.
        nests: bounds on groups of clusters, outermost first.

    Returns:
        shape (n,), at least `start` everywhere.

    Raises:
        ValueError: a weight or a total beyond what is compared exactly.
    """
    if len(weight) and int(weight.max()) > MAX_WEIGHT:
        raise ValueError(f"a weight is at most {MAX_WEIGHT}, found {int(weight.max())}")
    if total > MAX_UNITS:
        raise ValueError(f"at most {MAX_UNITS} units are divided at once, asked for {total}")
    if not len(start):
        return start.copy()
    reach = np.where(weight > 0, np.maximum(start, np.minimum(top, MAX_UNITS)), start)
    for nest in reversed(nests):
        reach = _until_full(weight, start, reach, order, nest.group, nest.cap)
    whole = np.zeros(len(start), dtype=np.int64)
    return _until_full(weight, start, reach, order, whole, np.array([total], dtype=np.int64))


def _until_full(weight: Ints, start: Ints, top: Ints, order: Ints, group: Ints, cap: Ints) -> Ints:
    """What each cluster holds when its group has as much as `cap` says, or its clusters can take.

    Groups that can take no more than their cap need no division: their clusters reach the top.
    """
    tight = sums(group, top, len(cap)) > cap
    if not tight.any():
        return top
    if len(cap) == 1:
        return _divide(weight, start, top, order, group, cap)
    held = top.copy()
    inside = np.flatnonzero(tight[group])
    number = np.cumsum(tight) - 1
    held[inside] = _divide(
        weight[inside], start[inside], top[inside], order[inside], number[group[inside]], cap[tight]
    )
    return held


def _divide(weight: Ints, start: Ints, top: Ints, order: Ints, block: Ints, quota: Ints) -> Ints:
    """Each block's quota over its clusters; every block can take more than its quota."""
    low, high = _around(weight, start, top, block, quota)
    sure = np.maximum(_served(weight, start, top, low[block]) - 1, start)
    spare = np.minimum(_served(weight, start, top, high[block]) + 1, top) - sure
    who = np.repeat(np.arange(len(sure)), spare)
    first = np.cumsum(spare) - spare
    unit = sure[who] + np.arange(len(who)) - first[who]
    line = np.lexsort((order[who], -(weight[who] / (2 * unit + 1))))
    left = np.maximum(quota - sums(block, sure, len(quota)), 0)
    taken = _firsts(who[line], block, left)
    return sure + np.bincount(taken, minlength=len(sure))


def _served(weight: Ints, start: Ints, top: Ints, x: Floats) -> Ints:
    """What each cluster holds once all units of a priority above 1/x are out, to within one."""
    units = np.minimum((weight * x + 1.0) * 0.5, MAX_UNITS + 1.0).astype(np.int64)
    return np.minimum(np.maximum(units, start), top)


def _firsts(who: Ints, block: Ints, left: Ints) -> Ints:
    """Of units in line (`who` names each one's cluster), the first `left` of each block."""
    if len(left) == 1:
        return who[: left[0]]
    blocks = block[who]
    grouped = np.argsort(blocks, kind="stable")
    counts = np.bincount(blocks, minlength=len(left))
    before = np.cumsum(counts) - counts
    rank = np.arange(len(who)) - before[blocks[grouped]]
    return who[grouped[rank < left[blocks[grouped]]]]


def sums(group: Ints, values: Ints, size: int) -> Ints:
    """Shape (size,): the values of each group, added up; exact below 2**53."""
    if size == 1:
        return np.array([values.sum()], dtype=np.int64)
    return np.bincount(group, weights=values, minlength=size).astype(np.int64)


def _around(
    weight: Ints, start: Ints, top: Ints, block: Ints, quota: Ints
) -> tuple[Floats, Floats]:
    """Inverse priorities at which each block surely has too few units out, and surely enough.

    Without rounding, a cluster holds `w x / 2` between its bounds. Rounding is off by at most a
    half for each cluster, so positions half a unit a cluster below and above the quota enclose it.
    They are found by Newton's method, kept within a bracket because bounds bend the curve.
    """
    size = len(quota)
    margin: Floats = np.bincount(block, minlength=size).astype(np.float64) * 0.5 + 1.0
    floor = sums(block, start, size)
    ends = (2.0 * top + 1.0) / np.maximum(weight, 1)
    last = np.zeros(size)
    np.maximum.at(last, block, np.where(top > start, ends, 0.0))
    few = quota - 2.0 * margin
    many = quota + 2.0 * margin
    low = _solve(weight, start, top, block, few, margin, last)
    high = _solve(weight, start, top, block, many, margin, last)
    return np.where(quota - 3.0 * margin <= floor, 0.0, low), high


def _solve(
    weight: Ints, start: Ints, top: Ints, block: Ints, target: Floats, slack: Floats, last: Floats
) -> Floats:
    """Each block's position at which its unrounded units come within `slack` of the target."""
    size = len(target)
    below, above = np.zeros(size), last.copy()
    weights = np.bincount(block, weights=weight, minlength=size)
    x = np.clip(2.0 * target / np.maximum(weights, 1.0), 0.0, last)
    half = weight * 0.5
    for _ in range(_ROUNDS):
        ideal = half * x[block]
        free = (ideal > start) & (ideal < top)
        held = np.minimum(np.maximum(ideal, start), top)
        gap = target - np.bincount(block, weights=held, minlength=size)
        if (np.abs(gap) <= slack).all():
            break
        below, above = np.where(gap > 0, x, below), np.where(gap < 0, x, above)
        slope = np.bincount(block, weights=half * free, minlength=size)
        step = x + gap / np.maximum(slope, 1e-12)
        inside = (step > below) & (step < above)
        x = np.where(np.abs(gap) <= slack, x, np.where(inside, step, (below + above) * 0.5))
    return x
