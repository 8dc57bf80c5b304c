"""The most room for each number of domains on each level, by a table that grows domain by domain.

A knapsack over nested levels: the entry (2, 5) of the root's table is the most room that two
regions with five zones among them have. A domain's own table covers the levels below it; the tables
of siblings are joined one after the other, each entry trying every entry of the next sibling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from controller.apportion.divisor import Ints, Mask

TABLE = 1_000_000
"""Entries that may be looked at in all: some milliseconds."""

_NONE = -(2**60)
"""The entry of a number of domains that cannot be; sums with it stay below 0."""

_NOTHING = np.zeros(1, dtype=np.int64)


def first_of_each(values: Ints) -> Ints:
    """The place of the first one of each value, ascending; values are small and not negative."""
    places = np.arange(len(values))
    first = np.zeros(int(values.max(initial=0)) + 1, dtype=np.int64)
    first[values[::-1]] = places[::-1]  # of equal values the last one written stays
    found: Ints = np.flatnonzero(first[values] == places)
    return found


@dataclass(frozen=True, slots=True)
class Leaves:
    """The domains of the finest level: their room, whether they are held, and what they lie in.

    `parents` has an array for each coarser level, the coarsest first.
    """

    room: Ints
    held: Mask
    parents: tuple[Ints, ...]

    def line(self, rows: Ints | None = None) -> Ints:
        """These leaves, or all: what is held, then the roomiest; equals as they stand."""
        if rows is None:
            return np.lexsort((-self.room, ~self.held))
        return rows[np.lexsort((-self.room[rows], ~self.held[rows]))]


@dataclass(frozen=True, slots=True)
class Row:
    """One domain of the level above the leaves: the most room of each number of its leaves."""

    room: Ints
    held: bool
    line: Ints

    @staticmethod
    def of(leaves: Leaves, line: Ints, least: int) -> Row:
        """The first of these leaves, at least so many of them."""
        room = np.concatenate((_NOTHING, np.cumsum(leaves.room[line])))
        room[:least] = _NONE
        return Row(room, bool(leaves.held[line].any()), line)

    def chosen(self, cell: tuple[int, ...]) -> list[int]:
        """The leaves that the entry stands for."""
        leaves: list[int] = self.line[: cell[0]].tolist()
        return leaves


@dataclass(frozen=True, slots=True)
class Table:
    """Domains joined: `room` by the number of them and of what they use on each level below.

    `picks` tells for each part, and each entry after it was joined, which of the part's entries
    went in, as a flat index; -1 for none. `base` are the leaves that every entry starts from.
    """

    room: Ints
    held: bool
    parts: Sequence[Table | Row]
    picks: Sequence[Ints]
    base: Row

    def chosen(self, cell: tuple[int, ...]) -> list[int]:
        """The leaves that the entry stands for."""
        leaves: list[int] = []
        for part, pick in zip(reversed(self.parts), reversed(self.picks), strict=True):
            flat = int(pick[cell])
            if flat < 0:
                continue
            inner = tuple(int(i) for i in np.unravel_index(flat, part.room.shape))
            leaves += part.chosen(inner)
            cell = (cell[0] - 1, *(n - less for n, less in zip(cell[1:], inner, strict=True)))
        return leaves + self.base.chosen(cell[-1:])

    def best(self, least: Sequence[int]) -> Ints | None:
        """The leaves of the roomiest entry with at least so many domains on each level."""
        allowed = self.room[tuple(slice(n, None) for n in least)]
        if not allowed.size or int(allowed.max()) < 0:
            return None
        cell = np.unravel_index(int(allowed.argmax()), allowed.shape)
        return np.array(self.chosen(tuple(int(i) + n for i, n in zip(cell, least, strict=True))))


def work(most: Sequence[int], leaves: int) -> int:
    """About as many entries as the tables look at."""
    return prod(number + 1 for number in most) * leaves


def joined(
    most: Sequence[int], leaves: Leaves, rows: Ints | None = None, base: Row | None = None
) -> Table:
    """The table of the coarsest level's domains.

    Args:
        most: bounds the number on each level, the coarsest first.
        leaves: the finest level.
        rows: those that it is about; all without.
        base: leaves that are used beside them in any case, not counted on the coarser levels.
    """
    rows = np.arange(len(leaves.room)) if rows is None else rows
    return _table(most, leaves, rows, base or Row(_NOTHING, held=False, line=rows[:0]))


def _table(most: Sequence[int], leaves: Leaves, rows: Ints, base: Row) -> Table:
    """The domains of one level among these leaves, as one of them lies in the level above."""
    depth = len(leaves.parents) + 1 - len(most)
    parent = leaves.parents[depth][rows]
    parts = [_part(most[1:], leaves, rows[parent == domain]) for domain in np.unique(parent)]
    inner = [min(n, len(rows) + len(base.line)) for n in most[1:]]
    room = np.full([n + 1 for n in (min(most[0], len(parts)), *inner)], _NONE, dtype=np.int64)
    room[(0,) * len(inner)][: len(base.room)] = base.room
    picks = []
    for part in parts:
        room, pick = _with(room, part)
        picks.append(pick)
    return Table(room, bool(leaves.held[rows].any()), parts, picks, base)


def _part(most: Sequence[int], leaves: Leaves, rows: Ints) -> Table | Row:
    """One domain, which is used: it has something in it."""
    if len(most) == 1:
        held = int(np.count_nonzero(leaves.held[rows]))
        return Row.of(leaves, leaves.line(rows)[: most[0]], max(held, 1))
    table = _table(most, leaves, rows, Row(_NOTHING, held=False, line=rows[:0]))
    table.room[(0,) * len(most)] = _NONE
    return table


def _with(room: Ints, part: Table | Row) -> tuple[Ints, Ints]:
    """The table with one more domain: taken or left out; taken, if it is held."""
    grown = np.full_like(room, _NONE) if part.held else room.copy()
    pick = np.full(room.shape, -1, dtype=np.int64)
    for outer in np.ndindex(part.room.shape[:-1]):
        row, shift = part.room[outer], (1, *outer)
        if int(row.max()) < 0 or any(n >= size for n, size in zip(shift, room.shape, strict=False)):
            continue
        there = tuple(slice(n, None) for n in shift)
        base = room[tuple(slice(0, size - n) for n, size in zip(shift, room.shape, strict=False))]
        taken, number = _folded(base, row)
        better = taken > np.maximum(grown[there], -1)
        grown[there] = np.where(better, taken, grown[there])
        flat = int(np.ravel_multi_index((*outer, 0), part.room.shape)) if outer else 0
        pick[there] = np.where(better, flat + number, pick[there])
    return grown, pick


def _folded(base: Ints, row: Ints) -> tuple[Ints, Ints]:
    """Along the last axis the best sum of an entry of each, and the number taken from `row`."""
    most = len(row) - 1
    gap = np.full((*base.shape[:-1], most), _NONE, dtype=np.int64)
    windows = sliding_window_view(np.concatenate((gap, base), axis=-1), most + 1, axis=-1)
    sums = windows + row[::-1]
    place: Ints = sums.argmax(axis=-1, keepdims=True)
    taken: Ints = np.take_along_axis(sums, place, axis=-1)
    return taken[..., 0], most - place[..., 0]
