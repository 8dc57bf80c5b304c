"""Packing and shrinking done the slow way, a unit at a time, and the fewest clusters by trying all."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from controller.planner.plan import Problem

from .plain import one_at_a_time


def fewest(of: Problem) -> int:
    """The fewest clusters that shrinking could leave in use, by trying all sets of them.

    What may stay of each is what it holds within its bounds. As many units as can be serve lower
    bounds, so all of those stay where there are units enough, and nothing else where there are not.
    """
    held, cap = of.settled(), of.cap()
    floor = np.minimum(np.minimum(of.lower, cap), held)
    may = np.minimum(held, np.where(of.weight > 0, cap, floor))
    needs = int(floor.sum()) <= of.total
    rows = [row for row in range(len(held)) if held[row]]
    for size in range(len(rows) + 1):
        for chosen in combinations(rows, size):
            used = list(chosen)
            if needs and not all(row in used for row in rows if floor[row]):
                continue
            if int((may if needs else floor)[used].sum()) >= of.total:
                return size
    return len(rows)


def shrunk_by_hand(of: Problem) -> list[int]:
    """Shrink a unit at a time: over bounds first, then without weight, weights, lower bounds."""
    held, order = of.settled().tolist(), of.order.tolist()
    within = np.minimum(of.cap(), of.settled())
    nests = [(bound.group.tolist(), bound.upper.tolist()) for bound in of.groups]
    weight = of.weight.tolist()
    heavy = [max(w, 1) for w in weight]
    wished = [max(w, 1) if low else w for w, low in zip(weight, of.lower.tolist(), strict=True)]
    kept = [0] * len(held)
    floor = np.minimum(within, of.lower).tolist()
    for weights, top, bounds in (
        (wished, floor, nests),
        (weight, within.tolist(), nests),
        (heavy, within.tolist(), nests),
        (heavy, held, []),
    ):
        kept = one_at_a_time(of.total, weights, kept, top, order, bounds)
    return kept
