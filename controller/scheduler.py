"""Decides one Workload: read the cache, decide, write once.

Level-triggered: a key is all that the scheduler is given. Between reading the cache and counting
the decision (`SchedulerCache.assume`, Reserve, Permit) no other Workload is decided, so decisions
are made one after the other on the newest state while many writes are in flight
(`controller.queue.cycles`; for sets, which take long, see `controller.scheduling.sets`). When a
write fails, the informer's view of the Workload replaces the assumed placement, and the key comes
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import networkx  # noqa: F401 - or the first set of Workloads would hold the loop to import it

from controller.admission import Admission
from controller.binding.binder import Binder
from controller.binding.inwork import InFlightKeys
from controller.binding.permits import Held, Permits
from controller.binding.publisher import StatusUpdater
from controller.binding.refusals import Refusals
from controller.binding.waiters import Waiters
from controller.eventhandlers import SchedulerCache
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.waiting import WaitingWorkloads
from controller.http.server import Flags
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.model.unit import WorkloadInfo
from controller.queue.cycles import Cycle, Cycles
from controller.queue.hints import Awaits, Hints
from controller.queue.scheduling_queue import SchedulingQueue
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision
from controller.scheduling.refusal import untouched
from controller.scheduling.sets import Batch, Others
from controller.scheduling.steps import Steps, in_slices
from crds.workload import ScheduledReason
from machinery import logs, metrics
from machinery.clock import Clock
from machinery.runtime.heap import HeapEntry
from machinery.types.metadata import Key

LOG = logs.get(__name__)
STALE_RETRY_SECONDS = 2.0
AGAIN_SECONDS = 0.1
"""The delay before a set is tried again that changes of the cache have overtaken."""
OBJECTION_RETRY_SECONDS = 30.0
"""Rights on the hub change without an event."""

DECISIONS = metrics.counter(
    "stowage_decisions",
    "Decisions by their reason",
    ("reason",),
    zero=[(reason.value,) for reason in ScheduledReason],
)
DECISION_SECONDS = metrics.histogram(
    "stowage_decision_seconds",
    "Time of the pure pass",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25),
)
RENEWALS = metrics.counter(
    "stowage_renewals", "Decisions of those that nothing woke, so that what they say stays true"
)
_COUNT = {reason: DECISIONS.labels(reason.value) for reason in ScheduledReason}


class Scheduler:
    """Decides the keys of one scheduling queue, for one term of leadership.

    `fresh` says whether the view of the hub is recent enough to act on.
    """

    def __init__(
        self,
        publisher: StatusUpdater,
        *,
        queue: SchedulingQueue,
        workloads: SchedulableLister,
        world: SchedulerCache,
        profiles: Mapping[str, Profile],
        admission: Admission,
        clock: Clock,
        flags: Flags,
        fresh: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._workloads = workloads
        self._world = world
        self._profiles = profiles
        self._hints = {name: Hints(profile) for name, profile in profiles.items()}
        self._admission = admission
        self._clock = clock
        self._flags = flags
        self._fresh = fresh
        self._in_work = InFlightKeys()
        self._cycles = Cycles(clock=clock)
        self._permits = Permits(
            profiles, WaitingWorkloads(clock=clock, wake=lambda key: world.offer([key]))
        )
        self._refusals = Refusals(
            publisher,
            queue=queue,
            workloads=workloads,
            world=world,
            hints=self._hints,
            clock=clock,
        )
        self._waiters = Waiters(
            self._permits,
            self._refusals,
            workloads=workloads,
            world=world,
            in_work=self._in_work,
            clock=clock,
            look_after=self._look_after,
        )
        self._binder = Binder(
            publisher,
            self._refusals,
            queue=queue,
            workloads=workloads,
            world=world,
            profiles=profiles,
            in_work=self._in_work,
        )

    async def reconcile(self, key: Key) -> float | None:
        """Decide one Workload; return the seconds until it must be decided again, or None."""
        if not self._fresh():
            return STALE_RETRY_SECONDS
        await self._binder.find_out(key)
        workload = self._ours(key)
        if workload is None:
            return None
        if (held := self._permits.held(key)) is not None and not self._waiters.due(held):
            found = await self._waiters.resume(held)
            if not isinstance(found, list):
                return found
            for decision in found:  # an event may have woken it while it waited
                self._park(decision, alone=len(found) == 1)
            return await self._write(key, found)
        objection = await self._admission.review(workload.metadata)
        async with self._cycles.turn() as cycle:
            await self._waiters.closed()
            workload = self._ours(key)  # changed during the review, or while this turn was awaited
            if workload is None or self._permits.held(key) is not held:
                return None
            if held is not None and not self._waiters.due(held):
                return AGAIN_SECONDS
            with self._waiters.reopened(held) as decided:
                said = objection.message if objection else ""
                batch = await self._decide(workload, said, cycle, anew=held is not None)
                decided.update(decision.unit.key for decision in batch.decisions)
                decisions, waits = self._count(key, batch)
        self._await(key, batch.busy)
        if not decisions:
            return AGAIN_SECONDS if batch.moved else None
        write = self._write(key, decisions) if waits is None else self._waiters.tell(waits)
        again = await write  # the first await since the decisions were counted
        return OBJECTION_RETRY_SECONDS if objection and not objection.lasting else again

    async def diagnosis(self, key: Key) -> Decision | None:
        """Return the decision that would be made of a Workload now. Writes and counts nothing.

        None where the Workload is not ours to decide, and where the cache changed too often
        meanwhile.
        """
        await self._waiters.closed()
        workload = self._workloads.get(key)
        if workload is None or not self._world.ours(workload):
            return None
        if (waiting := self._waiters.record(key)) is not None:
            return waiting
        objection = self._admission.objection(workload.metadata)
        steps = self._batch(workload, objection, Others(partner=self._may_join))
        decisions = (await in_slices(steps)).decisions
        return next((each for each in decisions if each.unit.key == key), None)

    def _ours(self, key: Key) -> Workload | None:
        """Return the Workload if it is ours to decide now; None also while it is in flight."""
        if key in self._in_work:
            self._in_work.missed(key, key)
            return None
        workload = self._workloads.get(key)
        if workload is not None and self._world.ours(workload):
            return workload
        self._queue.forget(key)
        return None

    async def _decide(
        self, workload: Workload, objection: str, cycle: Cycle, *, anew: bool
    ) -> Batch:
        """Return the decision, or those of the whole set that the Workload is decided with.

        `anew` says that this Workload's own set has released its reservations to be decided again.
        """
        started, begun = self._clock.monotonic(), set[Key]()
        open_, answered = list[HeapEntry[Key]](), frozenset[Key]()

        def begin(keys: Iterable[Key]) -> None:
            begun.update(keys)
            self._in_work.decide(begun)
            # The decision on the set answers what its other members were queued for.
            open_.extend(self._queue.active.withdraw(begun))

        others = Others(
            partner=self._may_join,
            busy=self._in_work.__contains__,
            deciding=self._in_work.deciding,
            begin=begin,
            current=self._current,
        )
        try:
            batch = await in_slices(self._batch(workload, objection, others), between=cycle.linger)
            # Another set has released what it reserved meanwhile: this decision may rest on room
            # that only looks free.
            if self._waiters.reopening and not anew:
                return Batch([], moved=True)
            answered = frozenset(decision.unit.key for decision in batch.decisions)
            return batch
        finally:
            DECISION_SECONDS.observe(self._clock.monotonic() - started)
            # Members without a decision keep their place in the queue.
            self._queue.active.put_back(each for each in open_ if each.key not in answered)
            self._world.offer(self._in_work.end(begun))

    def _batch(self, workload: Workload, objection: str, others: Others) -> Steps[Batch]:
        return decide_set(
            self._world,
            self._world.named(workload).unit,
            self._profiles,
            self._clock.now(),
            fault=objection or workload.fault,
            others=others,
        )

    def _may_join(self, key: Key) -> bool:
        """Whether another Workload may be decided as a member of the set."""
        held = self._workloads.get(key)
        return (
            held is not None
            and not held.fault
            and self._world.ours(held)
            and self._admission.reviewed(held.metadata)
            and self._permits.held(key) is None
            and not self._binder.unknown(key)
        )

    def _current(self, unit: WorkloadInfo) -> bool:
        """Whether `unit` is still what the last version of its object says."""
        held = self._workloads.get(unit.key)
        return held is not None and held.unit.version == unit.version and self._world.ours(held)

    def _await(self, key: Key, busy: Iterable[Key]) -> None:
        """Decide `key` again when the decisions of the busy Workloads are known."""
        for other in busy:
            if other in self._in_work:
                self._in_work.missed(other, key)
            else:
                self._world.offer([key])

    def _count(self, key: Key, batch: Batch) -> tuple[Sequence[Decision], Held | None]:
        """Reserve, permit and assume the decisions, without an await since they were made.

        Return what is to be written, and the set where Permit plugins hold it back.
        """
        if batch.conclusion is not None:
            batch.conclusion.note()
        status, held = self._permits.ask(
            batch.held or batch.decisions, batch.waits, late=batch.late
        )
        decisions = batch.held if held is not None and batch.held else batch.decisions
        if not status.ok:
            decisions = [untouched(d.unit, d.fleet, d.time, status) for d in decisions]
        alone = len(decisions) == 1 or batch.conclusion is not None
        in_vain = not self._queue.renewing(key)
        for decision in decisions:
            self._world.assume(decision.unit, decision.placements)
            self._log(decision)
            RENEWALS.inc(not in_vain)
            # Before the first await: an event during the write must find the Workload waiting.
            waits = self._park(decision, alone=alone, in_vain=in_vain)
            if waits and batch.moved:  # events meanwhile found it not waiting
                self._queue.again(self._world.rank(decision.unit))
        return decisions, held

    def _look_after(self, key: Key, seconds: float) -> None:
        unit = self._world.unit(key)
        if unit is not None:
            self._queue.add_after(self._world.rank(unit), seconds)

    async def _write(self, key: Key, decisions: Sequence[Decision]) -> float | None:
        """Write the decisions; return the seconds until a plugin may learn more of `key`, or None.

        The other Workloads of the set are queued for their own times.
        """
        for decision in decisions:
            if not decision.scheduled:
                self._queue.explained(decision.unit.key)
        await self._binder.commit(decisions)
        looks: dict[Key, float | None] = {}
        for unit in (decision.unit for decision in decisions):
            about = (self._profiles[unit.scheduler_name], unit, self._clock.now())
            again = runtime.next_look(*about)
            looks[unit.key] = again
            if again is not None and unit.key != key:
                self._queue.add_after(self._world.rank(unit), again)
        return looks[key]

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's change; the cache's own handler has run before."""
        self._waiters.workload_changed(old, new)

    def rest(self) -> None:
        self._waiters.rest()
        self._binder.rest()

    def _park(self, decision: Decision, *, alone: bool, in_vain: bool = True) -> bool:
        """Let the Workload wait for what could help it; return whether it waits for an event."""
        unit = decision.unit
        if decision.reason is ScheduledReason.PLUGIN_ERROR:
            self._refusals.park(unit, decision.reason)
            return True
        awaits = awaited(decision, self._hints[unit.scheduler_name], alone=alone)
        if awaits is None:
            self._queue.settle(unit.key)
        else:
            self._queue.park(self._world.rank(unit), unit, awaits, in_vain=in_vain)
        return awaits is not None

    def _log(self, decision: Decision) -> None:
        _COUNT[decision.reason].inc()
        about = {"object": "/".join(decision.unit.key)}
        LOG.debug("%s: %s", decision.reason.value, decision.message, extra=about)
        if LOG.isEnabledFor(logging.DEBUG):
            filters = self._profiles[decision.unit.scheduler_name].names.get("filter", ())
            LOG.debug("filters in their order: %s", " ".join(filters), extra=about)
            if order := decision.assignment_order():
                LOG.debug("units go to %s", " ".join(order), extra=about)
        if self._flags.debug_scores and len(decision.ranking):
            LOG.info("%s", decision.table(self._flags.debug_scores), extra=about)


def awaited(decision: Decision, hints: Hints, *, alone: bool) -> Awaits | None:
    """Return the events that could place more of the Workload.

    None where it has all that it wants, or only an edit helps.
    """
    if decision.reason is ScheduledReason.INVALID_WORKLOAD:
        return None
    if decision.scheduled and not decision.unit.everywhere:  # a new cluster is a new place for it
        return None
    changed = bool(decision.changes)
    # What refused one member of a set may be what another one lacks.
    if not alone:
        return hints.all(changed=changed)
    return hints.of(decision.kept_out_by(), changed=changed)
