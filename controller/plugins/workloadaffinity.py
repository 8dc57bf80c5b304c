"""Workload affinity and anti-affinity, by the labels of clusters: podAffinity one level up.

A domain is the clusters with one value of the term's topology key; a cluster without the key is in
none. Terms select Workloads of the same namespace, by their labels and those of their pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from controller.cache.placements import PlacementIndex, beside, holding
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
from controller.framework.status import Refusal
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.types.api import WorkloadAffinityTerm


class WorkloadAffinityPlugin:
    """Enforces spec.workloadAffinity and spec.workloadAntiAffinity, required and preferred."""

    name = "WorkloadAffinity"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        """Return changes of domains and of Workloads; a removed cluster removes its Workloads."""
        domains = Action.ADDED | Action.DELETED | Action.LABELS
        others = Action.ADDED | Action.DELETED | Action.LABELS | Action.SHARES | Action.SPEC
        return (
            on(MEMBER_CLUSTER, domains),
            on(WORKLOAD, others, _concerns, about=namespace_of),
        )

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> FilterMask:
        """Return clusters outside a required domain, inside a forbidden one, or kept away."""
        reasons = [
            (~beside(info, term, snapshot, bound), "didn't match workloadAffinity")
            for term in info.affinity.required
        ]
        reasons += [
            (holding(info, term, snapshot, bound), "didn't match workloadAntiAffinity")
            for term in info.anti_affinity.required
        ]
        reasons += [
            (snapshot.domain(key, held), "kept away by another Workload's workloadAntiAffinity")
            for key, held in bound.repelling(info, but=(info.key,))
        ]
        return FilterMask(reasons)

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return (
            "other required terms in spec.workloadAffinity or spec.workloadAntiAffinity, or the "
            "Workloads that they select in other places"
        )

    def score(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Ints:
        """Add weights of domains with a match for affinity, subtract them for anti-affinity."""
        total = np.zeros(len(snapshot), dtype=np.int64)
        for sign, weighted in ((1, info.affinity.preferred), (-1, info.anti_affinity.preferred)):
            for each in weighted:
                there = holding(info, each.workload_affinity_term, snapshot, bound)
                total += sign * each.weight * there
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Scale from 0 for the worst feasible cluster to 100 for the best; 0 if all tie."""
        if not scores.any():
            return scores
        there = scores[feasible]
        if not len(there) or there.min() == there.max():
            return np.zeros_like(scores)
        low, high = int(there.min()), int(there.max())
        return np.clip(100 * (scores - low) // (high - low), 0, 100)


def _concerns(info: WorkloadInfo, old: Workload | None, new: Workload | None) -> bool:
    mine = [*info.affinity.required, *info.anti_affinity.required]
    return any(
        _picked(mine, each.info.labels) or _picked(each.info.anti_affinity.required, info.labels)
        for each in (old, new)
        if each is not None and each.info.key != info.key
    )


def _picked(terms: Iterable[WorkloadAffinityTerm], labels: Mapping[str, str]) -> bool:
    return any(term.label_selector.matches(labels) for term in terms)
