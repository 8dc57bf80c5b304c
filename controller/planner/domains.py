"""Which domains to use, where their number is bounded on one level or on several at once.

A level sorts the clusters into domains (regions, zones, single clusters) and says how many to use
at the least and at the most. Clusters stand best first. A domain in use is always kept.

- `in_turn` takes the best domains level by level. It is fast, but may miss a choice.
- `largest_capacity` looks at all levels together. For one level, and for two that nest, its answer
  has the most of the needed room, and None means that no choice keeps to the bounds. Of other
  levels promising choices are tried, and the best is improved level by level. Where another choice
  might have more room, or the steps run out, `Effort.short` is set.

Where no choice has the needed room, the most room counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.planner.levels import (
    Effort,
    Leaves,
    Level,
    distinct,
    first_of_each,
    met,
    nested,
    parents,
    table,
    tight,
    work,
)
from controller.planner.webster import Ints, Mask, sums

__all__ = ["Effort", "Level", "in_turn", "largest_capacity", "met", "one_level", "two_levels"]

LOOKS = 32
"""The number of domains that are tried one by one."""


def in_turn(levels: Sequence[Level], held: Mask) -> Mask:
    """Take the first domains of each level in turn, of those that the levels before have left.

    Returns the clusters to use; bounds from below may be missed.
    """
    left = np.ones(len(held), dtype=np.bool_)
    before = np.zeros(len(held), dtype=np.int64)
    for level in levels:
        ranked = _ranked(level.domain, np.flatnonzero(left), held, before)
        most = max(level.most, level.count(held))
        if most < len(ranked):
            kept = np.zeros(level.size, dtype=np.bool_)
            kept[ranked[:most]] = True
            left &= kept[level.domain]
        before = level.domain
    return left


def _ranked(domain: Ints, line: Ints, held: Mask, before: Ints) -> Ints:
    """Sort the domains: those in use, one for each domain of the level before, the rest."""
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


def largest_capacity(
    levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort | None = None
) -> Mask | None:
    """Return the clusters to use, for all levels together; see the module for the promises.

    `room` has the replicas that each can take, above 0. More room than `need` is of no use; below 0
    is like 0. `effort` is the budget of steps; None for a full one.
    """
    effort, need = effort or Effort(), max(need, 0)
    every = np.ones(len(held), dtype=np.bool_)
    if not met(levels, every):
        return None
    bounds = tight(levels, held)
    if any(level.least > level.most for level in bounds):
        return None
    if not bounds:
        return every
    if len(bounds) == 1:
        return _alone(bounds[0], held, room, need, effort)
    fine = sorted(bounds, key=lambda level: level.size)
    if len(fine) == 2 and nested(*fine):
        found = _nested(fine, held, room, need, effort)
        if found is not None or not effort.short:
            return found
    return _Crossing(bounds, held, room, need, effort).chosen()


def _nested(
    levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort
) -> Mask | None:
    """Choose for two levels that nest, the best outer domains before the best inner ones."""
    coarse, fine = levels
    leaves = _leaves(levels, held, room)
    least, most = (coarse.least, fine.least), (coarse.most, fine.most)
    return _of(fine, two_levels(least, most, leaves, need, effort))


def two_levels(
    least: tuple[int, int], most: tuple[int, int], leaves: Leaves, need: int, effort: Effort
) -> Ints | None:
    """Return the inner domains; None where no choice keeps to the bounds, or steps run out."""
    return _ByTable(least, most, leaves, effort).chosen(need)


def _alone(level: Level, held: Mask, room: Ints, need: int, effort: Effort) -> Mask | None:
    return _of(level, one_level(level.most, _leaves([level], held, room), need, effort))


def _of(level: Level, chosen: Ints | None) -> Mask | None:
    if chosen is None:
        return None
    used = np.zeros(level.size, dtype=np.bool_)
    used[chosen] = True
    mask: Mask = used[level.domain]
    return mask


@dataclass(frozen=True, slots=True)
class _ByTable:
    """A choice between the leaves of two levels, the outer one first in `least` and `most`."""

    least: tuple[int, int]
    most: tuple[int, int]
    leaves: Leaves
    effort: Effort

    def chosen(self, need: int) -> Ints | None:
        parent = self.leaves.parent
        kept = np.bincount(parent, weights=self.leaves.held) > 0
        chosen = self._best(kept)
        if chosen is None or self._room(chosen) < need:
            return chosen
        for best in np.flatnonzero(~kept)[:LOOKS].tolist():
            if int(np.count_nonzero(kept)) == self.most[0]:
                break
            more = kept.copy()
            more[best] = True
            if not (parent[chosen] == best).any():
                found = self._best(more)
                if found is None or self._room(found) < need:
                    continue
                chosen = found
            kept = more
        used = np.zeros_like(kept)
        used[parent[chosen]] = True
        return self._inner(parent, used, need, chosen)

    def _room(self, chosen: Ints) -> int:
        return int(self.leaves.room[chosen].sum())

    def _best(self, used: Mask) -> Ints | None:
        if not self.effort.spend(work(self.most, len(self.leaves.room), len(used))):
            return None
        return table(self.most, self.leaves, used).best(self.least)

    def _inner(self, parent: Ints, used: Mask, need: int, chosen: Ints) -> Ints:
        """Return the longest run of the best inner domains that suffices, and the roomiest too."""
        leaves, inside = self.leaves, np.flatnonzero(used[parent])
        leading = _leading(parent[inside])
        inside = inside[np.lexsort((inside, ~leading, ~leaves.held[inside]))]
        roomy = inside[np.argsort(-leaves.room[inside], kind="stable")]
        low = int(np.count_nonzero(leaves.held[inside]))
        high = min(self.most[1], len(inside)) + 1
        while high - low > 1:
            run = (low + high) // 2
            found = _filled(self.most[1], parent, inside[:run], roomy)
            if len(found) <= self.most[1] and self._room(found) >= need:
                low, chosen = run, found
            else:
                high = run
        return chosen


def _leading(parent: Ints) -> Mask:
    mask = np.zeros(len(parent), dtype=np.bool_)
    mask[first_of_each(parent)] = True
    return mask


def _filled(most: int, parent: Ints, run: Ints, roomy: Ints) -> Ints:
    """Add to the run the roomiest leaf of each other outer domain, then the roomiest others."""
    taken = np.zeros(len(parent), dtype=np.bool_)
    taken[run] = True
    covered = np.zeros(int(parent.max()) + 1, dtype=np.bool_)
    covered[parent[run]] = True
    others = roomy[~taken[roomy]]
    lead = _leading(parent[others]) & ~covered[parent[others]]
    return np.concatenate((run, others[lead], others[~lead]))[
        : max(most, len(run) + int(lead.sum()))
    ]


def one_level(most: int, leaves: Leaves, need: int, effort: Effort) -> Ints:
    """Return `most` domains, those in use among them."""
    line = leaves.line()
    if int(leaves.room[line[:most]].sum()) < need:
        return line[:most]
    held = np.flatnonzero(leaves.held)
    kept, places, need = held, most - len(held), need - int(leaves.room[held].sum())
    line = line[len(held) :]
    open_ = ~leaves.held
    for _ in range(min(places, LOOKS)):
        if not effort.columns(6, len(line)):
            break
        others = int(leaves.room[line[: places - 1]].sum())
        fitting = np.flatnonzero(open_ & (leaves.room >= need - others))
        if not len(fitting):
            break
        best = fitting[:1]
        kept = np.concatenate((kept, best))
        open_[: best[0] + 1] = False
        line = line[line != best[0]]
        places, need = places - 1, need - int(leaves.room[best[0]])
    return np.concatenate((kept, line[:places]))


def _leaves(levels: Sequence[Level], held: Mask, room: Ints) -> Leaves:
    fine = levels[-1]
    total = np.bincount(fine.domain, weights=room, minlength=fine.size).astype(np.int64)
    taken = np.bincount(fine.domain, weights=held, minlength=fine.size) > 0
    parent = parents(levels[0], fine) if len(levels) > 1 else np.zeros_like(total)
    return Leaves(total, taken, parent)


class _Crossing:
    """A choice between levels of which at least two cross, or more than two nest."""

    def __init__(
        self, levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort
    ) -> None:
        self.levels, self.held, self.room, self.need = levels, held, room, need
        self.effort = effort
        self.best: Mask | None = None
        self.value = -1

    def chosen(self) -> Mask | None:
        """Return the best choice tried; None where none keeps to the bounds."""
        if not (self._start() or self._improve()):
            most = min(_most(level, self.room) for level in self.levels)
            self.effort.short |= self.value < min(self.need, most)
        return self.best

    def _start(self) -> bool:
        """Choose level by level, by rank as far as that suffices, then by room; in several orders.

        Returns whether the room suffices, or the steps do not.
        """
        number = len(self.levels)
        turns = [([*range(number)], roomy) for roomy in range(number + 1)]
        turns += [([*range(n, number), *range(n)], number) for n in range(1, number)]
        turns += [([*range(number)][::-1], number)]
        every = np.ones(len(self.held), dtype=np.bool_)
        return any(self._ends(every, line, roomy) for line, roomy in turns)

    def _improve(self) -> bool:
        value = None
        while self.best is not None and self.value != value:
            value = self.value
            for at, level in enumerate(self.levels):
                used = [e.among(self.best)[e.domain] for e in self.levels if e is not level]
                if self._ends(np.logical_and.reduce(used), [at], 1):
                    return True
        return False

    def _ends(self, rows: Mask, line: Sequence[int], roomy: int) -> bool:
        """Choose these levels of the rows, the last `roomy` by room; see `_start`."""
        for place, at in enumerate(line, start=roomy - len(line)):
            picked = self._picked(at, rows, by_room=place >= 0)
            if picked is None:
                return True
            rows = rows & picked[self.levels[at].domain]
        value = min(int(self.room[rows].sum()), self.need)
        kept = all(each.least <= each.count(rows) <= each.most for each in self.levels)
        if kept and value > self.value:
            self.best, self.value = rows, value
        return self.value == self.need

    def _picked(self, at: int, rows: Mask, *, by_room: bool) -> Mask | None:
        """Return as many domains as the level may use; None where the steps do not suffice."""
        level = self.levels[at]
        if not self.effort.columns(4 + len(self.levels), len(rows) + level.size):
            return None
        inside = np.flatnonzero(rows)
        domain = level.domain[inside]
        rank = totals = sums(domain, self.room[inside], level.size)
        if int(np.count_nonzero(totals)) <= level.most:
            return totals > 0
        if not by_room:
            rank = np.zeros_like(totals)
            rank[domain[::-1]] = np.arange(1, len(domain) + 1)
        kept = level.among(self.held)
        picked = _first(kept, rank, level.most)
        lacking = [
            each
            for each in self.levels
            if each is not level and each.count(rows & picked[level.domain]) < each.least
        ]
        return self._covering(level, kept, inside, rank, lacking) if lacking else picked

    def _covering(
        self, level: Level, kept: Mask, inside: Ints, rank: Ints, lacking: Sequence[Level]
    ) -> Mask | None:
        """Take first the domains with most of those that the other levels lack, then by rank."""
        picked, domain = kept.copy(), level.domain[inside]
        inner = [each.domain[inside] for each in lacking]
        covered = [each.among(self.held) for each in lacking]
        pairs = [distinct(domain * each.size + of) for each, of in zip(lacking, inner, strict=True)]
        while int(np.count_nonzero(picked)) < level.most:
            if not self.effort.columns(4 * len(lacking), len(inside) + level.size):
                return None
            gain = np.zeros(level.size)
            for each, pair, seen in zip(lacking, pairs, covered, strict=True):
                missing = max(each.least - int(np.count_nonzero(seen)), 0)
                fresh = pair[~seen[pair % each.size]]
                counts = np.bincount(fresh // each.size, minlength=level.size)
                gain += np.minimum(counts, missing)
            gain[picked] = 0
            if not gain.max():
                break
            best = np.flatnonzero(gain == gain.max())
            added = best[rank[best].argmax()]
            picked[added] = True
            for of, seen in zip(inner, covered, strict=True):
                seen[of[domain == added]] = True
        return _first(picked, rank, level.most)


def _most(level: Level, room: Ints) -> int:
    return int(np.sort(sums(level.domain, room, level.size))[-level.most :].sum())


def _first(picked: Mask, rank: Ints, most: int) -> Mask:
    line = np.argsort(-np.where(picked, 0, rank), kind="stable")
    more = line[: max(most - int(np.count_nonzero(picked)), 0)]
    both = picked.copy()
    both[more[rank[more] > 0]] = True
    return both
