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
    sure, reach = _around(weight, start, top, block, quota)
    left = np.maximum(quota - sums(block, sure, len(quota)), 0)
    near = np.flatnonzero(reach > sure)
    spare = (reach - sure)[near]
    who = np.repeat(near, spare)
    unit = sure[who] + np.arange(len(who)) - np.repeat(np.cumsum(spare) - spare, spare)
    priority = weight[who] / (2 * unit + 1)
    if len(left) == 1:
        taken = who[np.lexsort((order[who], -priority))[: left[0]]]
    else:
        blocks = block[who]
        line = np.lexsort((order[who], -priority, blocks))
        counts = np.bincount(blocks, minlength=len(left))
        before = np.cumsum(counts) - counts
        taken = who[line][np.arange(len(who)) < (before + left)[blocks[line]]]
    return sure + np.bincount(taken, minlength=len(sure))


def _around(weight: Ints, start: Ints, top: Ints, block: Ints, quota: Ints) -> tuple[Ints, Ints]:
    """What each cluster holds a little before its block's quota is out, and a little after.

    Rounding puts a block off its unrounded position by about the root of its size. A block for
    which that window was too narrow gets one four times as wide, until it encloses the quota.
    """
    size = len(quota)
    inside = np.bincount(block, minlength=size)
    middle, slope = _cross(weight, start, top, block, quota)
    width = (np.sqrt(inside) + 1.0) / slope
    while True:
        ends = np.stack((np.maximum(middle - width, _NO_UNITS), middle + width))
        sure, reach = _served(weight, start, top, ends[:, block] if size > 1 else ends)
        early = (sums(block, sure, size) > quota) & (ends[0] > _NO_UNITS)
        late = sums(block, reach, size) < quota
        missed = early | late
        if not missed.any():
            return sure, reach
        width = np.where(missed, 4.0 * width, width)


def _served(weight: Ints, start: Ints, top: Ints, x: Floats) -> Ints:
    """Shape of x: what each cluster holds once all units of a priority of 1/x or more are out.

    The division here is the one that the units are sorted by, so that no unit can be out before
    one that stands above it.
    """
    units = np.floor(np.minimum(weight * (0.5 * x) + 0.5, MAX_UNITS + 1.0))
    line = 1.0 / x
    units += weight / (2.0 * units + 1.0) >= line
    units -= weight / (2.0 * units - 1.0) < line
    served: Ints = np.minimum(np.maximum(units, start), top).astype(np.int64)
    return served


def _cross(weight: Ints, start: Ints, top: Ints, block: Ints, quota: Ints) -> tuple[Floats, Floats]:
    """Inverse priorities at which each block holds its quota if nothing is rounded, and the slopes.

    Unrounded, a cluster holds `w x / 2` between its bounds: what a block holds is a chain of
    straight lines, whose bends are where a cluster leaves its start or meets its top. The bends are
    sorted, the lines summed up, and the one that reaches the quota is solved. Good to the accuracy
    of floats only; `_around` looks at units.
    """
    half = np.where(top > start, weight * 0.5, 0.0)
    pace = np.maximum(half, 0.5)
    bends = np.concatenate((start / pace, top / pace))
    slopes = np.concatenate((half, -half))
    moves = half > 0.0
    shifts = np.concatenate((start * moves, -(top * moves)))
    want = quota - sums(block, start, len(quota))
    if len(quota) == 1:
        line = np.argsort(bends)
    else:
        blocks = np.concatenate((block, block))
        line = np.argsort(blocks + bends * (0.5 / max(float(bends.max()), 1.0)))
    bends = bends[line]
    slope, shift = np.cumsum(slopes[line]), np.cumsum(shifts[line])
    if len(quota) == 1:
        met = np.searchsorted(slope * bends - shift, want) - 1
        first = np.zeros(1, dtype=np.int64)
    else:
        counts = 2 * np.bincount(block, minlength=len(quota))
        first = np.cumsum(counts) - counts
        slope -= np.repeat(np.concatenate(([0.0], slope[first[1:] - 1])), counts)
        shift -= np.repeat(np.concatenate(([0], shift[first[1:] - 1])), counts)
        held = slope * bends - shift
        met = first + np.add.reduceat(held < np.repeat(want, counts), first, dtype=np.int64) - 1
    at = np.maximum(met, first)
    last = np.append(first[1:], len(bends)) - 1
    steep = np.maximum(slope[at], _FLAT)
    x = np.clip((want + shift[at]) / steep, bends[at], bends[np.minimum(at + 1, last)])
    return np.maximum(x, _NO_UNITS), steep


def sums(group: Ints, values: Ints, size: int) -> Ints:
    """Shape (size,): the values of each group, added up; exact below 2**53."""
    if size == 1:
        return np.array([values.sum()], dtype=np.int64)
    return np.bincount(group, weights=values, minlength=size).astype(np.int64)
