"""WorkloadSpread as a feature."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from controller.features.workloadspread.compiled import (
    MARK_SECONDS,
    CompiledSpread,
    Spreads,
    WorkloadSpread,
    compile_spread,
)
from controller.features.workloadspread.controller import SpreadController
from controller.features.workloadspread.plugin import NAME
from controller.features.workloadspread.plugin import WorkloadSpreadPlugin as Plugin
from controller.framework.runtime.feature import Enabled, Feature, Term
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Book
from controller.model.objects import MemberCluster, Workload
from machinery.api.resources import MEMBER_CLUSTERS, WORKLOAD_SPREADS, WORKLOADS
from machinery.types.metadata import Key


class WorkloadSpreads(Feature):
    controller: SpreadController
    defaults = (
        Enabled("preFilter", NAME),
        Enabled("filter", NAME, before="ClusterResources"),
        Enabled("postFilter", NAME),
        Enabled("assign", NAME, before="Single"),
        Enabled("reserve", NAME),
        Enabled("preBind", NAME),
    )

    def __init__(self) -> None:
        self.spreads = Spreads()
        self.ledgers = (self.spreads,)
        self.plugins = {NAME: Plugin}
        self.watch(WORKLOAD_SPREADS, WorkloadSpread, self.spread_changed, gone=self._spread_gone)
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self.mark_seconds = MARK_SECONDS

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        found = self.enabled(Plugin)
        self.mark_seconds = found[0].mark_seconds if found else MARK_SECONDS
        for each in found:
            each.claims = self
            each.endpoints = book(self.spreads, self._subsets).routes()

    def start(self, term: Term) -> SpreadController:
        seconds = self.mark_seconds
        return SpreadController(
            term, spreads=self.spreads, handle=self.handle, mark_seconds=seconds
        )

    def _subsets(self, spread: CompiledSpread) -> Sequence[Mapping[str, Any]]:
        return self.controller.subsets(spread) if self.leading else ()

    def _spread_gone(self, old: WorkloadSpread) -> None:
        self.controller.forget(old.metadata.key)
        self._look(self.spreads.drop_spread(old.metadata.key))

    def spread_changed(self, _old: WorkloadSpread | None, new: WorkloadSpread) -> None:
        spread = compile_spread(new, mark_seconds=self.mark_seconds)
        self.controller.add(spread.key)
        if spread != self.spreads.get(spread.key):  # decisions do not read the counts
            self._look(self.spreads.put_spread(spread))

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self.controller.workload_changed(old, new)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Replicas may count to another subset, or find a place."""
        if new is not None:
            self.controller.may_help()
        if old is None or new is None or old.labels != new.labels:
            self.controller.add_all()
            if old is not None and new is not None:
                self.handle.look(self.spreads.targets())

    def _look(self, targets: Collection[Key]) -> None:
        self.controller.look_at_spreads_of(targets)
        self.handle.look(targets)


def book(
    spreads: Spreads, subsets: Callable[[CompiledSpread], Sequence[Mapping[str, Any]]]
) -> Book[CompiledSpread]:
    def summary(spread: CompiledSpread) -> dict[str, Any]:
        holder = spreads.of(spread.target)
        return {
            "namespace": spread.key[0],
            "name": spread.name,
            "workload": spread.target[1],
            "strategy": "Adaptive" if spread.adaptive else "Fixed",
            "divides": holder is not None and holder.key == spread.key and not spread.fault,
            "marked": sorted(spread.marked),
            "message": spread.fault,
        }

    def detail(spread: CompiledSpread) -> dict[str, Any]:
        held = () if spread.fault else subsets(spread)
        return {**summary(spread), "subsets": [_subset(spread, each) for each in held]}

    return Book("spreads", "workload-spread", spreads.values, spreads.get, summary, detail)


def _subset(spread: CompiledSpread, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subset as JSON values; `missing` is -1 without a limit."""
    return {
        "name": held["name"],
        "replicas": held["replicas"],
        "missing": held["missingReplicas"],
        "marked": held["name"] in spread.marked,
        "creating": held["creatingPods"],
        "deleting": held["deletingPods"],
        "stuck": held["stuckPods"],
        "deletionCost": held["deletionCost"],
    }
