"""The ledger of moves: how many replicas of the fleet are on their way, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from controller.cache.ledger import PlacementsByWorkload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from crds.fields.why import ChangeCause
from machinery import metrics
from machinery.types.metadata import Key


@dataclass(frozen=True, slots=True)
class _Entry:
    placed: int
    moving: int
    clusters: frozenset[str]
    leaving: tuple[tuple[str, int], ...] = ()
    """The units that still stand where they are placed no more, by what set that off."""


_NOWHERE = _Entry(0, 0, frozenset())
MOVING_UNITS = metrics.gauge(
    "stowage_moving_units",
    "Units that still stand where they are placed no more, by what set the move off",
    ("cause",),
    zero=[(cause.value,) for cause in (ChangeCause.CLUSTER_LOST, ChangeCause.DRAINED)],
)


class FleetMoves:
    """The replicas of all Workloads: those with a cluster, and those on their way to another one.

    `told` is called after each change, with whether fewer replicas are on their way.
    """

    def __init__(self, told: Callable[[bool], None] = lambda _fewer: None) -> None:
        self._told = told
        self._entries: dict[Key, _Entry] = {}
        self._on: dict[str, set[Key]] = {}
        self.placed = 0
        self.moving = 0

    def on(self, cluster: str) -> set[Key]:
        """Return the Workloads with replicas that stand on a cluster, or may return to it."""
        return self._on.get(cluster, set())

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        if not is_workload(info.key):
            return
        state = info.moving
        entry = _Entry(
            sum(placements.values()),
            on_their_way(info, placements),
            frozenset((*placements, *state.leaving, *state.displaced)),
            tuple(sorted((each.cause, each.replicas) for each in state.leaving.values())),
        )
        self._replace(info.key, entry)

    def drop(self, key: Key) -> None:
        self._replace(key, _NOWHERE)

    def _replace(self, key: Key, entry: _Entry) -> None:
        before = self._entries.get(key, _NOWHERE)
        if before == entry:
            return
        self.placed += entry.placed - before.placed
        self.moving += entry.moving - before.moving
        for sign, each in ((-1, before), (1, entry)):
            for cause, replicas in each.leaving:
                MOVING_UNITS.labels(cause).inc(sign * replicas)
        if entry is _NOWHERE:
            del self._entries[key]
        else:
            self._entries[key] = entry
        if before.clusters != entry.clusters:
            for name in before.clusters - entry.clusters:
                self._on[name].discard(key)
                if not self._on[name]:
                    del self._on[name]
            for name in entry.clusters - before.clusters:
                self._on.setdefault(name, set()).add(key)
        self._told(entry.moving < before.moving)

    def overlay(self, _placed: PlacementsByWorkload) -> Self:
        """Return itself: Workloads that are decided together do not move for each other."""
        return self


def on_their_way(info: WorkloadInfo, placements: Mapping[str, int]) -> int:
    """Return the replicas that a move has placed and that are not ready.

    Those of a decision whose write is not seen yet count as soon as it is assumed.
    """
    state = info.moving
    found = 0
    if state.leaving:
        ready = state.ready
        # What was placed on a cluster that is lost since is not on its way there any more.
        there = ((name, n) for name, n in info.present.items() if name not in state.away)
        missing = sum(max(n - ready.get(name, 0), 0) for name, n in there)
        found = min(missing, sum(each.replicas for each in state.leaving.values()))
    if placements is info.present or placements == info.present or not info.present:
        return found
    came = sum(max(n - info.present.get(name, 0), 0) for name, n in placements.items())
    went = sum(max(n - placements.get(name, 0), 0) for name, n in info.present.items())
    return found + min(came, went)
