"""Which domains to use, where their number is bounded on one level or on several at once.

A level sorts the clusters into domains (regions, zones, single clusters) and says how many of them
to use at the least and at the most. Clusters stand best first, and a domain in use is always kept:
a level with more of those than its most allows just these.

- `in_turn` takes the best domains level by level: fast, and what a reader of the ranking expects.
  It may miss a choice that there is.
- `largest_capacity` looks at all levels together. None means that no choice keeps to all bounds;
  otherwise no choice that keeps to them has more of the room that is needed: of one level by
  itself, of two that nest (each domain of one lies in one domain of the other) by a table, of
  others by a search (`controller.planner.crossing`). Where its budget of steps does not suffice,
  `Effort.short` says so, and the answer is the best choice that was found, which keeps to the
  bounds all the same.

The best domain is kept if any choice with it has the room that is needed, then the next one, and so
on: only as many of the best give way to roomier ones as must. After `LOOKS` domains that were tried
one by one, or where the effort is spent, the rest is taken by room. Where no choice has the room
that is needed, the most room counts and nothing else.

Pure; equal inputs give equal answers, and of equal domains the one that stands first is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.planner.crossing import Crossing
from controller.planner.levels import (
    Effort,
    Leaves,
    Level,
    first_of_each,
    met,
    nested,
    parents,
    table,
    tight,
    work,
)
from controller.planner.webster import Ints, Mask

__all__ = ["Effort", "Level", "in_turn", "largest_capacity", "met", "one_level", "two_levels"]

LOOKS = 32
"""How many domains are tried one by one."""


def in_turn(levels: Sequence[Level], held: Mask) -> Mask:
    """Take the first domains of each level in turn, of those that the levels before have left.

    Args:
        levels: the bounds, in the order in which they narrow the choice.
        held: the clusters that are in use.

    Returns:
        the clusters to use; bounds from below may be missed.
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

    Args:
        levels: the bounds.
        held: the clusters that are in use.
        room: replicas that each can take, above 0.
        need: more room than that is of no use; below 0 is like 0.
        effort: the budget of steps; None for a full one.
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
    return Crossing(bounds, held, room, need, effort).chosen(
        lambda inside, taken, free: _closing(inside, taken, free, need, effort)
    )


def _closing(
    levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort
) -> Mask | None:
    if len(levels) == 1:
        return _alone(levels[0], held, room, need, effort)
    # Two levels nest; the coarser one comes first.
    return _nested(levels, held, room, need, effort)


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
        """Return the roomiest of all choices that use these outer domains."""
        if not self.effort.spend(work(self.most, len(self.leaves.room), len(used))):
            return None
        return table(self.most, self.leaves, used).best(self.least)

    def _inner(self, parent: Ints, used: Mask, need: int, chosen: Ints) -> Ints:
        """Return the longest run of the best inner domains that will do, and the roomiest too."""
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
    """Return the domains of the finest level, with the coarser ones that they lie in."""
    fine = levels[-1]
    total = np.bincount(fine.domain, weights=room, minlength=fine.size).astype(np.int64)
    taken = np.bincount(fine.domain, weights=held, minlength=fine.size) > 0
    parent = parents(levels[0], fine) if len(levels) > 1 else np.zeros_like(total)
    return Leaves(total, taken, parent)
