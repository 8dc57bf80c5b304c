"""The Workloads of a group, decided in one pass and judged together.

Each member sees the room that earlier ones took. One that requires a later one gets another turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from controller.cache.placements import PlacementIndex, PlacementOverlay
from controller.eventhandlers import SchedulerCache
from controller.framework.calling import answers
from controller.framework.calling.deadline import limited
from controller.framework.calling.guard import ask, failed
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
from controller.scheduling.affinityset import decide_together, more
from controller.scheduling.cycle import decide
from controller.scheduling.decision import FITS, Decision, untouched, without_units
from controller.scheduling.sets import FEW, Batch, Conclusion, Others, confirmed
from controller.scheduling.steps import Steps, laid_over
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import WorkloadState
from machinery.types.metadata import Key

_TRIES = 3
"""Decisions of a group at most, because the cache may change during each."""
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
    own, begun = profiles[info.scheduler_name], set[Key]()
    for _ in range(_TRIES):
        snapshot, version = cache.snapshot(), cache.index.version
        found = _gathering(own, info, snapshot, cache.index, now)
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
        work = _Work(snapshot, cache.index, profiles, now, plugin, gathering, info.key)
        tried = yield from work.tried(infos)
        batch = yield from work.batch(infos, tried)
        if cache.snapshot() is snapshot and cache.index.version == version:
            return batch
        if not all(map(others.current, infos)):
            break  # the edit itself requeues an edited member
        if tried is None or tried.verdict.outcome is TrialResult.REFUSE:
            return replace(batch, moved=True)
        if (yield from _same_places(cache, work, infos, tried)) and all(map(others.current, infos)):
            return replace(batch, moved=True)  # pending members may have a place by now
        yield
    return Batch([], moved=True)


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


def _same_places(
    cache: SchedulerCache, work: _Work, infos: Sequence[WorkloadInfo], tried: _Judged
) -> Steps[bool]:
    chosen = {name for d in tried.decisions.values() for name in d.placements}

    def again(snapshot: Snapshot) -> Steps[bool]:
        now = replace(work, snapshot=snapshot, bound=cache.index)
        found = yield from now.attempt(infos, tried.attempt)
        return all(found[k].placements == d.placements for k, d in tried.decisions.items())

    return (yield from confirmed(cache, chosen, again, large=len(infos) > FEW))


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


@dataclass(frozen=True, slots=True)
class _Work:
    snapshot: Snapshot
    bound: PlacementIndex
    profiles: Mapping[str, Profile]
    now: datetime
    plugin: GroupScheduling
    gathering: Gathering
    asked: Key

    def tried(self, infos: Sequence[WorkloadInfo]) -> Steps[_Judged | None]:
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
        course = _GroupCycle(
            self, {self.plugin.name: attempt}, self.snapshot, self.bound.overlay({})
        )
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

    def batch(self, infos: Sequence[WorkloadInfo], judged: _Judged | None) -> Steps[Batch]:
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
class _GroupCycle:
    work: _Work
    data: Mapping[str, Any]
    snapshot: Snapshot
    cache: PlacementOverlay
    decisions: dict[Key, Decision] = field(default_factory=dict)

    def round(self, infos: Sequence[WorkloadInfo]) -> Steps[list[WorkloadInfo]]:
        """Return those with pending replicas and required affinity."""
        left: list[WorkloadInfo] = []
        for info in infos:
            profile = self.work.profiles[info.scheduler_name]
            found = self._decide(info, profile)
            if info.whole and not (found.scheduled or info.present):
                found = self._fewer(found, profile)
            self._take(found)
            if info.affinity.required and not found.scheduled:
                left.append(info)
            yield
        return left

    def _decide(self, info: WorkloadInfo, profile: Profile) -> Decision:
        return decide(self.snapshot, info, self.cache, profile, self.work.now, self.data)

    def _fewer(self, found: Decision, profile: Profile) -> Decision:
        info, able = found.workload, _feasible(found) | _crowded(found)
        room = room_of(found.cycle_state, found.seen, found.snapshot)
        most = int(room[able].max(initial=0)) if len(able) == len(room) else 0
        most = within(found.cycle_state, most)
        if not 0 < most < info.replicas:
            return found
        less = self._decide(replace(info, replicas=most), profile)
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
        profile = self.work.profiles[infos[0].scheduler_name]
        alike = [each for each in infos if each.scheduler_name == profile.scheduler_name]
        about = (self.cache, profile, self.work.now, self.data)
        found = yield from decide_together(self.snapshot, alike, *about)
        if all(each.scheduled for each in found):
            for each in found:
                self._take(each)

    def _take(self, found: Decision) -> None:
        info, there = found.workload, found.placements
        lean = len(self.decisions) >= _IN_FULL and info.key != self.work.asked
        self.decisions[info.key] = found.lean() if lean else found
        if dict(there) != dict(info.present):
            self.cache.place(info, there)
            self.snapshot = self.snapshot.assuming(info.load, more(info, there), info.charge)


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
