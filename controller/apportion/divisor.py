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

_NO_UNITS = 1e-12
"""An inverse priority before which no weight gets a unit."""

_HALF_AND_MORE = 0.5 + 2.0**-20
"""Rounds to the number of units or one more; less would sometimes be one fewer, for a last bit."""

_SIDES = np.array([[-1.0], [1.0]])

_FLAT = 1e-3
"""Slopes below this are rounding: the smallest weight's is a half."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Disjoint groups of clusters, each with the most units that it may hold in all.

    `group` has one entry a cluster, an index into `cap`; every cluster is in exactly one group.
    A sequence of nests goes from the outermost to the innermost; each group of a nest lies wholly
    within one group of the nest before it.
    """

    group: Ints
    cap: Ints


def first_come(wanted: Ints, units: int) -> Ints:
    """As they stand, each as much as it wants, until no unit is left; shape as `wanted`."""
    before = np.cumsum(wanted) - wanted
    served: Ints = np.clip(units - before, 0, wanted)
    return served


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
    if total <= int(start.sum()):
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
    sure, reach = _around(weight, start, top, block, quota)
    left = np.maximum(quota - sums(block, sure, len(quota)), 0)
    near = (reach > sure).nonzero()[0]
    spare = (reach - sure)[near]
    who = near.repeat(spare)
    unit = sure[who] + np.arange(len(who)) - (spare.cumsum() - spare).repeat(spare)
    priority = weight[who] / (2 * unit + 1)
    if len(left) == 1:
        taken = who[np.lexsort((order[who], -priority))[: left[0]]]
    else:
        blocks = block[who]
        line = np.lexsort((order[who], -priority, blocks))
        counts = np.bincount(blocks, minlength=len(left))
        before = counts.cumsum() - counts
        taken = who[line][np.arange(len(who)) < (before + left)[blocks[line]]]
    return sure + np.bincount(taken, minlength=len(sure))


def _around(weight: Ints, start: Ints, top: Ints, block: Ints, quota: Ints) -> tuple[Ints, Ints]:
    """What each cluster holds a little before its block's quota is out, and a little after.

    Rounding puts a block off its unrounded position by less than the root of its size, as a rule.
    A block for which that was too little is given four times as much, until it encloses the quota.
    """
    size = len(quota)
    least = sums(block, start, size)
    # Converted once: mixed columns are converted anew by every operation.
    rates, lows, highs = (column.astype(np.float64) for column in (weight, start, top))
    course = _course(rates, lows, highs, block, size)
    width = 0.6 * np.sqrt(np.bincount(block, minlength=size)) + 1.0
    while True:
        ends = course.at(quota - least + _SIDES * width)
        sure, reach = _served(rates, lows, highs, ends[:, block] if size > 1 else ends)
        before = sums(block, sure, size)
        missed = ((before > quota) & (before > least)) | (sums(block, reach, size) < quota)
        if not missed.any():
            return sure, reach
        width = np.where(missed, 4.0 * width, width)


def _served(weight: Floats, start: Floats, top: Floats, x: Floats) -> Ints:
    """Shape of x: what each cluster holds once all units of a priority of 1/x or more are out.

    The division here is the one that the units are sorted by, so that no unit can be out before
    one that stands above it.
    """
    units = np.floor(np.minimum(weight * (0.5 * x) + _HALF_AND_MORE, MAX_UNITS + 1.0))
    units -= weight / (2.0 * units - 1.0) < 1.0 / x
    served: Ints = np.minimum(np.maximum(units, start), top).astype(np.int64)
    return served


@dataclass(frozen=True, slots=True)
class _Course:
    """What blocks hold above their starts if nothing is rounded, by inverse priority.

    Unrounded, a cluster holds `w x / 2` between its bounds. What a block holds is then a chain of
    straight lines, whose bends are where a cluster leaves its start or meets its top: from one bend
    to the next, `slope x - shift`. Good to the accuracy of floats; `_around` looks at units.

    `bends`, `slope`, `shift`: one entry a bend, sorted within each block. `first`: each block's
    first bend. `counts`: each block's number of bends.
    """

    bends: Floats
    slope: Floats
    shift: Floats
    first: Ints
    counts: Ints

    def at(self, units: Floats) -> Floats:
        """Shape of `units`, (k, blocks): where each block holds so many above its starts."""
        held = self.slope * self.bends - self.shift
        if len(self.first) == 1:
            met = held.searchsorted(units[:, 0])[:, None]
        else:
            fewer = held < units.repeat(self.counts, axis=1)
            met = np.add.reduceat(fewer, self.first, axis=1, dtype=np.int64)
        bend = self.first + np.minimum(np.maximum(met, 1), self.counts) - 1
        x = (units + self.shift[bend]) / np.maximum(self.slope[bend], _FLAT)
        x = np.where(met < self.counts, x, 2.0 * self.bends[self.first + self.counts - 1])
        return np.maximum(np.where(units > 0, np.maximum(x, self.bends[bend]), 0.0), _NO_UNITS)


def _course(weight: Floats, start: Floats, top: Floats, block: Ints, size: int) -> _Course:
    """The chain of each block: all bends sorted, and the lines between them summed up."""
    half = np.where(top > start, weight * 0.5, 0.0)
    pace = np.maximum(half, 0.5)
    bends = np.concatenate((start / pace, top / pace))
    slopes = np.concatenate((half, -half))
    if size == 1:
        line = bends.argsort()
        bends, slopes = bends[line], slopes[line]
        one = np.zeros(1, dtype=np.int64)
        return _Course(bends, slopes.cumsum(), (slopes * bends).cumsum(), one, one + len(line))
    # One sort for all: blocks are a whole apart, bends within them less than that.
    line = (np.concatenate((block, block)) + bends * (0.5 / max(bends.max(), 1.0))).argsort()
    bends, slopes = bends[line], slopes[line]
    slope, shift = slopes.cumsum(), (slopes * bends).cumsum()
    counts = 2 * np.bincount(block, minlength=size)
    first = counts.cumsum() - counts
    before = first[1:] - 1
    slope -= np.concatenate(([0.0], slope[before])).repeat(counts)
    shift -= np.concatenate(([0.0], shift[before])).repeat(counts)
    return _Course(bends, slope, shift, first, counts)


def sums(group: Ints, values: Ints, size: int) -> Ints:
    """Shape (size,): the values of each group, added up; exact below 2**53."""
    if size == 1:
        return np.array([values.sum()], dtype=np.int64)
    return np.bincount(group, weights=values, minlength=size).astype(np.int64)
