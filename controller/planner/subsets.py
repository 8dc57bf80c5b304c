"""Ordered subsets of the clusters, each with a cap: which unit counts to which of them.

A unit on a cluster counts to the first subset that matches it and has room below its cap; the
subsets before others are filled as far as any sorting of the units can fill them, so a unit spills
to a later subset rather than being too much for an earlier one. What no subset has room for is the
excess of the first one that matches. Units on clusters that none matches are outside.

Where a subset holds more than its cap, the units stay in it that the rule between clusters gives
first (`Inside`), unless another one makes room by spilling to a later subset. The deletion costs of
units fall from the first subset to the last, then come those of the excess, then those outside;
the lowest cost leaves first. Pure; integers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from controller.planner.indomain import Inside, in_line
from controller.planner.webster import MAX_UNITS, Ints, Mask, sums, until_full

_STEP = 100
"""Deletion costs of neighbours lie that far apart."""

_Path: TypeAlias = list[tuple[int, int]]
"""Subsets, each with a cluster whose unit it gives up; the last one takes what is left there."""


@dataclass(frozen=True, slots=True)
class Subsets:
    """The subsets in their order. Masks and numbers are by subset, or by subset and cluster.

    Args:
        names: of the subsets.
        inside: shape (subsets, n), which clusters each matches; a cluster may lie in several.
        cap: shape (subsets,), the most units that count to each; UNBOUNDED for no cap.
        closed: shape (subsets,), takes no new unit.
        overflow: shape (subsets,), is filled up to its cap whatever room its clusters have.
        rank: shape (subsets, n), how much each subset prefers its clusters, the greater the more.
        crowded: shape (n,), where only a lack of room keeps new units away.
        keeps: which of a cluster's units count where there are too many: of the best ranks, of the
            fullest clusters, or by weight.
        order: shape (n,), distinct, of equals the lowest goes first; as they stand without.
        weight: shape (n,), for `keeps` by weight; all alike without.
    """

    names: Sequence[str]
    inside: Mask
    cap: Ints
    closed: Mask
    overflow: Mask
    rank: Ints
    crowded: Mask
    keeps: Inside = Inside.RANK
    order: Ints | None = None
    weight: Ints | None = None

    def check(self, size: int) -> None:
        """Refuse what cannot be.

        Raises:
            ValueError: names the field and the value.
        """
        subsets = len(self.names)
        if not subsets:
            raise ValueError("subsets.names: at least one")
        for name, column, shape in (
            ("inside", self.inside, (subsets, size)),
            ("cap", self.cap, (subsets,)),
            ("closed", self.closed, (subsets,)),
            ("overflow", self.overflow, (subsets,)),
            ("rank", self.rank, (subsets, size)),
            ("crowded", self.crowded, (size,)),
        ):
            if column.shape != shape:
                raise ValueError(f"subsets.{name}: of shape {shape}, found {column.shape}")
        wrong = np.flatnonzero((self.cap < 0) | (self.cap > MAX_UNITS))
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(f"subsets.cap[{at}]: 0 to {MAX_UNITS}, found {int(self.cap[at])}")

    @property
    def home(self) -> Ints:
        """Shape (n,): the first subset that matches each cluster; `len(names)` where none does."""
        return np.where(self.inside.any(axis=0), self.inside.argmax(axis=0), len(self.names))

    @property
    def overlaps(self) -> bool:
        """Whether a cluster lies in several."""
        return bool((self.inside.sum(axis=0) > 1).any())

    def counted(self, units: Ints) -> Ints:
        """Shape (subsets,): the units that count to each, at most its cap."""
        if self.overlaps:
            return np.asarray(self.classified(units)[0].sum(axis=1), dtype=np.int64)
        size = len(self.names)
        return np.minimum(sums(self.home, units, size + 1)[:size], self.cap)

    def full(self, counted: Ints) -> Ints:
        """Those that are at their cap when so many units count to each."""
        found: Ints = np.flatnonzero((counted >= self.cap) & (self.cap < MAX_UNITS))
        return found

    def classified(self, units: Ints) -> tuple[Ints, Ints, Ints]:
        """Which units count to which subset.

        Args:
            units: shape (n,), what each cluster holds.

        Returns:
            those that count to each subset, and the excess of each: shape (subsets, n); and those
            outside of all: shape (n,).
        """
        home, size = self.home, len(self.names)
        outside = np.where(home == size, units, 0)
        counted = np.zeros(self.inside.shape, dtype=np.int64)
        left, whole = units - outside, np.zeros_like(home)
        if self.overlaps:
            for at in range(size):
                mine = np.where(self.inside[at], left, 0)
                counted[at] = self._kept(whole, mine, self.cap[at : at + 1], self.rank[at])
                left = left - counted[at]
                self._draw(at, counted, left)
        else:
            rank = self.rank.sum(axis=0, where=self.inside, dtype=np.int64)
            kept = self._kept(home, left, np.append(self.cap, 0), rank)
            counted[:] = np.where(self.inside, kept, 0)
            left = left - kept
        excess = np.where(home == np.arange(size)[:, None], left, 0)
        return counted, excess, outside

    def cost(self) -> tuple[Ints, Ints, int]:
        """The deletion costs of units that count, of each subset's excess, and outside of all."""
        size = len(self.names)
        place = np.arange(size, dtype=np.int64)
        return _STEP * (size - place), -_STEP * (place + 1), -_STEP * (size + 1)

    def score(self, at: int, score: Ints) -> Ints:
        """Shape (n,): how well each cluster suits a subset, the greater the better.

        First those that no earlier subset matches, then by preference, then by `score`.
        """
        mine, own, rank = self.inside[at], self.home == at, self.rank[at]
        if not mine.any() or (own[mine].all() and (rank[mine] == rank[mine][0]).all()):
            return score
        return _dense(score, rank, own.astype(np.int64))

    def best_first(self, score: Ints) -> Ints:
        """Shape (n,): scores over all subsets, those of an earlier one the greater."""
        rank = self.rank[np.minimum(self.home, len(self.names) - 1), np.arange(len(score))]
        return _dense(score, rank, -self.home)

    def open_to(self, able: Mask) -> Mask:
        """Shape (n,): of these clusters those that a subset matches which takes new units."""
        found: Mask = able & self.inside[~self.closed].any(axis=0)
        return found

    def passing(self, able: Mask) -> Mask:
        """Shape (n,): of these clusters, and those that lack room, which may take more than fit."""
        over = self.inside[self.overflow & ~self.closed].any(axis=0)
        found: Mask = over & (able | self.crowded)
        return found

    def _kept(self, place: Ints, units: Ints, most: Ints, rank: Ints) -> Ints:
        """Of the units of each place, so many that the rule between clusters would give first."""
        order = np.arange(len(units)) if self.order is None else self.order
        if self.keeps is Inside.WEIGHT:
            weight = np.ones_like(units) if self.weight is None else np.maximum(self.weight, 1)
            return until_full(weight, np.zeros_like(units), units, order, place, most)
        best = rank if self.keeps is Inside.RANK else units
        return in_line(np.lexsort((order, -best, place)), place, units, most)

    def _draw(self, at: int, counted: Ints, left: Ints) -> None:
        """Fill a subset with units of earlier ones that find another in their stead; in place."""
        while (lacking := int(self.cap[at] - counted[at].sum())) > 0:
            path = self._path(at, counted, left)
            if path is None:
                return
            *through, (last, row) = path
            moved = min([lacking, int(left[row]), *(int(counted[j, r]) for j, r in through)])
            to = at
            for giver, where in through:
                counted[giver, where] -= moved
                counted[to, where] += moved
                to = giver
            counted[last, row] += moved
            left[row] -= moved

    def _path(self, at: int, counted: Ints, left: Ints) -> _Path | None:
        """From subset to subset, the shortest way to a unit that is left over; None without one."""
        came: dict[int, _Path] = {at: []}
        line = [at]
        for to in line:
            for giver in range(at):
                gives = self.inside[to] & (counted[giver] > 0)
                if giver in came or not gives.any():
                    continue
                came[giver] = [*came[to], (giver, int(gives.argmax()))]
                line.append(giver)
                spare = self.inside[giver] & (left > 0)
                if spare.any():
                    return [*came[giver], (giver, int(spare.argmax()))]
        return None


def _dense(*keys: Ints) -> Ints:
    """Shape as the keys: small numbers that sort as they do, the last key first."""
    line = np.lexsort(keys)
    new = np.zeros(len(line), dtype=np.bool_)
    for key in keys:
        new[1:] |= np.diff(key[line]) != 0
    found = np.empty(len(line), dtype=np.int64)
    found[line] = np.cumsum(new)
    return found
