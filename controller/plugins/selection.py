"""Which clusters a Workload asks for: by name, by equality of labels, by affinity to clusters.

These are the author's own words, so a share on a cluster that no longer satisfies them after an
edit of the Workload is placed anew. A cluster that is relabelled later moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from controller.columns import Ints, Mask
from controller.framework.points import NOTHING_REFUSED, CycleState, Refused
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.index import Index
from controller.snapshot import Fleet
from controller.unit import Unit


class NamedCluster:
    """spec.targetCluster: this cluster, or none."""

    name = "NamedCluster"
    ignored_during_execution = False

    def pre_filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Status:
        """Refuse at once when the cluster does not exist."""
        target = unit.target_cluster
        if target is None or target.name in fleet.row:
            return SUCCESS
        return unschedulable(self.name, f"cluster {target.name} not found")

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """Every other cluster, and this one if its Secret lies in another namespace."""
        target = unit.target_cluster
        if target is None:
            return NOTHING_REFUSED
        others = np.ones(len(fleet), dtype=np.bool_)
        others[fleet.rows([target.name])] = False
        if target.namespace:
            others |= ~fleet.secret_namespace.equals(target.namespace)
        return Refused([(others, "didn't match targetCluster")])


class ClusterSelector:
    """spec.clusterSelector: every pair must hold.

    Reserved keys: clusterName, clusterNamespace (of the cluster's Secret), cloudProvider and its
    alias clusterProvider (case does not matter), clusterVersion (a leading v does not matter). A
    cluster's own label of that name counts too.
    """

    name = "ClusterSelector"
    ignored_during_execution = False

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """The clusters that fail any pair."""
        if not unit.cluster_selector:
            return NOTHING_REFUSED
        mask = np.ones(len(fleet), dtype=np.bool_)
        for key, value in unit.cluster_selector.items():
            holds = fleet.column(key).equals(value)
            reserved = _RESERVED.get(key)
            mask &= holds | reserved(fleet, value) if reserved else holds
        return Refused([(~mask, "didn't match clusterSelector")])


def _named(fleet: Fleet, value: str) -> Mask:
    mask = np.zeros(len(fleet), dtype=np.bool_)
    mask[fleet.rows([value])] = True
    return mask


_RESERVED: Mapping[str, Callable[[Fleet, str], Mask]] = {
    "clusterName": _named,
    "clusterNamespace": lambda fleet, value: fleet.secret_namespace.equals(value),
    "cloudProvider": lambda fleet, value: fleet.provider.equals(value.lower()),
    "clusterProvider": lambda fleet, value: fleet.provider.equals(value.lower()),
    "clusterVersion": lambda fleet, value: fleet.version.equals(value.removeprefix("v")),
}


class ClusterAffinity:
    """spec.clusterAffinity: required terms are ORed; preferred ones add their weights up."""

    name = "ClusterAffinity"
    ignored_during_execution = False

    def filter(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """The clusters that no required term matches."""
        required = unit.cluster_affinity.required
        if required is None:
            return NOTHING_REFUSED
        mask = np.zeros(len(fleet), dtype=np.bool_)
        for term in required.cluster_selector_terms:
            mask |= fleet.matches(term)
        return Refused([(~mask, "didn't match clusterAffinity")])

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """The sum of the weights of the preferred terms that match."""
        total = np.zeros(len(fleet), dtype=np.int64)
        for term in unit.cluster_affinity.preferred:
            total += term.weight * fleet.matches(term.preference)
        return total

    def normalize(self, _state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """In proportion to the best feasible cluster."""
        best = int(scores[feasible].max(initial=0))
        return 100 * scores // best if best else np.zeros_like(scores)
