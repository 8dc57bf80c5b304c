"""Staged rollout as a feature: each decision writes the revision of its new clusters.

So no cluster that joins is ahead of its wave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.features.rollout.controller import RolloutController, placed_view, under_way
from controller.features.rollout.machine import Machine
from controller.features.rollout.status import revisions_of
from controller.framework.interface import CycleState
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types.metadata import Key

NAME = "StagedRollout"


class StagedRollout:
    name = NAME

    def __init__(self, _args: NoArgs, _handle: Handle) -> None:
        self.placed: Callable[[Key], None] = lambda _key: None
        """Called when new placements of a Workload with a rollout are stored."""

    def post_bind(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        """The controller starts the time of new clusters: a decision reads no clock."""
        if info.rollout is not None:
            self.placed(info.key)

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        state = info.rollout
        if state is None:
            return {}
        view = placed_view(info, placements, snapshot)
        if view is None or view.stored is None:
            return {}
        newcomers = placements.keys() - info.present.keys() - info.moving.leaving.keys()
        renamed = state.exceptions.keys() - view.exceptions.keys()
        if not (newcomers or renamed):
            return {}
        step = Machine(view, view.stored.revision).admit(newcomers)
        fields: dict[str, Any] = {}
        if step.status.updates != view.stored.updates or renamed:
            updates = msgspec.to_builtins(step.status.updates)
            fields["rollout"] = {**state.rollout, "updates": updates}
        revisions = revisions_of(step.exceptions, view.stored.stable)
        if revisions != state.listed:
            fields["revisions"] = msgspec.to_builtins(revisions)
        return fields


class StagedRollouts(Feature):
    controller: RolloutController
    defaults = (Enabled("postBind", NAME),)

    def __init__(self) -> None:
        self.plugins = {NAME: StagedRollout}
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self._under_way: set[Key] = set()

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        for plugin in self.enabled(StagedRollout):
            plugin.placed = self._placed

    def start(self, term: Term) -> RolloutController:
        return RolloutController(term, handle=self.handle)

    def _placed(self, key: Key) -> None:
        self.controller.add(key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None and new.info.rollout is not None:
            goes_on, key = under_way(new), new.metadata.key
            (self._under_way.add if goes_on else self._under_way.discard)(key)
            if goes_on or old is None or _edited(old, new):
                self.controller.add(key)
        elif old is not None and old.info.rollout is not None:
            self._under_way.discard(old.metadata.key)
            self.controller.forget(old.metadata.key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if _known(old) != _known(new):
            for key in self._under_way:
                self.controller.add(key)


def _edited(old: Workload, new: Workload) -> bool:
    return (
        old.metadata.generation != new.metadata.generation
        or old.info.rollout != new.info.rollout
        or old.status.review != new.status.review
    )


def _known(cluster: MemberCluster | None) -> tuple[bool, Mapping[str, str]] | None:
    return None if cluster is None else (cluster.ready, cluster.labels)
