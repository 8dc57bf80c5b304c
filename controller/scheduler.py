"""Decides one Workload after the other: read `Scheduler.schedule_one` first.

    next key            level-triggered: a key is the only input
    snapshot, decide    one Workload, or the set that it is decided with: `decide_set`
    reserve, permit     all decisions of a set together; the cache assumes them
    write               PreBind, one PATCH, PostBind; or the set waits for Permit plugins
    unschedulable       the queue keeps the Workload until an event may help it

Decisions are sequential from the snapshot to `SchedulerCache.assume`, while many writes are in
flight. If it is unknown whether a write was made, the decision counts until that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import networkx  # noqa: F401 - or the first set of Workloads would hold the loop to import it

from controller.admission import Admission
from controller.binding.decision_traces import exemplar
from controller.binding.statusupdater import StatusUpdater
from controller.binding.waiting import WaitingSet, WaitingSets
from controller.eventhandlers import SchedulerCache
from controller.framework.profile import Profile
from controller.framework.runtime import framework as runtime
from controller.framework.status import Status
from controller.framework.statuswriter import for_good
from controller.framework.waiting import PermitAnswer
from controller.http.server import Flags
from controller.model.objects import Workload
from controller.model.placed import SchedulableLister
from controller.model.unit import WorkloadInfo
from controller.queue.scheduling_queue import SchedulingQueue
from controller.queue.unschedulable import NO_EVENT, Awaits, Hints
from controller.scheduling.batch import decide_set
from controller.scheduling.decision import Decision, untouched
from controller.scheduling.sets import Batch, Others
from controller.scheduling.steps import Cycle, CycleLock, Steps, in_slices
from crds.workload import ScheduledReason
from machinery import logs, metrics, tracing
from machinery.clock import Clock
from machinery.errors import Conflict, TransportError
from machinery.runtime.heap import HeapEntry
from machinery.types.metadata import Key

LOG = logs.get(__name__)
STALE_RETRY_SECONDS = 2.0
AGAIN_SECONDS = 0.1
"""Seconds before a decision is retried that changes of the cache overtook."""
OBJECTION_RETRY_SECONDS = 30.0
"""Rights on the hub change without an event."""
RETRY_SECONDS = {ScheduledReason.PLUGIN_ERROR: 30.0, ScheduledReason.SCHEDULE_TIMEOUT: 10.0}
"""No event reports that a plugin works or answers again."""

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
    """Decides the keys of a queue for one term.

    `fresh` returns whether the view of the hub is recent enough.
    """

    def __init__(
        self,
        status_updater: StatusUpdater,
        *,
        queue: SchedulingQueue,
        workloads: SchedulableLister,
        cache: SchedulerCache,
        profiles: Mapping[str, Profile],
        admission: Admission,
        clock: Clock,
        flags: Flags,
        fresh: Callable[[], bool],
    ) -> None:
        self._status_updater = status_updater
        self._queue = queue
        self._in_flight = queue.in_flight
        self._workloads = workloads
        self._cache = cache
        self._profiles = profiles
        self._hints = {name: Hints(profile) for name, profile in profiles.items()}
        self._admission = admission
        self._clock = clock
        self._flags = flags
        self._fresh = fresh
        self._cycle_lock = CycleLock(clock=clock)
        self._waiting = WaitingSets(
            queue, workloads=workloads, cache=cache, profiles=profiles, clock=clock
        )
        # Decisions whose write may have been made, or may still be.
        self._unconfirmed: dict[Key, Decision] = {}

    async def schedule_one(self, key: Key) -> float | None:
        """Decide one Workload. Return the seconds until it must be decided again, or None."""
        if not self._fresh():
            return STALE_RETRY_SECONDS
        if self._cache.index.counting(key[0]):
            return AGAIN_SECONDS
        await self._confirm(key)
        workload = self._to_decide(key)
        if workload is None:
            return None
        waiting = self._waiting.set_of(key)
        if waiting is not None and not self._waiting.due(waiting):
            return await self._wait_on_permit(key, waiting)
        with tracing.span("review"):
            objection = await self._admission.review(workload.metadata)
        async with self._cycle_lock.turn() as cycle:
            await self._waiting.until_reserved()
            # It may have changed during the review or the wait for this turn.
            workload = self._to_decide(key)
            if workload is None or self._waiting.set_of(key) is not waiting:
                return None
            if waiting is not None and not self._waiting.due(waiting):
                return AGAIN_SECONDS
            with self._waiting.released(waiting) as decided:
                message = objection.message if objection else ""
                batch = await self._decide(workload, message, cycle, reopened=waiting is not None)
                decided.update(decision.workload.key for decision in batch.decisions)
                # No await between the decision and `assume`: no other decision counts on its room.
                decisions, waits = self._reserve_and_permit(batch)
                self._assume(key, batch, decisions)
        self._requeue_after(key, batch.busy)
        if not decisions:
            return AGAIN_SECONDS if batch.moved else None
        # In either case the first await since `assume` comes once the keys are in flight.
        if waits is None:
            retry = await self._binding_cycle(key, decisions)
        else:
            retry = await self._report_waiting(waits)
        return OBJECTION_RETRY_SECONDS if objection and not objection.lasting else retry

    def _to_decide(self, key: Key) -> Workload | None:
        if key in self._in_flight:
            self._in_flight.missed(key, key)
            return None
        workload = self._workloads.get(key)
        if workload is not None and self._cache.ours(workload):
            return workload
        self._queue.forget(key)
        return None

    # The scheduling cycle.

    async def _decide(
        self, workload: Workload, objection: str, cycle: Cycle, *, reopened: bool
    ) -> Batch:
        started, begun = self._clock.monotonic(), set[Key]()
        queued, answered = list[HeapEntry[Key]](), frozenset[Key]()

        def begin(keys: Iterable[Key]) -> None:
            begun.update(keys)
            self._in_flight.decide(begun)
            # The decision on the set answers what its other members were queued for.
            queued.extend(self._queue.active.withdraw(begun))

        others = Others(
            partner=self._may_join,
            busy=self._in_flight.__contains__,
            deciding=self._in_flight.deciding,
            begin=begin,
            current=self._current,
        )
        try:
            steps = self._steps(workload, objection, others)
            with tracing.span("decide", {"stowage.snapshot": self._cache.revision}):
                batch = await in_slices(steps, between=cycle.release_if_long)
            # Another set released its reservations meanwhile, or a ledger has begun to count: this
            # decision may use room that only looks free.
            reopening = self._waiting.reopening and not reopened
            if reopening or self._cache.index.counting(workload.metadata.namespace):
                return Batch([], moved=True)
            answered = frozenset(decision.workload.key for decision in batch.decisions)
            return batch
        finally:
            DECISION_SECONDS.observe(self._clock.monotonic() - started, exemplar(workload))
            # Members without a decision keep their place in the queue.
            self._queue.active.put_back(each for each in queued if each.key not in answered)
            self._cache.activate(self._in_flight.end(begun))

    def _steps(self, workload: Workload, objection: str, others: Others) -> Steps[Batch]:
        return decide_set(
            self._cache,
            self._cache.named(workload).info,
            self._profiles,
            self._clock.now(),
            fault=objection or workload.fault,
            others=others,
        )

    def _may_join(self, key: Key) -> bool:
        workload = self._workloads.get(key)
        return (
            workload is not None
            and not workload.fault
            and self._cache.ours(workload)
            and self._admission.reviewed(workload.metadata)
            and self._waiting.set_of(key) is None
            and key not in self._unconfirmed
        )

    def _current(self, info: WorkloadInfo) -> bool:
        workload = self._workloads.get(info.key)
        return (
            workload is not None
            and workload.info.version == info.version
            and self._cache.ours(workload)
        )

    def _reserve_and_permit(self, batch: Batch) -> tuple[Sequence[Decision], WaitingSet | None]:
        """Return the decisions, and the set if it waits.

        If a plugin refuses one, all are unreserved and report that refusal.
        """
        if batch.conclusion is not None:
            batch.conclusion.note()
        decisions = batch.held or batch.decisions
        reserved: list[Decision] = []
        asked: dict[Key, Mapping[str, Status]] = {}
        for decision in decisions:
            if not decision.moves:
                continue
            call = decision.arguments(self._profiles)
            status = runtime.reserve(*call)
            if status.ok:
                reserved.append(decision)
                status, asked[decision.workload.key] = runtime.permit(*call)
            if not status.ok:
                for each in reversed(reserved):
                    self._unreserve(each)
                return [
                    untouched(d.workload, d.snapshot, d.time, status) for d in batch.decisions
                ], None
        waits = {key: found for key, each in asked.items() if (found := {**each, **batch.waits})}
        if not waits:
            return batch.decisions, None
        return decisions, self._waiting.hold(
            decisions, waits, open_=bool(batch.waits), late=batch.late
        )

    def _assume(self, key: Key, batch: Batch, decisions: Sequence[Decision]) -> None:
        alone = len(decisions) == 1 or batch.conclusion is not None
        attempt = not self._queue.refreshing(key)
        for decision in decisions:
            self._cache.assume(decision.workload, decision.placements)
            self._log(decision)
            RENEWALS.inc(not attempt)
            # Before the first await: an event during the write must find the Workload waiting.
            waits = self._add_unschedulable(decision, alone=alone, attempt=attempt)
            if waits and batch.moved:  # events meanwhile did not find it waiting
                self._queue.requeue(self._cache.rank(decision.workload))

    def _requeue_after(self, key: Key, busy: Iterable[Key]) -> None:
        for other in busy:
            if other in self._in_flight:
                self._in_flight.missed(other, key)
            else:
                self._cache.activate([key])

    def _log(self, decision: Decision) -> None:
        _COUNT[decision.reason].inc()
        about = {"object": "/".join(decision.workload.key)}
        LOG.debug("%s: %s", decision.reason.value, decision.message, extra=about)
        if LOG.isEnabledFor(logging.DEBUG):
            filters = self._profiles[decision.workload.scheduler_name].names.get("filter", ())
            LOG.debug("filters in their order: %s", " ".join(filters), extra=about)
            if order := decision.assignment_order():
                LOG.debug("units go to %s", " ".join(order), extra=about)
        if self._flags.debug_scores and len(decision.ranking):
            LOG.info("%s", decision.table(self._flags.debug_scores), extra=about)

    # The binding cycle.

    async def _binding_cycle(self, key: Key, decisions: Sequence[Decision]) -> float | None:
        """Write the decisions. Return the seconds until `key` must be decided again, or None.

        Raises LeaseLost, and TransportError if a retry may help.
        """
        for decision in decisions:
            if not decision.scheduled:
                self._queue.message_written(decision.workload.key)
        await self._write(decisions)
        looks: dict[Key, float | None] = {}
        for decision in decisions:
            info, now = decision.workload, self._clock.now()
            due = runtime.next_look(self._profiles[info.scheduler_name], info, now)
            looks[info.key] = seconds = earliest(due, decision.moving.wait(now))
            if seconds is not None and info.key != key:
                self._queue.add_after(self._cache.rank(info), seconds)
        return looks[key]

    async def _write(self, decisions: Sequence[Decision]) -> None:
        left = {decision.workload.key: decision for decision in decisions}
        self._in_flight.begin(left)
        failed = conflict = False
        given_back = set[Key]()  # before the status has the reason
        try:
            for decision in decisions:
                if await self._written_or_refused(decision, given_back):
                    del left[decision.workload.key]
                    self._queue.active.forget(decision.workload.key)
        except TransportError as e:
            # After a conflict the newest version is known, so the Workload is decided again at
            # once.
            failed, conflict = True, isinstance(e, Conflict)
            raise
        finally:
            for key, decision in left.items():
                info, rank = decision.workload, self._cache.rank(decision.workload)
                workload = self._workloads.get(key)
                taken = decision.moves and key not in given_back
                # The write may still be made, so old and new shares both count.
                if failed and taken and workload and self._status_updater.unconfirmed(workload):
                    self._unconfirmed[key] = decision
                    self._cache.assume(info, info.most(decision.placements))
                else:
                    if taken:
                        self._unreserve(decision)
                    self._cache.restore(info, decision.placements, workload, at_once=conflict)
                self._queue.add_unschedulable(rank, info)
                if failed:
                    self._queue.retry(rank)
                else:
                    self._queue.requeue(rank)
            self._cache.activate(self._in_flight.end(d.workload.key for d in decisions))

    async def _written_or_refused(self, decision: Decision, given_back: set[Key]) -> bool:
        """Report a final refusal of the hub. False means retry."""
        try:
            return await self._bind(decision, given_back)
        except TransportError as e:
            if not for_good(e):
                raise
            if decision.workload.key not in given_back:
                self._unreserve(decision)
                given_back.add(decision.workload.key)
            invalid = decision.reason is ScheduledReason.INVALID_WORKLOAD
            await self._refused_by_hub(decision, e, decision.message if invalid else "")
            return True

    async def _bind(self, decision: Decision, given_back: set[Key]) -> bool:
        """PreBind, one write, PostBind, an Event. False if it could not be written."""
        info = decision.workload
        workload = self._workloads.get(info.key)
        if workload is None or workload.info.version != info.version:
            return False  # edited during the writes of its set
        patch = self._status_updater.patch(decision, workload)
        if patch is None:
            return True
        call = decision.arguments(self._profiles)
        if decision.moves:
            status = await runtime.pre_bind(*call)
            if not status.ok and not status.reasons:
                return False
            if not status.ok:
                self._unreserve(decision)
                given_back.add(info.key)
                self._undo(decision, status)
                await self._report_untouched(decision.workload, status)
                return True
        if not await self._status_updater.write(workload, patch):
            self._unreserve(decision)  # the Workload is gone
            return True
        if decision.moves:
            runtime.post_bind(*call)
        message = not self._queue.refreshed(info.key)
        self._status_updater.record(decision, patch, workload, message=message)
        return True

    def _unreserve(self, decision: Decision) -> None:
        if decision.moves:
            runtime.unreserve(*decision.arguments(self._profiles))

    async def _wait_on_permit(self, key: Key, waiting: WaitingSet) -> float | None:
        """Act on the Permit plugins' answers to a waiting set.

        Return the seconds until their deadline; if the set is written, until `key` must be decided
        again; or None.
        """
        now = self._clock.monotonic()
        if self._waiting.lost_cluster(waiting):
            self._waiting.give_back(waiting)
            return None
        answer = waiting.answer(now)
        if answer is PermitAnswer.WAITING:
            return await self._report_waiting(waiting)
        if answer is PermitAnswer.ALLOWED:
            decisions = self._waiting.release(waiting)
            for decision in decisions:  # an event may have requeued it during the wait
                self._add_unschedulable(decision, alone=len(decisions) == 1)
            return await self._binding_cycle(key, decisions)
        await self._reject(self._waiting.release_unreserved(waiting), waiting.refusal(now))
        return None

    async def _report_waiting(self, waiting: WaitingSet) -> float:
        """Report on each waiting member. Return the seconds until the deadline."""
        keys = list(waiting.decisions)
        self._in_flight.begin(keys)
        try:
            for key in keys:
                if self._waiting.set_of(key) is not waiting:
                    break  # edited during the write of another's status
                await self._report(waiting.record(key, self._clock.now()))
        finally:
            self._cache.activate(self._in_flight.end(keys))
        return max(waiting.deadline - self._clock.monotonic(), 0.0)

    async def _reject(self, decisions: Sequence[Decision], status: Status) -> None:
        """Those not reported are requeued."""
        keys = [decision.workload.key for decision in decisions]
        unreported = dict.fromkeys(keys)
        self._in_flight.begin(keys)
        try:
            for decision in decisions:
                self._undo(decision, status)
            for decision in decisions:
                await self._report_untouched(decision.workload, status)
                del unreported[decision.workload.key]
        finally:
            self._cache.activate(self._in_flight.end(keys).union(unreported))

    # Unschedulable Workloads.

    def _add_unschedulable(self, decision: Decision, *, alone: bool, attempt: bool = True) -> bool:
        """Return whether it waits for an event."""
        info = decision.workload
        if decision.reason is ScheduledReason.PLUGIN_ERROR:
            self._add_refused(info, decision.reason)
            return True
        awaits = awaited(decision, self._hints[info.scheduler_name], alone=alone)
        if awaits is None:
            self._queue.remove_unschedulable(info.key)
        else:
            self._queue.add_unschedulable(self._cache.rank(info), info, awaits, attempt=attempt)
        return awaits is not None

    def _add_refused(self, info: WorkloadInfo, reason: ScheduledReason, plugin: str = "") -> None:
        rank, hints = self._cache.rank(info), self._hints[info.scheduler_name]
        self._queue.add_unschedulable(rank, info, hints.of(frozenset({plugin})))
        if reason in RETRY_SECONDS:
            self._queue.add_after(rank, RETRY_SECONDS[reason])

    def _undo(self, decision: Decision, status: Status) -> None:
        info = decision.workload
        self._cache.restore(info, decision.placements, self._workloads.get(info.key))
        self._add_refused(info, status.reason, status.plugin)

    async def _report_untouched(self, info: WorkloadInfo, status: Status) -> None:
        await self._report(untouched(info, self._cache.snapshot(), self._clock.now(), status))

    async def _report(self, decision: Decision) -> None:
        """Write a decision that changes no share. Raises TransportError."""
        try:
            await self._status_updater.update(decision)
        except TransportError as e:
            if not for_good(e):
                raise
            await self._refused_by_hub(decision, e, decision.message)

    async def _refused_by_hub(
        self, decision: Decision, error: TransportError, message: str = ""
    ) -> None:
        """Wait for an edit or the next resync."""
        info = decision.workload
        workload = self._workloads.get(info.key)
        # Before the write below, whose answer would otherwise look like another writer's edit.
        self._cache.restore(info, decision.placements, workload)
        self._queue.add_unschedulable(self._cache.rank(info), info, NO_EVENT)
        if workload is None:
            return
        if workload.metadata.resource_version != info.version:  # another version was refused
            self._queue.activate([self._cache.rank(info)])
            return
        about = {"object": "/".join(info.key)}
        LOG.warning("the hub refuses its status: %s", error, extra=about)
        text = message or f"the hub refuses its status: {error}"
        status = Status(reasons=(text,), reason=ScheduledReason.INVALID_WORKLOAD)
        refusal = untouched(workload.info, self._cache.snapshot(), self._clock.now(), status)
        await self._status_updater.update_verdict(refusal, workload)

    # Unconfirmed decisions.

    async def _confirm(self, key: Key) -> None:
        """Find out whether the Workload's last decision was written. Undo it if not.

        Raises LeaseLost, and TransportError while the hub does not answer.
        """
        if key not in self._unconfirmed:
            return
        workload = self._workloads.get(key)
        if workload is not None:
            try:
                await self._status_updater.overtake(workload)
            except TransportError as e:
                if not for_good(e):  # else the hub accepts no such status at all
                    raise
        self._conclude(key)

    def _conclude(self, key: Key) -> None:
        decision, workload = self._unconfirmed.pop(key, None), self._workloads.get(key)
        if decision is None:
            return
        if workload is not None and workload.placements == dict(decision.placements):
            runtime.post_bind(*decision.arguments(self._profiles))  # it was written
        else:
            self._unreserve(decision)
        assumed = decision.workload.most(decision.placements)
        self._cache.restore(decision.workload, assumed, workload)

    # Calls from outside.

    async def diagnosis(self, key: Key) -> Decision | None:
        """Return the decision on a Workload if made now. Writes and counts nothing.

        None if the Workload is not ours, or the cache changed too often.
        """
        await self._waiting.until_reserved()
        workload = self._workloads.get(key)
        if workload is None or not self._cache.ours(workload):
            return None
        if (waiting := self._waiting.set_of(key)) is not None:
            return waiting.record(key, self._clock.now())
        objection = self._admission.objection(workload.metadata)
        steps = self._steps(workload, objection, Others(partner=self._may_join))
        decisions = (await in_slices(steps)).decisions
        return next((each for each in decisions if each.workload.key == key), None)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle an informer's change, after the cache's handler."""
        self._waiting.workload_changed(old, new)

    def close(self) -> None:
        """End the term: undo what is not written."""
        self._waiting.close()
        for key in list(self._unconfirmed):
            self._conclude(key)


def earliest(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def awaited(decision: Decision, hints: Hints, *, alone: bool) -> Awaits | None:
    """Return the events that could place more replicas.

    None if all have a cluster, or only an edit helps.
    """
    if decision.reason is ScheduledReason.INVALID_WORKLOAD:
        return None
    # A new cluster is a new place for a Workload that runs everywhere.
    if decision.scheduled and not (decision.workload.everywhere or decision.moving.stuck):
        return None
    changed = bool(decision.changes)
    # A member may wait for what another member lacks.
    if not alone:
        return hints.all(changed=changed)
    return hints.of(decision.kept_out_by(), changed=changed)
