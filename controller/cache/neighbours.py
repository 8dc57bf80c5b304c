"""The clusters beside other Workloads: what terms of workloadAffinity select."""

from __future__ import annotations

from controller.cache.placements import PlacementIndex
from controller.model.objects import WorkloadTerm
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot


def beside(unit: WorkloadInfo, term: WorkloadTerm, fleet: Snapshot, bound: PlacementIndex) -> Mask:
    """Return the domains with a match."""
    mask = holding(unit, term, fleet, bound)
    if term.label_selector.matches(unit.labels):
        own = [cluster for cluster, units in unit.present.items() if units]
        mask |= fleet.domain(term.topology_key, own)
        if not mask.any():
            # The first Workload of a set that requires its own kind may go anywhere.
            return ~fleet.column(term.topology_key).missing()
    return mask


def holding(unit: WorkloadInfo, term: WorkloadTerm, fleet: Snapshot, bound: PlacementIndex) -> Mask:
    """Return the domains of a term that hold units of another Workload that it selects."""
    clusters = bound.clusters_of(unit.namespace, term.label_selector, but=(unit.key,))
    return fleet.domain(term.topology_key, clusters)
