"""Several levels of domains, such as regions and providers: good choices first, then the best.

To find the best choice is as hard as any covering problem, so this is done in two parts, both
within one budget of steps (`controller.planner.levels`).

- Choices that look good: level by level the domains that stand first, or the roomiest, in several
  orders of the levels, each with care that those after it can still have as many as they need; and
  from the best of these on, one level after the other chosen again.
- A search through all choices that may be better: a domain of a level that has too many is used, or
  it is not. A case that can no longer keep to the bounds, or cannot have more room than the best
  choice so far, is left out; where one level has too many, or two that nest, their best choice
  closes the case.

The first choice with the room that is needed ends the search. A search that comes to its end
answers with the best choice there is, and with None where there is none; where the steps do not
suffice, `Effort.short` says so, and the answer is the best choice that was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.planner.levels import Effort, Level, distinct, nested
from controller.planner.webster import Ints, Mask, sums

Closing = Callable[[Sequence[Level], Mask, Ints], Mask | None]
"""Returns the best choice of one or two nested levels, given the held rows and each row's room, or
None.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Some of the clusters, and for each level the domains that are used in any case."""

    rows: Ints
    used: tuple[Mask, ...]

    def with_one(self, level: int, domain: int) -> Case:
        more = self.used[level].copy()
        more[domain] = True
        return replace(self, used=(*self.used[:level], more, *self.used[level + 1 :]))


@dataclass(frozen=True, slots=True)
class LevelSearch:
    """One level in a case: how many domains, the most room that it leaves, and the one to try."""

    number: int
    room: int
    roomiest: int


class Crossing:
    """One choice: the levels, with the bounds that the held rows allow, and the best choice so far.

    Args:
        levels: in the order in which they narrow the choice, each another sorting of the clusters.
        held, room, need, effort: as for `controller.planner.domains.largest_capacity`.
    """

    def __init__(
        self, levels: Sequence[Level], held: Mask, room: Ints, need: int, effort: Effort
    ) -> None:
        self.levels, self.held, self.room, self.need = levels, held, room, need
        self.effort = effort
        self.kept = tuple(level.among(held) for level in levels)
        self.best: Mask | None = None
        self.value = -1

    def chosen(self, closing: Closing) -> Mask | None:
        """Return the clusters to use; None where no choice was found."""
        if not (self._start() or self._improve()):
            self._search(closing)
        return self.best

    def _offer(self, rows: Mask) -> bool:
        """Keep the choice if it is better; return whether it has the room that is needed."""
        for level in self.levels:
            if not level.least <= level.count(rows) <= level.most:
                return False
        value = min(int(self.room[rows].sum()), self.need)
        if value > self.value:
            self.best, self.value = rows, value
        return value == self.need

    def _start(self) -> bool:
        """Try choices level by level: by rank as far as that will do, then by room."""
        number = len(self.levels)
        turns: list[tuple[Sequence[int], int]]
        turns = [(range(number), roomy) for roomy in range(number + 1)]
        turns += [([*range(n, number), *range(n)], number) for n in range(1, number)]
        turns += [(range(number - 1, -1, -1), number)]
        for line, roomy in turns:
            rows = np.ones(len(self.held), dtype=np.bool_)
            for place, at in enumerate(line):
                picked = self._picked(at, rows, by_room=place >= number - roomy)
                if picked is None:
                    return False
                rows &= picked[self.levels[at].domain]
            if self._offer(rows):
                return True
        return False

    def _improve(self) -> bool:
        """Choose one level after the other again by room, until that changes nothing."""
        value = None
        while self.best is not None and self.value != value:
            value = self.value
            for at, level in enumerate(self.levels):
                others = [each for each in self.levels if each is not level]
                rows = np.logical_and.reduce(
                    [each.among(self.best)[each.domain] for each in others]
                )
                picked = self._picked(at, rows, by_room=True)
                if picked is None:
                    return False
                if self._offer(rows & picked[level.domain]):
                    return True
        return False

    def _picked(self, at: int, rows: Mask, *, by_room: bool) -> Mask | None:
        """Return as many domains as the level may use; None where the steps do not suffice."""
        level, kept = self.levels[at], self.kept[at]
        if not self.effort.columns(4 + len(self.levels), len(rows) + level.size):
            return None
        inside = np.flatnonzero(rows)
        domain = level.domain[inside]
        totals = sums(domain, self.room[inside], level.size)
        if int(np.count_nonzero(totals)) <= level.most:
            return totals > 0
        rank = totals
        if not by_room:
            rank = np.zeros_like(totals)
            rank[domain[::-1]] = np.arange(1, len(domain) + 1)
        picked = _first(kept, np.where(totals > 0, rank, -1), level.most)
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
        return _first(picked, np.where(rank > 0, rank, -1), level.most)

    def _search(self, closing: Closing) -> None:
        """Try all cases that may be better, the most promising first, until the need is met."""
        cases = [Case(np.arange(len(self.held)), self.kept)]
        while cases and self.value < self.need:
            found = self._narrowed(cases.pop())
            if found is None:
                if self.effort.short:
                    return
                continue
            case, wide = found
            if not wide:
                self._offer(_mask(len(self.held), case.rows))
            elif not self._closed(case, [self.levels[at] for at in wide], closing):
                at = min(wide, key=lambda at: wide[at].number)
                domain, roomiest = self.levels[at].domain[case.rows], wide[at].roomiest
                cases.append(replace(case, rows=case.rows[domain != roomiest]))
                cases.append(case.with_one(at, roomiest))

    def _narrowed(self, case: Case) -> tuple[Case, dict[int, LevelSearch]] | None:
        """Drop the rows that a case's used domains rule out; find the levels with too many.

        None where the case cannot be better than the best choice so far.
        """
        wide: dict[int, LevelSearch] = {}
        at = 0
        while at < len(self.levels):
            if not self.effort.columns(5, len(case.rows)):
                return None
            level, used = self.levels[at], case.used[at]
            look = _look(level.domain[case.rows], self.room[case.rows], level, used)
            if look is None or min(look.room, self.need) <= self.value:
                return None
            if look.number > level.most:
                wide[at] = look
            at += 1
            if look.number > level.most == int(np.count_nonzero(used)):
                # Rows outside the used domains go, so earlier levels must be looked at again.
                inside = used[level.domain[case.rows]]
                case, wide, at = replace(case, rows=case.rows[inside]), {}, 0
        return case, wide

    def _closed(self, case: Case, wide: Sequence[Level], closing: Closing) -> bool:
        """Return whether the best choice of the levels with too many ends the case.

        The best choice ends the case if it is no better than the best so far, or keeps to the
        bounds of the other levels too.
        """
        if len(wide) > 2:
            return False
        inside = [level.of(case.rows).numbered() for level in wide]
        inside.sort(key=lambda each: each.size)
        if len(inside) == 2 and not nested(*inside):
            return False
        found = closing(inside, self.held[case.rows], self.room[case.rows])
        if found is None:
            return not self.effort.short
        rows = case.rows[found]
        before = self.value
        self._offer(_mask(len(self.held), rows))
        value = min(int(self.room[rows].sum()), self.need)
        return value <= before or self.value == value


def _look(domain: Ints, room: Ints, level: Level, used: Mask) -> LevelSearch | None:
    """Look at a level of a case; None where it cannot keep to its bounds any more."""
    totals = sums(domain, room, level.size)
    number, free = int(np.count_nonzero(totals)), level.most - int(np.count_nonzero(used))
    if number < level.least or free < 0 or not totals[used].all():
        return None
    open_ = np.where(used, 0, totals)
    best = -np.partition(-open_, min(free, level.size - 1))[:free]
    return LevelSearch(number, int(totals[used].sum() + best.sum()), int(open_.argmax()))


def _first(picked: Mask, rank: Ints, most: int) -> Mask:
    """Return these domains, and the first ones of a rank above 0 up to `most`."""
    line = np.argsort(-np.where(picked, 0, rank), kind="stable")
    more = line[: max(most - int(np.count_nonzero(picked)), 0)]
    both = picked.copy()
    both[more[rank[more] > 0]] = True
    return both


def _mask(size: int, rows: Ints) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[rows] = True
    return mask
