"""Decides a Workload together with those that must be decided with it.

The live controller, plan, explain and diagnosis all call `decide_set`. One that finds no place and
requires others is decided with those that require it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from controller.eventhandlers import SchedulerCache
from controller.framework.calling.guard import PluginError
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from controller.scheduling.affinityset import decide_again, decide_together, together
from controller.scheduling.cycle import decide
from controller.scheduling.decision import Decision, ended, untouched
from controller.scheduling.gathered import decide_group
from controller.scheduling.sets import Batch, Others, SetState, Tried, retried
from controller.scheduling.steps import Steps, laid_over
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

_NAMED = 3


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
    batch = yield from _with_partners(cache, info, profile, others, alone)
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


def _with_partners(
    cache: SchedulerCache, info: WorkloadInfo, profile: Profile, others: Others, alone: Decision
) -> Steps[Batch]:
    """Decide a Workload with required affinity that has no cluster on its own."""
    pending, now = cache.pending_affinity, alone.time
    group = yield from together(info, pending, partner=others.partner)
    if others.busy(info.key):  # taken into another set during the search
        return Batch([], frozenset({info.key}))
    busy = frozenset(u.key for u in group if u.key != info.key and others.busy(u.key))
    if any(map(others.deciding, busy)):
        return Batch([], busy)
    if busy:
        group = yield from together(
            info, pending, partner=lambda key: others.partner(key) and not others.busy(key)
        )

    def state(snapshot: Snapshot) -> SetState:
        return SetState(snapshot, cache.index, {info.scheduler_name: profile}, now)

    def attempt(snapshot: Snapshot) -> Steps[Tried]:
        found = yield from decide_together(state(snapshot), group)
        if not found[0].scheduled:
            return Tried(Batch(found), group)
        return Tried(Batch(found), group, found, lambda at: decide_again(state(at), found))

    batch: Batch | None = Batch([])
    if len(group) > 1:
        others.begin([each.key for each in group])
        yield from laid_over(group, cache.snapshot())
        with suppress(PluginError):
            group = [runtime.settled(profile, each, now, cache.index) for each in group]
            batch = yield from retried(cache, others, attempt)
    if batch is not None and batch.decisions:
        return replace(batch, busy=busy)
    latest = cache.snapshot()
    again = alone if latest is alone.snapshot else state(latest).decide(info)
    return Batch([again], busy, moved=batch is not None and batch.moved)
