"""Packing and shrinking done the slow way, a unit at a time, and the fewest clusters by trying all."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from controller.planner.plan import Problem

from .plain import one_at_a_time


def packed_by_hand(of: Problem) -> list[int]:
    """One unit after another: taken from, or given to, the first cluster in line."""
    lower, weight, order = (column.tolist() for column in (of.lower, of.weight, of.order))
    cap = of.cap().tolist()
    floor = [min(pair) for pair in zip(lower, cap, strict=True)]
    may = [c if w else f for c, w, f in zip(cap, weight, floor, strict=True)]
    shares = of.settled().tolist()
    rows = range(len(shares))

    def leaves(row: int) -> tuple[int, ...]:
        held, last = shares[row], -order[row]
        within = min(held, cap[row])
        if held > cap[row]:
            return (0, within, last)
        if held > may[row]:
            return (1, within, last)
        if not floor[row]:
            return (2, held, last)
        if held > floor[row]:
            return (3, held, last)
        return (4, held, last)

    def comes(row: int) -> tuple[int, ...]:
        held, first = shares[row], order[row]
        if held < floor[row]:
            return (0, first) if held else (1, held - floor[row], first)
        return (2, -held, held - may[row], first)

    while sum(shares) > of.total:
        shares[min((row for row in rows if shares[row]), key=leaves)] -= 1
    while sum(shares) < of.total:
        open_ = [row for row in rows if shares[row] < max(floor[row], may[row])]
        if not open_:
            break
        shares[min(open_, key=comes)] += 1
    return shares


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
    """What is kept, a unit at a time: lower bounds, weights, what has none, what is over bounds."""
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
