"""Sets whose write a Permit plugin holds back: told once, resumed when answered, or given back.

A waiting set stays assumed in the cache and reserved with the plugins. The set is void as soon as a
member is edited or deleted, a cluster of its shares is gone, or the term of leadership ends: then
the set is undone.

A set that lacks something is decided again with its own reservations released. Until the result is
counted no other Workload is decided: the released room would be taken. A set may be large, and
there may be many, so nine tenths of the time are left to other decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from controller.binding.inwork import InFlightKeys
from controller.binding.permits import Held, Permits, waiting_status
from controller.binding.refusals import Refusals
from controller.eventhandlers import SchedulerCache
from controller.framework.status import Status
from controller.framework.waiting import PermitAnswer
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.queue import events
from controller.scheduling.decision import Decision
from controller.scheduling.refusal import untouched
from machinery.clock import Clock
from machinery.types.metadata import Key

REST_SECONDS = 0.5
"""The least time between two decisions on one waiting set."""
OTHERS = 9
"""After a set was decided again, no other one is for so many times the time that it took."""


class Waiters:
    """The waiting sets of one term of leadership. `look_after` queues a key after some seconds."""

    def __init__(
        self,
        permits: Permits,
        refusals: Refusals,
        *,
        workloads: SchedulableLister,
        world: SchedulerCache,
        in_work: InFlightKeys,
        clock: Clock,
        look_after: Callable[[Key, float], None],
    ) -> None:
        self._look_after = look_after
        self._permits = permits
        self._refusals = refusals
        self._workloads = workloads
        self._world = world
        self._in_work = in_work
        self._clock = clock
        self._closed = asyncio.Event()
        self._closed.set()
        self._next = 0.0
        """No set is decided again before that, by the clock."""

    def record(self, key: Key) -> Decision | None:
        """Return the diagnosis of a waiting Workload; None for one that does not wait."""
        held = self._permits.held(key)
        return None if held is None else self._record(held, key)

    async def tell(self, held: Held) -> float:
        """Say on each what it waits for, once; return the seconds until the first deadline."""
        keys = list(held.decisions)
        self._in_work.begin(keys)
        try:
            for key in keys:
                if self._permits.held(key) is not held:
                    break  # edited while the status of another was written
                await self._refusals.say(self._record(held, key))
        finally:
            self._world.offer(self._in_work.end(keys))
        return max(held.deadline - self._clock.monotonic(), 0.0)

    async def resume(self, held: Held) -> list[Decision] | float | None:
        """Act on the answer to a waiting set: return its decisions to write, or the seconds left.

        None where the set is given back, and its Workloads say why.
        """
        now = self._clock.monotonic()
        if self._lost(held):
            self.give_back(held)
            return None
        answer = held.answer(now)
        if answer is PermitAnswer.WAITING:
            return await self.tell(held)
        decisions = self._permits.release(held, written=answer is PermitAnswer.ALLOWED)
        if answer is PermitAnswer.ALLOWED:
            return decisions
        await self._turn_away(decisions, held.refusal(now))
        return None

    def due(self, held: Held) -> bool:
        """Whether an open set is to be decided again now; if it must rest, queue its next look."""
        now = self._clock.monotonic()
        if not held.open or held.answer(now) is not PermitAnswer.WAITING or self._lost(held):
            return False
        if (rest := max(held.since + REST_SECONDS, self._next) - now) > 0:
            # Each time: the queue keeps one moment for a key, so a look that comes earlier for
            # something else uses up this one.
            self._look_after(next(iter(held.decisions)), rest)
            return False
        return True

    @property
    def reopening(self) -> bool:
        """Whether a set is being decided again: what it reserved looks free, and is not."""
        return not self._closed.is_set()

    async def closed(self) -> None:
        while self.reopening:
            await self._closed.wait()

    @contextmanager
    def reopened(self, held: Held | None) -> Iterator[set[Key]]:
        """Release what that set reserves while it is decided again; `closed` keeps others waiting.

        The caller adds the keys that it decided to the set that is handed out. Members that it
        leaves out are queued again; where it decides none at all, the whole set is held as before.
        Not to be called while another set is `reopening`.
        """
        decided, kept = set[Key](), False
        if held is None:
            yield decided
            return
        before = {key: self._workloads.get(key) for key in held.decisions}
        began = self._clock.monotonic()
        self._closed.clear()
        try:
            for decision in self._permits.release(held, written=False):
                # Other Workloads hear only of the room that the set does not take again.
                self._restore(decision, at_once=True)
            yield decided
            kept = not decided and self._hold_again(held, before)
        finally:
            if not kept:
                self._void(d for key, d in held.decisions.items() if key not in decided)
            now = self._clock.monotonic()
            self._next = now + OTHERS * (now - began)
            self._closed.set()

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's change, after the cache's handler: give back an edited set."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        held = self._permits.held(known.metadata.key)
        if held is None:
            return
        if new is None or not self._same(old, new):
            self.give_back(held)
        elif (decision := self._permits.follow(new)) is not None:
            self._world.assume(decision.unit, decision.placements)

    def give_back(self, held: Held) -> None:
        """Undo the set; each of its Workloads is queued again."""
        self._void(self._permits.release(held, written=False))

    def rest(self) -> None:
        """End the term of leadership: undo all waiting sets."""
        for decision in self._permits.release_all():
            self._restore(decision)

    def _record(self, held: Held, key: Key) -> Decision:
        decision, status = held.decisions[key], waiting_status(held, key)
        return untouched(decision.unit, decision.fleet, self._clock.now(), status)

    async def _turn_away(self, decisions: Sequence[Decision], status: Status) -> None:
        """Undo the set at once, then say why on each; those that cannot be told come again."""
        keys = [decision.unit.key for decision in decisions]
        untold = dict.fromkeys(keys)
        self._in_work.begin(keys)
        try:
            for decision in decisions:
                self._refusals.undo(decision, status)
            for decision in decisions:
                await self._refusals.tell(decision, status)
                del untold[decision.unit.key]
        finally:
            self._world.offer(self._in_work.end(keys).union(untold))

    def _void(self, decisions: Iterable[Decision]) -> None:
        """Undo these, announce their room, and queue their Workloads again."""
        keys: list[Key] = []
        for decision in decisions:
            self._restore(decision)
            keys.append(decision.unit.key)
        self._world.offer(keys)

    def _hold_again(self, held: Held, before: Mapping[Key, Workload | None]) -> bool:
        """Hold what was released and no other decision has taken; False where it is void by now."""
        now = {key: self._workloads.get(key) for key in held.decisions}
        if self._lost(held) or not all(self._same(before[key], now[key]) for key in now):
            return False
        if not self._permits.hold_again(held):
            return False
        held.since = self._clock.monotonic()
        for key, workload in now.items():
            if workload is not None:
                self._permits.follow(workload)
            decision = held.decisions[key]
            self._world.assume(decision.unit, decision.placements)
        return True

    def _same(self, old: Workload | None, new: Workload | None) -> bool:
        """Whether a decision on the old version holds for the new one."""
        if old is None or new is None:
            return False
        return not _other(old, new) and self._world.ours(new)

    def _lost(self, held: Held) -> bool:
        there = self._world.fleet().row
        return any(name not in there for d in held.decisions.values() for name in d.placements)

    def _restore(self, decision: Decision, *, at_once: bool = False) -> None:
        unit = decision.unit
        now = self._workloads.get(unit.key)
        self._world.restore(unit, decision.placements, now, at_once=at_once)


def _other(old: Workload, new: Workload) -> bool:
    return events.edited(old, new) or old.placements != new.placements
