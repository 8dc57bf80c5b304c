"""StagedRollout: the write of a decision has the revision of each new cluster.

So no cluster that joins is ahead of its wave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from controller.cache.placements import PlacementIndex
from controller.features.rollout.clusters import placed_view
from controller.features.rollout.machine import Machine
from controller.features.rollout.status import revisions_of
from controller.framework.interface import CycleState
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import Handle
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
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
