"""Sets whose write a Permit plugin holds back: told once, carried on when answered, or given back.

What waits stays counted in the world and reserved with the plugins. It is void as soon as one of
the set is edited or deleted, a cluster of its shares is gone, or the term of leadership ends: then
everything is as if it had never been decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.binding.inwork import InWork
from controller.binding.permits import Held, Permits, waiting_status
from controller.binding.refusals import Refusals
from controller.cache.cache import World
from controller.framework.status import Status
from controller.framework.waiting import Answer
from controller.model.objects import Workload
from controller.model.placed import Placeables
from controller.queue import events
from controller.scheduling.decision import Decision
from controller.scheduling.refusal import untouched
from machinery.clock import Clock
from machinery.types.metadata import Key

REST_SECONDS = 0.5
"""A set that waits, and lacks something, is decided anew no more often than that."""


class Waiters:
    """The waiting sets of one term of leadership. `look_after` has a Workload looked at by then."""

    def __init__(
        self,
        permits: Permits,
        refusals: Refusals,
        *,
        workloads: Placeables,
        world: World,
        in_work: InWork,
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

    def record(self, key: Key) -> Decision | None:
        """What a diagnosis says of one that waits; None for one that does not."""
        held = self._permits.held(key)
        return None if held is None else self._record(held, key)

    async def tell(self, held: Held) -> float:
        """Say who waits for what, once; the seconds until the first plugin must have answered."""
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
        """A waiting set's turn: its decisions, now to be written, or the seconds that it waits.

        None where it is given back, and said why.
        """
        now = self._clock.monotonic()
        if self._lost(held):
            self.give_back(held)
            return None
        answer = held.answer(now)
        if answer is Answer.WAITING:
            return await self.tell(held)
        decisions = self._permits.release(held, written=answer is Answer.ALLOWED)
        if answer is Answer.ALLOWED:
            return decisions
        await self._turn_away(decisions, held.refusal(now))
        return None

    def reopen(self, held: Held) -> bool:
        """Whether one that lacks something is to be decided anew now: it holds nothing then.

        Others hear only of what it does not take again. One that was decided a moment ago has
        another look soon: each of it may come by, and so do its own writes. The first of it is
        told so each time, or one that comes sooner for something else would not come then.
        """
        now = self._clock.monotonic()
        if not held.open or held.answer(now) is not Answer.WAITING or self._lost(held):
            return False
        if (rest := held.since + REST_SECONDS - now) > 0:
            self._look_after(next(iter(held.decisions)), rest)
            return False
        for decision in self._permits.release(held, written=False):
            self._restore(decision, at_once=True)
        return True

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """An informer's handler, after the world's: one that was edited is given back."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        held = self._permits.held(known.metadata.key)
        if held is None:
            return
        if new is None or old is None or _other(old, new) or not self._world.ours(new):
            self.give_back(held)
        elif (decision := self._permits.follow(new)) is not None:
            self._world.assume(decision.unit, decision.placements)

    def give_back(self, held: Held) -> None:
        """The set is void; each of it comes again."""
        decisions = self._permits.release(held, written=False)
        for decision in decisions:
            self._restore(decision)
        self._world.offer(d.unit.key for d in decisions)

    def rest(self) -> None:
        """The term of leadership is over: whatever waits is void."""
        for decision in self._permits.release_all():
            self._restore(decision)

    def _record(self, held: Held, key: Key) -> Decision:
        decision, status = held.decisions[key], waiting_status(held, key)
        return untouched(decision.unit, decision.fleet, self._clock.now(), status)

    async def _turn_away(self, decisions: Sequence[Decision], status: Status) -> None:
        """Nothing of the set counts from this breath on; then each is told.

        Whom it could not be told, comes again.
        """
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

    def _lost(self, held: Held) -> bool:
        """Whether a cluster of its shares is gone."""
        there = self._world.fleet().row
        return any(name not in there for d in held.decisions.values() for name in d.placements)

    def _restore(self, decision: Decision, *, at_once: bool = False) -> None:
        unit = decision.unit
        now = self._workloads.get(unit.key)
        self._world.restore(unit, decision.placements, now, at_once=at_once)


def _other(old: Workload, new: Workload) -> bool:
    """Whether a decision on the old one is none on the new one."""
    return events.edited(old, new) or old.placements != new.placements
