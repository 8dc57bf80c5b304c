"""The whole scheduler in one pass: `decide`.

Live controller, plan, explain and diagnosis call this one function, so that an explanation
cannot differ from what happens. It does no I/O, asks no clock and changes nothing that it is given.

    may the Workload be placed at all   hooks, PreFilter
    which clusters could take it        hooks, Filter: the first refusal of a cluster is its reason
    how well they suit                  hooks, PreScore, Score, NormalizeScore, weighted sum
    how many each gets                  Assign
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from controller.cache.columns import Ints, Mask
from controller.cache.placements import Index
from controller.cache.snapshot import Fleet
from controller.framework.interface import (
    Assignment,
    Candidates,
    CycleState,
    Unplaced,
)
from controller.framework.profile import Profile
from controller.framework.room import room_of
from controller.framework.runtime import PluginError, guarded, status_fields
from controller.framework.status import Code, Status, unschedulable
from controller.model.unit import Unit
from controller.planner.reasons import no_reasons
from controller.scheduling.decision import FITS, Decision, Refusal
from controller.scheduling.division import assigned
from controller.scheduling.outcome import of_assignment, of_refusal
from crds.workload import WorkloadState


def decide(fleet: Fleet, unit: Unit, bound: Index, profile: Profile, now: datetime) -> Decision:
    """What becomes of one Workload.

    A pass that a plugin has narrowed to try it so, and that does not place all units, is made once
    more without that (`CycleState.tentative`).

    Args:
        fleet: the clusters.
        unit: the Workload with its present shares.
        bound: where other Workloads run.
        profile: the plugins.
        now: the time that the record shall carry.
    """
    state = CycleState(enabled=profile.names)
    try:
        decision = _decide(fleet, unit, bound, profile, now, state)
        if decision.scheduled or not state.tentative:
            return decision
        state = CycleState(enabled=profile.names, without=frozenset(state.tentative))
        return _decide(fleet, unit, bound, profile, now, state)
    except PluginError as e:
        return _refused((unit, fleet, bound), profile, now, e.status)


def _decide(
    fleet: Fleet, unit: Unit, bound: Index, profile: Profile, now: datetime, state: CycleState
) -> Decision:
    about = (unit, fleet, bound)
    work = _Pass(profile, bound, unit, fleet, state)
    refusal = work.admit() or work.filter() or work.score()
    if refusal is not None:
        return _refused(about, profile, now, refusal)
    assignment = assigned(profile, work.unit, work.candidates())
    if assignment is None:
        name = profile.scheduler_name
        missing = f"profile {name} has no plugin for distribution {work.unit.distribution}"
        return _refused(about, profile, now, unschedulable("Assign", missing))
    return _recorded(unit, work, assignment, now)


@dataclass(slots=True)
class _Pass:
    """One pass as it goes on. Hooks exchange `unit` and `fleet` for copies of their own."""

    profile: Profile
    bound: Index
    unit: Unit
    fleet: Fleet
    state: CycleState
    refusals: list[Refusal] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)
    verdicts: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    keeps: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    scores: dict[str, Ints] = field(default_factory=dict)
    totals: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def about(self) -> tuple[CycleState, Unit, Fleet, Index]:
        """What most points are asked about."""
        return self.state, self.unit, self.fleet, self.bound

    @property
    def feasible(self) -> Mask:
        """The clusters that nothing refused so far."""
        mask: Mask = self.verdicts == FITS
        return mask

    def admit(self) -> Status | None:
        """Whether the Workload may be placed at all."""
        for hook in self.profile.before_pre_filter:
            with guarded(hook, "PreFilterHook"):
                answer = hook.before_pre_filter(*self.about)
                if isinstance(answer, Status):
                    return answer
                unit, changed = answer
            self.unit = unit if changed else self.unit
        for plugin in self.profile.pre_filter:
            with guarded(plugin, "PreFilter"):
                status = plugin.pre_filter(*self.about)
                if not status.ok:
                    return status
        return None

    def filter(self) -> Status | None:
        """Each cluster's first refusal, and where present shares may stay.

        What changes on a cluster moves nothing that runs there; only the Workload's own rules, and
        only after they were edited, do.
        """
        for hook in self.profile.before_filter:
            with guarded(hook, "FilterHook"):
                answer = hook.before_filter(*self.about)
                if isinstance(answer, Status):
                    return answer
                unit, fleet, changed = answer
            self.unit, self.fleet = (unit, fleet) if changed else (self.unit, self.fleet)
        self.verdicts = np.zeros(len(self.fleet), dtype=np.int16)
        self.keeps = ~self.fleet.deleting
        for plugin in self.profile.filter:
            with guarded(plugin, "Filter"):
                refused = plugin.filter(*self.about)
                for mask, text in refused.reasons:
                    self._refuse(mask, plugin.name, text)
                    if self.unit.edited and not plugin.ignored_during_execution:
                        self.keeps &= ~mask
                for mask, text in refused.reached:
                    self._refuse(mask, plugin.name, text, reached=True)
                for mask, text in refused.short:
                    self._refuse(mask, plugin.name, text, short=True)
        return None

    def _refuse(
        self, mask: Mask, plugin: str, text: str, *, reached: bool = False, short: bool = False
    ) -> None:
        if not mask.any():
            return
        self.refusals.append(Refusal(plugin, text, reached, short))
        self.masks.append(mask)
        self.verdicts[mask & self.feasible] = len(self.refusals)

    def score(self) -> Status | None:
        """The scores of the feasible clusters by plugin, 0..100, and their weighted sum."""
        for hook in self.profile.before_score:
            with guarded(hook, "ScoreHook"):
                answer = hook.before_score(*self.about, self.feasible)
                if isinstance(answer, Status):
                    return answer
                unit, left, changed = answer
                if changed:
                    self.unit = unit
                    self._refuse(~left, hook.name, f"taken out by {hook.name}")
        self.totals = np.zeros(len(self.fleet), dtype=np.int64)
        feasible = self.feasible
        if not feasible.any():
            return None
        skipped = set()
        for preparing in self.profile.pre_score:
            with guarded(preparing, "PreScore"):
                if preparing.pre_score(*self.about, feasible).code is Code.SKIP:
                    skipped.add(preparing.name)
        for plugin in self.profile.score:
            if plugin.name in skipped:
                continue
            with guarded(plugin, "Score"):
                values = plugin.score(*self.about)
                if normalizer := self.profile.normalizing.get(plugin.name):
                    values = normalizer.normalize(self.state, values, feasible)
                self.scores[plugin.name] = values = np.clip(values, 0, 100)
                self.totals += self.profile.weights[plugin.name] * values
        return None

    def ranking(self) -> Ints:
        """The feasible rows, the best first, equals by name."""
        rows = np.flatnonzero(self.feasible)
        ranked: Ints = rows[np.lexsort((self.fleet.by_name[rows], -self.totals[rows]))]
        return ranked

    def pending_reasons(self, assignment: Assignment) -> list[str]:
        """What PostFilter plugins say of units that found no cluster."""
        if sum(assignment.shares.values()) == assignment.desired:
            return []
        refusals = [(r.plugin, r.text, m) for r, m in zip(self.refusals, self.masks, strict=True)]
        found = Unplaced(self.feasible, refusals, assignment.shares, assignment.desired)
        said = list(assignment.notes)
        for plugin in self.profile.post_filter:
            with guarded(plugin, "PostFilter"):
                said += plugin.post_filter(self.state, self.unit, self.fleet, found).reasons
        return said

    def candidates(self) -> Candidates:
        """What the Assign plugin is given."""
        present = np.zeros(len(self.fleet), dtype=np.int64)
        held = np.zeros(len(self.fleet), dtype=np.bool_)
        for name, units in self.unit.present.items():
            if name in self.fleet.row:
                present[self.fleet.row[name]] = units
                held[self.fleet.row[name]] = True
        planned = self.state.enabled.get("assign", ())  # the plan keeps to their quotas
        return Candidates(
            fleet=self.fleet,
            feasible=self.feasible,
            keeps=self.keeps,
            ranking=self.ranking(),
            scores=self.totals,
            room=room_of(self.state, self.unit, self.fleet),
            present=present,
            held=held,
            reached=self._only(lambda refusal: refusal.reached and refusal.plugin in planned),
            crowded=self._only(lambda refusal: refusal.short),
            state=self.state,
        )

    def _only(self, meant: Callable[[Refusal], bool]) -> Mask:
        """The clusters that are refused, and by nothing but refusals that are meant."""
        refused, otherwise = np.zeros((2, len(self.fleet)), dtype=np.bool_)
        for refusal, mask in zip(self.refusals, self.masks, strict=True):
            if meant(refusal):
                refused |= mask
            else:
                otherwise |= mask
        alone: Mask = refused & ~otherwise
        return alone


def _recorded(unit: Unit, work: _Pass, assignment: Assignment, now: datetime) -> Decision:
    names = work.fleet.names
    shares = list(assignment.shares.items())
    if not assignment.in_order:
        shares.sort(key=lambda share: names[share[0]])
    said, holds = (
        work.pending_reasons(assignment),
        any(name in work.fleet.row for name in unit.present),
    )
    verdict = of_assignment(assignment, work.verdicts, work.refusals, said, holds=holds)
    weights = {name: work.profile.weights[name] for name in work.scores}
    decision = Decision(
        unit=unit,
        fleet=work.fleet,
        time=now,
        placements={names[row]: units for row, units in shares},
        desired=assignment.desired,
        reason=verdict.reason,
        state=verdict.state,
        message=verdict.message,
        refusals=work.refusals,
        masks=work.masks,
        verdicts=work.verdicts,
        scores=work.scores,
        weights=weights,
        totals=work.totals,
        ranking=work.ranking(),
        why=assignment.why,
        assignment_order=assignment.assignment_order,
        binding=assignment.binding,
        choosing=assignment.choosing,
        shared_by=assignment.shared_by,
        plugins=work.profile.plugins,
        cycle_state=work.state,
    )
    if not assignment.shares and unit.replicas:
        decision = _holding_on(decision)
    fields = status_fields(work.profile, unit, decision.placements, work.fleet, work.bound)
    return replace(decision, fields=fields)


def _holding_on(decision: Decision) -> Decision:
    """Nothing was found: a Workload that runs keeps what it has, and says what it lacks."""
    placements, desired = _kept(decision.unit, decision.fleet)
    if not placements:
        return decision
    state = WorkloadState.SCHEDULED
    return replace(decision, placements=placements, desired=desired, state=state, why=no_reasons)


def _refused(
    about: tuple[Unit, Fleet, Index], profile: Profile, now: datetime, status: Status
) -> Decision:
    """The Workload as a whole is refused: what it has it keeps, what it lacks stays pending."""
    unit, fleet, bound = about
    placements, desired = _kept(unit, fleet)
    verdict = of_refusal(len(fleet), status, holding=bool(placements))
    return Decision(
        unit=unit,
        fleet=fleet,
        time=now,
        placements=placements,
        desired=desired,
        reason=verdict.reason,
        state=verdict.state,
        message=verdict.message,
        refusals=[Refusal(status.plugin, "; ".join(status.reasons))],
        verdicts=np.ones(len(fleet), dtype=np.int16),
        totals=np.zeros(len(fleet), dtype=np.int64),
        plugins=profile.plugins,
        fields=status_fields(profile, unit, placements, fleet, bound),
    )


def _kept(unit: Unit, fleet: Fleet) -> tuple[dict[str, int], int]:
    """The present shares on clusters that exist, as far as they are wanted; the units wanted."""
    kept = {name: n for name, n in unit.present.items() if name in fleet.row}
    if unit.everywhere:
        desired = unit.replicas * max(len(kept), 1)
        return _at_most(kept, unit.replicas, desired), desired
    left = _at_most(kept, unit.replicas, unit.replicas)
    return ({name: n for name, n in left.items() if n} or left), unit.replicas


def _at_most(shares: Mapping[str, int], each: int, desired: int) -> dict[str, int]:
    """The shares, none above `each`; cut from the last name on where they exceed what is wanted."""
    left, kept = desired, {}
    for name in sorted(shares):
        kept[name] = min(shares[name], each, left)
        left -= kept[name]
    return kept
