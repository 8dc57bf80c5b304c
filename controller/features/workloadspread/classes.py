"""Which subset each unit of a Workload counts to, where its placements and the caps are known.

The planner's own rule (`controller.planner.subsets`), read cluster by cluster: which of the units
on a cluster count to the first of its subsets, which to the next, and which are too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from controller.cache.snapshot import Fleet
from controller.features.workloadspread.compiled import Spread
from controller.planner.problem import UNBOUNDED
from controller.planner.subsets import Subsets
from machinery.types.bounds import between

Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""(subset, units), one after the other: the first units of a cluster, and those that follow."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The subsets of a spread over a fleet."""

    fleet: Fleet
    subsets: Subsets

    @staticmethod
    def of(spread: Spread, fleet: Fleet, total: int) -> Classes:
        """For so many units in all."""
        size, every = len(fleet), np.ones(len(fleet), dtype=np.bool_)
        inside = [
            fleet.matches(each.required) if each.required is not None else every
            for each in spread.subsets
        ]
        number = len(inside)
        subsets = Subsets(
            names=[each.name for each in spread.subsets],
            inside=np.array(inside, dtype=np.bool_).reshape(number, size),
            cap=spread.caps(total),
            closed=np.zeros(number, dtype=np.bool_),
            overflow=np.zeros(number, dtype=np.bool_),
            rank=np.zeros((number, size), dtype=np.int64),
            crowded=np.zeros(size, dtype=np.bool_),
            order=fleet.by_name,
        )
        return Classes(fleet, subsets)

    def cap(self, subset: int) -> int:
        """The units that it takes; UNBOUNDED without a limit."""
        return int(self.subsets.cap[subset])

    def pieces(self, placements: Mapping[str, int]) -> dict[str, Pieces]:
        """The pieces of each cluster that a subset matches and that holds units."""
        found: dict[str, Pieces] = {}
        counted, excess, _ = self.subsets.classified(self._units(placements))
        for part in (counted, excess):
            rows, places = np.nonzero(part.T)
            for row, subset in zip(rows.tolist(), places.tolist(), strict=True):
                name, piece = self.fleet.names[row], (subset, int(part[subset, row]))
                found[name] = (*found.get(name, ()), piece)
        return found

    def held(self, placements: Mapping[str, int]) -> list[int]:
        """The units of each subset, excess included."""
        counted, excess, _ = self.subsets.classified(self._units(placements))
        held: list[int] = (counted + excess).sum(axis=1).tolist()
        return held

    def _units(self, placements: Mapping[str, int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        units = np.zeros(len(self.fleet), dtype=np.int64)
        for name, number in placements.items():
            if (row := self.fleet.row.get(name)) is not None:
                units[row] = between(0, number, UNBOUNDED)
        return units
