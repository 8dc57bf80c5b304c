"""All rules together, a unit at a time: quotas and their order, weights, rank, packing, groups.

Slow, plain, and in one place: which cluster takes the next unit, and which one gives the next back.
The choice of domains is taken as given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from controller.planner.indomain import WithinDomain
from controller.planner.plan import Problem
from controller.planner.replicacycle import OUTSIDE, Method

Row = list[int]


class Loop:
    """One problem, after its domains were chosen; `first` are clusters that shall have a unit."""

    def __init__(self, of: Problem, first: Sequence[bool] | None) -> None:
        self.of, self.first = of, first
        self.rows = range(len(of.weight))
        self.weight, self.order = of.weight.tolist(), of.order.tolist()
        self.cap, self.lower = of.cap().tolist(), of.lower.tolist()
        self.shares: Row = of.settled().tolist()
        self.score = of.scored().tolist()
        self.groups = [(b.group.tolist(), b.upper.tolist(), b.lower.tolist()) for b in of.groups]
        self.domains = of.domains
        if of.domains is not None:
            known, quota = of.domains, of.domains.quota
            self.domain, self.held = known.domain.tolist(), known.held.tolist()
            self.count, self.desired = quota.count.tolist(), quota.desired.tolist()
            self.uncounted = known.uncounted.tolist()
            for row, present in enumerate(of.present.tolist()):
                for _ in range(present - self.shares[row]):
                    self._count(row, -1)

    def solved(self) -> Row:
        if self.of.total >= sum(self.shares):
            self._grow()
        else:
            self._shrink()
        return self.shares

    def _count(self, row: int, sign: int) -> None:
        """One more unit there for the policy, or one fewer."""
        if self.domains is None:
            return
        self.held[row] += sign
        if self.domain[row] != OUTSIDE and not (sign < 0 and self.uncounted[row]):
            self.count[self.domain[row]] += sign

    def _move(self, row: int, sign: int) -> None:
        self.shares[row] += sign
        self._count(row, sign)

    # growing

    def _grow(self) -> None:
        top = [max(pair) for pair in zip(self.cap, self.shares, strict=True)]
        floor = [min(pair) for pair in zip(top, self.lower, strict=True)]
        caps = [upper for _, upper, _ in self.groups]
        wished = [max(w, 1) if low else w for w, low in zip(self.weight, self.lower, strict=True)]
        if self.first is not None:
            one = [min(f, int(named)) for f, named in zip(floor, self.first, strict=True)]
            self._take(one, wished, caps, lowers=True)
        self._take(floor, wished, caps, lowers=True)
        for depth, (_, upper, lower) in reversed(list(enumerate(self.groups))):
            if any(lower):
                least = [min(pair) for pair in zip(lower, upper, strict=True)]
                self._take(top, self.weight, [*caps[:depth], least, *caps[depth + 1 :]])
        self._take_rest(top, caps)

    def _take_rest(self, top: Row, caps: Sequence[Row]) -> None:
        self._take(top, self.weight, caps)

    def _take(self, top: Row, weight: Row, caps: Sequence[Row], *, lowers: bool = False) -> None:
        while sum(self.shares) < self.of.total:
            row = self._next(self.rows, top, weight, caps, lowers=lowers)
            if row is None:
                return
            self._move(row, 1)

    def _next(
        self, rows: Iterable[int], top: Row, weight: Row, caps: Sequence[Row], *, lowers: bool
    ) -> int | None:
        """The first of these rows in line; None where none may take a unit."""
        line = []
        for row in rows:
            if weight[row] and self.shares[row] < top[row] and self._open(row, caps):
                outer = self._domain_takes(row)
                if outer is not None:
                    inner = self._takes(row, top, weight, lowers=lowers)
                    line.append(((*outer, *inner), row))
        return min(line)[1] if line else None

    def _open(self, row: int, caps: Sequence[Row]) -> bool:
        for (group, _, _), cap in zip(self.groups, caps, strict=True):
            inside = sum(n for n, g in zip(self.shares, group, strict=True) if g == group[row])
            if inside >= cap[group[row]]:
                return False
        return True

    def _domain_takes(self, row: int) -> tuple[Any, ...] | None:
        """The place of its domain in line, the smaller the earlier; None where nothing may go."""
        if self.domains is None:
            return ()
        quota, at = self.domains.quota, self.domain[row]
        below = at != OUTSIDE and self.count[at] < self.desired[at]
        if quota.required and not below:
            return None
        if not quota.ordered:
            return ()
        if below:
            fill = quota.method is Method.FILL
            number = self.count[at] if fill else self.desired[at] - self.count[at]
            return (0, -(100 * number // self.desired[at]), at)
        if at == OUTSIDE:
            return (3, 0, 0)
        if not self.desired[at]:
            return (2, 0, at)
        return (1, Fraction(self.count[at], self.desired[at]), at)

    def _takes(self, row: int, top: Row, weight: Row, *, lowers: bool) -> tuple[Any, ...]:
        share, place = self.shares[row], self.order[row]
        if self.of.inside is WithinDomain.WEIGHT:
            return (-Fraction(weight[row], 2 * share + 1), place)
        if self.of.inside is WithinDomain.FEWEST:
            if lowers:
                return (0, 0, place) if share else (1, -top[row], place)
            return (-share, share - top[row], place)
        if self.domains is None or not self.domains.quota.ordered:
            return (-self.score[row], place)
        fill = self.domains.quota.method is Method.FILL
        return (-self.score[row], -self.held[row] if fill else self.held[row], place)

    # shrinking

    def _shrink(self) -> None:
        within = [min(pair) for pair in zip(self.cap, self.shares, strict=True)]
        floor = [min(pair) for pair in zip(self.lower, within, strict=True)]
        inside = self._trimmed(within, floor)
        floor = [min(pair) for pair in zip(floor, inside, strict=True)]
        mine = [i if w else f for i, w, f in zip(inside, self.weight, floor, strict=True)]
        empties = [not f for f in floor]
        plain = [False] * len(floor)
        self._give(within, within, plain)
        if self.groups:
            self._give(inside, within, plain)
        self._give(mine, inside, plain)
        self._give(floor, mine, empties)
        self._give([0] * len(floor), floor, plain)

    def _trimmed(self, shares: Row, floor: Row) -> Row:
        """Trim these until no group holds too much."""
        now = self.shares, *((self.held, self.count) if self.domains is not None else ())
        saved = [list(each) for each in now]
        for row in self.rows:
            while self.shares[row] > shares[row]:
                self._move(row, -1)
        for group, upper, _ in self.groups:
            for at, cap in enumerate(upper):
                members = [row for row in self.rows if group[row] == at]
                for least in (floor, [0] * len(floor)):
                    below = [least[r] if r in members else self.shares[r] for r in self.rows]
                    below = [min(pair) for pair in zip(below, self.shares, strict=True)]
                    whole = list(self.shares)
                    while sum(self.shares[row] for row in members) > cap:
                        if not self._give_one(below, whole, [False] * len(floor)):
                            break
        left = list(self.shares)
        for each, before in zip(now, saved, strict=True):
            each[:] = before
        return left

    def _give(self, below: Row, fullest: Row, empties: list[bool]) -> None:
        while sum(self.shares) > self.of.total and self._give_one(below, fullest, empties):
            pass

    def _give_one(self, below: Row, fullest: Row, empties: list[bool]) -> bool:
        line = [
            ((*self._domain_gives(row), *self._gives(row, fullest, empties)), row)
            for row in self.rows
            if self.shares[row] > below[row]
        ]
        if line:
            self._move(min(line)[1], -1)
        return bool(line)

    def _domain_gives(self, row: int) -> tuple[Any, ...]:
        if self.domains is None or not self.domains.quota.ordered:
            return ()
        at = OUTSIDE if self.uncounted[row] else self.domain[row]
        if at == OUTSIDE:
            return (0, 0, 0)
        desired, count = self.desired[at], self.count[at]
        if count > desired:
            if not desired:
                return (1, 0, -at)
            return (2, -Fraction(count - 1, desired), -at)
        if self.domains.quota.method is Method.FILL:
            return (3, 100 if count >= desired else 100 * count // max(desired, 1), -at)
        return (3, 100 * (desired - count + 1) // max(desired, 1), -at)

    def _gives(self, row: int, fullest: Row, empties: list[bool]) -> tuple[Any, ...]:
        share, last = self.shares[row], -self.order[row]
        if self.of.inside is WithinDomain.WEIGHT:
            return (Fraction(max(self.weight[row], 1), 2 * share - 1), last)
        if self.of.inside is WithinDomain.FEWEST:
            return (not empties[row], fullest[row], last)
        if self.domains is None:
            return (self.score[row], last)
        fill = self.domains.quota.method is Method.FILL
        return (self.score[row], self.held[row] if fill else -self.held[row], last)


def by_units(of: Problem, first: np.ndarray | None) -> Row:
    """The shares of the loop over units; unordered quotas bind weights and packing as groups do."""
    return Loop(of, None if first is None else first.tolist()).solved()
