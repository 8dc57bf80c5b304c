"""Units on as few clusters as hold them: the other way to hand out what a problem asks for.

What runs stays where it runs. More units fill the clusters that are in use, the fullest first, then
open the roomiest; fewer leave first what holds more than it may, then what holds the least, so that
clusters get empty. Lower bounds go before all that. Pure; integers only.
"""

from __future__ import annotations

import numpy as np

from controller.apportion.divisor import Ints, first_come
from controller.apportion.problem import Problem
from controller.reasons import Reason, Reasons, Why


def packed(problem: Problem) -> Ints:
    """As few clusters as hold it: those in use first, the fullest of them, then the roomiest."""
    cap = np.where(problem.weight > 0, problem.cap(), 0)
    held = np.minimum(problem.present, problem.learnt)
    surplus = int(held.sum()) - problem.total
    if surplus > 0:
        line = np.lexsort((problem.order, -np.minimum(held, cap), held > cap))
        return _served(line, held, problem.total)
    shares = held.copy()
    floor = np.clip(np.minimum(problem.lower, cap) - shares, 0, None)
    shares += _served(np.argsort(problem.order), floor, problem.total - int(shares.sum()))
    open_ = np.clip(cap - shares, 0, None)
    line = np.lexsort((problem.order, -open_, -shares))
    return shares + _served(line, open_, problem.total - int(shares.sum()))


def _served(line: Ints, wanted: Ints, units: int) -> Ints:
    """In this order, each as much as it wants."""
    served = np.zeros_like(wanted)
    served[line] = first_come(wanted[line], units)
    return served


def packed_why(problem: Problem, shares: Ints) -> Reasons:
    """What made each share: kept, packed, and the bound at which it ended."""
    cap = problem.cap()

    def why(row: int) -> tuple[Reason, ...]:
        units, kept = int(shares[row]), int(min(problem.present[row], shares[row]))
        reasons = [Reason(Why.KEPT, kept)] if kept else []
        if units > kept:
            reasons.append(Reason(Why.PACKED, units - kept))
        if units == cap[row]:
            bounds = {Why.UPPER: problem.upper, Why.LEARNT: problem.learnt, Why.ROOM: problem.room}
            reasons += [Reason(kind, units) for kind, own in bounds.items() if own[row] == units]
        return tuple(reasons)

    return why
