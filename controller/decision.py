"""What was decided, and everything that it was decided on: kept as arrays, rendered on demand.

The record is the same on success and on failure: each cluster's verdict, each score, the ranking,
the reasons of each number, and for what is pending what stands in its way and what would help. It
is written nowhere in full: the status carries a summary, and whoever wants the whole computes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.columns import Ints, Mask
from controller.obstacles import obstacles
from controller.reasons import Binding, Reasons, Turns, no_reasons, no_turns, nothing_binds
from controller.remedy import remedies
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.workload import ScheduledReason, WorkloadState
from machinery.clock import timestamp

FITS = 0
"""The verdict of a cluster that nothing refused; others are 1 + an index into `refusals`."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason to refuse a cluster, and the plugin that gave it.

    `reached` when only a quota stands in the way.
    """

    plugin: str
    text: str
    reached: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One pass. `verdicts`, `scores` and `totals` have one entry a row of `fleet`.

    `masks` says for each of the `refusals` which clusters it holds for, whether or not another one
    came before it; there are none where the Workload was refused as a whole.
    `placements` are the shares by cluster, zero shares of Single included;
    sum(placements) + pending == desired. `full` are the domains of its policy that hold their
    number.
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
    masks: Sequence[Mask] = ()
    verdicts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    scores: Mapping[str, Ints] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranking: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    why: Reasons = no_reasons
    full: tuple[str, ...] = ()
    turns: Turns = no_turns
    binding: Binding = nothing_binds

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

    def to_dict(self) -> dict[str, Any]:
        """The whole record as JSON values, ranked clusters first, then the refused by name."""
        return {
            "namespace": self.unit.namespace,
            "name": self.unit.name,
            "uid": self.unit.uid,
            "hash": self.unit.hash,
            "time": timestamp(self.time),
            "desired": self.desired,
            "assigned": self.assigned,
            "pending": self.pending,
            "state": self.state.value,
            "reason": self.reason.value,
            "message": self.message,
            "placements": [
                {"cluster": c, "replicas": n, "reasons": self._why(c)}
                for c, n in self.placements.items()
            ],
            "order": self.turns(),
            "clusters": [self._cluster(int(row)) for row in self._rows()],
            "pendingReasons": [note.to_dict() for note in obstacles(self)],
            "binding": [bound.to_dict() for bound in self.binding()],
            "remedies": [note.to_dict() for note in remedies(self)],
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
        fits = verdict == FITS
        refusal = None if fits else self.refusals[verdict - 1]
        return {
            "name": name,
            "fits": fits,
            "plugin": refusal.plugin if refusal else "",
            "reason": refusal.text if refusal else "",
            "score": self.rank_score(row) if fits else None,
            "total": int(self.totals[row]) if fits else None,
            "scores": {p: int(s[row]) for p, s in self.scores.items()} if fits else {},
            "replicas": self.placements.get(name, 0),
            "reasons": self._why(name) if name in self.placements else [],
        }

    def _why(self, cluster: str) -> list[dict[str, Any]]:
        row = self.fleet.row.get(cluster)
        return [] if row is None else [reason.to_dict() for reason in self.why(row)]
