"""The Workloads whose moves wait for others, and their turns."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest

from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.workload import WorkloadCondition
from machinery.types import conditions
from machinery.types.metadata import Key

AT_ONCE = 16
"""Workloads that are requeued when other moves have ended."""


class Waiting:
    """Read from stored statuses, so the next leader knows them too."""

    def __init__(self) -> None:
        self._all: dict[Key, WorkloadInfo] = {}

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None and _waits(new):
            self._all[new.metadata.key] = new.info
        elif (known := new or old) is not None:
            self._all.pop(known.metadata.key, None)

    def first(self, snapshot: Snapshot) -> list[Key]:
        """Return the next few: loss, return, drain, rebalance, then by priority."""
        turn = turns(snapshot)
        return [info.key for info in nsmallest(AT_ONCE, self._all.values(), key=turn)]


def turns(snapshot: Snapshot) -> Callable[[WorkloadInfo], tuple[int, int, Key]]:
    ready, leaving = (
        {name for name in snapshot.names if mask[snapshot.row[name]]}
        for mask in (snapshot.ready, snapshot.evacuating)
    )

    def turn(info: WorkloadInfo) -> tuple[int, int, Key]:
        if not ready.issuperset(info.present):
            return 0, -info.priority, info.key
        if info.moving.displaced:
            return 1, -info.priority, info.key
        return 2 if not leaving.isdisjoint(info.present) else 3, -info.priority, info.key

    return turn


def _waits(workload: Workload) -> bool:
    said = conditions.among(workload.status.conditions, WorkloadCondition.MOVING.value)
    return said.get("reason") == MovingReason.FLEET_BUDGET.value
