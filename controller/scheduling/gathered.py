"""The Workloads of a group, decided in one pass and judged together.

Each member sees the room that earlier ones took. One that requires a later one gets another turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.eventhandlers import SchedulerCache
from controller.framework.calling import answers
from controller.framework.calling.guard import ask, failed, limited
from controller.framework.gathering import (
    Attempt,
    Gathering,
    GroupDecision,
    GroupScheduling,
    Trial,
    TrialResult,
    Withdrawn,
)
from controller.framework.profile import Profile
from controller.framework.room import room_of, within
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from controller.planner.reasons import no_reasons
from controller.scheduling.affinityset import decide_together
from controller.scheduling.decision import FITS, Decision, untouched, without_units
from controller.scheduling.sets import (
    Batch,
    Conclusion,
    Others,
    SetPass,
    SetState,
    Tried,
    retried,
)
from controller.scheduling.steps import Steps, laid_over
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import WorkloadState
from machinery.types.metadata import Key

_ROUNDS = 2
"""Extra rounds for members whose affinity target was placed in the previous one."""
_IN_FULL = 64
"""Members whose decisions are kept in full."""
_STEP = 50
"""Members per step where each takes little time."""


def decide_group(
    cache: SchedulerCache,
    info: WorkloadInfo,
    profiles: Mapping[str, Profile],
    now: datetime,
    others: Others,
) -> Steps[Batch | None]:
    """Return the decisions on the group of `info`; None if no plugin gathers it.

    Empty if a member is in flight elsewhere, or the cache changed too often. Arguments as for
    `batch.decide_set`. Raises PluginError.
    """
    begun = set[Key]()

    def attempt(snapshot: Snapshot) -> Steps[Tried | Batch | None]:
        found = _gathering(profiles[info.scheduler_name], info, snapshot, cache.index, now)
        if found is None:
            return None
        plugin, gathering = found
        mine = begun | {info.key}
        busy = frozenset(k for k in gathering.members if k not in mine and others.busy(k))
        if busy:
            return Batch([], busy)
        begun.update(gathering.members)
        others.begin(begun)
        infos = yield from _members(cache, info, gathering, profiles, now, others)
        state = (snapshot, cache.index, profiles, now)
        work = _GroupState(*state, plugin=plugin, gathering=gathering, asked=info.key)
        return (yield from work.tried(infos))

    return (yield from retried(cache, others, attempt))


def _gathering(
    profile: Profile, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
) -> tuple[GroupScheduling, Gathering] | None:
    """Raises PluginError."""
    if not profile.gathering:
        return None
    with limited(profile.plugin_timeout):
        for plugin in profile.gathering:
            usable = partial(answers.a_gathering, info.key)
            found = ask(plugin, "Gathering", usable, plugin.gathering, info, snapshot, bound, now)
            if found is not None:
                return plugin, found
    return None


def _members(
    cache: SchedulerCache,
    info: WorkloadInfo,
    gathering: Gathering,
    profiles: Mapping[str, Profile],
    now: datetime,
    others: Others,
) -> Steps[list[WorkloadInfo]]:
    """Raises PluginError."""
    found: list[WorkloadInfo] = []
    for number, key in enumerate(gathering.members, start=1):
        known = info if key == info.key else cache.info(key) if others.partner(key) else None
        if known is not None and known.scheduler_name in profiles:
            found.append(runtime.settled(profiles[known.scheduler_name], known, now, cache.index))
            if key != info.key:  # the forms of `info` are evaluated
                yield from laid_over([known], cache.snapshot())
        if number % _STEP == 0:
            yield
    return found


@dataclass(frozen=True, slots=True)
class _Judged:
    attempt: Attempt
    decisions: Mapping[Key, Decision]
    trials: Sequence[Trial]
    verdict: GroupDecision

    @property
    def worth(self) -> tuple[bool, int]:
        """Sorts attempts that place nothing. The greatest is reported."""
        return self.verdict.outcome is TrialResult.WAIT, sum(each.assigned for each in self.trials)


@dataclass(slots=True, kw_only=True)
class _GroupState(SetState):
    plugin: GroupScheduling
    gathering: Gathering
    asked: Key

    def tried(self, infos: Sequence[WorkloadInfo]) -> Steps[Tried]:
        judged = yield from self._judged(infos)
        batch = yield from self._batch(infos, judged)
        if judged is None or judged.verdict.outcome is TrialResult.REFUSE:
            return Tried(batch, infos)
        attempt, placed = judged.attempt, list(judged.decisions.values())
        return Tried(
            batch, infos, placed, lambda at: replace(self, snapshot=at).attempt(infos, attempt)
        )

    def _judged(self, infos: Sequence[WorkloadInfo]) -> Steps[_Judged | None]:
        """Return the placed attempt, else the best; None if the group is refused.

        Raises PluginError.
        """
        if self.gathering.refusal is not None:
            return None
        best: _Judged | None = None
        for attempt in self._attempts(infos):
            decisions = yield from self.attempt(infos, attempt)
            trials = yield from _trials_of(decisions[info.key] for info in infos)
            judged = _Judged(attempt, decisions, trials, self._verdict(trials))
            if judged.verdict.outcome is TrialResult.PLACE:
                return judged
            if best is None or judged.worth > best.worth:
                best = judged
        if best is None:
            raise failed(self.plugin, "Attempts", "gave no attempt")
        return best

    def attempt(
        self, infos: Sequence[WorkloadInfo], attempt: Attempt
    ) -> Steps[dict[Key, Decision]]:
        course = _GroupPass.over(self)
        course.asked = self.asked
        course.data = {self.plugin.name: attempt}
        by_key = {info.key: info for info in infos}
        ordered = [by_key.pop(key) for key in attempt.order if key in by_key]
        left = [*ordered, *by_key.values()]
        for _ in range(1 + _ROUNDS):
            before = len(left)
            left = yield from course.round(left)
            if not left or len(left) == before:
                break
        if len(left) > 1:
            yield from course.mutual(left)
        return course.decisions

    def _batch(self, infos: Sequence[WorkloadInfo], judged: _Judged | None) -> Steps[Batch]:
        verdict = self._refusal() if judged is None else judged.verdict
        found = {} if judged is None else judged.decisions
        conclusion = Conclusion(
            plugin=self.plugin,
            gathering=self.gathering,
            verdict=verdict,
            tried=() if judged is None else judged.trials,
            time=self.now,
            seconds=self._seconds,
        )
        placed = [found[info.key] for info in infos if info.key in found]
        if verdict.outcome is TrialResult.PLACE:
            return Batch(placed, conclusion=conclusion)
        status = runtime.named(self.plugin, verdict.status)
        out = frozenset(name for each in placed for name in each.kept_out_by())
        decisions: list[Decision] = []
        for info in infos:
            decisions.append(
                self._withheld(info, found.get(info.key), status, verdict.withdrawn, out)
            )
            if len(decisions) % _STEP == 0:
                yield
        if verdict.outcome is TrialResult.WAIT:
            waits = {self.plugin.name: status}
            return Batch(decisions, conclusion=conclusion, held=placed, waits=waits)
        return Batch(decisions, conclusion=conclusion)

    @property
    def _seconds(self) -> float:
        return max(profile.plugin_timeout for profile in self.profiles.values())

    def _refusal(self) -> GroupDecision:
        status = self.gathering.refusal or Status()
        return GroupDecision(TrialResult.REFUSE, status, self.gathering.withdrawn)

    def _attempts(self, infos: Sequence[WorkloadInfo]) -> Iterator[Attempt]:
        plugin, about = self.plugin, (self.gathering, infos, self.snapshot, self.bound)
        with limited(self._seconds):
            found = ask(plugin, "Attempts", iter, plugin.attempts, *about)
        while True:
            with limited(self._seconds):
                attempt = ask(plugin, "Attempts", answers.an_attempt, lambda: next(found, None))
            if attempt is None:
                return
            yield attempt

    def _verdict(self, trials: Sequence[Trial]) -> GroupDecision:
        plugin, about = self.plugin, (self.gathering, trials, self.snapshot, self.bound, self.now)
        with limited(self._seconds):
            return ask(plugin, "Judge", answers.a_verdict, plugin.judge, *about)

    def _withheld(
        self,
        info: WorkloadInfo,
        found: Decision | None,
        status: Status,
        withdrawn: Withdrawn,
        kept_out_by: Iterable[str],
    ) -> Decision:
        decision = found or untouched(info, self.snapshot, self.now, status)
        kept = withdrawn.get(info.key, info.present)
        profile = self.profiles[info.scheduler_name]
        data = {**decision.cycle_state.data, self.plugin.name: self.gathering}
        return replace(
            decision,
            cycle_state=replace(decision.cycle_state, data=data),
            workload=info,
            snapshot=self.snapshot,
            placements=kept,
            desired=max(info.replicas, sum(kept.values())),
            reason=status.reason,
            state=WorkloadState.SCHEDULED if kept else without_units(status.reason),
            message="; ".join(status.reasons),
            why=no_reasons,
            shared_by=tuple(sorted({*decision.shared_by, *kept_out_by, status.plugin})),
            plugins=profile.plugins,
            fields=runtime.status_fields(profile, info, kept, self.snapshot, self.bound),
        )


@dataclass(slots=True)
class _GroupPass(SetPass):
    """`asked`: the member whose decision is kept in full."""

    asked: Key = ("", "")

    def round(self, infos: Sequence[WorkloadInfo]) -> Steps[list[WorkloadInfo]]:
        """Return those with pending replicas and required affinity."""
        left: list[WorkloadInfo] = []
        for info in infos:
            found = self.decide(info)
            if info.whole and not (found.scheduled or info.present):
                found = self._fewer(found)
            self._keep(found)
            if info.affinity.required and not found.scheduled:
                left.append(info)
            yield
        return left

    def _fewer(self, found: Decision) -> Decision:
        info, able = found.workload, _feasible(found) | _crowded(found)
        room = room_of(found.cycle_state, found.seen, found.snapshot)
        most = int(room[able].max(initial=0)) if len(able) == len(room) else 0
        most = within(found.cycle_state, most)
        if not 0 < most < info.replicas:
            return found
        less = self.decide(replace(info, replicas=most))
        if not less.scheduled:
            return found
        return replace(
            less,
            workload=info,
            desired=info.replicas,
            reason=found.reason,
            message=f"{most} of {info.replicas} replicas have a cluster; {found.message}",
            shared_by=tuple(sorted(found.kept_out_by().union(less.shared_by))),
        )

    def mutual(self, infos: Sequence[WorkloadInfo]) -> Steps[None]:
        scheduler = infos[0].scheduler_name
        alike = [each for each in infos if each.scheduler_name == scheduler]
        found = yield from decide_together(self, alike)
        if all(each.scheduled for each in found):
            for each in found:
                self._keep(each)

    def _keep(self, found: Decision) -> None:
        lean = len(self.decisions) >= _IN_FULL and found.workload.key != self.asked
        self.take(found.lean() if lean else found)


def _trials_of(decisions: Iterable[Decision]) -> Steps[list[Trial]]:
    found: list[Trial] = []
    for decision in decisions:
        found.append(_told(decision))
        if len(found) % _STEP == 0:
            yield
    return found


def _told(decision: Decision) -> Trial:
    return Trial(
        workload=decision.workload,
        placements=decision.placements,
        desired=decision.desired,
        reason=decision.reason,
        message=decision.message,
        feasible=_feasible(decision),
        crowded=_crowded(decision),
    )


def _feasible(decision: Decision) -> Mask:
    if len(decision.masks) < len(decision.refusals):
        return np.zeros(len(decision.snapshot), dtype=np.bool_)
    found: Mask = decision.verdicts == FITS
    return found


def _crowded(decision: Decision) -> Mask:
    short, otherwise = np.zeros((2, len(decision.snapshot)), dtype=np.bool_)
    for refusal, mask in zip(decision.refusals, decision.masks, strict=False):
        if refusal.short:
            short |= mask
        else:
            otherwise |= mask
    found: Mask = short & ~otherwise
    return found
