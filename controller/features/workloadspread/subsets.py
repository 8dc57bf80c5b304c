"""The subsets of a spread over a snapshot, as the planner reads them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.features.workloadspread.compiled import CompiledSpread, CompiledSubset
from controller.planner.problem import UNBOUNDED
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot

T = TypeVar("T", bound=np.generic)
V = TypeVar("V")


def kept(spread: CompiledSpread, snapshot: Snapshot, name: Hashable, compute: Callable[[], V]) -> V:
    """Return a value of a spread and the labels and taints of clusters, computed once."""
    # The entry holds the spread, so that no other one gets its id meanwhile.
    return snapshot.kept.fixed((id(spread), name), lambda: (spread, compute()))[1]


def subsets_of(spread: CompiledSpread, snapshot: Snapshot, total: int) -> Subsets:
    """Return the subsets for `total` replicas; `crowded` is left empty."""

    def computed() -> Subsets:
        subsets = spread.subsets
        marked = np.array([each.name in spread.marked for each in subsets], dtype=np.bool_)
        return Subsets(
            names=[each.name for each in subsets],
            inside=_stacked([inside(each, snapshot) for each in subsets], snapshot, np.bool_),
            cap=spread.caps(total),
            closed=marked,
            overflow=np.full(len(marked), not spread.simulates),
            rank=_stacked([_rank(each, snapshot) for each in subsets], snapshot, np.int64),
            crowded=np.zeros(len(snapshot), dtype=np.bool_),
            order=snapshot.by_name,
        )

    return kept(spread, snapshot, total, computed)


def inside(subset: CompiledSubset, snapshot: Snapshot) -> Mask:
    """Labels of nodes do not count: nodes that come and go would patch pods that run."""
    if subset.required is None:
        return np.ones(len(snapshot), dtype=np.bool_)
    return snapshot.matches(subset.required, own=True)


def replicas_of(placements: Mapping[str, int], snapshot: Snapshot) -> Ints:
    """Return the replicas of each cluster, shape (n,), without those on clusters that are gone."""
    return np.clip(snapshot.by_row(placements), 0, UNBOUNDED)


def _rank(subset: CompiledSubset, snapshot: Snapshot) -> Ints:
    rank = np.zeros(len(snapshot), dtype=np.int64)
    for each in subset.preferred:
        rank += each.weight * snapshot.matches(each.preference, own=True)
    return rank


def _stacked(columns: Sequence[NDArray[T]], snapshot: Snapshot, kind: type[T]) -> NDArray[T]:
    return np.array(columns, dtype=kind).reshape(len(columns), len(snapshot))
