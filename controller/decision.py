"""What was decided, and everything that it was decided on: kept as arrays, rendered on demand.

The record is the same on success and on failure: each cluster's verdict, each score, the ranking,
and the reasons of each number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.columns import Ints
from controller.reasons import Reasons, no_reasons
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.workload import ScheduledReason, WorkloadState
from machinery.clock import timestamp

FITS = 0
"""The verdict of a cluster that nothing refused; others are 1 + an index into `refusals`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason to refuse a cluster, and the plugin that gave it."""

    plugin: str
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One pass. `verdicts`, `scores` and `totals` have one entry a row of `fleet`.

    `placements` are the shares by cluster, zero shares of Single included;
    sum(placements) + pending == desired.
    """

    unit: Unit
    fleet: Fleet
    time: datetime
    placements: Mapping[str, int]
    desired: int
    reason: ScheduledReason
    state: WorkloadState
    message: str
    refusals: Sequence[Refusal] = ()
    verdicts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    scores: Mapping[str, Ints] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranking: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    why: Reasons = no_reasons

    @property
    def assigned(self) -> int:
        """Units that have a cluster."""
        return sum(self.placements.values())

    @property
    def pending(self) -> int:
        """Units that have none."""
        return self.desired - self.assigned

    @property
    def scheduled(self) -> bool:
        """Whether every unit has its place."""
        return self.reason is ScheduledReason.SCHEDULED

    def rank_score(self, row: int) -> int:
        """The published score of a feasible cluster, 1..10."""
        most = 100 * max(sum(self.weights.values()), 1)
        return 1 + 9 * (100 * int(self.totals[row]) // most) // 100

    def refused_by(self) -> frozenset[str]:
        """The plugins that refused a cluster, or the whole Workload."""
        return frozenset(refusal.plugin for refusal in self.refusals)

    def reasons(self, row: int) -> list[str]:
        """Why a cluster's number is what it is, in sentences."""
        return [str(reason) for reason in self.why(row)]

    def to_dict(self) -> dict[str, Any]:
        """The whole record as JSON values, ranked clusters first, then the refused by name."""
        return {
            "workload": "/".join(self.unit.key),
            "time": timestamp(self.time),
            "desired": self.desired,
            "assigned": self.assigned,
            "pending": self.pending,
            "reason": self.reason.value,
            "message": self.message,
            "placements": [{"cluster": c, "replicas": n} for c, n in self.placements.items()],
            "clusters": [self._cluster(int(row)) for row in self._rows()],
        }

    def table(self, rows: int) -> str:
        """The best `rows` clusters as a markdown table: place, Workload, cluster, total, scores."""
        plugins = sorted(self.scores)
        head = ["#", "Pod", "Node", "Score", *plugins]
        lines = [head, ["---:", "---", "---", "---:", *["---:"] * len(plugins)]]
        for place, row in enumerate(self.ranking[:rows], start=1):
            weighted = [int(self.scores[p][row]) * self.weights[p] for p in plugins]
            name = self.fleet.names[row]
            numbers = [str(n) for n in (int(self.totals[row]), *weighted)]
            lines.append([str(place), "/".join(self.unit.key), name, *numbers])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _rows(self) -> list[int]:
        refused = [r for r in range(len(self.verdicts)) if self.verdicts[r] != FITS]
        refused.sort(key=lambda row: self.fleet.names[row])
        return [*(int(row) for row in self.ranking), *refused]

    def _cluster(self, row: int) -> dict[str, Any]:
        name, verdict = self.fleet.names[row], int(self.verdicts[row])
        known: dict[str, Any] = {"name": name, "fits": verdict == FITS}
        if verdict == FITS:
            known["score"] = self.rank_score(row)
            known["total"] = int(self.totals[row])
            known["scores"] = {plugin: int(s[row]) for plugin, s in self.scores.items()}
        else:
            known["plugin"] = self.refusals[verdict - 1].plugin
            known["reason"] = self.refusals[verdict - 1].text
        if name in self.placements:
            known["replicas"] = self.placements[name]
            known["why"] = self.reasons(row)
        return known
