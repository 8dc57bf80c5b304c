"""The part of a Workload's status about its shares under a spread: patches and deletion costs.

A pure function of the spread, the placements and the clusters' labels: another instance, or the
same after a restart, computes the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from controller.features.workloadspread.compiled import CompiledSpread, CompiledSubset
from controller.features.workloadspread.subsets import replicas_of
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot


def overrides_of(
    spread: CompiledSpread, subsets: Subsets, placements: Mapping[str, int], snapshot: Snapshot
) -> list[dict[str, Any]] | None:
    """Return status.overrides for these subsets; None where no cluster holds any replica.

    Each cluster with replicas stands under the first subset that has some there; those in no subset
    stand in the last entry, which has no name.
    """
    replicas = replicas_of(placements, snapshot)
    classes = np.vstack(subsets.classified(replicas))
    first = _first(subsets, classes)
    rows = np.flatnonzero(replicas > 0)
    rows = rows[np.argsort(snapshot.by_name[rows])]
    costs = _costs(subsets)
    found = []
    for at, head in enumerate([*map(_head, spread.subsets), {}]):
        named = rows[first[rows] == at].tolist()
        if named:
            clusters = [_cluster(snapshot.names[row], classes[:, row], costs) for row in named]
            found.append({**head, "clusters": clusters})
    return found or None


def _first(subsets: Subsets, classes: Ints) -> Ints:
    """Return the first subset with counted replicas on each cluster, else its home, shape (n,)."""
    counted = classes[: len(subsets.names)] > 0
    return np.where(counted.any(axis=0), counted.argmax(axis=0), subsets.home)


def _costs(subsets: Subsets) -> list[int]:
    """Return the deletion cost of a replica of each class, in falling order."""
    counted, excess, outside = subsets.cost()
    return [*counted.tolist(), *excess.tolist(), int(outside)]


def _cluster(name: str, replicas: Ints, costs: Sequence[int]) -> dict[str, Any]:
    held = [
        {"cost": cost, "replicas": number}
        for cost, number in zip(costs, replicas.tolist(), strict=True)
        if number
    ]
    return {"name": name, "deletionCosts": held}


def _head(subset: CompiledSubset) -> dict[str, Any]:
    """Return the subset's name and its patch, as text where the hub would lose a part of it."""
    if not subset.patch:
        return {"name": subset.name}
    patch: Any = subset.patch
    if _holds_null(patch):
        patch = msgspec.json.encode(patch, order="deterministic").decode()
    return {"name": subset.name, "patch": patch}


def _holds_null(value: Any) -> bool:
    """Return whether a merge patch that carries the value would remove fields instead."""
    if isinstance(value, Mapping):
        return any(map(_holds_null, value.values()))
    return value is None or (isinstance(value, list) and any(map(_holds_null, value)))
