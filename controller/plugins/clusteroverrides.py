"""Overrides: what a Workload's spec.overrides make of a replica, and where they do not fit.

Room is counted with the request of the patched pods. A cluster on which a patch does not fit takes
no new replica; what runs there stays, as its object keeps its old form.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Shortage
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.room import vary
from controller.framework.status import SUCCESS, Status
from controller.framework.variants import Variant
from controller.model.overridden import Overridden, OverriddenPods
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.overrides.variables import ClusterFacts

_MISFIT = "override {} does not fit"


class ClusterOverrides:
    """The overrides of the main object at PreFilter and Filter."""

    name = "ClusterOverrides"
    ignored_during_execution = True

    def __init__(self) -> None:
        self._last: tuple[Overridden, Snapshot, _OnClusters] | None = None

    def events_to_register(self) -> tuple[EventHint, ...]:
        """Return the events that may bring a cluster on which the overrides fit."""
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS),)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        """Add the replica as it is on the clusters where overrides make another one of it."""
        if info.overridden is not None:
            found = self._on(info.overridden, snapshot)
            vary(state, [self._variant(info, each) for each in found.pods if each.pod])
        return SUCCESS

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Return the clusters on which an override does not fit."""
        if info.overridden is None:
            return NOTHING_REFUSED
        found = self._on(info.overridden, snapshot)
        masks: dict[str, Mask] = {}
        for at, pods in enumerate(found.pods):
            if pods.misfit:
                none = np.zeros(len(snapshot), dtype=np.bool_)
                masks[pods.misfit] = masks.get(pods.misfit, none) | (found.of == at)
        return FilterMask([(mask, _MISFIT.format(name)) for name, mask in sorted(masks.items())])

    def cure(self, shortage: Shortage, text: str, rows: Mask) -> str:
        """Say what does not fit."""
        overridden = shortage.workload.overridden
        if overridden is None:
            return ""
        found = self._on(overridden, shortage.snapshot)
        for at in np.unique(found.of[rows]).tolist():
            pods = found.pods[at]
            if pods.misfit and text == _MISFIT.format(pods.misfit):
                return f"override {pods.misfit} corrected: {pods.text}"
        return ""

    def _variant(self, info: WorkloadInfo, pods: OverriddenPods) -> Variant:
        return Variant(
            partial(self._rows, info.overridden, pods),
            pods.request,
            pods.place,
            info.tolerations,
            pods.pod,
        )

    def _rows(
        self, overridden: Overridden | None, pods: OverriddenPods, snapshot: Snapshot
    ) -> Mask:
        assert overridden is not None  # noqa: S101 - a variant is of a Workload with overrides
        found = self._on(overridden, snapshot)
        mask: Mask = np.isin(found.of, [at for at, each in enumerate(found.pods) if each == pods])
        return mask

    def _on(self, overridden: Overridden, snapshot: Snapshot) -> _OnClusters:
        last = self._last
        if last is None or last[0] is not overridden or last[1] is not snapshot:
            last = self._last = (overridden, snapshot, _OnClusters(overridden, snapshot))
        return last[2]


class _OnClusters:
    """The pods of each distinct result, and which of them each cluster has, shape (n,)."""

    def __init__(self, overridden: Overridden, snapshot: Snapshot) -> None:
        overrides = overridden.overrides
        self.of: Ints = np.zeros(len(snapshot), dtype=np.int64)
        self.pods = [OverriddenPods()]
        if not (overrides and len(snapshot)):
            return
        holds = [snapshot.selected(each.cluster_selector) for each in overrides]
        matched = np.array(holds, dtype=np.int64).reshape(len(overrides), len(snapshot))
        keys = sorted(frozenset[str]().union(*overridden.labels))
        values = np.array([snapshot.column(key).codes for key in keys], dtype=np.int64)
        read = [
            np.any(matched[[key in each for each in overridden.labels]], axis=0) for key in keys
        ]
        # A label counts only on clusters with an override that reads it.
        told = [np.where(here, codes, -1) for here, codes in zip(read, values, strict=True)]
        alike = np.vstack([matched, *told])
        _, first, of = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        self.of = of.reshape(-1).astype(np.int64)
        self.pods = [
            overridden.on(np.flatnonzero(matched[:, row]).tolist(), _facts(keys, row, snapshot))
            for row in first.tolist()
        ]


def _facts(keys: list[str], row: int, snapshot: Snapshot) -> ClusterFacts:
    labels = {}
    for key in keys:
        column = snapshot.column(key)
        value = column.vocabulary.values[column.codes[row]]
        if value is not None:
            labels[key] = value
    return ClusterFacts(snapshot.names[row], labels)
