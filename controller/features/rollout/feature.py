"""Staged rollout as a feature: what the process watches and runs for it."""

from __future__ import annotations

from collections.abc import Mapping

from controller.cache.ledger import Ledger
from controller.features.rollout.controller import RolloutController, under_way
from controller.features.rollout.plugin import NAME, StagedRollout
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types.metadata import Key


class StagedRollouts:
    """The one instance of the feature in a process."""

    defaults = (Enabled("postBind", NAME),)
    ledgers: tuple[Ledger, ...] = ()

    def __init__(self) -> None:
        self.plugins: Mapping[str, Factory] = {NAME: StagedRollout}
        self.watches = (
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self._under_way: set[Key] = set()
        self._handle: Handle | None = None
        self._controller: RolloutController | None = None

    def attach(self, handle: Handle) -> None:
        """Hear of what the plugins of all profiles have placed."""
        self._handle = handle
        for plugin in handle.plugins:
            if isinstance(plugin, StagedRollout):
                plugin.placed = self._look

    def lead(self, term: Term) -> RolloutController:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        self._controller = RolloutController(term, handle=self._handle)
        return self._controller

    def stop_leading(self) -> None:
        self._controller = None

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event."""
        if new is not None and new.info.rollout is not None:
            (self._under_way.add if under_way(new) else self._under_way.discard)(new.metadata.key)
            self._look(new.metadata.key)
        elif old is not None and old.info.rollout is not None:
            self._under_way.discard(old.metadata.key)
            if self._controller is not None:
                self._controller.forget(old.metadata.key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event: a wave may have another cluster, or one more that answers."""
        if _known(old) != _known(new):
            for key in self._under_way:
                self._look(key)

    def _look(self, key: Key) -> None:
        if self._controller is not None:
            self._controller.add(key)


def _known(cluster: MemberCluster | None) -> tuple[bool, Mapping[str, str]] | None:
    """Return what a rollout reads of a cluster."""
    return None if cluster is None else (cluster.ready, cluster.labels)
