"""StagedRollout: a decision says in its own write which revision a new cluster gets.

So no cluster that joins in the middle of a rollout has a revision that its wave does not have yet,
be it for a moment. All other steps of a rollout are writes of the feature's controller.
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
    """The revisions of clusters that a decision adds."""

    name = NAME

    def __init__(self, _args: NoArgs, _handle: Handle) -> None:
        self.placed: Callable[[Key], None] = lambda _key: None
        """Called once new placements of a Workload with a rollout are stored."""

    def post_bind(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        """Have the time of new clusters begin: a decision asks no clock."""
        if info.rollout is not None:
            self.placed(info.key)

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """Return both fields with the clusters of which neither says anything; else none."""
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
