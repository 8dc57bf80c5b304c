"""The endpoints of spreads: the replicas and the cap of each subset, and which spread divides.

The numbers are those of the next decision: quota that is being taken counts. The list is without
the subsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.features.workloadspread.compiled import CompiledSpread
from controller.features.workloadspread.ledger import Spreads
from controller.framework.runtime.services import Book


def book(
    spreads: Spreads, subsets: Callable[[CompiledSpread], Sequence[Mapping[str, Any]]]
) -> Book[CompiledSpread]:
    """Return the endpoints; `subsets` returns the statuses of a spread's subsets as of now."""

    def summary(spread: CompiledSpread) -> dict[str, Any]:
        holder = spreads.of(spread.target)
        return {
            "namespace": spread.key[0],
            "name": spread.name,
            "workload": spread.target[1],
            "strategy": "Adaptive" if spread.adaptive else "Fixed",
            "divides": holder is not None and holder.key == spread.key and not spread.fault,
            "marked": sorted(spread.marked),
            "message": spread.fault,
        }

    def detail(spread: CompiledSpread) -> dict[str, Any]:
        held = () if spread.fault else subsets(spread)
        return {**summary(spread), "subsets": [_subset(spread, each) for each in held]}

    return Book("spreads", "workload-spread", spreads.values, spreads.get, summary, detail)


def _subset(spread: CompiledSpread, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subset as JSON values; `missing` is -1 where nothing limits it."""
    return {
        "name": held["name"],
        "replicas": held["replicas"],
        "missing": held["missingReplicas"],
        "marked": held["name"] in spread.marked,
        "creating": held["creatingPods"],
        "deleting": held["deletingPods"],
        "stuck": held["stuckPods"],
        "deletionCost": held["deletionCost"],
    }
