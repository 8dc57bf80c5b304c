"""The plugin WorkloadSpread: ordered subsets of clusters for the replicas of one Workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from controller.cache.placements import PlacementIndex
from controller.claims.controller import ClaimsQuota
from controller.features.workloadspread import patches
from controller.features.workloadspread.compiled import (
    MARK_SECONDS,
    CompiledSpread,
    Spreads,
    subsets_of,
)
from controller.features.workloadspread.patches import overrides_of
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop, either
from controller.framework.interface import (
    NOTHING_REFUSED,
    Candidates,
    CycleState,
    FilterMask,
    Unplaced,
)
from controller.framework.room import variants_of, vary
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.planner.indomain import WithinDomain
from controller.planner.plan import Apportionment
from controller.planner.problem import UNBOUNDED, Problem
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.why import ChangeCause
from crds.workload import ScheduledReason

NAME = "WorkloadSpread"
NAMED_SUBSETS = 4
"""Subsets that a message names."""
_OUTSIDE = "Outside"
_EVENTS = (on(MEMBER_CLUSTER, Action.ADDED | Action.LABELS | Action.TAINTS),)
"""A change of the spread is no event here: the feature queues its Workload."""


class SpreadArgs(Args):
    """`mark_seconds`: for how long a marked subset takes no new replica."""

    mark_seconds: Annotated[int, Field(strict=True, ge=1, le=10**9)] = MARK_SECONDS


class WorkloadSpreadPlugin(ClaimsQuota):
    name = NAME
    ignored_during_execution = True

    def __init__(self, args: SpreadArgs, _handle: Handle) -> None:
        super().__init__()
        self.mark_seconds = args.mark_seconds
        self.endpoints: Sequence[Route] = ()

    def events_to_register(self) -> Sequence[EventHint]:
        return _EVENTS

    def routes(self) -> Sequence[Route]:
        return self.endpoints

    def settled(self, info: WorkloadInfo, _now: datetime, bound: PlacementIndex) -> WorkloadInfo:
        if info.divided or info.indivisible or bound.ledger(Spreads).of(info.key) is None:
            return info
        return info.as_divided()

    def next_look(self, _info: WorkloadInfo, _now: datetime) -> float | None:
        """Return None: the controller that marks a subset requeues the Workload."""
        return None

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        spread = bound.ledger(Spreads).of(info.key) if info.divided else None
        if spread is None:
            return SUCCESS
        if wrong := patches.fault_of(spread, info):
            text = f"workload-spread {spread.name}: {wrong}"
            invalid = ScheduledReason.INVALID_SPREAD
            return unschedulable(NAME, text, reason=invalid, args=(spread.name,))
        if closed := self.closed():
            text = f"workload-spread {spread.name} takes no replicas: {closed}"
            return unschedulable(NAME, text, args=(spread.name,))
        state.data[NAME] = spread
        vary(state, patches.variants(spread, info, variants_of(state)))
        return SUCCESS

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        spread = _spread(state)
        if spread is None:
            return NOTHING_REFUSED
        inside = subsets_of(spread, snapshot, info.replicas).inside
        outside: Mask = np.all(~inside, axis=0)
        text = f"not in a subset of workload-spread {spread.name}"
        return FilterMask([(outside, text, _OUTSIDE, (spread.name,))])

    def divides(self, _info: WorkloadInfo, state: CycleState) -> bool:
        return NAME in state.data

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """Add the subsets. Replicas without a node in a marked subset are free to go."""
        spread = _spread(field.state)
        if spread is None:
            return problem
        subsets = subsets_of(spread, field.snapshot, info.replicas)
        # A cluster that may take replicas and is full lacks only room, too.
        crowded = field.crowded | (field.able & (problem.room <= problem.present))
        able = field.able | crowded
        return replace(
            problem,
            subsets=replace(subsets, crowded=crowded),
            inside=WithinDomain.RANK,
            weight=able.astype(np.int64),
            room=np.where(field.crowded, np.minimum(field.room, UNBOUNDED), problem.room),
            learnt=_running(info, field, subsets, problem),
        )

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _unplaced: Unplaced
    ) -> Status:
        spread = _spread(state)
        if spread is None or not (empty := self._empty(spread, info, snapshot)):
            return SUCCESS
        text = f"no cluster is in subset {either(empty)} of workload-spread {spread.name}"
        return Status(reasons=(text,), plugin=NAME)

    def _empty(self, spread: CompiledSpread, info: WorkloadInfo, snapshot: Snapshot) -> list[str]:
        inside = subsets_of(spread, snapshot, info.replicas).inside
        return [
            each.name for each, row in zip(spread.subsets, inside, strict=True) if not row.any()
        ]

    def shortfall(
        self, _info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        said = plan.subsets_shut if NAME in field.state.data else ()
        more = len(said) - NAMED_SUBSETS
        rest = (f"{more} more subsets take no more",) if more > 0 else ()
        return (*map(str, said[:NAMED_SUBSETS]), *rest)

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        plan, spread = shortage.state.plan, _spread(shortage.state)
        subsets = None if plan is None else plan.asked.subsets
        if plan is None or spread is None or subsets is None:
            return ()
        said = {each.name: str(each) for each in plan.subsets_shut}
        rows: dict[str, Mask] = {}
        for row in np.flatnonzero(plan.rows_shut).tolist():
            mine = (subsets.names[at] for at in np.flatnonzero(subsets.inside[:, row]).tolist())
            text = "; ".join(said[name] for name in mine if name in said)
            mask = rows.setdefault(text, np.zeros(len(shortage.snapshot), dtype=np.bool_))
            mask[row] = True
        return [Stop(NoteKind.QUOTA, mask, text) for text, mask in rows.items()]

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        plan = state.plan if NAME in state.data else None
        subsets = None if plan is None else plan.asked.subsets
        if subsets is None or not subsets.closed.any():
            return None
        fewer = (name for name, replicas in sorted(before.items()) if after.get(name, 0) < replicas)
        left = next(fewer, None)
        return None if left is None else (ChangeCause.RESCHEDULED.value, left)

    def cure(self, shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        name = refusal.args[0]
        if refusal.code == _OUTSIDE:
            into = _open(shortage.state)
            if not into:
                return ""
            return f"a label that puts it into subset {either(into)} of WorkloadSpread {name}"
        return f"WorkloadSpread {name} as its rules say"

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        spread, plan = _spread(shortage.state), shortage.state.plan
        if spread is None or plan is None:
            return ()
        where = f"in WorkloadSpread {spread.name}"
        found = []
        if full := plan.subsets_full:
            text = f"a larger maxReplicas of subset {either(full)} {where}"
            found.append(Note(NoteKind.QUOTA, shortage.pending, spread.name, text))
        if marked := [each.name for each in spread.subsets if each.name in spread.marked]:
            named = either(marked)
            text = f"the end of the mark of subset {named} {where}, whose replicas had no node"
            found.append(Note(NoteKind.QUOTA, shortage.pending, spread.name, text))
        if empty := self._empty(spread, shortage.workload, shortage.snapshot):
            text = f"a cluster in subset {either(empty)} of WorkloadSpread {spread.name}"
            found.append(Note(NoteKind.BOUND, 0, spread.name, text))
        return found

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        spread = bound.ledger(Spreads).of(info.key)
        if spread is None:
            return {"overrides": None}
        # The overrides of a spread that became invalid stay as they are, so that nothing restarts.
        if patches.fault_of(spread, info):
            return {}
        subsets = subsets_of(spread, snapshot, info.replicas)
        return {"overrides": overrides_of(spread, subsets, placements, snapshot)}

    def reserve(
        self, state: CycleState, _info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        if (spread := _spread(state)) is not None:
            state.data[self._epoch] = spread.epoch
        return SUCCESS

    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Take the quota. If the spread has changed, the Workload is decided again."""
        return (
            SUCCESS if _spread(state) is None else await super().pre_bind(state, info, placements)
        )


def _spread(state: CycleState) -> CompiledSpread | None:
    spread: CompiledSpread | None = state.data.get(NAME)
    return spread


def _running(info: WorkloadInfo, field: Candidates, subsets: Subsets, problem: Problem) -> Ints:
    """Return the replicas with a node in marked subsets, if others wait, shape (n,)."""
    learnt, home = problem.learnt.copy(), subsets.home
    closed = np.append(subsets.closed, False)[home]
    for name, shown in info.shown.items():
        row = field.snapshot.row.get(name)
        if row is not None and closed[row] and shown.asked == field.present[row]:
            learnt[row] = min(learnt[row], shown.runs)
    return learnt


def _open(state: CycleState) -> list[str]:
    spread, plan = _spread(state), state.plan
    shut = {each.name for each in plan.subsets_shut} if plan is not None else set()
    return [each.name for each in (spread.subsets if spread else ()) if each.name not in shut]
