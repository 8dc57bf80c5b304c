"""The plugins: a filter by a Placement, and a score by an AddOnPlacementScore."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from controller.cache.placements import PlacementIndex
from controller.framework.events import Action, EventHint, on
from controller.framework.explains import Shortage
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.runtime.arguments import Args, NoArgs
from controller.framework.runtime.handle import Handle
from controller.framework.status import Refusal
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.types.metadata import Key
from stowage_ocm.ledger import Decided
from stowage_ocm.objects import PLACEMENT_DECISIONS


class OcmPlacement:
    """Enable it at filter: new units go to clusters that the named Placement has chosen."""

    name = "OcmPlacement"
    ignored_during_execution = True
    """Units that run are not moved when the Placement chooses others."""

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> FilterMask:
        """Every cluster that the Placement has not chosen; all where it has decided nothing."""
        decided = bound.ledger(Decided)
        placement = decided.placement(info.key)
        if placement is None:
            return NOTHING_REFUSED
        chosen = decided.chosen(placement)
        if chosen is None:
            every = np.ones(len(snapshot), dtype=np.bool_)
            return FilterMask([(every, f"Placement {placement[1]} has decided nothing")])
        other = np.array([name not in chosen for name in snapshot.names], dtype=np.bool_)
        return FilterMask([(other, f"not chosen by Placement {placement[1]}")])

    def events_to_register(self) -> Sequence[EventHint]:
        """A slice of that Placement comes or changes."""
        changed = Action.ADDED | Action.SPEC
        return (on(PLACEMENT_DECISIONS.kind, changed, about=self._placement),)

    def _placement(self, info: WorkloadInfo) -> Key | None:
        return self._handle.index().ledger(Decided).placement(info.key)

    def cure(self, shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        """The Placement decides."""
        placement = self._placement(shortage.workload)
        name = placement[1] if placement is not None else ""
        return f"a PlacementDecision of Placement {name} with that cluster"


class ScoreArgs(Args):
    """`args` of the plugin AddOnPlacementScore; its weight is that of the profile."""

    resource_name: str = Field(min_length=1)
    """The name of the AddOnPlacementScores, one in the namespace of each cluster."""
    score_name: str = Field(min_length=1)
    """The name of the score within them."""


class AddOnPlacementScore:
    """Enable it at score: -100..100 of Open Cluster Management become 0..100."""

    name = "AddOnPlacementScore"

    def __init__(self, args: ScoreArgs, handle: Handle) -> None:
        self._args, self._handle = args, handle

    def score(
        self, _state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Ints:
        """50 for a cluster without a score that is valid now."""
        # Of all plugins this one asks for the time: whether a score is valid is part of its value.
        decided, now = bound.ledger(Decided), self._handle.clock.now()
        about = (self._args.resource_name, self._args.score_name)
        values = [(decided.value(name, *about, now) + 100) // 2 for name in snapshot.names]
        return np.array(values, dtype=np.int64)
