"""Decides a Workload together with those that must be decided with it.

The live controller, plan, explain and diagnosis all call `decide_set`. One that finds no place and
requires others is decided with those that require it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controller.eventhandlers import SchedulerCache
from controller.framework.calling.guard import PluginError
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from controller.scheduling.affinityset import decide_together, found_again, together
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision, ended, untouched
from controller.scheduling.gathered import decide_group
from controller.scheduling.sets import FEW, Batch, Others, confirmed
from controller.scheduling.steps import Steps, laid_over
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

_TRIES = 3
"""Decisions of a set at most, because the cache may change during each."""
_NAMED = 3
_MOST_CONFIRMED = 64
"""A set on more clusters is decided again instead."""


def decide_set(
    cache: SchedulerCache,
    info: WorkloadInfo,
    profiles: Mapping[str, Profile],
    now: datetime,
    *,
    fault: str = "",
    others: Others | None = None,
) -> Steps[Batch]:
    """Decide a Workload now, alone or in a set. Changes nothing.

    A set is confirmed on the newest state in the last step. `profiles` are by scheduler name;
    `fault` is admission's reason to refuse the Workload, or empty; `others` is the caller's
    knowledge of other pending Workloads.
    """
    others = others or Others()
    yield from laid_over([info], cache.snapshot())
    snapshot, profile = cache.snapshot(), profiles[info.scheduler_name]
    if fault:
        status = Status(reasons=(fault,), reason=ScheduledReason.INVALID_WORKLOAD)
        return Batch([untouched(info, snapshot, now, status)])
    if info.over:
        return Batch([ended(info, snapshot, now)])
    try:
        info = runtime.settled(profile, info, now, cache.index)
        gathered = yield from decide_group(cache, info, profiles, now, others)
    except PluginError as e:
        return Batch([untouched(info, snapshot, now, e.status)])
    if gathered is not None:
        return gathered
    alone = decide(snapshot, info, cache.index, profile, now)
    if alone.scheduled or not info.affinity.required:
        return Batch([alone])
    asked = _Asked(cache, info, profile, now, others)
    batch = yield from asked.decide(alone)
    return (yield from _incomplete(batch, cache))


def _incomplete(batch: Batch, cache: SchedulerCache) -> Steps[Batch]:
    """Name running members of the set in a refusal: a crash came between the writes."""
    if not batch.decisions or batch.decisions[0].scheduled or batch.decisions[0].workload.present:
        return batch
    info = batch.decisions[0].workload
    members = yield from together(
        info, cache.pending_affinity, cache.placed_affinity
    )  # as for each of the batch
    running = tuple(each.key for each in members if each.present)
    if not running:
        return batch
    named = ", ".join("/".join(key) for key in running[:_NAMED])
    text = f"its set is incomplete: {named} runs, and requires it"
    explained = [
        replace(d, message=f"{d.message}; {text}", incomplete=running) for d in batch.decisions
    ]
    return replace(batch, decisions=explained)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A Workload with required affinity that has no cluster on its own."""

    cache: SchedulerCache
    info: WorkloadInfo
    profile: Profile
    now: datetime
    others: Others

    def decide(self, alone: Decision) -> Steps[Batch]:
        others, pending = self.others, self.cache.pending_affinity
        group = yield from together(self.info, pending, partner=others.partner)
        if others.busy(self.info.key):  # taken into another set during the search
            return Batch([], frozenset({self.info.key}))
        busy = frozenset(u.key for u in group if u.key != self.info.key and others.busy(u.key))
        if any(map(others.deciding, busy)):
            return Batch([], busy)
        if busy:
            group = yield from together(
                self.info, pending, partner=lambda k: others.partner(k) and not others.busy(k)
            )
        if len(group) < 2:
            return Batch([self._again(alone)], busy)
        self.others.begin([each.key for each in group])
        yield from laid_over(group, self.cache.snapshot())
        try:
            group = [runtime.settled(self.profile, u, self.now, self.cache.index) for u in group]
        except PluginError:
            return Batch([self._again(alone)], busy)
        for _ in range(_TRIES):
            snapshot, version = self.cache.snapshot(), self.cache.index.version
            found = yield from decide_together(
                snapshot, group, self.cache.index, self.profile, self.now
            )
            still = self.cache.snapshot() is snapshot and self.cache.index.version == version
            current = all(map(self.others.current, group))
            if not current:
                break  # the edit itself requeues an edited member
            if still or not found[0].scheduled:
                return Batch(found, busy, moved=not still)
            if (yield from self._confirmed(found)) and all(map(self.others.current, group)):
                return Batch(found, busy)
            yield
        return Batch([self._again(alone)], busy, moved=True)

    def _again(self, alone: Decision) -> Decision:
        snapshot = self.cache.snapshot()
        if snapshot is alone.snapshot:
            return alone
        return decide(snapshot, self.info, self.cache.index, self.profile, self.now)

    def _confirmed(self, found: Sequence[Decision]) -> Steps[bool]:
        chosen = {name for decision in found for name in decision.placements}
        if not 0 < len(chosen) <= _MOST_CONFIRMED:
            return False

        def again(snapshot: Snapshot) -> Steps[bool]:
            return found_again(snapshot, found, self.cache.index, self.profile, self.now)

        return (yield from confirmed(self.cache, chosen, again, large=len(found) > FEW))
