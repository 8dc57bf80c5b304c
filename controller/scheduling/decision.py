"""A decision with all its inputs, as arrays that are rendered on demand, and its condition.

FailedToSchedule with the state Failed means that no cluster takes any replica; if only room or
quota is short, the state is Pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.framework.explains import PassView
from controller.framework.interface import Assignment, CycleState
from controller.framework.profile import Profile
from controller.framework.room import without_room
from controller.framework.status import Refusal, Status
from controller.model.unit import WorkloadInfo
from controller.planner.reasons import (
    AssignmentOrder,
    Binding,
    Reasons,
    no_order,
    no_reasons,
    nothing_binds,
)
from controller.scheduling.moving import NO_MOVES, Moves
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason, WorkloadState
from machinery.types.metadata import Key

FITS = 0
"""A verdict. Others are 1 + an index into `refusals`."""


@dataclass(frozen=True, slots=True)
class HookChange:
    plugin: str
    phase: str
    before: PassView
    after: PassView


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one pass. Arrays have one entry per row of `snapshot`.

    sum(placements) + pending == desired.
    """

    workload: WorkloadInfo
    snapshot: Snapshot
    time: datetime
    placements: Mapping[str, int]
    """Includes empty shares that keep their place."""
    desired: int
    reason: ScheduledReason
    state: WorkloadState
    message: str
    refusals: Sequence[Refusal] = ()
    masks: Sequence[Mask] = ()
    """For each refusal its clusters, even if another came first; empty if the Workload was
    refused."""
    verdicts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    scores: Mapping[str, Ints] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranking: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    why: Reasons = no_reasons
    assignment_order: AssignmentOrder = no_order
    binding: Binding = nothing_binds
    choosing: tuple[str, ...] = ()
    shared_by: tuple[str, ...] = ()
    """The plugins that made the shares, or bounded their plan."""
    plugins: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The status fields that plugins set."""
    cycle_state: CycleState = field(default_factory=CycleState)
    changes: Sequence[HookChange] = ()
    moving: Moves = NO_MOVES
    incomplete: tuple[Key, ...] = ()
    """Workloads that run without this one, although all require each other."""

    @property
    def seen(self) -> WorkloadInfo:
        """The Workload as hooks left it."""
        return self.changes[-1].after.workload if self.changes else self.workload

    @property
    def assigned(self) -> int:
        return sum(self.placements.values())

    @property
    def pending(self) -> int:
        return self.desired - self.assigned

    @property
    def scheduled(self) -> bool:
        return self.reason is ScheduledReason.SCHEDULED

    @property
    def moves(self) -> bool:
        return dict(self.placements) != dict(self.workload.present)

    def arguments(
        self, profiles: Mapping[str, Profile]
    ) -> tuple[Profile, CycleState, WorkloadInfo, Mapping[str, int]]:
        return (
            profiles[self.workload.scheduler_name],
            self.cycle_state,
            self.workload,
            self.placements,
        )

    def lean(self) -> Decision:
        """Return the same in a fraction of the memory, without the order of assignment."""
        row, bound = self.snapshot.row, self.binding()
        why = {row[name]: self.why(row[name]) for name in self.placements if name in row}
        scores: dict[str, Any] = {name: each.astype(np.uint8) for name, each in self.scores.items()}
        totals: Any = self.totals.astype(np.int32)
        ranking: Any = self.ranking.astype(np.int32)
        plan = self.cycle_state.plan
        asked = None if plan is None else plan.asked
        if asked is not None and asked.subsets is None and asked.domains is None:
            plan = None  # the plan holds nothing but the shares
        return replace(
            self,
            scores=scores,
            totals=totals,
            ranking=ranking,
            why=lambda row: why.get(row, ()),
            assignment_order=no_order,
            binding=lambda: bound,
            cycle_state=replace(without_room(self.cycle_state), plan=plan),
        )

    def rank_score(self, row: int) -> int:
        """Return the published score of a feasible cluster, 1..10."""
        most = 100 * max(sum(self.weights.values()), 1)
        return 1 + 9 * (100 * int(self.totals[row]) // most) // 100

    def refused_by(self) -> frozenset[str]:
        return frozenset(refusal.plugin for refusal in self.refusals)

    def kept_out_by(self) -> frozenset[str]:
        """By a refusal or through the shares."""
        return self.refused_by().union(self.shared_by)

    def table(self, rows: int) -> str:
        """Return the best `rows` clusters as a markdown table."""
        plugins = sorted(self.scores)
        # The columns of koord-scheduler's table of debug scores, for its readers.
        head = ["#", "Pod", "Node", "Score", *plugins]
        lines = [head, ["---:", "---", "---", "---:", *["---:"] * len(plugins)]]
        for place, row in enumerate(self.ranking[:rows], start=1):
            weighted = [int(self.scores[p][row]) * self.weights[p] for p in plugins]
            name = self.snapshot.names[row]
            numbers = [str(n) for n in (int(self.totals[row]), *weighted)]
            lines.append([str(place), "/".join(self.workload.key), name, *numbers])
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


_FAILING = frozenset({ScheduledReason.FAILED_TO_SCHEDULE, ScheduledReason.INVALID_WORKLOAD})


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    reason: ScheduledReason
    state: WorkloadState
    message: str


def of_refusal(clusters: int, status: Status, *, holding: bool) -> ScheduledCondition:
    """`holding`: it has replicas."""
    state = without_units(status.reason)
    text = "; ".join(status.reasons)
    return ScheduledCondition(
        status.reason,
        WorkloadState.SCHEDULED if holding else state,
        f"0/{clusters} clusters: {text}",
    )


def of_assignment(
    assignment: Assignment,
    verdicts: NDArray[np.int16],
    refusals: Sequence[Refusal],
    said: Sequence[str],
    *,
    holds: bool,
    ended: int,
) -> ScheduledCondition:
    """Return the condition after Filter and Assign.

    `said` are further obstacles, `ended` replicas have ended. `holds` means that there were shares
    before.
    """
    assigned, desired = sum(assignment.shares.values()) + ended, assignment.desired + ended
    feasible = int((verdicts == FITS).sum())
    if assigned == desired and (assignment.shares or holds or ended or (feasible and not desired)):
        message = f"{assigned} of {desired} replicas have a cluster"
        return ScheduledCondition(ScheduledReason.SCHEDULED, WorkloadState.SCHEDULED, message)
    counted = tally(verdicts, refusals)
    if not (counted or said):
        counted = "no room for more" if feasible else "none registered"
    reasons = "; ".join((counted, *said) if counted else said)
    message = f"{feasible}/{len(verdicts)} clusters: {reasons}"
    room = [code for code, r in enumerate(refusals, start=1) if r.short]
    full = [code for code, r in enumerate(refusals, start=1) if r.reached]
    reason = ScheduledReason.FAILED_TO_SCHEDULE
    if feasible or np.isin(verdicts, room).any():
        reason = assignment.short
    elif np.isin(verdicts, full).any():
        reason = ScheduledReason.REPLICAS_REACHED
    if not assigned:
        return ScheduledCondition(reason, without_units(reason), message)
    message = f"{assigned} of {desired} replicas have a cluster; {message}"
    return ScheduledCondition(reason, WorkloadState.SCHEDULED, message)


def untouched(info: WorkloadInfo, snapshot: Snapshot, now: datetime, status: Status) -> Decision:
    return Decision(
        workload=info,
        snapshot=snapshot,
        time=now,
        placements=info.present,
        desired=max(info.replicas, sum(info.present.values())),
        reason=status.reason,
        state=WorkloadState.SCHEDULED if info.present else without_units(status.reason),
        message=status.refusal.text,
        refusals=[status.refusal] if status.plugin else [],
    )


def ended(info: WorkloadInfo, snapshot: Snapshot, now: datetime) -> Decision:
    units = sum(info.ended.values())
    return Decision(
        workload=info,
        snapshot=snapshot,
        time=now,
        placements={},
        desired=0,
        reason=ScheduledReason.SCHEDULED,
        state=WorkloadState.SCHEDULED,
        message=f"{units} of {units} replicas have a cluster",
    )


def without_units(reason: ScheduledReason) -> WorkloadState:
    return WorkloadState.FAILED if reason in _FAILING else WorkloadState.PENDING


def tally(verdicts: NDArray[np.int16], refusals: Sequence[Refusal]) -> str:
    """By count, then by text."""
    counts: Counter[str] = Counter()
    numbers = np.bincount(verdicts, minlength=len(refusals) + 1)[1:]
    for refusal, number in zip(refusals, numbers, strict=True):
        counts[refusal.text] += int(number)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(_counted(number, text) for text, number in ordered if number)


def _counted(number: int, text: str) -> str:
    """Return `2 not ready`; of a text with a verb, such as `does not serve X`, a sentence."""
    rest = text.removeprefix("does not ")
    if rest == text:
        return f"{number} {text}"
    return f"1 cluster {text}" if number == 1 else f"{number} clusters do not {rest}"
