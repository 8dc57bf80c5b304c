"""The subsets of a spread over a snapshot, as the planner reads them.

Placing, the counts and the status of each share all use this module, so that a replica counts to
the same subset in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.features.workloadspread.compiled import CompiledSpread, CompiledSubset
from controller.planner.problem import UNBOUNDED
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot


class SubsetMemo:
    """Keeps the last answer of `subsets_of`: a pass asks several times for the same."""

    def __init__(self) -> None:
        self._last: tuple[CompiledSpread, Snapshot, int, Subsets] | None = None

    def of(self, spread: CompiledSpread, snapshot: Snapshot, total: int) -> Subsets:
        last = self._last
        if last is None or last[0] is not spread or last[1] is not snapshot or last[2] != total:
            last = self._last = (spread, snapshot, total, subsets_of(spread, snapshot, total))
        return last[3]


def subsets_of(spread: CompiledSpread, snapshot: Snapshot, total: int) -> Subsets:
    """Return the subsets for so many replicas in all; `crowded` is left empty.

    Ties are broken by name, so that nothing depends on scores, which change.
    """
    marked = np.array([each.name in spread.marked for each in spread.subsets], dtype=np.bool_)
    return Subsets(
        names=[each.name for each in spread.subsets],
        inside=_stacked([inside(each, snapshot) for each in spread.subsets], snapshot, np.bool_),
        cap=spread.caps(total),
        closed=marked,
        overflow=np.full(len(marked), not spread.simulates),
        rank=_stacked([_rank(each, snapshot) for each in spread.subsets], snapshot, np.int64),
        crowded=np.zeros(len(snapshot), dtype=np.bool_),
        order=snapshot.by_name,
    )


def inside(subset: CompiledSubset, snapshot: Snapshot) -> Mask:
    """Return the clusters that a subset matches, shape (n,); all where it has no term."""
    if subset.required is None:
        return np.ones(len(snapshot), dtype=np.bool_)
    return snapshot.matches(subset.required)


def replicas_of(placements: Mapping[str, int], snapshot: Snapshot) -> Ints:
    """Return the replicas of each cluster, shape (n,), without those on clusters that are gone."""
    return np.clip(snapshot.by_row(placements), 0, UNBOUNDED)


def _rank(subset: CompiledSubset, snapshot: Snapshot) -> Ints:
    """Return the sum of the weights of the preferred terms that match, shape (n,)."""
    rank = np.zeros(len(snapshot), dtype=np.int64)
    for each in subset.preferred:
        rank += each.weight * snapshot.matches(each.preference)
    return rank


T = TypeVar("T", bound=np.generic)


def _stacked(columns: Sequence[NDArray[T]], snapshot: Snapshot, kind: type[T]) -> NDArray[T]:
    return np.array(columns, dtype=kind).reshape(len(columns), len(snapshot))
