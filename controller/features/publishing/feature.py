"""Publishing as a feature: what the process watches and runs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.cache.ledger import Ledger
from controller.features.publishing.controller import PublishingController, publishes
from controller.features.publishing.objects import ClusterDecision, PlacementDecision
from controller.features.publishing.placementdecisions import OwnedSlices
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    MEMBER_CLUSTERS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
)
from machinery.types.metadata import Key


class Publishing:
    """The one instance of the feature in a process."""

    plugins: Mapping[str, Factory] = {}
    defaults: tuple[Enabled, ...] = ()
    ledgers: tuple[Ledger, ...] = ()

    def __init__(self) -> None:
        self._owned = OwnedSlices()
        self._naming: set[Key] = set()
        """The Workloads that tell labels or ClusterProfiles of their clusters."""
        self._handle: Handle | None = None
        self._controller: PublishingController | None = None

    @property
    def watches(self) -> Sequence[Watch]:
        """The kinds that it reads: PlacementDecisions where the configuration switches them on."""
        handle = self._handle
        slices = handle is not None and handle.configuration.placement_decisions
        return [
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
            Watch(CLUSTER_DECISIONS, ClusterDecision, self.decision_changed),
            *(
                [Watch(PLACEMENT_DECISIONS, PlacementDecision, self.slice_changed)]
                if slices
                else []
            ),
        ]

    def attach(self, handle: Handle) -> None:
        self._handle = handle

    def lead(self, term: Term) -> PublishingController:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self._controller = PublishingController(term, handle=self._handle, owned=self._owned)
        return self._controller

    def stop_leading(self) -> None:
        self._controller = None

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event."""
        known = new or old
        if known is None:
            return
        key = known.metadata.key
        tells = new is not None and publishes(new)
        asked = known.spec.publish
        naming = tells and (bool(asked.labels) or asked.placement_decision)
        (self._naming.add if naming else self._naming.discard)(key)
        if new is None and self._controller is not None:
            self._controller.forget(key)
        elif (tells or (old is not None and publishes(old))) and _read(old) != _read(new):
            self._look(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event: the labels or the ClusterProfile may be told."""
        known = new or old
        if known is not None and self._controller is not None and _named(old) != _named(new):
            self._controller.cluster_changed(known.metadata.name, self._naming)

    def decision_changed(self, old: ClusterDecision | None, new: ClusterDecision | None) -> None:
        """Handle an informer's event: whoever has the name, the Workload of it may wait for it."""
        known = new or old
        if known is not None:
            self._look(known.metadata.key)

    def slice_changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> None:
        """Handle an informer's event."""
        for key in self._owned.changed(old, new):
            self._look(key)
        known = new or old
        if known is not None:
            # Where it is somebody else's, the Workload of whose slices this is a name may wait.
            namespace, name = known.metadata.key
            self._look((namespace, name.rpartition("-")[0]))

    def _look(self, key: Key) -> None:
        if self._controller is not None:
            self._controller.add(key)


def _named(cluster: MemberCluster | None) -> tuple[Any, ...] | None:
    return (cluster.labels, cluster.profile) if cluster is not None else None


def _read(workload: Workload | None) -> tuple[Any, ...] | None:
    """Return what a turn reads of a Workload."""
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
