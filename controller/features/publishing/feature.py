"""Publishing as a feature."""

from __future__ import annotations

from typing import Any

from controller.features.publishing.controller import PublishingController, publishes
from controller.features.publishing.decisions import OwnedSlices
from controller.features.publishing.objects import ClusterDecision, PlacementDecision
from controller.framework.runtime.feature import Feature, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    MEMBER_CLUSTERS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
)
from machinery.types.metadata import Key


class Publishing(Feature):
    controller: PublishingController

    def __init__(self) -> None:
        self._owned = OwnedSlices()
        self._naming: set[Key] = set()
        """Workloads that publish labels or ClusterProfiles of their clusters."""
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self.watch(CLUSTER_DECISIONS, ClusterDecision, self.decision_changed)

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        if handle.configuration.placement_decisions:
            self.watch(PLACEMENT_DECISIONS, PlacementDecision, self.slice_changed)

    def start(self, term: Term) -> PublishingController:
        return PublishingController(term, handle=self.handle, owned=self._owned)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is None:
            return
        key = known.metadata.key
        tells = new is not None and publishes(new)
        asked = known.spec.publish
        naming = tells and (bool(asked.labels) or asked.placement_decision)
        (self._naming.add if naming else self._naming.discard)(key)
        if new is None:
            self.controller.forget(key)
        elif (tells or (old is not None and publishes(old))) and _read(old) != _read(new):
            self.controller.add(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None and _named(old) != _named(new):
            self.controller.cluster_changed(known.metadata.name, self._naming)

    def decision_changed(self, old: ClusterDecision | None, new: ClusterDecision | None) -> None:
        known = new or old
        if known is not None:
            self.controller.add(known.metadata.key)

    def slice_changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> None:
        for key in self._owned.changed(old, new):
            self.controller.add(key)
        known = new or old
        if known is not None:
            # If it has another owner, the Workload that needs the name may wait.
            namespace, name = known.metadata.key
            self.controller.add((namespace, name.rpartition("-")[0]))


def _named(cluster: MemberCluster | None) -> tuple[Any, ...] | None:
    return (cluster.labels, cluster.profile) if cluster is not None else None


def _read(workload: Workload | None) -> tuple[Any, ...] | None:
    if workload is None:
        return None
    status = workload.status
    return (
        workload.metadata.uid,
        workload.metadata.generation,
        workload.metadata.deleting,
        workload.standing,
        workload.info.moving.leaving,
        status.why,
        status.observed,
    )
