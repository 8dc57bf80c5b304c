"""Decisions that wait for Permit plugins, in sets: all of a set are written, or none.

A waiting set stays assumed and reserved. `controller.scheduler` writes an allowed set, and undoes
one that is rejected or times out.

A set with pending replicas is decided again with its reservations released. All other decisions
wait for the result, because they would take the released room; nine tenths of the time are left to
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from controller.eventhandlers import SchedulerCache
from controller.framework import events
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import SUCCESS, Code, Status
from controller.framework.waiting import (
    PermitAnswer,
    UsesWaitingWorkloads,
    WaitingWorkload,
    WaitingWorkloads,
)
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.queue.scheduling_queue import SchedulingQueue
from controller.scheduling.decision import Decision, untouched
from crds.workload import ScheduledReason
from machinery import logs
from machinery.clock import Clock
from machinery.types.metadata import Key

LOG = logs.get(__name__)
PAUSE_SECONDS = 0.5
"""Seconds between two decisions on one waiting set."""
OTHERS = 9
"""After a set is decided again, no set is for this multiple of the time it took."""


@dataclass(slots=True)
class WaitingSet:
    """Decisions that wait together. `waits` are those that a plugin holds back.

    `open` means that members have pending replicas.
    """

    decisions: dict[Key, Decision]
    waits: dict[Key, WaitingWorkload]
    open: bool = False
    since: float = 0.0
    late: str = ""
    """The plugin's message for a time-out."""

    def answer(self, now: float) -> PermitAnswer:
        answers = {waiting.answer(now) for waiting in self.waits.values()}
        for worst in (PermitAnswer.REJECTED, PermitAnswer.TIMED_OUT, PermitAnswer.WAITING):
            if worst in answers:
                return worst
        return PermitAnswer.ALLOWED

    @property
    def deadline(self) -> float:
        """The first deadline, by the monotonic clock."""
        return min((w.deadline for w in self.waits.values() if w.plugins), default=0.0)

    def refusal(self, now: float) -> Status:
        for key, waiting in self.waits.items():
            about = f" of {'/'.join(key)}" if len(self.decisions) > 1 else ""
            if waiting.rejected:
                text = f"{waiting.objector} rejected the decision{about}: {waiting.objection}"
                return Status(Code.UNSCHEDULABLE, (text,), waiting.objector)
            late = [name for name, at in waiting.plugins.items() if now >= at]
            if late and self.late:
                reason = ScheduledReason.SCHEDULE_TIMEOUT
                return Status(Code.UNSCHEDULABLE, (self.late,), late[0], reason)
            if late:
                spent = round(min(waiting.plugins.values()) - waiting.since)
                text = f"{', '.join(late)} did not permit the decision{about} within {spent} s"
                reason = ScheduledReason.SCHEDULE_TIMEOUT
                return Status(Code.UNSCHEDULABLE, (text,), late[0], reason)
        return SUCCESS

    def status(self, key: Key) -> Status:
        """Constant while the set waits."""
        own = [(w.reason, each) for w in self.waits.values() if w.reason for each in w.said]
        if own:
            return Status(Code.WAIT, tuple(dict.fromkeys(t for _, t in own)), reason=own[0][0])
        names = sorted({name for waiting in self.waits.values() for name in waiting.plugins})
        spans = [at - w.since for w in self.waits.values() for at in w.plugins.values()]
        reasons = [reason for waiting in self.waits.values() for reason in waiting.said]
        others = [other for other in self.waits if other != key]
        about = f" with {', '.join('/'.join(k) for k in others)}" if others else ""
        text = f"waits{about} for {', '.join(names)}, {max(spans, default=0.0):.0f} s at most"
        message = "; ".join([text, *reasons])
        return Status(Code.WAIT, (message,), reason=ScheduledReason.WAITING_ON_PERMIT)

    def record(self, key: Key, now: datetime) -> Decision:
        decision = self.decisions[key]
        return untouched(decision.workload, decision.snapshot, now, self.status(key))


class WaitingSets(WaitingWorkloads):
    """The sets of one term; for Permit plugins `WaitingWorkloads`."""

    def __init__(
        self,
        queue: SchedulingQueue,
        *,
        workloads: SchedulableLister,
        cache: SchedulerCache,
        profiles: Mapping[str, Profile],
        clock: Clock,
    ) -> None:
        super().__init__(clock=clock, activate=lambda key: cache.activate([key]))
        self._queue = queue
        self._workloads = workloads
        self._cache = cache
        self._profiles = profiles
        self._sets: dict[Key, WaitingSet] = {}
        self._reserved = asyncio.Event()
        self._reserved.set()
        self._next = 0.0
        """No set is decided again before this."""
        for plugin in _users(profiles):
            try:
                plugin.use_waiting_workloads(self)
            except Exception:  # the decisions that wait for the plugin time out
                LOG.exception("plugin %s did not take the waiting Workloads", plugin.name)

    def set_of(self, key: Key) -> WaitingSet | None:
        return self._sets.get(key)

    def hold(
        self,
        decisions: Sequence[Decision],
        asked: Mapping[Key, Mapping[str, Status]],
        *,
        open_: bool,
        late: str,
    ) -> WaitingSet:
        by_key = {decision.workload.key: decision for decision in decisions}
        waits = {
            key: self.add(d.workload, d.placements, d.cycle_state, asked[key])
            for key, d in by_key.items()
            if key in asked
        }
        since = min((waiting.since for waiting in waits.values()), default=0.0)
        waiting = WaitingSet(by_key, waits, open_, since, late)
        self._sets.update(dict.fromkeys(by_key, waiting))
        return waiting

    def release(self, waiting: WaitingSet) -> list[Decision]:
        for key in waiting.decisions:
            self._sets.pop(key, None)
            self.remove(key)
        return list(waiting.decisions.values())

    def release_unreserved(self, waiting: WaitingSet) -> list[Decision]:
        decisions = self.release(waiting)
        self._unreserve([decision for decision in decisions if decision.moves])
        return decisions

    def give_back(self, waiting: WaitingSet) -> None:
        self._undo(self.release_unreserved(waiting))

    def close(self) -> None:
        while self._sets:
            for decision in self.release_unreserved(next(iter(self._sets.values()))):
                self._restore(decision)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Undo the set of an edited Workload. Call after the cache's handler."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        waiting = self._sets.get(known.metadata.key)
        if waiting is None:
            return
        if new is None or not self._same(old, new):
            self.give_back(waiting)
        else:
            decision = self._follow(waiting, new)
            self._cache.assume(decision.workload, decision.placements)

    def lost_cluster(self, waiting: WaitingSet) -> bool:
        there = self._cache.snapshot().row
        return any(name not in there for d in waiting.decisions.values() for name in d.placements)

    # An open set is decided again.

    def due(self, waiting: WaitingSet) -> bool:
        """Whether to decide an open set again now. If it must pause, its turn is queued."""
        now = self._clock.monotonic()
        waits = waiting.answer(now) is PermitAnswer.WAITING
        if not waiting.open or not waits or self.lost_cluster(waiting):
            return False
        if (pause := max(waiting.since + PAUSE_SECONDS, self._next) - now) > 0:
            # Each time: the queue keeps one moment per key, so an earlier turn uses this one up.
            info = self._cache.info(next(iter(waiting.decisions)))
            if info is not None:
                self._queue.add_after(self._cache.rank(info), pause)
            return False
        return True

    @property
    def reopening(self) -> bool:
        """A set's reserved room looks free while the set is decided."""
        return not self._reserved.is_set()

    async def until_reserved(self) -> None:
        while self.reopening:
            await self._reserved.wait()

    @contextmanager
    def released(self, waiting: WaitingSet | None) -> Iterator[set[Key]]:
        """Release what that set reserves while it is decided again.

        The caller adds decided keys to the yielded set. Not reentrant: check `reopening` first.
        """
        decided, kept = set[Key](), False
        if waiting is None:
            yield decided
            return
        before = {key: self._workloads.get(key) for key in waiting.decisions}
        began = self._clock.monotonic()
        self._reserved.clear()
        try:
            for decision in self.release_unreserved(waiting):
                # Other Workloads learn only of the room that the set does not take again.
                self._restore(decision, at_once=True)
            yield decided
            kept = not decided and self._hold_again(waiting, before)
        finally:
            if not kept:
                self._undo(d for key, d in waiting.decisions.items() if key not in decided)
            now = self._clock.monotonic()
            self._next = now + OTHERS * (now - began)
            self._reserved.set()

    def _hold_again(self, waiting: WaitingSet, before: Mapping[Key, Workload | None]) -> bool:
        """False if it became void."""
        now = {key: self._workloads.get(key) for key in waiting.decisions}
        if self.lost_cluster(waiting) or not all(self._same(before[key], now[key]) for key in now):
            return False
        if not self._reserve_again(waiting):
            return False
        waiting.since = self._clock.monotonic()
        for key, workload in now.items():
            if workload is not None:
                self._follow(waiting, workload)
            decision = waiting.decisions[key]
            self._cache.assume(decision.workload, decision.placements)
        return True

    def _reserve_again(self, waiting: WaitingSet) -> bool:
        reserved: list[Decision] = []
        for decision in (each for each in waiting.decisions.values() if each.moves):
            if not runtime.reserve(*decision.arguments(self._profiles)).ok:
                self._unreserve(reserved)
                return False
            reserved.append(decision)
        for each in waiting.waits.values():
            self.put(each)
        self._sets.update(dict.fromkeys(waiting.decisions, waiting))
        return True

    @staticmethod
    def _follow(waiting: WaitingSet, workload: Workload) -> Decision:
        before = waiting.decisions[workload.metadata.key]
        info = replace(before.workload, version=workload.info.version)
        waiting.decisions[info.key] = after = replace(before, workload=info)
        return after

    def _unreserve(self, decisions: Sequence[Decision]) -> None:
        for decision in reversed(decisions):
            runtime.unreserve(*decision.arguments(self._profiles))

    def _undo(self, decisions: Iterable[Decision]) -> None:
        keys: list[Key] = []
        for decision in decisions:
            self._restore(decision)
            keys.append(decision.workload.key)
        self._cache.activate(keys)

    def _restore(self, decision: Decision, *, at_once: bool = False) -> None:
        info = decision.workload
        workload = self._workloads.get(info.key)
        self._cache.restore(info, decision.placements, workload, at_once=at_once)

    def _same(self, old: Workload | None, new: Workload | None) -> bool:
        if old is None or new is None:
            return False
        edited = events.edited(old, new) or old.placements != new.placements
        return not edited and self._cache.ours(new)


def _users(profiles: Mapping[str, Profile]) -> list[UsesWaitingWorkloads]:
    plugins = {
        id(plugin): plugin for profile in profiles.values() for plugin in profile.every_plugin()
    }
    return [plugin for plugin in plugins.values() if isinstance(plugin, UsesWaitingWorkloads)]
