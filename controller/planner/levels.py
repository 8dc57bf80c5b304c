"""Levels of domains: clusters sorted by a label, how many of its values may be used, and the cost.

A table is a knapsack over two nested levels: entry (2, 5) is the most room of two regions with five
zones among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from controller.planner.webster import Ints, Mask

STEPS = 2_000_000
"""Steps of one choice of domains, all its parts together: some ten milliseconds."""

LOOK = 500
"""Steps of looking at a column at all."""

FOLD = 12_000
"""Steps of joining one more domain to a table, besides its entries."""

_NONE = -(2**60)
"""An impossible number of domains; sums with it stay below 0."""


@dataclass(slots=True)
class Effort:
    """The steps that are left; `short` where something was left out for the lack of them."""

    left: int = STEPS
    short: bool = False

    def spend(self, steps: int) -> bool:
        """Take the steps off the budget; return False, and take none, if too few are left."""
        if steps > self.left:
            self.short = True
            return False
        self.left -= steps
        return True

    def columns(self, number: int, length: int) -> bool:
        return self.spend(number * (length + LOOK))


def first_of_each(values: Ints) -> Ints:
    """Return the place of the first of each value, ascending; values are small and not negative."""
    places = np.arange(len(values))
    first = np.zeros(int(values.max(initial=0)) + 1, dtype=np.int64)
    first[values[::-1]] = places[::-1]  # of equal values the last one written stays
    found: Ints = np.flatnonzero(first[values] == places)
    return found


def distinct(values: Ints) -> Ints:
    """Return each value once, ascending; none is below 0."""
    line = np.sort(values)
    found: Ints = line[np.diff(line, prepend=-1) > 0]
    return found


@dataclass(frozen=True, slots=True)
class Level:
    """Domains, and how many to use. `domain` has one entry a cluster, a small number from 0 on."""

    domain: Ints
    least: int
    most: int

    def of(self, rows: Ints | Mask) -> Level:
        return replace(self, domain=self.domain[rows])

    def count(self, rows: Mask) -> int:
        return int(np.count_nonzero(np.bincount(self.domain[rows])))

    def among(self, rows: Mask) -> Mask:
        mask: Mask = np.bincount(self.domain[rows], minlength=self.size) > 0
        return mask

    def numbered(self) -> Level:
        """Return the level with its domains numbered without gaps, in the order of the clusters."""
        known = self.domain[first_of_each(self.domain)]
        number = np.zeros(self.size, dtype=np.int64)
        number[known] = np.arange(len(known))
        return replace(self, domain=number[self.domain])

    @property
    def size(self) -> int:
        return int(self.domain.max(initial=-1)) + 1


def met(levels: Iterable[Level], used: Mask) -> bool:
    """Whether enough domains of each level are used, and any at all."""
    enough = (level.least <= 1 or level.count(used) >= level.least for level in levels)
    return bool(used.any()) and all(enough)


def nested(coarse: Level, fine: Level) -> bool:
    """Whether each domain of `fine` lies in one of `coarse`."""
    return bool((parents(coarse, fine)[fine.domain] == coarse.domain).all())


def parents(coarse: Level, fine: Level) -> Ints:
    """Return the domain of `coarse` in which each domain of `fine` lies."""
    found = np.zeros(fine.size, dtype=np.int64)
    found[fine.domain] = coarse.domain
    return found


def tight(levels: Sequence[Level], held: Mask) -> list[Level]:
    """Return the levels that bound anything, each once, in their order.

    Levels that sort the clusters alike are joined. An upper bound rises to the domains in use.
    """
    found: dict[bytes, Level] = {}
    for level in levels:
        one = level.numbered()
        one = replace(one, most=min(max(level.most, level.count(held)), one.size))
        twin = found.get(one.domain.tobytes(), one)
        least, most = max(one.least, twin.least), min(one.most, twin.most)
        found[one.domain.tobytes()] = replace(one, least=least, most=most)
    return [each for each in found.values() if each.least > 1 or each.most < each.size]


@dataclass(frozen=True, slots=True)
class Leaves:
    """The domains of the finer level: their room, whether they are in use, and the coarser domain.

    `parent` is a number from 0 on without gaps, 0 for all of a single level.
    """

    room: Ints
    held: Mask
    parent: Ints

    def line(self, rows: Ints | None = None) -> Ints:
        """Sort these leaves, or all: those in use, then the roomiest."""
        if rows is None:
            return np.lexsort((-self.room, ~self.held))
        return rows[np.lexsort((-self.room[rows], ~self.held[rows]))]


@dataclass(frozen=True, slots=True)
class RoomTable:
    """`room` by the number of coarser and of finer domains.

    For each coarser domain, `picks` holds how many of its finer ones each entry took when the
    domain was joined, and `lines` which they are, the first to be taken first.
    """

    room: Ints
    lines: Sequence[Ints]
    picks: Sequence[Ints]

    def best(self, least: Sequence[int]) -> Ints | None:
        """Return the leaves of the roomiest entry with at least `least` domains on each level."""
        allowed = self.room[least[0] :, least[1] :]
        if not allowed.size or int(allowed.max()) < 0:
            return None
        coarse, fine = np.unravel_index(int(allowed.argmax()), allowed.shape)
        return self._leaves(int(coarse) + least[0], int(fine) + least[1])

    def _leaves(self, coarse: int, fine: int) -> Ints:
        found: list[Ints] = []
        for line, pick in zip(reversed(self.lines), reversed(self.picks), strict=True):
            number = int(pick[coarse, fine])
            if number:
                found.append(line[:number])
                coarse, fine = coarse - 1, fine - number
        return np.concatenate(found)


def work(most: Sequence[int], leaves: int, parts: int) -> int:
    """Estimate the steps of a table."""
    return prod(number + 1 for number in most) * leaves + parts * FOLD


def table(most: Sequence[int], leaves: Leaves, used: Mask | None = None) -> RoomTable:
    """Return the table of these leaves; `most` bounds the number on each level, the coarser first.

    Every entry uses the coarser domains in `used`, and those in use already.
    """
    parent = leaves.parent
    coarse = distinct(parent)
    places = (np.flatnonzero(parent == each) for each in coarse)
    lines = [leaves.line(rows)[: most[1]] for rows in places]
    shape = min(most[0], len(lines)) + 1, min(most[1], len(parent)) + 1
    room = np.full(shape, _NONE, dtype=np.int64)
    room[0, 0] = 0
    picks = []
    for each, line in zip(coarse.tolist(), lines, strict=True):
        room, pick = _with(room, leaves, line, used=used is not None and bool(used[each]))
        picks.append(pick)
    return RoomTable(room, lines, picks)


def _with(room: Ints, leaves: Leaves, line: Ints, *, used: bool) -> tuple[Ints, Ints]:
    held = int(np.count_nonzero(leaves.held[line]))
    part = np.concatenate(([_NONE], np.cumsum(leaves.room[line])))
    # Leaves in use stand first in the line; no entry takes fewer than all of them.
    part[1:held] = _NONE
    grown = np.full_like(room, _NONE) if held or used else room.copy()
    pick = np.zeros(room.shape, dtype=np.int64)
    taken, number = _folded(room[:-1], part)
    better = taken > np.maximum(grown[1:], -1)
    grown[1:] = np.where(better, taken, grown[1:])
    pick[1:] = np.where(better, number, 0)
    return grown, pick


def _folded(base: Ints, row: Ints) -> tuple[Ints, Ints]:
    """Return the best sums of `base` and `row` along the last axis, and the number from `row`."""
    most = len(row) - 1
    gap = np.full((*base.shape[:-1], most), _NONE, dtype=np.int64)
    windows = sliding_window_view(np.concatenate((gap, base), axis=-1), most + 1, axis=-1)
    sums = windows + row[::-1]
    place: Ints = sums.argmax(axis=-1, keepdims=True)
    taken: Ints = np.take_along_axis(sums, place, axis=-1)
    return taken[..., 0], most - place[..., 0]
