"""The clusters that a Workload selects: by name, by equality of labels, by affinity to clusters.

If an edited Workload no longer selects the cluster of a share, the share is placed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Shortage
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model import nodelabels
from controller.model.objects import MemberCluster
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot


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
