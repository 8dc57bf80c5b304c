"""Evacuation as a feature: what the process watches, counts and runs for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.features.evacuation import taints
from controller.features.evacuation.controller import EvacuationController
from controller.features.evacuation.fleet import FleetMoves
from controller.features.evacuation.noderoom import NodeRoom
from controller.features.evacuation.plugin import NAME, TaintEviction
from controller.features.evacuation.waiting import Waiting
from controller.framework.runtime.arguments import Factory, Plain
from controller.framework.runtime.feature import Enabled, Term, Watch
from controller.framework.runtime.handle import Handle
from controller.model.objects import MemberCluster, Workload
from crds.workload import WorkloadCondition
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOADS
from machinery.types import conditions


class Evacuations:
    """The one instance of the feature in a process."""

    defaults = (
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("deschedule", NAME),
        Enabled("deschedule", NodeRoom.name),
    )

    def __init__(self) -> None:
        self.moves = FleetMoves(self._freed)
        self.ledgers = (self.moves,)
        self.plugins: Mapping[str, Factory] = {NAME: TaintEviction, NodeRoom.name: Plain(NodeRoom)}
        self.watches = (
            Watch(WORKLOADS, Workload, self.workload_changed),
            Watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed),
        )
        self._waiting = Waiting()
        self._handle: Handle | None = None
        self._controller: EvacuationController | None = None

    def attach(self, handle: Handle) -> None:
        """Have the plugins of all profiles read the configuration and the judgement of the process.

        Nothing is judged while no controller runs.
        """
        self._handle = handle
        handle.away().on_change(self._away_changed)
        for plugin in self._plugins():
            plugin.handle, plugin.judged = handle, self._judged

    def _judged(self, cluster: str) -> bool:
        return self._controller is not None and self._controller.judged(cluster)

    def _plugins(self) -> Iterator[TaintEviction]:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        return (each for each in self._handle.plugins if isinstance(each, TaintEviction))

    def lead(self, term: Term) -> EvacuationController | None:
        assert self._handle is not None  # noqa: S101 - `attach` comes first
        plugin = next(self._plugins(), None)
        if plugin is None:
            return None
        self._controller = EvacuationController(
            term,
            moves=self.moves,
            waiting=self._waiting,
            plugin=plugin,
            handle=self._handle,
        )
        return self._controller

    def stop_leading(self) -> None:
        self._controller = None

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's event: keep the Workloads that wait, and count what stands where."""
        self._waiting.workload_changed(old, new)
        if self._controller is not None:
            for cluster in _standing(old).items() ^ _standing(new).items():
                self._controller.moved(cluster[0])

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event."""
        if self._controller is None:
            return
        if new is None:
            assert old is not None  # noqa: S101 - the informer's promise
            self._controller.away_changed(old.metadata.name)
        else:
            self._controller.cluster_changed(new)
        if _lost(old) != _lost(new):
            self._controller.loss_changed()

    def _away_changed(self, name: str) -> None:
        if self._controller is not None:
            self._controller.away_changed(name)

    def _freed(self) -> None:
        if self._controller is not None:
            self._controller.freed()


def _standing(workload: Workload | None) -> dict[str, tuple[int, int, str]]:
    """Return what a Workload has on each cluster, what leaves it, and how its moves fare."""
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
