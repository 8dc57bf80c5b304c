"""Which replicas count to each subset: those that run, that come, and that do not go. Pure.

A replica counts while a member runs it, and for `CREATE_SECONDS` while it is created. One that is
taken back counts again if its member still has it after `DELETE_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np

from controller.features.workloadspread.adaptive import UnschedulableUnits
from controller.features.workloadspread.compiled import CompiledSpread, replicas_of, subsets_of
from controller.features.workloadspread.entries import (
    Span,
    apart,
    entries_of,
    parted,
    stamp,
    units,
    unnamed,
)
from controller.model.objects import ClusterShare
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from crds.fields.shares import ShareState
from machinery.types.api import SubsetStatus
from machinery.types.bounds import MOST_UNITS, between

CREATE_SECONDS = 30
"""Seconds after which a replica that no member shows has failed to be created."""
DELETE_SECONDS = 15
"""Seconds after which a replica that was taken back, and that its member has, failed to be deleted.
"""
CREATE, DELETE = timedelta(seconds=CREATE_SECONDS), timedelta(seconds=DELETE_SECONDS)
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)


Range: TypeAlias = tuple[int, int, int]
"""(subset, above, last): the replicas `above + 1` to `last` of a cluster count to that subset."""


@dataclass(frozen=True, slots=True)
class Classes:
    subsets: Subsets
    snapshot: Snapshot

    @staticmethod
    def of(spread: CompiledSpread, snapshot: Snapshot, total: int) -> Classes:
        return Classes(subsets_of(spread, snapshot, total), snapshot)

    def cap(self, subset: int) -> int:
        return int(self.subsets.cap[subset])

    def held(self, placements: Mapping[str, int]) -> list[int]:
        counted, excess, _ = self.subsets.classified(replicas_of(placements, self.snapshot))
        replicas: list[int] = (counted + excess).sum(axis=1).tolist()
        return replicas

    def ranges(self, placements: Mapping[str, int]) -> Ranges:
        replicas = replicas_of(placements, self.snapshot)
        counted, excess, _ = self.subsets.classified(replicas)
        upper = np.vstack((counted, excess)).cumsum(axis=0)
        return Ranges(self.snapshot, upper - np.vstack((counted, excess)), upper)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Shape (2 * subsets, n), those in cap before the excess.

    The replicas above `above` up to `last` count to a subset.
    """

    snapshot: Snapshot
    above: Ints
    last: Ints

    def within(self, above: Ints, last: Ints) -> list[int]:
        """Return the replicas of each subset between these numbers, shape (n,)."""
        inside = np.minimum(self.last, last) - np.maximum(self.above, above)
        both = np.maximum(inside, 0).sum(axis=1).reshape(2, -1)
        replicas: list[int] = both.sum(axis=0).tolist()
        return replicas

    def of(self, cluster: str) -> Iterator[Range]:
        row = self.snapshot.row.get(cluster)
        if row is None:
            return
        subsets = len(self.last) // 2
        for place in np.flatnonzero(self.last[:, row] > self.above[:, row]).tolist():
            yield place % subsets, int(self.above[place, row]), int(self.last[place, row])


@dataclass(frozen=True, slots=True)
class SpreadTarget:
    """`leaving` are the stored placements that `placements` are about to replace."""

    total: int
    placements: Mapping[str, int]
    reports: Mapping[str, ClusterShare]
    decided: datetime | None = None
    leaving: Mapping[str, int] | None = None
    certain: bool = False


@dataclass(slots=True)
class Counted:
    """The replicas of one subset. Late ones move to `not_created` or `not_deleted`."""

    active: int = 0
    creating: list[Span] = field(default_factory=list)
    deleting: list[Span] = field(default_factory=list)
    stuck: list[Span] = field(default_factory=list)
    not_created: list[Span] = field(default_factory=list)
    not_deleted: list[Span] = field(default_factory=list)
    waiting: list[UnschedulableUnits] = field(default_factory=list)


def counted(
    spread: CompiledSpread,
    classes: Classes,
    target: SpreadTarget,
    before: Sequence[SubsetStatus],
    now: datetime,
) -> list[Counted]:
    told = {each.name: each for each in before}
    named = [told.get(each.name, SubsetStatus(each.name)) for each in spread.subsets]
    found = [Counted() for _ in named]
    creating = [entries_of(each.creating_pods, now) for each in named]
    stray = [entries_of(each.creating_pods, now) for each in before if each not in named]
    spans = list(apart(span for each in (*creating, *stray) for span in each))
    placements = _with_those_on_their_way(target, spans, now)
    ranges, snapshot = classes.ranges(placements), classes.snapshot
    replicas, (exist, came) = replicas_of(placements, snapshot), _shown(target, snapshot)
    running = np.minimum(replicas, came)  # the surge of a rolling update does not count
    of_each = ranges.within(running - np.minimum(replicas, exist), running)
    for each, number in zip(found, of_each, strict=True):
        each.active = number
    _note_waiting(found, ranges, target, now)
    if target.leaving is not None:
        spans = _with_new(spans, target, now)
    _count_coming(found, ranges, target, spans, creating, ranges.within(came, replicas))
    _count_going(found, classes, target, named, now)
    for each in found:
        each.creating, each.not_created = parted(each.creating, CREATE, now)
        each.deleting, each.not_deleted = parted(each.deleting, DELETE, now)
        each.stuck += each.not_deleted
        each.active += units(each.creating) + units(each.stuck)
    return found


def _with_those_on_their_way(
    target: SpreadTarget, spans: Iterable[Span], now: datetime
) -> Mapping[str, int]:
    if target.certain or target.leaving is not None:
        return target.placements
    most = dict(target.placements)
    for span in spans:
        # A decision older than the last one that was written is not written any more.
        superseded = target.decided is not None and span.since < target.decided
        if not superseded and span.since + CREATE > now:
            most[span.cluster] = max(most.get(span.cluster, 0), span.last)
    return most


def _shown(target: SpreadTarget, snapshot: Snapshot) -> tuple[Ints, Ints]:
    """Return the replicas that exist, and that ever came, shape (n,) each."""
    exist, came = np.zeros((2, len(snapshot)), dtype=np.int64)
    for name, report in target.reports.items():
        if (row := snapshot.row.get(name)) is not None:
            exist[row], came[row] = _seen(report)
    return exist, came


def _note_waiting(
    found: Sequence[Counted], ranges: Ranges, target: SpreadTarget, now: datetime
) -> None:
    """Add the replicas without a node: the last ones of their cluster."""
    for cluster, report in target.reports.items():
        placed, since = target.placements.get(cluster, 0), report.unschedulable_since
        away = report.state == ShareState.UNREACHABLE.value
        # A report on another number than the one placed is outdated, and says nothing.
        if since is None or report.replicas != placed or away:
            continue
        with_node = max(placed - report.unschedulable - report.refused, 0)
        for subset, above, last in ranges.of(cluster):
            if (replicas := min(last, placed) - max(above, with_node)) > 0:
                found[subset].waiting.append(
                    UnschedulableUnits(cluster, replicas, _moment(since, now))
                )


def _with_new(spans: Iterable[Span], target: SpreadTarget, now: datetime) -> list[Span]:
    before, after = target.leaving or {}, target.placements
    stay = {name: min(replicas, before.get(name, 0)) for name, replicas in after.items()}
    known = [each for span in spans for each in span.within(0, stay.get(span.cluster, 0))]
    new = (Span(name, stay[name] + 1, after[name], stamp(now)) for name in sorted(after))
    return [*known, *(span for span in new if len(span) > 0)]


def _count_coming(
    found: Sequence[Counted],
    ranges: Ranges,
    target: SpreadTarget,
    spans: Iterable[Span],
    told: Sequence[Sequence[Span]],
    unseen: Sequence[int],
) -> None:
    listed: list[list[Span]] = [[] for _ in found]
    for span in spans:
        _, came = _seen(target.reports.get(span.cluster))
        for subset, above, last in ranges.of(span.cluster):
            listed[subset] += span.within(max(above, came), last)
    for replicas, here, missing, entries in zip(found, listed, unseen, told, strict=True):
        replicas.creating = [*here, *unnamed(entries, missing - units(here))]


def _count_going(
    found: Sequence[Counted],
    classes: Classes,
    target: SpreadTarget,
    told: Sequence[SubsetStatus],
    now: datetime,
) -> None:
    deleting = [entries_of(each.deleting_pods, now) for each in told]
    stuck = [entries_of(each.stuck_pods, now) for each in told]
    if target.leaving is not None:
        deleting = [[*a, *b] for a, b in zip(deleting, _leaving(classes, target, now), strict=True)]
    listed = [
        (span, kept)
        for replicas, ends, stays in zip(found, deleting, stuck, strict=True)
        for spans, kept in ((ends, replicas.deleting), (stays, replicas.stuck))
        for span in spans
    ]
    reached: dict[str, int] = {}
    for span, kept in sorted(listed, key=lambda each: (each[0].cluster, each[0].first)):
        above = max(target.placements.get(span.cluster, 0), reached.get(span.cluster, 0))
        exist, _ = _seen(target.reports.get(span.cluster))
        kept.extend(span.within(above, exist))
        reached[span.cluster] = max(span.last, above)
    left = _beyond(target) - sum(units((*each.deleting, *each.stuck)) for each in found)
    for replicas, ends, stays in zip(found, deleting, stuck, strict=True):
        for spans, kept in ((ends, replicas.deleting), (stays, replicas.stuck)):
            others = unnamed(spans, left)
            left -= units(others)
            kept.extend(others)


def _beyond(target: SpreadTarget) -> int:
    placed = target.placements
    return sum(max(_seen(r)[0] - placed.get(n, 0), 0) for n, r in target.reports.items())


def _leaving(classes: Classes, target: SpreadTarget, now: datetime) -> list[list[Span]]:
    before, after = target.leaving or {}, target.placements
    ranges = classes.ranges(before)
    spans: list[list[Span]] = [[] for _ in classes.subsets.names]
    for cluster in sorted(before):
        kept = after.get(cluster, 0)
        for subset, above, last in ranges.of(cluster) if before[cluster] > kept else ():
            spans[subset] += Span(cluster, above + 1, last, stamp(now)).within(kept, last)
    return spans


def _seen(report: ClusterShare | None) -> tuple[int, int]:
    """Return the replicas that exist now, and those that ever came."""
    if report is None:
        return 0, 0
    finished = between(0, report.finished, MOST_UNITS)
    pods = max(report.current, report.scheduled + report.unschedulable)
    exist = between(0, max(pods, report.ready - finished), MOST_UNITS)
    return exist, exist + finished


def _moment(since: datetime, now: datetime) -> datetime:
    aware = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
    return min(max(aware, _FIRST_MOMENT), now)
