"""Staged rollout as a feature."""

from __future__ import annotations

from collections.abc import Mapping

from controller.features.rollout.controller import RolloutController, under_way
from controller.features.rollout.plugin import NAME, StagedRollout
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types.metadata import Key


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
        """A changed cluster may belong to another wave, or be reachable again."""
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
