"""The clusters that a Workload selects: by name, by labels, by affinity to clusters and Workloads.

If an edited Workload no longer selects the cluster of a share, the share is placed again.

Workload affinity and anti-affinity are podAffinity one level up. A domain is the clusters with one
value of the term's topology key; a cluster without the key is in none. Terms select Workloads of
the same namespace, by their labels and those of their pods.

Cost, latency and reliability are criteria that no profile enables by default. The administrator
sets the cost (annotation `stowage.dev/cost`, any number); the propagator's probes measure latency
and reliability.
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
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model import nodelabels
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.types.api import WorkloadAffinityTerm


class NamedCluster:
    """Enforces spec.targetCluster: only this cluster will do."""

    name = "NamedCluster"
    ignored_during_execution = False

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.SPEC, _is_named),)

    def pre_filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        target = info.target_cluster
        if target is None or target.name in snapshot.row:
            return SUCCESS
        return unschedulable(self.name, f"cluster {target.name} not found")

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Return all other clusters, and the named one if its Secret is in another namespace."""
        target = info.target_cluster
        if target is None:
            return NOTHING_REFUSED
        others = np.ones(len(snapshot), dtype=np.bool_)
        others[snapshot.rows([target.name])] = False
        if target.namespace:
            others |= ~snapshot.secret_namespace.equals(target.namespace)
        return FilterMask([(others, "didn't match targetCluster")])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "another cluster in spec.targetCluster, or one that is registered by that name"


class ClusterSelector:
    """Enforces spec.clusterSelector: every label and expression must hold, see `chosen`."""

    name = "ClusterSelector"
    ignored_during_execution = False

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, _ABOUT_ITSELF),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if not info.cluster_selector:
            return NOTHING_REFUSED
        chosen = snapshot.chosen(info.cluster_selector)
        return FilterMask([(~chosen, "didn't match clusterSelector")])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "other labels in spec.clusterSelector, or these labels on the MemberCluster"


def _is_named(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    target = info.target_cluster
    return target is not None and target.name == new.metadata.name


_ABOUT_ITSELF = Action.ADDED | Action.LABELS | Action.SPEC | Action.VERSION


class ClusterAffinityPlugin:
    """Enforces spec.clusterAffinity: required terms are ORed; weights of preferred ones add up."""

    name = "ClusterAffinity"
    ignored_during_execution = False

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS, _matches),)

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        required = info.cluster_affinity.required
        if required is None:
            return NOTHING_REFUSED
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        for term in required.cluster_selector_terms:
            mask |= snapshot.matches(term)
        return FilterMask([(~mask, "didn't match clusterAffinity")])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "another required term in spec.clusterAffinity, or its labels on the MemberCluster"

    def score(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the sum of the weights of the preferred terms that match."""
        total = np.zeros(len(snapshot), dtype=np.int64)
        for term in info.cluster_affinity.preferred:
            total += term.weight * snapshot.matches(term.preference)
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Scale in proportion to the best feasible cluster."""
        best = int(scores[feasible].max(initial=0)) if scores.any() else 0
        return 100 * scores // best if best else np.zeros_like(scores)


def _matches(info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster) -> bool:
    required = info.cluster_affinity.required
    terms = required.cluster_selector_terms if required else []
    labels, values = new.labels, new.node_labels
    return any(nodelabels.matches(term, labels, values) for term in terms)


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


_UNKNOWN = 2**62
_SCALE = 2**40
"""Prices become integers on this scale, which tells any two realistic prices apart."""


class _SmallerIsBetter:
    """Scores 100 for the smallest of the feasible clusters, 0 for the greatest."""

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Scale to 0..100; equal values all get 100."""
        known = feasible & (scores != _UNKNOWN)
        normal = np.zeros_like(scores)
        if known.any():
            low, high = int(scores[known].min()), int(scores[known].max())
            normal[known] = 100 * (high - scores[known]) // max(high - low, 1)
            if low == high:
                normal[known] = 100
        return normal


class ClusterCost(_SmallerIsBetter):
    name = "ClusterCost"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the price, as an integer on the scale of the dearest cluster."""
        known = ~np.isnan(snapshot.cost)
        prices = np.full(len(snapshot), _UNKNOWN, dtype=np.int64)
        dearest = np.abs(snapshot.cost[known]).max(initial=0.0)
        if dearest > 0:
            prices[known] = np.rint(snapshot.cost[known] / dearest * _SCALE).astype(np.int64)
        else:
            prices[known] = 0
        return prices


class ClusterLatency(_SmallerIsBetter):
    name = "ClusterLatency"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return milliseconds."""
        return np.where(snapshot.latency >= 0, snapshot.latency, _UNKNOWN)


class ClusterReliability:
    name = "ClusterReliability"

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the percentage of answered probes, 0 if none was measured."""
        return np.maximum(snapshot.reliability, 0)
