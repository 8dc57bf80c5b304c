"""The moving and the placed replicas of the fleet, and the Workloads whose moves wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from heapq import nsmallest
from typing import NamedTuple, Self

from controller.cache.ledger import PlacementsByWorkload
from controller.model.objects import Workload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause
from crds.workload import WorkloadCondition
from machinery import metrics
from machinery.types import conditions
from machinery.types.metadata import Key


class _Entry(NamedTuple):
    placed: int = 0
    moving: int = 0
    leaving: tuple[tuple[str, int], ...] = ()
    """The leaving replicas by cause."""


_NOWHERE = _Entry()
MOVING_UNITS = metrics.gauge(
    "stowage_moving_units",
    "Replicas that still stand where they are placed no more, by what set the move off",
    ("cause",),
    zero=[(cause.value,) for cause in (ChangeCause.CLUSTER_LOST, ChangeCause.DRAINED)],
)


class FleetMoves:
    """`freed` is called when fewer replicas of a Workload are moving."""

    def __init__(self, freed: Callable[[], None] = lambda: None) -> None:
        self._freed = freed
        self._entries: dict[Key, _Entry] = {}
        self.placed = 0
        self.moving = 0

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        if is_workload(info.key):
            causes = ((each.cause, each.replicas) for each in info.moving.leaving.values())
            moving = on_their_way(info, placements)
            self._replace(
                info.key, _shared(_Entry(sum(placements.values()), moving, tuple(sorted(causes))))
            )

    def drop(self, key: Key) -> None:
        self._replace(key, _NOWHERE)

    def _replace(self, key: Key, entry: _Entry) -> None:
        before = self._entries.get(key, _NOWHERE)
        if entry == before:
            return
        self.placed += entry.placed - before.placed
        self.moving += entry.moving - before.moving
        for sign, each in ((-1, before), (1, entry)):
            for cause, replicas in each.leaving:
                MOVING_UNITS.labels(cause).inc(sign * replicas)
        if entry == _NOWHERE:
            del self._entries[key]
        else:
            self._entries[key] = entry
        if entry.moving < before.moving:
            self._freed()

    def overlay(self, _placed: PlacementsByWorkload) -> Self:
        """Members of a group do not move for each other."""
        return self


@lru_cache(maxsize=4096)
def _shared(entry: _Entry) -> _Entry:
    """Most Workloads rest, with one of few numbers of replicas."""
    return entry


def on_their_way(info: WorkloadInfo, placements: Mapping[str, int]) -> int:
    """Return the replicas that a move has placed and that are not ready."""
    state = info.moving
    found = 0
    if state.leaving:
        # Replicas on a cluster that is lost since are no longer moving there.
        missing = state.lacking(info.present, state.ready)
        waits = sum(n for name, n in missing.items() if name not in state.away)
        found = min(waits, sum(each.replicas for each in state.leaving.values()))
    if placements is info.present or placements == info.present or not info.present:
        return found
    came = sum(max(n - info.present.get(name, 0), 0) for name, n in placements.items())
    went = sum(max(n - placements.get(name, 0), 0) for name, n in info.present.items())
    return found + min(came, went)


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
