"""Overrides: the replica that spec.overrides make on each cluster, and where they do not fit.

Room is counted with the request of the patched pods. A cluster on which a patch does not fit takes
no new replica.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Shortage
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Variant
from controller.framework.room import vary
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model.overridden import Overridden, OverriddenPods
from controller.model.place import Place
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.forms import Forms
from controller.snapshot.snapshot import Snapshot

_MISFIT = "Misfit"
MOST_KINDS = 128
"""Different replicas of one Workload: each is evaluated on all clusters."""
_Kind: TypeAlias = tuple[bytes, tuple[tuple[str, int], ...], Place, str, str]


class ClusterOverrides:
    name = "ClusterOverrides"
    ignored_during_execution = True

    def __init__(self) -> None:
        self._last: tuple[Overridden, Snapshot, _OnClusters] | None = None

    def events_to_register(self) -> tuple[EventHint, ...]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS),)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        """Add a variant for the clusters whose overrides change the replica."""
        if info.overridden is not None:
            found = self._on(info.overridden, snapshot)
            if found.fault:
                return unschedulable(self.name, found.fault)
            vary(state, [self._variant(info, *each) for each in found.different])
        return SUCCESS

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if info.overridden is None:
            return NOTHING_REFUSED
        found = self._on(info.overridden, snapshot)
        masks: dict[str, Mask] = {}
        for at, pods in enumerate(found.pods):
            if pods.misfit:
                none = np.zeros(len(snapshot), dtype=np.bool_)
                masks[pods.misfit] = masks.get(pods.misfit, none) | (found.of == at)
        return FilterMask(
            [
                (mask, f"override {name} does not fit", _MISFIT, (name,))
                for name, mask in sorted(masks.items())
            ]
        )

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        why = self.why(shortage, refusal, rows)
        return f"override {refusal.args[0]} corrected: {why}" if why else ""

    def why(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Return why that override does not fit there; empty if it does."""
        overridden = shortage.workload.overridden
        if overridden is None or refusal.code != _MISFIT:
            return ""
        found = self._on(overridden, shortage.snapshot)
        for at in np.unique(found.of[rows]).tolist():
            pods: OverriddenPods = found.pods[at]
            if (pods.misfit,) == refusal.args:
                return pods.text
        return ""

    def _variant(self, info: WorkloadInfo, kind: _Kind, pods: OverriddenPods) -> Variant:
        return Variant(
            partial(self._rows, info.overridden, kind),
            pods.request,
            pods.place,
            info.tolerations,
            pods.pod,
        )

    def _rows(self, overridden: Overridden | None, kind: _Kind, snapshot: Snapshot) -> Mask:
        assert overridden is not None  # noqa: S101 - a variant is of a Workload with overrides
        return self._on(overridden, snapshot).rows(kind)

    def _on(self, overridden: Overridden, snapshot: Snapshot) -> _OnClusters:
        last = self._last
        if last is None or last[0] is not overridden or last[1] is not snapshot:
            last = self._last = (overridden, snapshot, _OnClusters(overridden, snapshot))
        return last[2]


class _OnClusters:
    """The pods of each kind, and the kind of each cluster, shape (n,)."""

    def __init__(self, overridden: Overridden, snapshot: Snapshot) -> None:
        forms = Forms(overridden, snapshot)
        self.fault = forms.fault
        kinds: dict[_Kind, int] = {}
        self.pods: list[OverriddenPods] = []
        kind_of = []
        for pods in forms.evaluated():
            kind = _kind(pods)
            if kind not in kinds:
                kinds[kind] = len(kinds)
                self.pods.append(pods)
            kind_of.append(kinds[kind])
        self.of: Ints = np.array(kind_of, dtype=np.int64)[forms.of]
        self._kinds = kinds
        self.different = [
            (each, self.pods[at]) for each, at in kinds.items() if self.pods[at].request
        ]
        if len(self.different) > MOST_KINDS:
            self.fault = (
                f"spec.overrides make {len(self.different)} different replicas by what they ask "
                f"for, {MOST_KINDS} at most: let requests and constraints read fewer labels"
            )

    def rows(self, kind: _Kind) -> Mask:
        mask: Mask = self.of == self._kinds.get(kind, -1)
        return mask


def _kind(pods: OverriddenPods) -> _Kind:
    _, _, spec = pods.pod.partition(b'},"spec":')  # labels alone make no other replica
    return spec, tuple(sorted(pods.request.items())), pods.place, pods.misfit, pods.text
