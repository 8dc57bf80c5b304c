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
from controller.features.workloadspread.subsets import subsets_of, units_of
from controller.planner.subsets import Subsets

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
        return Classes(fleet, subsets_of(spread, fleet, total))

    def cap(self, subset: int) -> int:
        """The units that it takes; UNBOUNDED without a limit."""
        return int(self.subsets.cap[subset])

    def pieces(self, placements: Mapping[str, int]) -> dict[str, Pieces]:
        """The pieces of each cluster that a subset matches and that holds units."""
        found: dict[str, Pieces] = {}
        counted, excess, _ = self.subsets.classified(units_of(placements, self.fleet))
        for part in (counted, excess):
            rows, places = np.nonzero(part.T)
            for row, subset in zip(rows.tolist(), places.tolist(), strict=True):
                name, piece = self.fleet.names[row], (subset, int(part[subset, row]))
                found[name] = (*found.get(name, ()), piece)
        return found

    def held(self, placements: Mapping[str, int]) -> list[int]:
        """The units of each subset, excess included."""
        counted, excess, _ = self.subsets.classified(units_of(placements, self.fleet))
        held: list[int] = (counted + excess).sum(axis=1).tolist()
        return held
