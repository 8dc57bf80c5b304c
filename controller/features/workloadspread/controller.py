"""The status of every WorkloadSpread: the replicas of its subsets, and the quota of decisions.

A decision takes its quota first (`controller.claims.controller`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controller.claims.claims import Shares
from controller.claims.controller import QuotaRequest, QuotaWriter
from controller.features.workloadspread.adaptive import rescheduled
from controller.features.workloadspread.compiled import CompiledSpread, Spreads, WorkloadSpread
from controller.features.workloadspread.counted import CREATE_SECONDS, Classes, SpreadTarget
from controller.features.workloadspread.status import (
    NOTHING,
    SpreadResult,
    status_of,
    subset_statuses,
    turned,
    verdict_of,
)
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery import metrics
from machinery.api.resources import WORKLOAD_SPREADS, WORKLOADS
from machinery.clock import stored_time
from machinery.errors import TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

CALM_SECONDS = 1.0
"""Seconds that a status may lag behind the reports of members."""
HELP_SECONDS = 5.0
"""Seconds between two decisions of a Workload with waiting replicas for changed clusters."""

COMMITS = metrics.counter(
    "stowage_spread_commits",
    "Decisions that took the quota of a WorkloadSpread",
    ("outcome",),
    zero=[("written",), ("stale",)],
)


class SpreadController(QuotaWriter[WorkloadSpread]):
    action = "Spreading"
    outcomes = COMMITS

    def __init__(self, term: Term, *, spreads: Spreads, handle: Handle, mark_seconds: int) -> None:
        super().__init__(term, WORKLOAD_SPREADS, WorkloadSpread)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._spreads = spreads
        self._handle = handle
        self._mark_seconds = mark_seconds
        self._granted: dict[Key, QuotaRequest] = {}
        """The quota that is stored for placements that do not show yet."""
        self._released: dict[Key, bool] = {}
        """Stored quota of decisions that came to nothing; True once a draft is without it."""
        self._stranded: set[Key] = set()
        self._helped: set[Key] = set()

    def may_help(self) -> None:
        # All replicas of these Workloads have a cluster, so the scheduling queue does not retry
        # them.
        for key in self._stranded - self._helped:
            self.add(key, after=HELP_SECONDS)
        self._helped |= self._stranded

    def look_at_spreads_of(self, targets: Iterable[Key]) -> None:
        """Queue the spreads of these Workloads, which another spread may divide now."""
        for target in targets:
            for each in self._spreads.all_of(target):
                self.add(each.key)

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._granted.pop(key, None)
        self._released.pop(key, None)
        for each in (self._stranded, self._helped):
            each.discard(key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        spread = self._spreads.of(known.metadata.key)
        if spread is None:
            return
        if old is None or new is None:
            self.look_at_spreads_of([known.metadata.key])
        else:
            self.add(spread.key, after=CALM_SECONDS)
            self._tell_of_moves(spread, old, new)
        if new is None or (old is not None and old.metadata.uid != new.metadata.uid):
            self.refuse(spread.key)  # a deleted Workload is not written any more
        granted = self._granted.get(spread.key)
        if granted is not None and (new is None or _shows(granted, new)):
            del self._granted[spread.key]

    def quota_of(self, info: WorkloadInfo) -> Key | None:
        spread = self._spreads.of(info.key)
        return None if spread is None else spread.key

    def epoch_of(self, key: Key) -> Hashable:
        """Return the version of a spread; None for one that divides nothing."""
        spread = self._spreads.get(key)
        divides = spread is not None and self._spreads.of(spread.target) is spread
        return spread.epoch if spread is not None and divides else None

    def takes(self, info: WorkloadInfo, placements: Shares) -> bool:
        """Return True: replicas that leave are named, too."""
        return True

    def grant(self, key: Key, request: QuotaRequest) -> None:
        self._granted[key] = request

    def release(self, key: Key, info: WorkloadInfo) -> bool:
        granted = self._granted.get(key)
        if granted is None or granted.taken.uid != info.uid:
            return False
        del self._granted[key]
        self._released[key] = False
        return True

    def subsets(self, spread: CompiledSpread) -> Sequence[Mapping[str, Any]]:
        """Return the subsets' statuses as of now, with the quota that is being taken."""
        stored = self._stored.get(spread.key)
        workload = self._workloads.get(spread.target)
        verdict = verdict_of(spread, self._spreads.of(spread.target), workload)
        if stored is None or not verdict.counts:
            return ()
        waiting, draft = self._requests.get(spread.key, {}), self._drafts.get(spread.key)
        requests = {**(draft.carry if draft else {}), **waiting}
        target = self._target(spread.key, workload, requests, certain=False)
        return self._look(spread, target, stored, self._clock.now()).statuses

    def draft(self, stored: WorkloadSpread) -> Result | None:
        key, now = stored.metadata.key, self._clock.now()
        spread = self._spreads.get(key)
        if spread is None or spread.uid != stored.metadata.uid:
            self.refuse(key)
            self._granted.pop(key, None)
            return None
        requests = self.fresh(key)
        workload = self._workloads.get(spread.target)
        verdict = verdict_of(spread, self._spreads.of(spread.target), workload)
        certain = key in self._released
        target = self._target(key, workload, requests, certain=certain)
        look = self._look(spread, target, stored, now) if verdict.counts else NOTHING
        self._mind(spread, look)
        if certain:
            self._released[key] = True
        due = look.next_look
        return Result(
            fields=status_of(stored, look, verdict, now),
            events=[*look.events, *filter(None, [turned(stored, verdict)])],
            requeue_after=None if due is None else (due - now).total_seconds(),
            anyway=bool(requests),
            carry=requests,
        )

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        if self._released.get(key):
            del self._released[key]
        if any(request.done.done() for request in result.carry.values()):
            self._released[key] = False
        super().landed(key, result, written=written)

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        """Refuse the requests; the next draft takes back quota that was written after all."""
        if result is not None and result.carry:
            self._released[key] = False
        super().failed(key, result, error)

    def _target(
        self,
        key: Key,
        workload: Workload | None,
        requests: Mapping[Key, QuotaRequest],
        *,
        certain: bool,
    ) -> SpreadTarget:
        if workload is None:
            return SpreadTarget(0, {}, {}, certain=True)
        workload = self._handle.named(workload)
        total, status = workload.info.replicas, workload.status
        reports = {each.name: each for each in status.clusters}
        for name, since in workload.info.waits.items():
            if name in reports:
                reports[name] = msgspec.structs.replace(reports[name], unschedulable_since=since)
        for request in requests.values():
            after, before = request.taken.placements, request.before
            return SpreadTarget(total, after, reports, leaving=before, certain=True)
        if (granted := self._granted.get(key)) is not None:
            if self._clock.monotonic() - granted.taken.since < CREATE_SECONDS:
                return SpreadTarget(total, granted.taken.placements, reports, certain=True)
            del self._granted[key]
        decided = stored_time(status.decision.time)
        return SpreadTarget(total, workload.placements, reports, decided, certain=certain)

    def _look(
        self, spread: CompiledSpread, target: SpreadTarget, stored: WorkloadSpread, now: datetime
    ) -> SpreadResult:
        classes = Classes.of(spread, self._handle.snapshot(), target.total)
        before, seconds = stored.status.subset_statuses, self._mark_seconds
        return subset_statuses(spread, classes, target, before, now, mark_seconds=seconds)

    def _mind(self, spread: CompiledSpread, look: SpreadResult) -> None:
        if not look.stranded:
            self._stranded.discard(spread.key)
        elif spread.key in self._helped:
            self._handle.look([spread.target])
        else:
            self._stranded.add(spread.key)
        self._helped.discard(spread.key)

    def _tell_of_moves(self, spread: CompiledSpread, old: Workload, new: Workload) -> None:
        if not spread.marked or old.placements == new.placements or spread.fault:
            return
        classes = Classes.of(spread, self._handle.snapshot(), new.info.replicas)
        before, after = classes.held(old.placements), classes.held(new.placements)
        event = rescheduled(spread, before, after)
        stored = self._stored.get(spread.key)
        if event is not None and stored is not None:
            self.emit(stored.metadata, event)


def _shows(granted: QuotaRequest, workload: Workload) -> bool:
    same = workload.metadata.uid == granted.taken.uid
    return not same or workload.placements != granted.before
