"""Which domains to use, where their number is bounded on one level or on several at once.

A level sorts the clusters into domains (regions, zones, single clusters) and says how many of them
to use at the least and at the most. Clusters stand best first, and what is held is always used: a
level of which more is held than its most allows just that.

- `in_turn` takes the best domains level by level: fast, and what somebody would expect who looks
  at the ranking. It may miss a choice that there is.
- `roomiest` looks at all levels together. Where they nest (each domain of one lies in one domain of
  the other), it answers None only where no choice keeps to all bounds, and no choice that keeps to
  them has more of the room that is needed: for one level at any size, for more as long as a table
  over the numbers of domains stays within `TABLE` entries (for two it nearly always does, see
  `controller.apportion.prices`). Where levels cross, such as regions and providers, it tries up to
  `WAYS` choices of the first one's domains. It may miss the best choice there, and beyond these
  sizes, or any; what it answers keeps to the bounds all the same.

Pure; equal inputs give equal answers, and of equal domains the one that stands first is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import comb

import numpy as np

from controller.apportion.divisor import Ints, Mask
from controller.apportion.keeping import one_level, two_levels
from controller.apportion.tables import TABLE, Leaves, first_of_each, joined, work

WAYS = 100
"""Choices of a level's domains that are tried one after the other, where it crosses another."""


@dataclass(frozen=True, slots=True)
class Level:
    """Domains, and how many to use. `domain` has one entry a cluster, a small number from 0 on."""

    domain: Ints
    least: int
    most: int

    def of(self, rows: Ints | Mask) -> Level:
        """The same of some of the clusters."""
        return replace(self, domain=self.domain[rows])

    def count(self, rows: Mask) -> int:
        """How many domains these clusters are in."""
        return int(np.count_nonzero(np.bincount(self.domain[rows])))


def met(levels: Iterable[Level], used: Mask) -> bool:
    """Whether enough domains of each level are used, and any at all."""
    enough = (level.least <= 1 or level.count(used) >= level.least for level in levels)
    return bool(used.any()) and all(enough)


def in_turn(levels: Sequence[Level], held: Mask, lines: Sequence[Ints] | None = None) -> Mask:
    """The first domains of each level in its turn, of those that the levels before have left.

    Args:
        levels: the bounds, in the order in which they narrow the choice.
        held: the clusters that are in use.
        lines: for each level the clusters, the best first; without, as they stand.

    Returns:
        the clusters to use; bounds from below may be missed.
    """
    left = np.ones(len(held), dtype=np.bool_)
    before = np.zeros(len(held), dtype=np.int64)
    for at, level in enumerate(levels):
        line = np.flatnonzero(left) if lines is None else lines[at][left[lines[at]]]
        ranked = _ranked(level.domain, line, held, before)
        most = max(level.most, level.count(held))
        if most < len(ranked):
            kept = np.zeros(int(level.domain.max()) + 1, dtype=np.bool_)
            kept[ranked[:most]] = True
            left &= kept[level.domain]
        before = level.domain
    return left


def _ranked(domain: Ints, line: Ints, held: Mask, before: Ints) -> Ints:
    """The domains: what is held, then one for each domain of the level before, then the rest."""
    leading = held[line]
    leads = first_of_each(before[line])
    fresh = np.ones(int(before.max(initial=0)) + 1, dtype=np.bool_)
    fresh[before[line[leading]]] = False
    leads = leads[fresh[before[line[leads]]]]
    rest = ~leading
    rest[leads] = False
    order = np.concatenate((line[leading], line[leads], line[rest]))
    found = domain[order]
    ranked: Ints = found[first_of_each(found)]
    return ranked


def roomiest(levels: Sequence[Level], held: Mask, room: Ints, need: int) -> Mask | None:
    """The clusters to use, all levels looked at together; see the module for what is promised.

    Args:
        levels: the bounds.
        held: the clusters that are in use.
        room: what each can take, above 0.
        need: more room than that is of no use.
    """
    every = np.ones(len(held), dtype=np.bool_)
    if not met(levels, every):
        return None
    bounded = [_tight(level, held) for level in levels]
    tight = sorted(
        (level for level in bounded if level.least > 1 or level.most < level.count(every)),
        key=lambda level: level.count(every),
    )
    if not tight:
        return every
    if any(not _nested(coarse, fine) for coarse, fine in pairwise(tight)):
        return _crossing(tight, held, room, need)
    return _nesting(tight, held, room, need)


def _tight(level: Level, held: Mask) -> Level:
    """Numbered as they stand, without gaps, and with what is held as the least of its most."""
    known = level.domain[first_of_each(level.domain)]
    number = np.zeros(int(level.domain.max()) + 1, dtype=np.int64)
    number[known] = np.arange(len(known))
    most = min(max(level.most, level.count(held)), len(known))
    return Level(number[level.domain], level.least, most)


def _nested(coarse: Level, fine: Level) -> bool:
    return bool((_parents(coarse, fine)[fine.domain] == coarse.domain).all())


def _parents(coarse: Level, fine: Level) -> Ints:
    """The domain of `coarse` in which each domain of `fine` lies."""
    parents = np.zeros(int(fine.domain.max()) + 1, dtype=np.int64)
    parents[fine.domain] = coarse.domain
    return parents


def _nesting(levels: Sequence[Level], held: Mask, room: Ints, need: int) -> Mask | None:
    """Levels that nest, the coarsest first."""
    leaves = _leaves(levels, held, room)
    least, most = [level.least for level in levels], [level.most for level in levels]
    chosen: Ints | None
    if len(levels) == 1:
        chosen = one_level(most[0], leaves, need)
    elif len(levels) == 2:
        chosen = two_levels((least[0], least[1]), (most[0], most[1]), leaves, need)
    elif work(most, int(np.minimum(np.bincount(leaves.parents[-1]), most[-1]).sum())) <= TABLE:
        chosen = joined(most, leaves).best(least)
    else:
        chosen = None
    if chosen is None:
        return _roomy_in_turn(levels, held, room)
    used = np.zeros(len(leaves.room), dtype=np.bool_)
    used[chosen] = True
    mask: Mask = used[levels[-1].domain]
    return mask


def _leaves(levels: Sequence[Level], held: Mask, room: Ints) -> Leaves:
    """The domains of the finest level, with the coarser ones that they lie in."""
    fine = levels[-1]
    size = int(fine.domain.max()) + 1
    total = np.bincount(fine.domain, weights=room, minlength=size).astype(np.int64)
    taken = np.bincount(fine.domain, weights=held, minlength=size) > 0
    parents = tuple(_parents(coarse, fine) for coarse in levels[:-1])
    return Leaves(total, taken, parents)


def _crossing(levels: Sequence[Level], held: Mask, room: Ints, need: int) -> Mask | None:
    """Levels that do not nest: each choice of the first one's domains, and the rest within it."""
    first, rest = levels[0], levels[1:]
    taken = np.unique(first.domain[held])
    others = np.setdiff1d(np.arange(int(first.domain.max()) + 1), taken)
    number = min(first.most - len(taken), len(others))
    if comb(len(others), number) > WAYS:
        return _roomy_in_turn(levels, held, room)
    best, most = None, -1
    for added in combinations(others.tolist(), number):
        rows = np.flatnonzero(np.isin(first.domain, [*taken, *added]))
        inside = [level.of(rows) for level in rest]
        found = _covering(first.of(rows), inside, held[rows], room[rows], need)
        if found is None:
            continue
        value = min(int(room[rows[found]].sum()), need)
        if value > most:
            best, most = rows[found], value
        if most == need:
            break
    return None if best is None else _mask(len(held), best)


def _covering(
    first: Level, rest: Sequence[Level], held: Mask, room: Ints, need: int
) -> Mask | None:
    """The roomiest for the other levels; while it lacks domains of the first, one more is set."""
    fixed = held.copy()
    while (found := roomiest(rest, fixed, room, need)) is not None:
        if any(level.count(found) > level.most for level in rest):
            return None
        lacking = ~np.isin(first.domain, first.domain[found])
        if met([first], found) or not lacking.any():
            return found if met([first], found) else None
        fixed[np.where(lacking, room, -1).argmax()] = True
    return None


def _roomy_in_turn(levels: Sequence[Level], held: Mask, room: Ints) -> Mask | None:
    """The roomiest domains level by level."""
    totals = [np.bincount(level.domain, weights=room)[level.domain] for level in levels]
    lines = [np.lexsort((-total, ~held)) for total in totals]
    found = in_turn(levels, held, lines)
    return found if met(levels, found) else None


def _mask(size: int, rows: Ints) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[rows] = True
    return mask
