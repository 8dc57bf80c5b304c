"""Failover: evictions because of the application, where spec.movement.unhealthySeconds is set.

The propagator counts for how long a share is unhealthy, of a revision that was ready there
(`propagator.status.failover`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import EventHint
from controller.framework.explains import Shortage
from controller.framework.interface import (
    NOTHING_REFUSED,
    CycleState,
    Descheduling,
    Eviction,
    FilterMask,
)
from controller.framework.status import Refusal
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause

_NONE = Descheduling()
_LEFT = "Left"


class Failover:
    name = "Failover"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return ()  # a limit ends by time

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Refuse the clusters that a whole Workload left. Divided keeps others to their limits."""
        if not info.limits or not info.whole:
            return NOTHING_REFUSED
        left = [name for name, limit in info.limits.items() if not limit.replicas]
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        mask[snapshot.rows(left)] = True
        return FilterMask([(mask, "was left a short while ago, as it was unhealthy there", _LEFT)])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "the end of that time (status.limits of the Workload)"

    def deschedule(
        self, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex, now: datetime
    ) -> Descheduling:
        unhealthy = {c: over for c, over in info.moving.unhealthy.items() if info.present.get(c)}
        leave = [cluster for cluster, over in unhealthy.items() if over]
        if not leave or info.everywhere:
            return _NONE
        sick, all_ = len(unhealthy), sum(map(bool, info.present.values()))
        if all_ > 1 and 2 * sick > all_:
            note = f"it is unhealthy on {sick} of {all_} clusters, so a move would heal nothing"
            reason = MovingReason.UNHEALTHY_EVERYWHERE.value
            held = Eviction(ChangeCause.UNHEALTHY.value, reason=reason, note=note)
            return Descheduling(dict.fromkeys(leave, held))
        goes = Eviction(ChangeCause.UNHEALTHY.value, due=now)
        return Descheduling(dict.fromkeys(leave, goes))
