"""Beside and away from other Workloads, by the labels of clusters: podAffinity one level up.

A domain is the clusters that share a value of the term's topology key; a cluster without the key is
in none. Terms select Workloads of the same namespace, by their labels and those of their pods.
Required anti-affinity counts in both directions: who is there keeps newcomers away.
"""

from __future__ import annotations

import numpy as np

from controller.columns import Ints, Mask
from controller.framework.points import CycleState, Refused
from controller.index import Index
from controller.model import WorkloadTerm
from controller.snapshot import Fleet
from controller.unit import Unit


class WorkloadAffinity:
    """spec.workloadAffinity and spec.workloadAntiAffinity, required and preferred."""

    name = "WorkloadAffinity"
    ignored_during_execution = True

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, bound: Index) -> Refused:
        """Clusters outside a required domain, inside a forbidden one, or kept by another."""
        reasons = [
            (~beside(unit, term, fleet, bound), "didn't match workloadAffinity")
            for term in unit.affinity.required
        ]
        reasons += [
            (_holding(unit, term, fleet, bound), "didn't match workloadAntiAffinity")
            for term in unit.anti_affinity.required
        ]
        reasons += [
            (fleet.domain(key, held), "kept away by another Workload's workloadAntiAffinity")
            for key, held in bound.repelling(unit, but=(unit.key,))
        ]
        return Refused(reasons)

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, bound: Index) -> Ints:
        """Weights of the domains that hold a match: for affinity up, for anti-affinity down."""
        total = np.zeros(len(fleet), dtype=np.int64)
        for sign, weighted in ((1, unit.affinity.preferred), (-1, unit.anti_affinity.preferred)):
            for each in weighted:
                there = _holding(unit, each.workload_affinity_term, fleet, bound)
                total += sign * each.weight * there
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """0 for the least suitable feasible cluster, 100 for the most; 0 where all are alike."""
        there = scores[feasible]
        if not len(there) or there.min() == there.max():
            return np.zeros_like(scores)
        low, high = int(there.min()), int(there.max())
        return np.clip(100 * (scores - low) // (high - low), 0, 100)


def beside(unit: Unit, term: WorkloadTerm, fleet: Fleet, bound: Index) -> Mask:
    """The domains with a match. The first of a set that wants its own kind may go anywhere."""
    mask = _holding(unit, term, fleet, bound)
    if term.label_selector.matches(unit.labels):
        holding = [cluster for cluster, units in unit.present.items() if units]
        mask |= fleet.domain(term.topology_key, holding)
        if not mask.any():
            return ~fleet.column(term.topology_key).missing()
    return mask


def _holding(unit: Unit, term: WorkloadTerm, fleet: Fleet, bound: Index) -> Mask:
    """The domains of a term that hold units of another Workload that it selects."""
    clusters = bound.clusters_of(unit.namespace, term.label_selector, but=(unit.key,))
    return fleet.domain(term.topology_key, clusters)
