"""The scheduling cycle in one pass: `decide`. It does no I/O, reads no clock, changes no argument.

may the Workload be placed at all   hooks, PreFilter
which clusters could take it        hooks, Filter: the first refusal of a cluster is its reason
which clusters it must leave        Deschedule
how well they suit                  hooks, PreScore, Score, NormalizeScore, weighted sum
how many replicas each gets         Assign
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.cache.placements import PlacementIndex
from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask, failed, limited
from controller.framework.explains import PassView
from controller.framework.interface import (
    Assignment,
    Candidates,
    CycleState,
    Descheduling,
    Eviction,
    Plugin,
    PreScore,
    Unplaced,
)
from controller.framework.profile import Profile
from controller.framework.room import room_of, within
from controller.framework.runtime.framework import named, status_fields
from controller.framework.status import Code, Refusal, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.planner.reasons import no_reasons
from controller.scheduling import moving
from controller.scheduling.decision import (
    FITS,
    Decision,
    HookChange,
    ScheduledCondition,
    of_assignment,
    of_refusal,
)
from controller.scheduling.division import assigned
from controller.scheduling.moving import NO_MOVES, Departures, Moves
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.why import ChangeCause
from crds.workload import WorkloadState
from machinery.kinds.ordinals import MOST_RANGES


def decide(
    snapshot: Snapshot,
    info: WorkloadInfo,
    bound: PlacementIndex,
    profile: Profile,
    now: datetime,
    data: Mapping[str, Any] = MappingProxyType({}),
) -> Decision:
    """Decide one Workload with its present shares. `data` is the initial `CycleState.data`."""
    about = (snapshot, info, bound, profile, now)
    state = CycleState(data=dict(data), enabled=profile.names)
    try:
        with limited(profile.plugin_timeout):
            said = moving.descheduling(profile, info, snapshot, bound, now)
            decision = _decide(*about, said, state)
            # A plugin narrowed this pass to try a preference (`CycleState.tentative`). If that
            # leaves replicas over, the pass is repeated without it.
            if not state.tentative or (decision.scheduled and not decision.moving.stuck):
                return decision
            without = frozenset(state.tentative)
            again = CycleState(data=dict(data), enabled=profile.names, without=without)
            return _decide(*about, said, again)
    except PluginError as e:
        return _refused(*about, e.status)


def _decide(
    snapshot: Snapshot,
    info: WorkloadInfo,
    bound: PlacementIndex,
    profile: Profile,
    now: datetime,
    said: Descheduling,
    state: CycleState,
) -> Decision:
    back = moving.resumed(info, said, snapshot)
    work = _Pass(profile, bound, moving.with_resumed(info, back), snapshot, state, said, now)
    refusal = work.admit() or work.filter() or work.score()
    assignment = None
    if refusal is None:
        assignment = assigned(profile, work.info, work.candidates())
    if assignment is not None:
        found, (assignment, moves) = assignment, work.moved(assignment, back)
        # If the edited rules have no place for the Workload, its condition reports that even though
        # its replicas stay.
        told = found if moves.stuck and work.info.edited else assignment
        return _recorded(info, work, assignment, moves, work.verdict(told))
    if refusal is None:
        name = profile.scheduler_name
        missing = f"profile {name} has no plugin for distribution {work.info.distribution}"
        refusal = unschedulable("Assign", missing)
    refused = _refused(snapshot, info, bound, profile, now, refusal)
    moves = moving.refused(info, said, refused.placements, refused.message, now)
    return replace(refused, changes=work.changes, moving=moves)


@dataclass(slots=True)
class _Pass:
    """A pass in progress. Hooks replace `info` and `snapshot` by copies."""

    profile: Profile
    bound: PlacementIndex
    info: WorkloadInfo
    snapshot: Snapshot
    state: CycleState
    said: Descheduling
    now: datetime
    leaving: Departures = moving.NO_DEPARTURES
    fixed: Mapping[str, int] = field(default_factory=dict)
    """Shares that stay as they are, by cluster."""
    changes: list[HookChange] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    verdicts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    keeps: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    scores: dict[str, Ints] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    line: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    ranking: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def about(self) -> tuple[CycleState, WorkloadInfo, Snapshot, PlacementIndex]:
        return self.state, self.info, self.snapshot, self.bound

    @property
    def feasible(self) -> Mask:
        mask: Mask = self.verdicts == FITS
        return mask

    def admit(self) -> Status | None:
        for hook in self.profile.before_pre_filter:
            usable = partial(answers.changed_unit, self.info)
            answer = ask(hook, "PreFilterHook", usable, hook.before_pre_filter, *self.about)
            if isinstance(answer, Status):
                return named(hook, answer)
            self._changed(hook, "PreFilter", PassView(answer[0], self.snapshot))
        for plugin in self.profile.pre_filter:
            status = ask(plugin, "PreFilter", answers.a_status, plugin.pre_filter, *self.about)
            if not status.ok:
                return named(plugin, status)
        return None

    def _changed(
        self, hook: Plugin, phase: str, seen: PassView, before: Mask | None = None
    ) -> None:
        was = PassView(self.info, self.snapshot, before)
        if (
            seen.workload is was.workload
            and seen.snapshot is was.snapshot
            and seen.feasible is before
        ):
            return
        self.changes.append(HookChange(hook.name, phase, was, seen))
        self.info, self.snapshot = seen.workload, seen.snapshot

    def filter(self) -> Status | None:
        for hook in self.profile.before_filter:
            usable = partial(answers.changed_snapshot, self.info, self.snapshot)
            answer = ask(hook, "FilterHook", usable, hook.before_filter, *self.about)
            if isinstance(answer, Status):
                return named(hook, answer)
            self._changed(hook, "Filter", PassView(answer[0], answer[1]))
        self.verdicts = np.zeros(len(self.snapshot), dtype=np.int16)
        self.keeps = ~self.snapshot.deleting
        excluded = np.zeros(len(self.snapshot), dtype=np.bool_)
        for (name, text), clusters in self.state.refused.items():
            mask = np.zeros(len(self.snapshot), dtype=np.bool_)
            mask[self.snapshot.rows(clusters)] = True
            self._refuse(mask, name, text)
        self._refuse_more_work()
        for plugin in self.profile.filter:
            masks = partial(answers.refused, len(self.snapshot))
            refused = ask(plugin, "Filter", masks, plugin.filter, *self.about)
            for mask, *said in refused.reasons:
                self._refuse(mask, plugin.name, *said)
                # A change of a cluster moves nothing that runs there. Only edits of the Workload's
                # own rules do.
                if self.info.edited and not plugin.ignored_during_execution:
                    excluded |= mask
            for mask, *said in refused.reached:
                self._refuse(mask, plugin.name, *said, reached=True)
            for mask, *said in refused.short:
                self._refuse(mask, plugin.name, *said, short=True)
        self.fixed = moving.suspended(self.info, self.snapshot)
        rows = self.snapshot.rows(self.fixed)
        excluded[rows] = False
        self._exclude(excluded)
        self._leave()
        self.keeps[rows] = True
        return None

    def _refuse_more_work(self) -> None:
        info, row = self.info, self.snapshot.row
        if info.ended:
            mask = np.zeros(len(self.snapshot), dtype=np.bool_)
            mask[[row[cluster] for cluster in info.ended if cluster in row]] = True
            self._refuse(mask, "Ended", "had a share that has ended")
        work = info.shared_work
        if work is not None and work.total is None and work.well:
            self._refuse(np.ones(len(self.snapshot), dtype=np.bool_), "Ended", "gets no more work")
            for cluster in info.present.keys() - work.begun:
                if cluster in row:
                    self.keeps[row[cluster]] = False

    def _exclude(self, excluded: Mask) -> None:
        if not self.info.stays:
            self.keeps &= ~excluded
            return
        evictions = {
            name: moving.stayed(self.info, Eviction(cause=ChangeCause.EDITED.value))
            for name in self.info.present
            if (row := self.snapshot.row.get(name)) is not None and excluded[row]
        }
        if evictions:
            self.said = replace(self.said, evictions={**evictions, **self.said.evictions})

    def _refuse(
        self,
        mask: Mask,
        plugin: str,
        text: str,
        code: str = "",
        args: tuple[str, ...] = (),
        *,
        reached: bool = False,
        short: bool = False,
    ) -> None:
        if not np.count_nonzero(mask):  # several times as fast as `any` on few clusters
            return
        self.refusals.append(Refusal(plugin, text, code, args, reached, short))
        self.masks.append(mask)
        self.verdicts[mask & self.feasible] = len(self.refusals)

    def _leave(self) -> None:
        evictions = self.said.evictions
        for cluster, eviction in evictions.items():
            # A toleration with seconds lets the Workload stay, but not return.
            if moving.due(eviction, self.now) and cluster in self.snapshot.row:
                mask = np.zeros(len(self.snapshot), dtype=np.bool_)
                mask[self.snapshot.row[cluster]] = True
                self._refuse(mask, self.profile.deschedule[0].name, moving.LEFT)
        self.leaving = moving.departures(
            self.info,
            self.snapshot,
            self.said,
            self.keeps,
            self.now,
            wanted=within(self.state, self.info.replicas),
            fixed=self.fixed,
        )
        self.keeps[self.snapshot.rows(self.leaving.data)] = True
        for each in self.leaving.rows:
            self.keeps[each.row] = False

    def score(self) -> Status | None:
        for hook in self.profile.before_score:
            before = self.feasible
            listed = partial(answers.changed_list, self.info, before)
            answer = ask(hook, "ScoreHook", listed, hook.before_score, *self.about, before.copy())
            if isinstance(answer, Status):
                return named(hook, answer)
            self._refuse(~answer[1], hook.name, f"taken out by {hook.name}")
            after = self.feasible
            left = before if (after == before).all() else after
            self._changed(hook, "Score", PassView(answer[0], self.snapshot, left), before)
        self.totals = np.zeros(len(self.snapshot), dtype=np.int64)
        feasible = self.feasible
        if not feasible.any():
            return None
        skipped = {p.name for p in self.profile.pre_score if self._skips(p, feasible)}
        usable = partial(answers.scores, len(self.snapshot))
        for plugin in self.profile.score:
            if plugin.name in skipped:
                continue
            values = ask(plugin, "Score", usable, plugin.score, *self.about)
            if own := self.profile.normalizing.get(plugin.name):
                scale = own.normalize
                values = ask(plugin, "NormalizeScore", usable, scale, self.state, values, feasible)
            within = np.minimum(np.maximum(values, 0), 100).astype(np.int64, copy=False)
            self.scores[plugin.name] = within
            self.totals += self.profile.weights[plugin.name] * within
        return None

    def _skips(self, plugin: PreScore, feasible: Mask) -> bool:
        prepare = plugin.pre_score
        status = ask(plugin, "PreScore", answers.a_status, prepare, *self.about, feasible)
        if status.code not in (Code.SUCCESS, Code.SKIP):
            raise failed(plugin, "PreScore", f"gave {status.code.value}, it may prepare or skip")
        return status.code is Code.SKIP

    def rank(self) -> None:
        """Highest total first, ties by name."""
        named = self.snapshot.kept.fixed("by name", lambda: np.argsort(self.snapshot.by_name))
        self.line = named[np.argsort(_short(-self.totals[named]), kind="stable")]
        self.ranking = self.line[self.feasible[self.line]]

    def pending_reasons(self, assignment: Assignment) -> list[str]:
        if sum(assignment.shares.values()) == assignment.desired:
            return []
        refusals = [(r.plugin, r.text, m) for r, m in zip(self.refusals, self.masks, strict=True)]
        crowded = self._only(lambda refusal: refusal.short)
        found = Unplaced(self.feasible, refusals, assignment.shares, assignment.desired, crowded)
        said = list(assignment.notes)
        for plugin in self.profile.post_filter:
            about = (self.state, self.info, self.snapshot, found)
            usable = answers.a_status
            said += ask(plugin, "PostFilter", usable, plugin.post_filter, *about).reasons
        return said

    def candidates(self) -> Candidates:
        self.rank()
        present = self.snapshot.by_row(self.info.present)
        held = np.zeros(len(self.snapshot), dtype=np.bool_)
        held[self.snapshot.rows(self.info.present)] = True
        feasible, ranking = self.feasible, self.ranking
        if self.info.profile.ordered and len(ranking) > MOST_RANGES:
            ranking = self._with_ranges(held)
            feasible = np.zeros(len(self.snapshot), dtype=np.bool_)
            feasible[ranking] = True
        planned = self.state.enabled.get("assign", ())  # the plan keeps to their limits
        return Candidates(
            snapshot=self.snapshot,
            feasible=feasible,
            keeps=self.keeps,
            line=self.line,
            ranking=ranking,
            scores=self.totals,
            room=room_of(self.state, self.info, self.snapshot),
            present=present,
            held=held,
            reached=self._only(lambda refusal: refusal.reached and refusal.plugin in planned),
            crowded=self._only(lambda refusal: refusal.short),
            state=self.state,
            staying=self.leaving.staying,
            fixed=[self.snapshot.row[name] for name in self.fixed],
        )

    def _with_ranges(self, held: Mask) -> Ints:
        others = self.ranking[~held[self.ranking]]
        standing = {*self.info.present, *self.info.moving.leaving, *self.info.moving.surplus}
        chosen = held.copy()
        chosen[others[: max(MOST_RANGES - len(standing), 0)]] = True
        first: Ints = self.ranking[chosen[self.ranking]]
        return first

    def verdict(self, assignment: Assignment) -> ScheduledCondition:
        said = self.pending_reasons(assignment)
        holds = any(name in self.snapshot.row for name in self.info.present)
        ended = sum(self.info.ended.values())
        return of_assignment(
            assignment, self.verdicts, self.refusals, said, holds=holds, ended=ended
        )

    def moved(self, found: Assignment, back: Mapping[str, int]) -> tuple[Assignment, Moves]:
        state, leaving, now = self.info.moving, self.leaving, self.now
        on_the_way = moving.on_the_way(self.info)
        waits = state.rebalance_due is not None or state.displaced or on_the_way
        if self.said is moving.NOTHING_LEAVES and not (
            leaving.rows or leaving.data or back or waits
        ):
            return found, NO_MOVES
        limit = within(self.state, found.desired)
        everywhere = self.info.everywhere
        assignment, stuck = moving.completed(found, leaving, limit, everywhere=everywhere)
        names = self.snapshot.names
        moves = Moves(
            evictions=self.said.evictions,
            stuck={names[row]: replicas for row, replicas in stuck.items()},
            lacks=self.verdict(found).message if stuck else "",
            data=self._still(leaving.data, assignment),
            claims=self.info.claims,
            held=leaving.held,
            holder=leaving.holder,
            cancelled=back,
            look=moving.next_look(self.said, self.info, now, waits=leaving.waits or on_the_way),
        )
        if not (self.info.present or state.leaving) and state.rebalance_asked(now):
            # A first placement is a fresh plan already.
            met = state.spec.rebalance_after if assignment.shares else ""
            return assignment, replace(moves, rebalanced=met)
        if leaving.rows or back or self.fixed or not self._at_rest(assignment):
            return assignment, moves
        if (state.rebalance_asked(now) and not self.info.stays) or self.said.returns:
            return self._onward(assignment, moves)
        return assignment, moves

    def _still(self, data: Mapping[str, int], assignment: Assignment) -> dict[str, int]:
        now = {self.snapshot.names[row]: n for row, n in assignment.shares.items()}
        shares = {name: min(n, now.get(name, 0)) for name, n in data.items()}
        return {name: n for name, n in shares.items() if n}

    def _at_rest(self, assignment: Assignment) -> bool:
        named = {self.snapshot.names[row]: n for row, n in assignment.shares.items()}
        return sum(named.values()) == assignment.desired and named == dict(self.info.present)

    def _onward(self, assignment: Assignment, moves: Moves) -> tuple[Assignment, Moves]:
        found, plan = self.candidates(), self.state.plan
        nothing = np.zeros(len(self.snapshot), dtype=np.bool_)
        free = replace(found, keeps=nothing, held=nothing)
        fresh = assigned(self.profile, self.info, free)
        step = None
        if fresh is not None and sum(fresh.shares.values()) == assignment.desired:
            step = moving.onward(self.info, found, fresh, self.said, self.now)
        if step is None or step.assignment is None:
            self.state.plan = plan
        if step is None:
            return assignment, moves
        due = self.info.moving.rebalance_due
        asked = due is not None and due <= self.now
        # Replicas that begin to move now may never become ready, and no event reports that.
        begins = step.assignment is not None
        names, waits = self.snapshot.names, step.left > 0 or begins or moving.on_the_way(self.info)
        waiting = step.left or step.data
        return step.assignment or assignment, replace(
            moves,
            cause=step.cause if step.assignment else "",
            returned={names[row]: replicas for row, replicas in step.returned.items()},
            dropped=step.dropped,
            data={**moves.data, **step.data},
            held=moves.held + step.left,
            holder=step.holder,
            rebalanced=self.info.moving.spec.rebalance_after if asked and not waiting else "",
            look=moving.next_look(self.said, self.info, self.now, waits=waits),
        )

    def _only(self, meant: Callable[[Refusal], bool]) -> Mask:
        refused, otherwise = np.zeros((2, len(self.snapshot)), dtype=np.bool_)
        if not any(map(meant, self.refusals)):
            return refused
        for refusal, mask in zip(self.refusals, self.masks, strict=True):
            if meant(refusal):
                refused |= mask
            else:
                otherwise |= mask
        alone: Mask = refused & ~otherwise
        return alone


def _short(values: Ints) -> NDArray[Any]:
    """Use 16 bits if the values fit: numpy sorts these several times as fast."""
    if len(values) and int(values.min()) >= -(2**15) and int(values.max()) < 2**15:
        return values.astype(np.int16)
    return values


def _recorded(
    info: WorkloadInfo,
    work: _Pass,
    assignment: Assignment,
    moves: Moves,
    verdict: ScheduledCondition,
) -> Decision:
    names, now = work.snapshot.names, work.now
    shares = list(assignment.shares.items())
    if not assignment.in_order:
        shares.sort(key=lambda share: names[share[0]])
    weights = {name: work.profile.weights[name] for name in work.scores}
    placements, desired = {names[row]: replicas for row, replicas in shares}, assignment.desired
    why = assignment.why
    state = WorkloadState.SCHEDULED if placements and moves.stuck else verdict.state
    if not shares and info.replicas:
        kept, wanted = _kept(work.info, work.snapshot)
        if kept:  # nothing found: the present shares stay
            placements, desired = kept, wanted
            state, why = WorkloadState.SCHEDULED, no_reasons
    return Decision(
        workload=moving.learnt(info, placements, moves, now),
        snapshot=work.snapshot,
        time=now,
        placements=placements,
        desired=desired,
        reason=verdict.reason,
        state=state,
        message=verdict.message,
        refusals=work.refusals,
        masks=work.masks,
        verdicts=work.verdicts,
        scores=work.scores,
        weights=weights,
        totals=work.totals,
        ranking=work.ranking,
        why=why,
        assignment_order=assignment.assignment_order,
        binding=assignment.binding,
        choosing=assignment.choosing,
        shared_by=assignment.shared_by,
        plugins=work.profile.plugins,
        fields=status_fields(work.profile, info, placements, work.snapshot, work.bound),
        cycle_state=work.state,
        changes=work.changes,
        moving=moves,
    )


def _refused(
    snapshot: Snapshot,
    info: WorkloadInfo,
    bound: PlacementIndex,
    profile: Profile,
    now: datetime,
    status: Status,
) -> Decision:
    placements, desired = _kept(info, snapshot)
    verdict = of_refusal(len(snapshot), status, holding=bool(placements))
    return Decision(
        workload=info,
        snapshot=snapshot,
        time=now,
        placements=placements,
        desired=desired,
        reason=verdict.reason,
        state=verdict.state,
        message=verdict.message,
        refusals=[status.refusal],
        verdicts=np.ones(len(snapshot), dtype=np.int16),
        totals=np.zeros(len(snapshot), dtype=np.int64),
        plugins=profile.plugins,
        fields=status_fields(profile, info, placements, snapshot, bound),
    )


def _kept(info: WorkloadInfo, snapshot: Snapshot) -> tuple[dict[str, int], int]:
    kept = {name: n for name, n in info.present.items() if name in snapshot.row}
    fixed = moving.suspended(info, snapshot)
    if info.everywhere:
        desired = info.replicas * max(len(kept), 1)
        shares = {**_at_most(kept, info.replicas, desired), **fixed}
        return shares, max(desired, sum(shares.values()))
    left = _at_most(kept, info.replicas, info.replicas)
    shares = {**({name: n for name, n in left.items() if n} or left), **fixed}
    return shares, max(info.replicas, sum(shares.values()))


def _at_most(shares: Mapping[str, int], each: int, desired: int) -> dict[str, int]:
    left, kept = desired, {}
    for name in sorted(shares):
        kept[name] = min(shares[name], each, left)
        left -= kept[name]
    return kept
