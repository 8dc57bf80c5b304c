"""What a simulation comes to: each Workload, the units of the fleet, and the room of clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from controller.binding.moving import holds_data
from controller.features.evacuation import taints
from controller.model.placed import is_workload
from controller.scheduling.decision import Decision
from crds.fields.movement import MovingReason
from crds.membercluster import EvacuatingReason
from machinery.types.metadata import Key
from stowage.console.words import listed
from stowage.simulation.moves import Simulation

Usage = Mapping[str, Mapping[str, int]]
"""Whole percents of a cluster's capacity that are requested, by cluster and resource."""


@dataclass(frozen=True, slots=True)
class WorkloadOutcome:
    """One Workload before and after, in units.

    Args:
        key: the Workload.
        priority: spec.priority.
        before: its shares at the beginning, by cluster.
        after: those at the end.
        pending: those without a cluster at the end.
        stuck: those that had to leave and found no other place, or wait behind such.
        lacks: what the last two lack, in words.
        fenced: those that run at most once, on a lost cluster.
        data: those that stay with their claims where they should leave.
        data_message: which, and what would let them go, in words.
        paper: those that stay on a lost cluster without being told to leave.
        order: the step in which the first of them moved; 0 for none.
        why: the rules that made the shares that grew, in words.
        by_itself: what becomes of it if nothing else happens; None where that was not asked.
    """

    key: Key
    priority: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    pending: int
    stuck: int
    lacks: str
    fenced: int
    data: int
    data_message: str
    paper: int
    order: int
    why: str
    by_itself: WorkloadOutcome | None = None

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def homeless(self) -> int:
        return self.pending + self.stuck

    @property
    def moves(self) -> int:
        """Units that changed their cluster."""
        came = sum(self.grown.values())
        went = sum(max(n - self.after.get(c, 0), 0) for c, n in self.before.items())
        return min(came, went)

    @property
    def grown(self) -> dict[str, int]:
        """Units that came, by cluster."""
        grown = {c: n - self.before.get(c, 0) for c, n in self.after.items()}
        return {cluster: n for cluster, n in grown.items() if n > 0}

    @property
    def troubles(self) -> tuple[int, ...]:
        """The units that have no place, wait for fencing, stay with their data, or on paper."""
        return (self.homeless, self.fenced, self.data, self.paper)

    @property
    def moved(self) -> bool:
        return dict(self.before) != dict(self.after)

    @property
    def told(self) -> bool:
        """Whether it ends otherwise than it would by itself."""
        if (other := self.by_itself) is None:
            return self.moved or any(self.troubles)
        return (dict(self.after), self.troubles) != (dict(other.after), other.troubles)

    def following(self, first: WorkloadOutcome, steps: int) -> WorkloadOutcome:
        """Return it as what follows on another run, which took so many steps."""
        return replace(
            self,
            before=first.before,
            order=first.order or (self.order and self.order + steps),
            why=self.why or first.why,
            by_itself=first,
        )


def outcomes(simulation: Simulation) -> list[WorkloadOutcome]:
    """Return all Workloads that the last run decided, by their names."""
    away = {name for name, each in simulation.members.items() if not each.ready}
    return [
        _outcome(simulation, decision, away)
        for key, decision in sorted(simulation.decisions.items())
        if is_workload(key)
    ]


def _outcome(simulation: Simulation, decision: Decision, away: Collection[str]) -> WorkloadOutcome:
    info, moves = decision.workload, decision.moving
    after = {cluster: n for cluster, n in decision.placements.items() if n}
    before = simulation.before.get(info.key, decision.placements)
    fenced = {
        cluster: after[cluster]
        for cluster, eviction in moves.evictions.items()
        if eviction.reason == MovingReason.AWAITING_FENCING.value and cluster in after
        if cluster not in moves.data
    }
    # At the end nothing moves any more: what should have left by now found no place.
    due = {c: after[c] for c, e in moves.evictions.items() if c in after and e.due is not None}
    stuck = {c: n for c, n in {**moves.stuck, **due}.items() if c not in moves.data}
    paper = {
        cluster: units - stuck.get(cluster, 0)
        for cluster, units in after.items()
        if cluster in away and cluster not in fenced and cluster not in moves.data
    }
    moved = simulation.explained.get(info.key)
    lacks = moves.lacks if stuck else "" if decision.scheduled else decision.message
    return WorkloadOutcome(
        info.key,
        info.priority,
        {cluster: n for cluster, n in before.items() if n},
        after,
        decision.pending,
        sum(stuck.values()),
        lacks,
        sum(fenced.values()),
        sum(moves.data.values()),
        holds_data(decision) if moves.data else "",
        sum(paper.values()),
        simulation.began.get(info.key, 0),
        _why(moved, before) if moved is not None else "",
    )


def _why(decision: Decision, before: Mapping[str, int]) -> str:
    found = []
    for cluster, units in decision.placements.items():
        row = decision.snapshot.row.get(cluster)
        if row is not None and units > before.get(cluster, 0):
            found.append(f"{cluster}: {', '.join(map(str, decision.why(row)))}")
    return "; ".join(found[:3])


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Units of all Workloads at one moment.

    `placed` have a cluster that they may stay on, `waiting` have none. The others are those of
    `WorkloadOutcome`.
    """

    placed: int
    waiting: int
    fenced: int = 0
    data: int = 0
    paper: int = 0

    def to_dict(self) -> dict[str, int]:
        return {
            "placed": self.placed,
            "noPlace": self.waiting,
            "awaitsFence": self.fenced,
            "holdsData": self.data,
            "onPaper": self.paper,
        }


def counted(simulation: Simulation) -> UnitCounts:
    placed = waiting = 0
    for key, workload in simulation.placed.items():
        if is_workload(key):
            placed += sum(workload.placements.values())
            waiting += workload.status.pending or 0
    return UnitCounts(placed, waiting)


def after(counts: UnitCounts, of: Iterable[WorkloadOutcome]) -> UnitCounts:
    """Return the counts, with what the outcomes say of some of the placed units."""
    listed = list(of)
    stuck = sum(each.stuck for each in listed)
    return UnitCounts(
        counts.placed - stuck,
        counts.waiting + stuck,
        sum(each.fenced for each in listed),
        sum(each.data for each in listed),
        sum(each.paper for each in listed),
    )


def usage(simulation: Simulation) -> Usage:
    """Return how full each cluster is, with what is on its way there."""
    snapshot = simulation.snapshot()
    found: dict[str, dict[str, int]] = {name: {} for name in snapshot.names}
    for resource, offered in snapshot.allocatable.items():
        asked = snapshot.requested.get(resource)
        coming = snapshot.coming(resource)
        for name, row in snapshot.row.items():
            if offered[row] > 0:
                taken = int(coming[row]) + (int(asked[row]) if asked is not None else 0)
                found[name][resource] = 100 * taken // int(offered[row])
    return found


def tightest(usage_: Usage, names: Collection[str]) -> tuple[str, str, int] | None:
    """Return cluster, resource and percents of the fullest of these clusters."""
    all_ = ((n, name, resource) for name in names for resource, n in usage_.get(name, {}).items())
    most = max(all_, key=lambda each: (each[0], each[1:]), default=None)
    return None if most is None else (most[1], most[2], most[0])


def braked(simulation: Simulation) -> str:
    """Return why the brake holds lost clusters; empty if it does not."""
    for each in simulation.members.values():
        for said in each.status.conditions:
            if taints.lost(each) and said.reason == EvacuatingReason.BRAKED.value:
                return said.message
    return ""


def lost(simulation: Simulation) -> list[str]:
    return [name for name, each in simulation.members.items() if taints.lost(each)]


def as_json(of: Iterable[WorkloadOutcome]) -> Iterator[dict[str, Any]]:
    for each in of:
        yield {
            "namespace": each.key[0],
            "name": each.key[1],
            "priority": each.priority,
            "before": listed(dict(sorted(each.before.items()))),
            "after": listed(dict(sorted(each.after.items()))),
            "moves": each.moves,
            "order": each.order,
            "pending": each.pending,
            "noPlace": each.homeless,
            "lacks": each.lacks,
            "awaitsFence": each.fenced,
            "holdsData": each.data,
            "onPaper": each.paper,
            "why": each.why,
        }
