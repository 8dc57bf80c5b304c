"""Reports a Workload's state to the hub, and removes the finalizer of deleted ones.

The status is written at once after a quiet time, at most once a second during changes, and in a
burst good news waits for the applies.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds.fields.shares import ShareState
from crds.workload import (
    EventReason,
    PropagatedReason,
    WorkloadCondition,
    WorkloadReadyReason,
)
from machinery import logs, metrics
from machinery.clock import Clock
from machinery.errors import Conflict, Forbidden, Invalid, TransportError
from machinery.kinds.workloadkinds import Rereading
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.conditions import find, holds
from machinery.types.metadata import Key
from propagator import telemetry
from propagator.dependencies.follower import Follower
from propagator.drift.records import DriftRecords
from propagator.hub.events import tell_of
from propagator.hub.workload_metadata import is_ours, record_of, with_members
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.outcome import Outcome
from propagator.removal.finalizer import Finalizer
from propagator.shares import Column
from propagator.status.aggregation import (
    behind,
    condition,
    new_generation,
    seconds_to_ready,
    status_of,
    undelivered_status,
    within_bytes,
)
from propagator.status.cluster_share import ReportedShare, share_of
from propagator.status.observation import Survey
from propagator.status.told_by_agent import ToldShare
from propagator.types.workload import Workload

LOG = logs.get(__name__)
SPACING_SECONDS = 1.0
GATHER_SECONDS = 0.3
"""Minimum seconds for which the progress of a good rollout is collected into one write."""
GATHERED_PER_SECOND = 250
"""Shares: a status of a thousand costs the hub's API server a quarter of a second, so its progress
is written every four.
"""
TIMES_A_WRITE = 10
"""A slow hub gets fewer writes: progress is collected for this many times the duration of a write.
"""
MOST_GATHER_SECONDS = 5.0
LONGEST_PAUSE = 60.0
"""The maximum seconds between two writes that the hub refuses."""
RELEASE_SECONDS = 5.0
"""Seconds until a released Workload that still exists is released again."""
STALE_SECONDS = 1.0
"""Seconds between two checks whether the view of the hub is up to date."""
SHARES_PER_SECOND = 2000
"""The rate at which shares are summed up: each outcome of a large Workload recounts all."""
FEW_SHARES = 10
"""So few are summed up at any time; of such a Workload nothing is kept while it rests."""
FIELDS_SECONDS = 10.0
"""Seconds between two writes that tell of nothing but other values of spec.statusFields."""
_WRITERS = 16
"""One namespace gets half of them at most."""
_MOST_NAMED = 20
BURST_OUTCOMES = 8
BURST_SECONDS = 0.5
"""So many outcomes in this time are a burst; one Workload applied by hand is none."""
LONGEST_BURST_SECONDS = 5.0
"""The maximum delay of a report, however long the burst lasts."""
BURST_CHECK_SECONDS = 1.0

TIME_TO_READY = metrics.histogram(
    "stowage_time_to_ready_seconds",
    "Time until a Workload was Ready, since it was not, or since its decision where it is new",
    buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
)


CONFLICTS = metrics.counter(
    "stowage_status_conflicts",
    "Reports of Workloads that lost a race with another writer, and were computed again",
)


class BurstDetector:
    """Counts outcomes of shares: in a burst, applies go before good news."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[float] = deque(maxlen=BURST_OUTCOMES)

    def count(self) -> None:
        self._last.append(self._clock.monotonic())

    def active(self) -> bool:
        full = len(self._last) == BURST_OUTCOMES
        return full and self._clock.monotonic() - self._last[0] <= BURST_SECONDS


@dataclass(slots=True)
class _Timing:
    """When a Workload is reported next, by the monotonic clock."""

    due: float = -math.inf
    begun: float | None = None
    """Since when there is news."""
    fields: float = -math.inf
    """When values of spec.statusFields were last written."""
    released: str = ""
    """The version whose finalizer was removed, and when."""
    released_at: float = 0.0


class Reporter:
    """Add a Workload's key to `queue` to have it reported or released."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        survey: Survey,
        finalizer: Finalizer,
        drift: DriftRecords,
        dependencies: Follower,
        rereading: Rereading,
    ) -> None:
        self._clock = context.clock
        self._recorder = context.recorder
        self._membership = context.membership
        self._registry = context.registry
        self._views = context.views
        self._workloads = workloads
        self._survey = survey
        self._finalizer = finalizer
        self._drift = drift
        self._dependencies = dependencies
        self._rereading = rereading
        self._fresh = context.fresh
        self._backoff = context.shares.backoff(
            tuple[str, str], clock=context.clock, base=SPACING_SECONDS, cap=LONGEST_PAUSE
        )
        self._outcomes: Column[Outcome] = context.shares.column(of_term=True)
        self._decisions: Column[str] = context.shares.column(of_term=True)
        """Those that shares were last reconciled with, where there are several shards."""
        self.reported: Callable[[Key], None] = lambda _: None
        """Called when the status tells all that this process sees of a Workload."""
        self._timing = context.shares.column(_Timing, of_term=True)  # of the Workload
        self._burst = BurstDetector(context.clock)
        self._write_seconds = 0.0
        self.queue: WorkQueue[Key] = WorkQueue(
            name="reports", clock=context.clock, flow=namespace_of, seats=_WRITERS
        )

    async def run(self) -> None:
        await work(self.queue, self._report, workers=_WRITERS, log=LOG)

    def record_outcome(self, workload: Workload, member: str, outcome: Outcome | None) -> None:
        """None: the share was removed."""
        uid = workload.uid
        self._note_decision(workload, member, outcome)
        if outcome is None or self._workloads.by_uid(uid) is None:
            self._outcomes.pop(uid, member)
        elif self._outcomes.get(uid, member) == outcome:
            return  # a sync that waits repeats its outcome
        else:
            self._outcomes.put(uid, member, outcome)
            self._burst.count()
        self.queue.add(workload.metadata.key)

    def _note_decision(self, workload: Workload, member: str, outcome: Outcome | None) -> None:
        if not self._membership.several:
            return
        uid, decision = workload.uid, workload.decided_by
        if outcome is None or self._workloads.by_uid(uid) is None:
            self._decisions.pop(uid, member)
        elif self._decisions.get(uid, member) != decision:
            self._decisions.put(uid, member, decision)
            self.queue.add(workload.metadata.key)

    def keeping(self, workload: Workload) -> set[str]:
        """Return the members with a share that waits for other clusters."""
        return {name for name, each in self._outcomes.of(workload.uid).items() if each.moves}

    def lacking(self, workload: Workload) -> set[str]:
        """Return the members with replicas that wait until they are gone elsewhere."""
        return {name for name, each in self._outcomes.of(workload.uid).items() if each.lacks}

    def all_lacking(self) -> list[tuple[str, Key]]:
        lacking = [
            (uid, name) for uid, name in self._outcomes if self._outcomes.at(uid, name).lacks
        ]
        found = ((name, self._workloads.by_uid(uid)) for uid, name in lacking)
        return [(name, workload.metadata.key) for name, workload in found if workload is not None]

    async def runs(self, workload: Workload) -> bool:
        return await self._survey.runs(workload, self._outcomes.of(workload.uid))

    async def _report(self, key: Key) -> float | None:
        workload = self._workloads.informer.get(key)
        if workload is None or not self._reports(workload):
            self.reported(key)
            return None
        about = workload.uid, ""
        if self._rereading.due:
            return STALE_SECONDS  # what its objects show may be judged by an old profile
        if self._backoff.remaining(about):
            return self._backoff.remaining(about)
        try:
            requeue_after = await self._release_or_report(workload)
        except Conflict:
            CONFLICTS.inc()
            raise  # no fault: the Workload changed, and the queue retries its key
        except TransportError as fault:
            LOG.warning("the hub took no report: %s", fault, extra={"object": workload.owner})
            if isinstance(fault, Invalid | Forbidden):
                self.reported(key)  # one Workload keeps no member from being Ready
            return self._backoff.failed(about)
        if requeue_after is None:
            self._backoff.reset(about)
        return requeue_after

    def _reports(self, workload: Workload) -> bool:
        if not self._membership.several:
            return True
        names = workload.clusters | self._finalizer.noted(workload)
        names |= self._registry.holders(workload.uid)  # of which the hub may know nothing
        names |= {each["cluster"] for each in workload.status.kept}
        if not workload.delivered:
            names |= workload.decided.keys()
        served = any(not self._views.elsewhere(name) for name in names)
        return served or (not names and self._membership.shard == 0)

    async def _release_or_report(self, workload: Workload) -> float | None:
        """Raises TransportError."""
        deleting = workload.metadata.deleting
        if deleting and self._fresh() and (gone := self._finalizer.given_up(workload)):
            # Noted as long as it is known: the MemberCluster goes, and counts as away then.
            await self._workloads.part(workload, self._finalizer.noted(workload) - gone)
            return None
        if deleting and not self._finalizer.awaited(workload):
            return await self._release(workload) if self._fresh() else STALE_SECONDS
        if workload.incomplete:
            return None
        if not _concerned(workload):
            self.reported(workload.metadata.key)
            return None
        return await self._bring_up_to_date(workload)

    async def _release(self, workload: Workload) -> float | None:
        """Raises TransportError."""
        if others := self._finalizer.elsewhere(workload):
            await self._workloads.part(workload, others)
            return None  # the shard of the last one releases it
        uid, version = workload.uid, workload.metadata.resource_version
        timing = self._timing.get(uid)
        if timing is not None and timing.released == version:
            left = timing.released_at + RELEASE_SECONDS - self._clock.monotonic()
            if left > 0:
                return left  # the event of its end is in flight
        self._timing.pop(uid)
        # Before the request: the watch may bring the end, and drop these, before the answer.
        witnesses = self._finalizer.witnesses(workload)
        await self._workloads.release(workload)
        # If the Workload is already gone, no event would drop the entry.
        if self._workloads.informer.get(workload.metadata.key) is workload:
            timing = self._timing.at(uid)
            timing.released, timing.released_at = version, self._clock.monotonic()
        if not is_ours(workload):
            return None
        _log_end(workload, witnesses)
        # Repeat if it stays: a starting API server that does not serve the kind yet answers as if
        # the object were gone.
        return RELEASE_SECONDS

    async def _bring_up_to_date(self, workload: Workload) -> float | None:
        timing, now = self._timing.at(workload.uid), self._clock.monotonic()
        if timing.due > now:
            return timing.due - now
        since = now if timing.begun is None else timing.begun
        if self._burst.active() and self._can_wait(workload):
            timing.begun = since
            left = since + LONGEST_BURST_SECONDS - now
            if left > 0:
                return min(left, BURST_CHECK_SECONDS)
        status = await self._status(workload)
        timing.due = now + len(status["clusters"]) / SHARES_PER_SECOND
        if not _news(workload, status):
            timing.begun = None
            rests = timing.fields + FIELDS_SECONDS <= now
            if rests and len(status["clusters"]) <= FEW_SHARES:
                self._timing.pop(workload.uid)
            self.reported(workload.metadata.key)
            return None
        timing.begun = since
        if (waits := self._waits(workload, status, timing, now)) > 0:
            return waits
        timing.due = now + SPACING_SECONDS
        written = await self._workloads.write_status(workload, status)
        # After the write: a retry of a refused one must not wait for `_patience` again.
        timing.begun = None
        self.reported(workload.metadata.key)
        if written:
            self._announce(workload, status)
            seconds = seconds_to_ready(workload, status, self._clock.now())
            if seconds is not None:
                TIME_TO_READY.observe(seconds, telemetry.exemplar(workload))
                telemetry.ready(workload, seconds)
        self._write_seconds += (self._clock.monotonic() - now - self._write_seconds) / 4
        return None

    def _waits(
        self, workload: Workload, status: Mapping[str, Any], timing: _Timing, now: float
    ) -> float:
        """Return seconds until the news may be written; 0 or less for now."""
        fields = _fields_of(status["clusters"]) != _fields_of(workload.status.clusters)
        if fields and not _news(workload, status, fields=False):
            left = timing.fields + FIELDS_SECONDS - now
        else:
            since = now if timing.begun is None else timing.begun
            left = since + self._patience(workload, status) - now
        if fields and left <= 0:
            timing.fields = now
        return left

    def _patience(self, workload: Workload, status: Mapping[str, Any]) -> float:
        least = min(TIMES_A_WRITE * self._write_seconds, MOST_GATHER_SECONDS)
        if _worse(workload, status):
            return 0.0
        if _under_way(status) or behind(status):
            return max(SPACING_SECONDS, least)
        if _urgent(workload, status):
            return 0.0
        return max(GATHER_SECONDS, len(status["clusters"]) / GATHERED_PER_SECOND, least)

    def _can_wait(self, workload: Workload) -> bool:
        outcomes = self._outcomes.of(workload.uid).values()
        if workload.metadata.deleting or any(each.reason is not None for each in outcomes):
            return False
        return condition(workload, WorkloadCondition.READY).get("status") != "True"

    async def _status(self, workload: Workload) -> dict[str, Any]:
        if not workload.delivered:
            seen = [each async for each in self._survey.delivered_by_others(workload)]
            return undelivered_status(workload, seen, self._clock.now())
        key, profile = workload.metadata.key, workload.profile
        before = self._survey.reported(workload)
        said = condition(workload, WorkloadCondition.PROPAGATED).get("observedGeneration", 0)
        outcomes = self._outcomes.of(workload.uid)
        shares = [
            share_of(seen, profile, before.get(seen.name, {}), said=said)
            async for seen in self._survey.seen(workload, outcomes)
        ]
        # No event announces that a pod has been ready, or a share unhealthy, for long enough.
        waits = (share.look_in for share in shares)
        if (soonest := min((s for s in waits if s is not None), default=None)) is not None:
            self.queue.add_after(key, soonest)
        drift = self._drift.told(workload, self._survey.drift(workload))
        if (over := self._drift.soonest(drift)) is not None:
            self.queue.add_after(key, over)
        found = [s.seen.name for s in shares if s.seen.leaving and s.seen.main is not None]
        if self._views.divided(workload):
            status = await self._shared_status(workload, shares, drift, said=said)
            return with_members(workload, status, found)
        status = status_of(
            workload,
            [share.told for share in shares],
            self._clock.now(),
            self._survey.kept(workload),
            drift,
            remark=self._dependencies.remark(workload),
        )
        # One teller alone knows more than it needs to store.
        status["clusters"], _ = within_bytes([share.entry for share in shares])
        dependencies = self._dependencies.reported(workload)
        if dependencies or workload.status.dependencies:
            status["dependencies"] = dependencies
        return with_members(workload, status, found)

    async def _shared_status(
        self,
        workload: Workload,
        shares: Sequence[ReportedShare],
        drift: Sequence[Mapping[str, Any]],
        *,
        said: int,
    ) -> dict[str, Any]:
        """Return the status that each of several shards computes from the same entries."""
        before = self._survey.reported(workload)
        outcomes = self._outcomes.of(workload.uid)
        decisions = self._decisions.of(workload.uid) if workload.leaves else {}
        entries = {}
        for share in shares:
            name = share.seen.name
            own = share.shared(before.get(name, {}), decisions.get(name))
            entries[name] = ToldShare(own, own)
        async for other in self._survey.told(workload, outcomes, said=said):
            entries[other.stored["name"]] = other
            if other.look_in is not None:
                self.queue.add_after(workload.metadata.key, other.look_in)
        ordered = [entries[name] for name in sorted(entries)]
        kept = self._survey.kept(workload)
        status = status_of(workload, [e.told for e in ordered], self._clock.now(), kept, drift)
        status["clusters"], _ = within_bytes([each.stored for each in ordered], shared=True)
        shard = self._membership.shard
        first = min(map(self._membership.owner, workload.clusters), default=shard) == shard
        dependencies = self._dependencies.reported(workload) if first else None
        if dependencies or workload.status.dependencies:
            told = workload.status.dependencies if dependencies is None else dependencies
            status["dependencies"] = told
        return status

    def _announce(self, workload: Workload, status: Mapping[str, Any]) -> None:
        self._announce_end(workload, status)
        was = condition(workload, WorkloadCondition.PROPAGATED)
        is_ = find(status, WorkloadCondition.PROPAGATED)
        if not is_:
            return  # nothing has ever been placed
        good, misfit = is_["status"] == "True", is_["reason"] == PropagatedReason.INVALID_OVERRIDE
        about = ("status", "reason", "observedGeneration") if misfit else ("status", "reason")
        unchanged = all(was.get(each) == is_.get(each) for each in about)
        if unchanged or _under_way(status):
            return
        reason = EventReason.PROPAGATED if good else EventReason.PROPAGATION_FAILED
        if misfit:
            reason = EventReason.INVALID_OVERRIDE
        note = is_["message"] if good else f"{is_['reason']}: {is_['message']}"
        names = workload.placements if good else self._troubled(workload, status)
        tell_of(self._recorder, workload, reason, note, warns=not good, clusters=names)

    def _announce_end(self, workload: Workload, status: Mapping[str, Any]) -> None:
        was = condition(workload, WorkloadCondition.READY)
        is_ = find(status, WorkloadCondition.READY)
        ended = _ENDS.get(is_.get("reason", ""))
        if ended is None or was.get("reason") == is_["reason"]:
            return
        failed = ended is EventReason.ENDED_IN_FAILURE
        names = {each["name"] for each in status["clusters"] if "ended" in each}
        note = is_["message"] if failed else f"it ended well on {', '.join(sorted(names)[:20])}"
        tell_of(self._recorder, workload, ended, note, warns=failed, clusters=names)

    def _troubled(self, workload: Workload, status: Mapping[str, Any]) -> set[str]:
        reason = find(status, WorkloadCondition.PROPAGATED)["reason"]
        outcomes = self._outcomes.of(workload.uid)
        found = {name for name, outcome in outcomes.items() if outcome.reason == reason}
        if reason == PropagatedReason.CLUSTER_UNREACHABLE:
            away = ShareState.UNREACHABLE.value
            found |= {each["name"] for each in status["clusters"] if each["state"] == away}
        return found


_ENDS = {
    WorkloadReadyReason.COMPLETED.value: EventReason.COMPLETED,
    WorkloadReadyReason.FAILED.value: EventReason.ENDED_IN_FAILURE,
}
_BAD = (ShareState.FAILED.value, ShareState.UNREACHABLE.value)
_BEGINNINGS = (
    PropagatedReason.PROPAGATING.value,
    PropagatedReason.NOT_REVIEWED.value,
    PropagatedReason.WAITING_FOR_GROUP.value,
)


def _log_end(workload: Workload, members: Sequence[str]) -> None:
    """Log each Workload that ends: no other trace of it remains."""
    named = ", ".join(members[:_MOST_NAMED]) or "no member"
    more = f" and {len(members) - _MOST_NAMED} more" if len(members) > _MOST_NAMED else ""
    LOG.info("ended: seen to be gone by %s%s", named, more, extra={"object": workload.owner})


def _concerned(workload: Workload) -> bool:
    if workload.status.observed.controller is not None:
        return True
    somewhere = workload.decided or workload.status.clusters or record_of(workload).entries
    return bool(somewhere or condition(workload, WorkloadCondition.PROPAGATED))


def _urgent(workload: Workload, status: Mapping[str, Any]) -> bool:
    if not holds(status, WorkloadCondition.PROPAGATED):
        was, is_ = condition(workload, WorkloadCondition.PROPAGATED), WorkloadCondition.PROPAGATED
        return was.get("reason") != find(status, is_).get("reason")
    ready = holds(status, WorkloadCondition.READY)
    was_ready = condition(workload, WorkloadCondition.READY).get("status") == "True"
    return ready is not was_ready or _waiting(status["clusters"]) > _waiting(
        workload.status.clusters
    )


def _worse(workload: Workload, status: Mapping[str, Any]) -> bool:
    return bool(_lost(status["clusters"]) - _lost(workload.status.clusters))


def _lost(clusters: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(each["name"], each["state"]) for each in clusters if each.get("state") in _BAD}


def _waiting(clusters: Sequence[Mapping[str, Any]]) -> int:
    return sum(entry.get("unschedulable", 0) for entry in clusters)


def _under_way(status: Mapping[str, Any]) -> bool:
    return find(status, WorkloadCondition.PROPAGATED).get("reason") in _BEGINNINGS


def _fields_of(clusters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {each["name"]: each["fields"] for each in clusters if each.get("fields")}


def _bare(clusters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in e.items() if key != "fields"} for e in clusters]


def _news(workload: Workload, status: Mapping[str, Any], *, fields: bool = True) -> bool:
    """`fields`: whether other values of spec.statusFields are news, too."""
    old = workload.status
    if fields:
        shares = status["clusters"] != old.clusters
        shares = shares or status.get("fieldsOmitted", old.fields_omitted) != old.fields_omitted
    else:
        shares = _bare(status["clusters"]) != _bare(old.clusters)
    return (
        new_generation(workload, status)
        or shares
        or status["conditions"] != workload.conditions
        or status["kept"] != old.kept
        or status.get("drift", old.drift) != old.drift
        or status.get("dependencies", []) != old.dependencies
        or status["ready"] != old.ready
        or status["readySummary"] != old.ready_summary
        or status["serviceExternalIP"] != old.service_external_ip
        or status.get("state", old.state) != old.state
        or "clusterSummary" in status
        or "clusters" in status.get("footprint", ())
    )
