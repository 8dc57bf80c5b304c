"""Beside and away from other Workloads, by the labels of clusters: podAffinity one level up.

A domain is the clusters that share a value of the term's topology key; a cluster without the key is
in none. Terms select Workloads of the same namespace, by their labels and those of their pods.
Required anti-affinity counts in both directions: who is there keeps newcomers away.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.fleet import ABSENT, Fleet, Ints, Mask
from controller.framework.points import CycleState, Refused
from controller.index import Index
from controller.model import WorkloadTerm
from controller.unit import Unit


class WorkloadAffinity:
    """spec.workloadAffinity and spec.workloadAntiAffinity, required and preferred."""

    name = "WorkloadAffinity"
    ignored_during_execution = True

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, bound: Index) -> Refused:
        """Clusters outside a required domain, inside a forbidden one, or kept by another."""
        apart = np.zeros(len(fleet), dtype=np.bool_)
        for term in unit.anti_affinity.required:
            clusters = bound.clusters_of(unit.namespace, term.label_selector, but=unit.key)
            apart |= domain(fleet, term.topology_key, clusters)
        repelled = np.zeros(len(fleet), dtype=np.bool_)
        for term, held in bound.repelling(unit):
            repelled |= domain(fleet, term.topology_key, held)
        beside = np.ones(len(fleet), dtype=np.bool_)
        for term in unit.affinity.required:
            beside &= self._beside(unit, term, fleet, bound)
        return Refused(
            [
                (~beside, "didn't match workloadAffinity"),
                (apart, "didn't match workloadAntiAffinity"),
                (repelled, "kept away by another Workload's workloadAntiAffinity"),
            ]
        )

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, bound: Index) -> Ints:
        """Weights of the domains that hold a match: for affinity up, for anti-affinity down."""
        total = np.zeros(len(fleet), dtype=np.int64)
        for sign, weighted in ((1, unit.affinity.preferred), (-1, unit.anti_affinity.preferred)):
            for each in weighted:
                term = each.workload_affinity_term
                clusters = bound.clusters_of(unit.namespace, term.label_selector, but=unit.key)
                total += sign * each.weight * domain(fleet, term.topology_key, clusters)
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """0 for the least suitable feasible cluster, 100 for the most; 0 where all are alike."""
        there = scores[feasible]
        if not len(there) or there.min() == there.max():
            return np.zeros_like(scores)
        low, high = int(there.min()), int(there.max())
        return np.clip(100 * (scores - low) // (high - low), 0, 100)

    def _beside(self, unit: Unit, term: WorkloadTerm, fleet: Fleet, bound: Index) -> Mask:
        """The domains with a match. The first of a set that wants its own kind may go anywhere."""
        own = term.label_selector.matches(unit.labels)
        clusters = bound.clusters_of(unit.namespace, term.label_selector, but=unit.key)
        if own:
            clusters |= {cluster for cluster, units in unit.present.items() if units}
        if not clusters and own:
            first: Mask = fleet.column(term.topology_key).codes != ABSENT
            return first
        return domain(fleet, term.topology_key, clusters)


def domain(fleet: Fleet, key: str, clusters: Iterable[str]) -> Mask:
    """All clusters that share a value of the key with one of these."""
    codes = fleet.column(key).codes
    there = codes[fleet.rows(clusters)]
    mask: Mask = np.isin(codes, there[there != ABSENT])
    return mask
