"""The shares of every Workload, decided or written, and the units that no cluster counts yet.

A decision is held from the breath in which it is made (`assume`), so that two decisions in a row
never count on the same room; what an informer says of the Workload replaces it. Units that their
cluster does not show in its room are in flight there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.cache.builder import FleetBuilder
from controller.cache.placements import Index
from controller.cache.seekers import Seekers
from controller.model.objects import Workload
from controller.model.unit import Unit
from machinery.types.metadata import Key

_NOWHERE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Holding:
    """The shares of a Workload, and the units of them that their clusters do not count yet."""

    unit: Unit
    placements: Mapping[str, int]
    flying: Mapping[str, int]


class Holdings:
    """Holdings by Workload and by cluster; the index and the fleet's builder are kept in step."""

    def __init__(self, index: Index, builder: FleetBuilder) -> None:
        self._index = index
        self._builder = builder
        self._all: dict[Key, Holding] = {}
        self._holders: dict[str, set[Key]] = {}
        self.seekers = Seekers()
        """Those that require others and hold nothing."""
        self.settled = Seekers()
        """Those that require others and hold something."""

    def get(self, key: Key) -> Holding | None:
        """What a Workload holds; None for one that nobody has heard of."""
        return self._all.get(key)

    def values(self) -> Iterable[Holding]:
        """Everybody's."""
        return self._all.values()

    def on(self, cluster: str) -> list[Holding]:
        """Those with a share on a cluster, by the Workload's name."""
        return [self._all[key] for key in sorted(self._holders.get(cluster, ()))]

    def assume(self, unit: Unit, placements: Mapping[str, int]) -> None:
        """Hold a decision whose write is under way: all its new units are in flight."""
        before = self._all.get(unit.key)
        counted: dict[str, int] = {}
        if before is not None:
            counted = {c: n - before.flying[c] for c, n in before.placements.items()}
        self._index.put(unit, placements)
        self._put(unit, placements, counted)

    def take(self, workload: Workload) -> None:
        """Hold what an informer says."""
        counted = {each.name: each.scheduled + each.finished for each in workload.status.clusters}
        placements, deleting = workload.placements, workload.metadata.deleting
        self._index.put(workload.unit, placements, deleting=deleting)
        self._put(workload.unit, placements, counted)

    def drop(self, key: Key) -> None:
        """Forget a Workload."""
        self.seekers.drop(key)
        self.settled.drop(key)
        self._fly(key, self._all.pop(key, None), None)
        self._index.drop(key)

    def appeared(self, cluster: str) -> None:
        """A cluster is known from now on; Workloads may have been placed there before it was."""
        for key in self._holders.get(cluster, ()):
            held = self._all[key]
            self._builder.assume(cluster, held.unit.load, held.flying[cluster])

    def _put(self, unit: Unit, placements: Mapping[str, int], counted: Mapping[str, int]) -> None:
        for seekers, member in ((self.seekers, not placements), (self.settled, bool(placements))):
            if member and unit.affinity.required:
                seekers.put(unit)
            else:
                seekers.drop(unit.key)
        flying = {c: max(n - counted.get(c, 0), 0) for c, n in placements.items()}
        before = self._all.get(unit.key)
        self._all[unit.key] = Holding(unit, dict(placements), flying)
        self._fly(unit.key, before, self._all[unit.key])

    def _fly(self, key: Key, before: Holding | None, after: Holding | None) -> None:
        """Count a Workload on its clusters, and its units on their way, where that changed."""
        was, now = (held.flying if held else _NOWHERE for held in (before, after))
        load, other = (held.unit.load if held else None for held in (after, before))
        for cluster, units in was.items():
            if other is not None and (load != other or now.get(cluster) != units):
                self._builder.assume(cluster, other, -units)
            if cluster not in now:
                holders = self._holders[cluster]
                holders.discard(key)
                if not holders:
                    del self._holders[cluster]
        for cluster, units in now.items():
            if load is not None and (load != other or was.get(cluster) != units):
                self._builder.assume(cluster, load, units)
            if cluster not in was:
                self._holders.setdefault(cluster, set()).add(key)
