"""Evacuation as a feature."""

from __future__ import annotations

from controller.features.evacuation import taints
from controller.features.evacuation.controller import EvacuationController
from controller.features.evacuation.fleet import FleetMoves, Waiting
from controller.features.evacuation.plugin import NAME, Failover, NodeRoom, TaintEviction
from controller.framework.runtime.arguments import Plain
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from crds.workload import WorkloadCondition
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types import conditions


class Evacuations(Feature):
    controller: EvacuationController
    defaults = (
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("filter", Failover.name, before="ClusterResources"),
        Enabled("deschedule", NAME),
        Enabled("deschedule", NodeRoom.name),
        Enabled("deschedule", Failover.name),
    )

    def __init__(self) -> None:
        self.moves = FleetMoves(self._freed)
        self.ledgers = (self.moves,)
        own = {plugin.name: Plain(plugin) for plugin in (NodeRoom, Failover)}
        self.plugins = {NAME: TaintEviction, **own}
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self._waiting = Waiting()

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        handle.away().on_change(self._away_changed)
        for plugin in self.enabled(TaintEviction):
            plugin.handle, plugin.judged = handle, self._judged

    def _judged(self, cluster: str) -> bool:
        return self.leading and self.controller.judged(cluster)

    def start(self, term: Term) -> EvacuationController | None:
        plugin = next(iter(self.enabled(TaintEviction)), None)
        if plugin is None:
            return None
        return EvacuationController(term, waiting=self._waiting, plugin=plugin, handle=self.handle)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self._waiting.workload_changed(old, new)
        if self.leading:
            for cluster in _standing(old).items() ^ _standing(new).items():
                self.controller.moved(cluster[0])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self.controller.cluster_changed(new)
        elif old is not None:
            self._away_changed(old.metadata.name)
        if _lost(old) != _lost(new):
            self.controller.loss_changed()

    def _away_changed(self, name: str) -> None:
        self.controller.away_changed(name)

    def _freed(self) -> None:
        self.controller.freed()


def _standing(workload: Workload | None) -> dict[str, tuple[int, int, str]]:
    if workload is None:
        return {}
    present, leaving = workload.info.present, workload.info.moving.leaving
    moving = conditions.among(workload.status.conditions, WorkloadCondition.MOVING.value)
    said = str(moving.get("reason", ""))
    return {
        name: (present.get(name, 0), leaving[name].replicas if name in leaving else 0, said)
        for name in {**present, **leaving}
    }


def _lost(cluster: MemberCluster | None) -> bool:
    return cluster is not None and taints.lost(cluster)
