"""Subsets done the slow way: each unit asks every subset in turn, each unit that leaves its cost.

What counts to which subset follows from what sets of them can hold together, by trying all sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise

from controller.planner.indomain import WithinDomain
from controller.planner.plan import Problem
from controller.planner.subsets import Subsets

from .byunits import Loop, Row


def counted_by_hand(of: Subsets, units: Row) -> Row:
    """How many units count to each: what the first ones hold together, less one of them."""
    most = [_together(of, units, number) for number in range(len(of.names) + 1)]
    return [more - less for less, more in pairwise(most)]


def _together(of: Subsets, units: Row, number: int) -> int:
    """The most units that the first so many subsets hold: the least over all ways to cut them."""
    first = range(number)
    sets = chain.from_iterable(combinations(first, size) for size in range(number + 1))
    inside, cap = of.inside.tolist(), of.cap.tolist()
    return min(
        sum(cap[at] for at in first if at not in cut)
        + sum(n for row, n in enumerate(units) if any(inside[at][row] for at in cut))
        for cut in sets
    )


class SubsetLoop(Loop):
    """One problem with subsets, after its domains were chosen."""

    def __init__(self, of: Problem, first: Sequence[bool] | None) -> None:
        super().__init__(of, first)
        assert of.subsets is not None
        self.subsets = of.subsets
        self.inside = of.subsets.inside.tolist()
        self.plain: list[tuple[int, ...]] = [(score,) for score in self.score]
        self.present = of.present.tolist()
        room, crowded = of.room.tolist(), of.subsets.crowded.tolist()
        rows = zip(crowded, self.weight, room, self.present, strict=True)
        self.able = [c or (w > 0 and r > p) for c, w, r, p in rows]
        self.crowded = crowded
        self.home = [
            next((at for at, mine in enumerate(self.inside) if mine[row]), len(self.inside))
            for row in self.rows
        ]

    def _for(self, at: int) -> None:
        """From now on clusters are compared as this subset likes them; -1 for none."""
        rank = self.subsets.rank.tolist()
        scores = [
            (self.home[row] == at, rank[at][row], *self.plain[row]) if at >= 0 else self.plain[row]
            for row in self.rows
        ]
        self.score = [_Score(each) for each in scores]

    def _take_rest(self, top: Row, caps: Sequence[Row]) -> None:
        self._take(top, self.weight, caps, overflow=True)
        self.of, units = (
            replace(self.of, inside=WithinDomain.RANK),
            min(self.of.total, sum(self.present)),
        )
        rank = self.subsets.rank.tolist()
        first = [
            (-home, rank[min(home, len(rank) - 1)][row], *self.plain[row])
            for row, home in enumerate(self.home)
        ]
        self.score = [_Score(each) for each in first]
        every = [1] * len(top)
        while sum(self.shares) < units:
            row = self._next(self.rows, self.present, every, caps, lowers=False)
            if row is None:
                waiting = [row for row in self.rows if self.shares[row] < self.present[row]]
                row = min(waiting, key=lambda row: (-self.score[row], self.order[row]))
            self._move(row, 1)

    def _take(
        self,
        top: Row,
        weight: Row,
        caps: Sequence[Row],
        *,
        lowers: bool = False,
        overflow: bool = False,
    ) -> None:
        passed = self.of.without_room().tolist()
        over = [max(w, 1) if able else 0 for w, able in zip(weight, self.able, strict=True)]
        while sum(self.shares) < self.of.total:
            counted, found = counted_by_hand(self.subsets, self.shares), None
            for at, cap in enumerate(self.subsets.cap.tolist()):
                if self.subsets.closed[at] or counted[at] >= cap:
                    continue
                self._for(at)
                rows = [row for row in self.rows if self.inside[at][row]]
                found = self._next(rows, top, weight, caps, lowers=lowers)
                if found is None and overflow and self.subsets.overflow[at]:
                    found = self._next(rows, passed, over, caps, lowers=lowers)
                if found is not None:
                    break
            if found is None:
                return
            self._move(found, 1)

    def _shrink(self) -> None:
        self._for(-1)
        within = [min(pair) for pair in zip(self.cap, self.shares, strict=True)]
        floor = [min(pair) for pair in zip(self.lower, within, strict=True)]
        inside = self._trimmed(within, floor)
        plain = [False] * len(floor)
        self._give(within, within, plain)
        self._give(inside, within, plain)
        self._by_cost([min(pair) for pair in zip(floor, inside, strict=True)])

    def _by_cost(self, floor: Row) -> None:
        """Unit by unit what is the cheapest to delete; each cluster's units lie on a pile."""
        counted, excess, outside = self.subsets.classified(self.of.settled() * 0 + self.shares)
        kinds = [*counted.tolist(), *excess.tolist(), outside.tolist()]
        piles: list[list[tuple[bool, int, bool]]] = []
        for row in self.rows:
            labels = [kind for kind, units in enumerate(kinds) for _ in range(units[row])]
            light = not (self.weight[row] or self.crowded[row])
            piles.append([(n >= floor[row], kind, light) for n, kind in enumerate(labels)])
        whole = [list(pile) for pile in piles]
        empties = [not least for least in floor]
        while sum(self.shares) > self.of.total:
            next_ = max(pile[-1] for pile in piles if pile)
            self._for(-1 if next_[1] == len(kinds) - 1 else next_[1] % len(self.inside))
            fullest = [sum(label <= next_ for label in pile) for pile in whole]
            below = [sum(label < next_ for label in pile) for pile in piles]
            before = list(self.shares)
            assert self._give_one(below, fullest, empties)
            piles[next(row for row in self.rows if self.shares[row] < before[row])].pop()


class _Score(tuple[int, ...]):
    """Scores of several parts that are turned round like a number."""

    __slots__ = ()

    def __neg__(self) -> _Score:
        return _Score(-part for part in self)
