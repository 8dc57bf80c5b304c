"""Beside and away from other Workloads, by the labels of clusters: podAffinity one level up.

A domain is the clusters that share a value of the term's topology key; a cluster without the key is
in none. Terms select Workloads of the same namespace, by their labels and those of their pods.
Required anti-affinity counts in both directions: who is there keeps newcomers away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from controller.cache.neighbours import beside, holding
from controller.cache.placements import PlacementIndex
from controller.framework.events import (
    MEMBER_CLUSTER,
    WORKLOAD,
    Action,
    EventHint,
    namespace_of,
    on,
)
from controller.framework.explains import Shortage
from controller.framework.interface import CycleState, FilterMask
from controller.model.objects import Workload, WorkloadTerm
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot


class WorkloadAffinityPlugin:
    """spec.workloadAffinity and spec.workloadAntiAffinity, required and preferred."""

    name = "WorkloadAffinity"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        """Domains change, as a cluster that goes takes its Workloads along; or Workloads do."""
        domains = Action.ADDED | Action.DELETED | Action.LABELS
        others = Action.ADDED | Action.DELETED | Action.LABELS | Action.SHARES | Action.SPEC
        return (
            on(MEMBER_CLUSTER, domains),
            on(WORKLOAD, others, _concerns, about=namespace_of),
        )

    def filter(
        self, _state: CycleState, unit: WorkloadInfo, fleet: Snapshot, bound: PlacementIndex
    ) -> FilterMask:
        """Clusters outside a required domain, inside a forbidden one, or kept by another."""
        reasons = [
            (~beside(unit, term, fleet, bound), "didn't match workloadAffinity")
            for term in unit.affinity.required
        ]
        reasons += [
            (holding(unit, term, fleet, bound), "didn't match workloadAntiAffinity")
            for term in unit.anti_affinity.required
        ]
        reasons += [
            (fleet.domain(key, held), "kept away by another Workload's workloadAntiAffinity")
            for key, held in bound.repelling(unit, but=(unit.key,))
        ]
        return FilterMask(reasons)

    def cure(self, _shortage: Shortage, _text: str, _rows: Mask) -> str:
        """Other terms, or the others elsewhere."""
        return (
            "other required terms in spec.workloadAffinity or spec.workloadAntiAffinity, or the "
            "Workloads that they select in other places"
        )

    def score(
        self, _state: CycleState, unit: WorkloadInfo, fleet: Snapshot, bound: PlacementIndex
    ) -> Ints:
        """Weights of the domains that hold a match: for affinity up, for anti-affinity down."""
        total = np.zeros(len(fleet), dtype=np.int64)
        for sign, weighted in ((1, unit.affinity.preferred), (-1, unit.anti_affinity.preferred)):
            for each in weighted:
                there = holding(unit, each.workload_affinity_term, fleet, bound)
                total += sign * each.weight * there
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """0 for the least suitable feasible cluster, 100 for the most; 0 where all are alike."""
        if not scores.any():
            return scores
        there = scores[feasible]
        if not len(there) or there.min() == there.max():
            return np.zeros_like(scores)
        low, high = int(there.min()), int(there.max())
        return np.clip(100 * (scores - low) // (high - low), 0, 100)


def _concerns(unit: WorkloadInfo, old: Workload | None, new: Workload | None) -> bool:
    """Whether another Workload is, or was, one that its terms select, or that keeps it away."""
    mine = [*unit.affinity.required, *unit.anti_affinity.required]
    return any(
        _picked(mine, each.unit.labels) or _picked(each.unit.anti_affinity.required, unit.labels)
        for each in (old, new)
        if each is not None and each.unit.key != unit.key
    )


def _picked(terms: Iterable[WorkloadTerm], labels: Mapping[str, str]) -> bool:
    return any(term.label_selector.matches(labels) for term in terms)
