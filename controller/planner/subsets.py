"""Ordered subsets of the clusters, each with a cap: which replica counts to which of them.

A replica counts to the first subset that matches its cluster and has room below its cap. Replicas
that no subset has room for are the excess of the first that matches; those on clusters that none
matches are outside.

Deletion costs fall from the first subset to the last, then the excess, then those outside; the
lowest cost leaves first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.planner.indomain import WithinDomain, in_line
from controller.planner.webster import MAX_REPLICAS, Ints, Mask, first_come, sums, until_full

_STEP = 100
"""The distance between neighbouring deletion costs."""


@dataclass(frozen=True)
class Subsets:
    """The subsets in their order. Masks and numbers are by subset, or by subset and cluster.

    Args:
        names: of the subsets.
        inside: shape (subsets, n), which clusters each matches; a cluster may lie in several.
        cap: shape (subsets,), the most replicas that count to each; UNBOUNDED for no cap.
        closed: shape (subsets,), takes no new replica.
        overflow: shape (subsets,), is filled up to its cap whatever room its clusters have.
        rank: shape (subsets, n), how much each subset prefers its clusters, the greater the more.
        crowded: shape (n,), where only a lack of room keeps new replicas away.
        keeps: which of a cluster's replicas count where there are too many: of the best ranks, of
            the fullest clusters, or by weight.
        order: shape (n,), distinct, the lowest of equals goes first; None for the order of the
            rows.
        weight: shape (n,), for `keeps` by weight; None where all weigh alike.
    """

    names: Sequence[str]
    inside: Mask
    cap: Ints
    closed: Mask
    overflow: Mask
    rank: Ints
    crowded: Mask
    keeps: WithinDomain = WithinDomain.RANK
    order: Ints | None = None
    weight: Ints | None = None

    def check(self, size: int) -> None:
        """Refuse invalid subsets of `size` clusters.

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
        wrong = np.flatnonzero((self.cap < 0) | (self.cap > MAX_REPLICAS))
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(f"subsets.cap[{at}]: 0 to {MAX_REPLICAS}, found {int(self.cap[at])}")

    @cached_property
    def home(self) -> Ints:
        """Return the first subset of each cluster, shape (n,); `len(names)` where none matches."""
        return np.where(self.inside.any(axis=0), self.inside.argmax(axis=0), len(self.names))

    @cached_property
    def overlaps(self) -> bool:
        return bool((self.inside.sum(axis=0) > 1).any())

    @cached_property
    def _kinds(self) -> tuple[Ints, Mask]:
        number: dict[bytes, int] = {}
        columns = np.packbits(self.inside, axis=0).T
        kind = np.array([number.setdefault(each.tobytes(), len(number)) for each in columns])
        first = np.zeros(len(number), dtype=np.int64)
        first[kind[::-1]] = np.arange(len(kind))[::-1]  # of equals the last one written remains
        return kind, self.inside[:, first]

    def counted(self, replicas: Ints) -> Ints:
        """Return the replicas that count to each, at most its cap, shape (subsets,)."""
        size = len(self.names)
        if not self.overlaps:
            return np.minimum(sums(self.home, replicas, size + 1)[:size], self.cap)
        kind, inside = self._kinds
        left = sums(kind, replicas, inside.shape[1])
        found = _sorted(
            inside, self.cap, left, lambda at, mine: first_come(mine, int(self.cap[at]))
        )
        return np.asarray(found.sum(axis=1), dtype=np.int64)

    def left(self, at: int, replicas: Ints) -> int:
        """Return how many more replicas may count to subset `at`."""
        if self.overlaps:
            return int(self.cap[at] - self.counted(replicas)[at])
        return max(int(self.cap[at] - replicas[self.inside[at]].sum()), 0)

    def full(self, counted: Ints) -> Ints:
        """Return the subsets that are at their cap when `counted` replicas count to each."""
        found: Ints = np.flatnonzero((counted >= self.cap) & (self.cap < MAX_REPLICAS))
        return found

    def classified(self, replicas: Ints) -> tuple[Ints, Ints, Ints]:
        """Sort the replicas, shape (n,), by the subset that they count to.

        Returns:
            those that count to each subset, and the excess of each: shape (subsets, n); and those
            outside of all: shape (n,).
        """
        home, size = self.home, len(self.names)
        outside = np.where(home == size, replicas, 0)
        left = replicas - outside
        if self.overlaps:
            whole = np.zeros_like(home)
            counted = _sorted(
                self.inside,
                self.cap,
                left,
                lambda at, mine: self._kept(whole, mine, self.cap[[at]], self.rank[at]),
            )
        else:
            rank = self.rank.sum(axis=0, where=self.inside, dtype=np.int64)
            kept = self._kept(home, left, np.append(self.cap, 0), rank)
            counted = np.where(self.inside, kept, 0)
        left = left - counted.sum(axis=0)
        excess = np.where(home == np.arange(size)[:, None], left, 0)
        return counted, excess, outside

    def cost(self) -> tuple[Ints, Ints, int]:
        """Return the deletion costs of counted replicas, of each subset's excess, and outside."""
        size = len(self.names)
        place = np.arange(size, dtype=np.int64)
        return _STEP * (size - place), -_STEP * (place + 1), -_STEP * (size + 1)

    def score(self, at: int, score: Ints, rows: Ints) -> Ints:
        """Return how well each of `rows` suits a subset, the greater the better; shape as rows."""
        own, rank, score = self.home[rows] == at, self.rank[at, rows], score[rows]
        if own.all() and (rank == rank[0]).all():
            return score
        return _dense(score, rank, own.astype(np.int64))

    def best_first(self, score: Ints) -> Ints:
        """Return scores over all subsets, those of an earlier one the greater, shape (n,)."""
        rank = self.rank[np.minimum(self.home, len(self.names) - 1), np.arange(len(score))]
        return _dense(score, rank, -self.home)

    def open_to(self, able: Mask) -> Mask:
        """Return which of these clusters a subset matches that takes new replicas, shape (n,)."""
        return able & self._in_any(~self.closed)

    def shut(self, counted: Ints) -> Mask:
        """Return the clusters whose subsets are all closed or at their cap, shape (n,)."""
        open_ = ~self.closed & (counted < self.cap)
        return (self.home < len(self.names)) & ~self._in_any(open_)

    def passing(self, able: Mask) -> Mask:
        """Return which of these, and of those that only lack room, may take more than fit."""
        return (able | self.crowded) & self._in_any(self.overflow & ~self.closed)

    def _in_any(self, subsets: Mask) -> Mask:
        found: Mask = np.logical_or.reduce(self.inside[subsets], axis=0)
        return found

    def _kept(self, place: Ints, replicas: Ints, most: Ints, rank: Ints) -> Ints:
        order = np.arange(len(replicas)) if self.order is None else self.order
        if self.keeps is WithinDomain.WEIGHT:
            weight = np.ones_like(replicas) if self.weight is None else np.maximum(self.weight, 1)
            return until_full(weight, np.zeros_like(replicas), replicas, order, place, most)
        best = rank if self.keeps is WithinDomain.RANK else replicas
        return in_line(np.lexsort((order, -best, place)), place, replicas, most)


def _sorted(inside: Mask, cap: Ints, replicas: Ints, kept: Callable[[int, Ints], Ints]) -> Ints:
    """Return the replicas that count to each subset; shape as `inside`, (subsets, n)."""
    counted = np.zeros(inside.shape, dtype=np.int64)
    left = replicas.copy()
    for at in range(len(cap)):
        counted[at] = kept(at, np.where(inside[at], left, 0))
        left -= counted[at]
        while (lacking := int(cap[at] - counted[at].sum())) and (
            spare := inside[:at] & (left > 0)
        ).any():
            if not _gained(at, lacking, inside, counted, left, spare, {at}):
                break
    return counted


def _gained(
    to: int, most: int, inside: Mask, counted: Ints, left: Ints, spare: Mask, seen: set[int]
) -> int:
    """Let a subset take `spare` replicas, or those of an earlier subset that takes others instead.

    Returns how many it has got, at most `most`.
    """
    before = len(spare)
    if to < before and spare[to].any():
        row = int(spare[to].argmax())
        moved = min(most, int(left[row]))
        left[row] -= moved
        counted[to, row] += moved
        return moved
    shared = inside[to] & (counted[:before] > 0)
    for giver in np.flatnonzero(shared.any(axis=1)).tolist():
        if giver in seen:
            continue
        seen.add(giver)
        row = int(shared[giver].argmax())
        wanted = min(most, int(counted[giver, row]))
        if moved := _gained(giver, wanted, inside, counted, left, spare, seen):
            counted[giver, row] -= moved
            counted[to, row] += moved
            return moved
    return 0


def _dense(*keys: Ints) -> Ints:
    """Return small numbers that sort as the keys do, the last key first."""
    line = np.lexsort(keys)
    new = np.zeros(len(line), dtype=np.bool_)
    for key in keys:
        new[1:] |= np.diff(key[line]) != 0
    found = np.empty(len(line), dtype=np.int64)
    found[line] = np.cumsum(new)
    return found
