"""The most room for each number of domains on each level, by a table that grows domain by domain.

A knapsack over nested levels: the entry (2, 5) of the root's table is the most room that two
regions with five zones among them have. A domain's own table covers the levels below it; the tables
of siblings are joined one after the other, each entry trying every entry of the next sibling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from controller.apportion.divisor import Ints, Mask

_NONE = -(2**60)
"""The entry of a number of domains that cannot be; sums with it stay below 0."""


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

    def chosen(self, cell: tuple[int, ...]) -> list[int]:
        """The leaves that the entry stands for."""
        leaves: list[int] = self.line[: cell[0]].tolist()
        return leaves


@dataclass(frozen=True, slots=True)
class Table:
    """Domains joined: `room` by the number of them and of what they use on each level below.

    `picks` tells for each part, and each entry after it was joined, which of the part's entries
    went in, as a flat index; -1 for none.
    """

    room: Ints
    held: bool
    parts: Sequence[Table | Row]
    picks: Sequence[Ints]

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
        return leaves

    def best(self, least: Sequence[int]) -> Ints | None:
        """The leaves of the roomiest entry with at least so many domains on each level."""
        allowed = self.room[tuple(slice(n, None) for n in least)]
        if not allowed.size or int(allowed.max()) < 0:
            return None
        cell = np.unravel_index(int(allowed.argmax()), allowed.shape)
        return np.array(self.chosen(tuple(int(i) + n for i, n in zip(cell, least, strict=True))))


def joined(most: Sequence[int], leaves: Leaves) -> Table:
    """The table of all domains of the coarsest level; `most` bounds the number on each level."""
    return _table(most, leaves, np.arange(len(leaves.room)), 0)


def _table(most: Sequence[int], leaves: Leaves, rows: Ints, depth: int) -> Table:
    """The domains of one level among these leaves."""
    parent = leaves.parents[depth][rows]
    inside = [rows[parent == domain] for domain in np.unique(parent)]
    parts = [
        _row(most[-1], leaves, each)
        if depth + 2 == len(most)
        else _table(most, leaves, each, depth + 1)
        for each in inside
    ]
    size = [min(most[depth], len(parts)), *(min(n, len(rows)) for n in most[depth + 1 :])]
    room = np.full([n + 1 for n in size], _NONE, dtype=np.int64)
    room[(0,) * len(size)] = 0
    picks = []
    for part in parts:
        room, pick = _with(room, part)
        picks.append(pick)
    if depth:
        room[(0,) * len(size)] = _NONE  # a domain that is used has something in it
    return Table(room, bool(leaves.held[rows].any()), parts, picks)


def _row(most: int, leaves: Leaves, rows: Ints) -> Row:
    line = leaves.line(rows)[:most]
    room = np.concatenate(([_NONE], np.cumsum(leaves.room[line])))
    held = int(leaves.held[rows].sum())
    room[:held] = _NONE
    return Row(room, held > 0, line)


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
