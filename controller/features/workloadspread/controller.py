"""The status of every WorkloadSpread: the replicas of its subsets, and the quota of decisions.

A decision takes its quota first: the status names the replicas that it is about to place, as a
compare-and-swap on the version that was read, and only then are the placements written. A conflict
means that another writer was faster; where that one changed the rules or marked a subset, the
Workload is decided again. A scheduler that dies between the two writes leaves replicas that never
come, and these count for a while only.

One spread is written by one turn at a time, and changes meanwhile go into the next turn; different
spreads are written side by side (`controller.framework.statuswriter`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from controller.cache.seenwaits import SeenWaits
from controller.claims.claims import WRITE_SECONDS
from controller.features.workloadspread.adaptive import rescheduled
from controller.features.workloadspread.compiled import CompiledSpread
from controller.features.workloadspread.counted import CREATE_SECONDS, Classes, SpreadTarget
from controller.features.workloadspread.ledger import Spreads
from controller.features.workloadspread.objects import WorkloadSpread
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
from controller.framework.statuswriter import Result, StatusWriter, answer
from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery import metrics
from machinery.api.resources import WORKLOAD_SPREADS, WORKLOADS
from machinery.clock import stored_time
from machinery.errors import TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

CALM_SECONDS = 1.0
"""How long a status may lag behind the reports of members."""
HELP_SECONDS = 5.0
"""The least time between two decisions of a Workload with waiting replicas for changed clusters."""

COMMITS = metrics.counter(
    "stowage_spread_commits",
    "Decisions that took the quota of a WorkloadSpread",
    ("outcome",),
    zero=[("written",), ("stale",)],
)


@dataclass(slots=True)
class _Commit:
    """A decision whose quota is being taken, or is taken: until its placements show."""

    spread: CompiledSpread
    workload: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    since: float
    done: asyncio.Future[bool]
    written: bool = False


class SpreadController(StatusWriter[WorkloadSpread]):
    """The spreads of a hub, for one term of leadership.

    A draft carries its commit, and whether no other commit can be under way.
    """

    action = "Spreading"

    def __init__(self, term: Term, *, spreads: Spreads, handle: Handle, mark_seconds: int) -> None:
        super().__init__(term, WORKLOAD_SPREADS, WorkloadSpread)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._spreads = spreads
        self._handle = handle
        self._mark_seconds = mark_seconds
        self._waits = SeenWaits(self._clock.now)
        self._commits: dict[Key, _Commit] = {}
        self._withdrawn: set[Key] = set()
        self._stranded: set[Key] = set()
        self._helped: set[Key] = set()

    async def run(self) -> None:
        """Write until cancelled, then refuse every commit that waits."""
        try:
            await super().run()
        finally:
            for commit in self._commits.values():
                answer(commit.done, False)

    def may_help(self) -> None:
        """Queue spreads with stranded replicas after a change of a cluster."""
        # All replicas of these Workloads have a cluster, so the scheduling queue does not retry
        # them.
        for key in self._stranded - self._helped:
            self.add(key, after=HELP_SECONDS)
        self._helped |= self._stranded

    def look_at_spreads_of(self, targets: Iterable[Key]) -> None:
        """Queue the spreads of these Workloads, which another spread may divide now."""
        for target in targets:
            holder = self._spreads.of(target)
            for each in (*((holder,) if holder else ()), *self._spreads.rivals(target)):
                self.add(each.key)

    def forget(self, key: Key) -> None:
        """Refuse the commit of a deleted spread, and forget the spread."""
        super().forget(key)
        self._end(key)
        for each in (self._withdrawn, self._stranded, self._helped):
            each.discard(key)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handle a change of a Workload, which may end a commit or change the counts."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        spread = self._spreads.of(known.metadata.key)
        if spread is None:
            return
        if old is None or new is None:
            self._waits.forget(known.metadata.key)
            self.look_at_spreads_of([known.metadata.key])
        else:
            self.add(spread.key, after=CALM_SECONDS)
            self._tell_of_moves(spread, old, new)
        commit = self._commits.get(spread.key)
        if commit is not None and (new is None or _over(commit, new)):
            del self._commits[spread.key]
            answer(commit.done, False)  # a deleted Workload is not written any more

    async def commit(
        self, spread: CompiledSpread, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> bool:
        """Take the quota of a decision on that spread; False means to decide again.

        Raises:
            TransportError: the hub refused or could not be reached.
        """
        if not self._stands(spread):
            COMMITS.labels("stale").inc()
            return False
        self._end(spread.key)
        began, done = self._clock.monotonic(), asyncio.get_running_loop().create_future()
        before, after = dict(info.present), dict(placements)
        commit = _Commit(spread, info.uid, before, after, began, done)
        self._commits[spread.key] = commit
        self.add(spread.key)
        granted = await done and self._clock.monotonic() - began < WRITE_SECONDS
        COMMITS.labels("written" if granted else "stale").inc()
        return granted

    def withdraw(self, spread: CompiledSpread, info: WorkloadInfo) -> None:
        """End the commit of a decision that was not written."""
        commit = self._commits.get(spread.key)
        if commit is not None and commit.workload == info.uid:
            self._end(spread.key)
            self.add(spread.key)

    def subsets(self, spread: CompiledSpread) -> Sequence[Mapping[str, Any]]:
        """Return the statuses of a spread's subsets as of now, with the quota that is being taken.

        Empty for a spread that does not divide its target.
        """
        stored = self._stored.get(spread.key)
        workload = self._workloads.get(spread.target)
        verdict = verdict_of(spread, self._spreads.of(spread.target), workload)
        if stored is None or not verdict.counts:
            return ()
        target = self._target(workload, self._commits.get(spread.key), certain=False)
        return self._look(spread, target, stored, self._clock.now()).statuses

    def draft(self, stored: WorkloadSpread) -> Result | None:
        """Return the status that follows from the stored objects, with the commit."""
        key, now = stored.metadata.key, self._clock.now()
        spread = self._spreads.get(key)
        if spread is None or spread.uid != stored.metadata.uid:
            self._end(key)
            return None
        commit = self._commit_of(spread)
        workload = self._workloads.get(spread.target)
        verdict = verdict_of(spread, self._spreads.of(spread.target), workload)
        certain = key in self._withdrawn
        target = self._target(workload, commit, certain=certain)
        look = self._look(spread, target, stored, now) if verdict.counts else NOTHING
        self._mind(spread, look)
        due = look.next_look
        return Result(
            fields=status_of(stored, look, verdict, now),
            events=[*look.events, *filter(None, [turned(stored, verdict)])],
            requeue_after=None if due is None else (due - now).total_seconds(),
            anyway=commit is not None and not commit.written,
            carry=(commit, certain),
        )

    def landed(self, key: Key, result: Result, *, written: bool) -> None:
        """Grant the commit of the draft."""
        commit, certain = result.carry
        if commit is not None:
            commit.written = True
            answer(commit.done, True)
        if certain:
            self._withdrawn.discard(key)

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        """Refuse the commit with the error: no part of the status can be left out."""
        self._fail(key, error)
        return False

    def failed(self, key: Key, result: Result | None, error: TransportError | None) -> None:
        """Refuse the commit, even without a draft, so that no decision waits for ever."""
        self._fail(key, False if error is None else error)

    def _target(
        self, workload: Workload | None, commit: _Commit | None, *, certain: bool
    ) -> SpreadTarget:
        """Return the Workload as it is, or as it is about to be.

        What waits for a node does so no longer than this term has seen it.
        """
        if workload is None:
            return SpreadTarget(0, {}, {}, certain=True)
        total, status = workload.info.replicas, workload.status
        reports = {each.name: each for each in status.clusters}
        for name, since in self._waits.of(workload).info.waits.items():
            reports[name] = msgspec.structs.replace(reports[name], unschedulable_since=since)
        if commit is None:
            decided = stored_time(status.decision.time)
            return SpreadTarget(total, workload.placements, reports, decided, certain=certain)
        leaving = None if commit.written else commit.before
        return SpreadTarget(total, commit.after, reports, leaving=leaving, certain=True)

    def _look(
        self, spread: CompiledSpread, target: SpreadTarget, stored: WorkloadSpread, now: datetime
    ) -> SpreadResult:
        classes = Classes.of(spread, self._handle.snapshot(), target.total)
        before, seconds = stored.status.subset_statuses, self._mark_seconds
        return subset_statuses(spread, classes, target, before, now, mark_seconds=seconds)

    def _mind(self, spread: CompiledSpread, look: SpreadResult) -> None:
        """Requeue the Workload where replicas are stranded and a changed cluster may help."""
        if not look.stranded:
            self._stranded.discard(spread.key)
        elif spread.key in self._helped:
            self._handle.look([spread.target])
        else:
            self._stranded.add(spread.key)
        self._helped.discard(spread.key)

    def _commit_of(self, spread: CompiledSpread) -> _Commit | None:
        """Return the valid commit; refuse one that is too old, or stands on another spread."""
        commit = self._commits.get(spread.key)
        if commit is None:
            return None
        late = self._clock.monotonic() - commit.since >= CREATE_SECONDS
        if late or not (commit.written or self._stands(commit.spread)):
            del self._commits[spread.key]
            answer(commit.done, False)
            return None
        return commit

    def _stands(self, spread: CompiledSpread) -> bool:
        """Return whether the spread of a decision still divides its target."""
        now = self._spreads.of(spread.target)
        return now is not None and _same(now, spread)

    def _end(self, key: Key) -> None:
        if (commit := self._commits.pop(key, None)) is not None:
            answer(commit.done, False)
            self._withdrawn.add(key)

    def _fail(self, key: Key, why: bool | TransportError) -> None:
        """Refuse a commit that is not written; the next draft takes it back if it was after all."""
        commit = self._commits.get(key)
        if commit is not None and not commit.written:
            answer(commit.done, why)
            self._end(key)

    def _tell_of_moves(self, spread: CompiledSpread, old: Workload, new: Workload) -> None:
        """Emit an event for replicas that left marked subsets for later ones."""
        if not spread.marked or old.placements == new.placements or spread.fault:
            return
        classes = Classes.of(spread, self._handle.snapshot(), new.info.replicas)
        before, after = classes.held(old.placements), classes.held(new.placements)
        event = rescheduled(spread, before, after)
        stored = self._stored.get(spread.key)
        if event is not None and stored is not None:
            self.emit(stored.metadata, event)


def _over(commit: _Commit, workload: Workload) -> bool:
    if workload.metadata.uid != commit.workload:
        return True
    return commit.written and workload.placements != commit.before


def _same(one: CompiledSpread, other: CompiledSpread) -> bool:
    """Return whether a decision on one spread is valid on the other."""
    return (one.key, one.uid, one.generation, one.marked) == (
        other.key,
        other.uid,
        other.generation,
        other.marked,
    )
