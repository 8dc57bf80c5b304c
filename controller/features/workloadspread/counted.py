"""Which units count to each subset: those that run, those that come, those that do not go. Pure.

Everything is reckoned anew from what is stored: where the units of the target are placed, what the
members report of them, and the moments that the spread's own status keeps. Nothing is added to a
count that stood there before, so whoever meddles with it, or dies between two writes, leaves
nothing wrong for long.

A unit counts while a member runs it, and while it is being created, for `CREATE_SECONDS` at most.
One that is taken back counts no longer, unless its member has it after `DELETE_SECONDS` still: then
it counts until it is gone. Quota that was taken for placements which never came is free again after
`CREATE_SECONDS` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

import numpy as np

from controller.cache.snapshot import Fleet
from controller.features.workloadspread.adaptive import Waiting
from controller.features.workloadspread.books import (
    NONE,
    Entries,
    Span,
    apart,
    by_cluster,
    entries_of,
    stamp,
)
from controller.features.workloadspread.compiled import Spread
from controller.features.workloadspread.objects import SubsetStatus
from controller.features.workloadspread.subsets import subsets_of, units_of
from controller.model.objects import ClusterShare
from controller.planner.subsets import Subsets
from crds.workload import ShareState
from machinery.types.bounds import MOST_UNITS, between

CREATE_SECONDS = 30
"""A unit that no member shows for so long has failed to be created."""
DELETE_SECONDS = 15
"""A unit that its member still has so long after it was taken back has failed to be deleted."""
CREATE, DELETE = timedelta(seconds=CREATE_SECONDS), timedelta(seconds=DELETE_SECONDS)
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)


Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""(subset, units), one after the other: the first units of a cluster, and those that follow."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The subsets of a spread over a fleet, read cluster by cluster."""

    subsets: Subsets
    fleet: Fleet

    @staticmethod
    def of(spread: Spread, fleet: Fleet, total: int) -> Classes:
        """For so many units in all."""
        return Classes(subsets_of(spread, fleet, total), fleet)

    def cap(self, subset: int) -> int:
        """The units that it takes; UNBOUNDED without a limit."""
        return int(self.subsets.cap[subset])

    def pieces(self, placements: Mapping[str, int]) -> dict[str, Pieces]:
        """Of each cluster that a subset matches: which of its units count to which."""
        found: dict[str, Pieces] = {}
        counted, excess, _ = self.subsets.classified(units_of(placements, self.fleet))
        for part in (counted, excess):
            rows, places = np.nonzero(part.T)
            for row, subset in zip(rows.tolist(), places.tolist(), strict=True):
                name, piece = self.fleet.names[row], (subset, int(part[subset, row]))
                found[name] = (*found.get(name, ()), piece)
        return found

    def held(self, placements: Mapping[str, int]) -> list[int]:
        """The units of each subset, excess included."""
        counted, excess, _ = self.subsets.classified(units_of(placements, self.fleet))
        units: list[int] = (counted + excess).sum(axis=1).tolist()
        return units


@dataclass(frozen=True, slots=True)
class Target:
    """The Workload as it is known: units wanted, where they are placed, what members report.

    `decided` is when the placements were. `leaving` are the placements before, where these are
    about to be written in their stead; `certain` says that no others can be on their way.
    """

    total: int
    placements: Mapping[str, int]
    reports: Mapping[str, ClusterShare]
    decided: datetime | None = None
    leaving: Mapping[str, int] | None = None
    certain: bool = False


@dataclass(slots=True)
class Counted:
    """The units of one subset. What is late is told no more under the name it had."""

    active: int = 0
    creating: Entries = NONE
    deleting: Entries = NONE
    stuck: Entries = NONE
    not_created: Entries = NONE
    not_deleted: Entries = NONE
    waiting: list[Waiting] = field(default_factory=list)


class _Seen(NamedTuple):
    """Units of a cluster that exist there now, ending ones included, and that ever came."""

    exist: int = 0
    came: int = 0


_NOTHING = _Seen()


def counted(
    spread: Spread,
    classes: Classes,
    target: Target,
    before: Sequence[SubsetStatus],
    now: datetime,
) -> list[Counted]:
    """The units of each subset, in their order."""
    seen = {name: _seen(report) for name, report in target.reports.items()}
    told = {each.name: each for each in before}
    named = [told.get(each.name, SubsetStatus(each.name)) for each in spread.subsets]
    found = [Counted() for _ in named]
    creating = [entries_of(each.creating_pods, now) for each in named]
    stray = [entries_of(each.creating_pods, now) for each in before if each not in named]
    spans = list(apart(span for each in (*creating, *stray) for span in each.spans))
    pieces = classes.pieces(_with_those_on_their_way(target, spans, now))
    for cluster, each in pieces.items():
        _count_running(found, each, seen.get(cluster, _NOTHING))
        _note_waiting(found, cluster, each, target, now)
    _count_coming(found, pieces, seen, by_cluster(_coming(target, spans, now)), creating)
    _count_going(found, classes, target, seen, named, now)
    for units in found:
        units.creating, units.not_created = units.creating.parted(CREATE, now)
        units.active += len(units.creating)
        units.deleting, units.not_deleted = units.deleting.parted(DELETE, now)
        units.stuck = units.stuck.plus(units.not_deleted)
        units.active += len(units.stuck)
    return found


def _with_those_on_their_way(
    target: Target, spans: Iterable[Span], now: datetime
) -> Mapping[str, int]:
    """The placements, and those that somebody took quota for and may still write.

    Nobody does who decided before the last decision that was written.
    """
    if target.certain or target.leaving is not None:
        return target.placements
    most = dict(target.placements)
    for span in spans:
        superseded = target.decided is not None and span.since < target.decided
        if not superseded and span.since + CREATE > now:
            most[span.cluster] = max(most.get(span.cluster, 0), span.last)
    return most


def _count_running(found: Sequence[Counted], pieces: Pieces, seen: _Seen) -> None:
    """Those that exist, as far as they are placed: what a rolling update adds counts nothing."""
    placed = sum(units for _, units in pieces)
    came, exist = min(placed, seen.came), min(placed, seen.exist)
    for subset, above, last in _ranges(pieces):
        found[subset].active += _overlap(above, last, came - exist, came)


def _note_waiting(
    found: Sequence[Counted], cluster: str, pieces: Pieces, target: Target, now: datetime
) -> None:
    """Units without a node are the last ones of their cluster.

    A report that speaks of another number than the one placed is on its way, and says nothing.
    """
    report, placed = target.reports.get(cluster), target.placements.get(cluster, 0)
    if report is None or report.replicas != placed or report.unschedulable_since is None:
        return
    if report.state == ShareState.UNREACHABLE.value:
        return
    since = _moment(report.unschedulable_since, now)
    for subset, above, last in _ranges(pieces):
        if units := _overlap(above, last, placed - report.unschedulable, placed):
            found[subset].waiting.append(Waiting(cluster, units, since))


def _coming(target: Target, spans: Iterable[Span], now: datetime) -> Iterator[Span]:
    """The units that are being created, or are about to be."""
    before = target.leaving
    if before is None:
        yield from spans
        return
    for span in spans:
        stay = min(before.get(span.cluster, 0), target.placements.get(span.cluster, 0))
        yield from span.within(0, stay)
    for cluster, units in target.placements.items():
        if units > (had := before.get(cluster, 0)):
            yield Span(cluster, had + 1, units, stamp(now))


def _count_coming(
    found: Sequence[Counted],
    pieces: Mapping[str, Pieces],
    seen: Mapping[str, _Seen],
    spans: Mapping[str, Sequence[Span]],
    told: Sequence[Entries],
) -> None:
    """Part them by subset; those that came are told no more."""
    listed: list[list[Span]] = [[] for _ in found]
    unseen = [0] * len(found)
    for cluster, each in pieces.items():
        came = seen.get(cluster, _NOTHING).came
        for subset, above, last in _ranges(each):
            unseen[subset] += max(last - max(above, came), 0)
            for span in spans.get(cluster, ()):
                listed[subset] += span.within(max(above, came), last)
    for units, here, missing, entries in zip(found, listed, unseen, told, strict=True):
        units.creating = Entries(tuple(here)).beside(entries, missing - sum(map(len, here)))


def _count_going(
    found: Sequence[Counted],
    classes: Classes,
    target: Target,
    seen: Mapping[str, _Seen],
    told: Sequence[SubsetStatus],
    now: datetime,
) -> None:
    """The units beyond the placements that exist still: they end, or have not ended in time."""
    deleting = [entries_of(each.deleting_pods, now) for each in told]
    stuck = [entries_of(each.stuck_pods, now) for each in told]
    listed = [
        (span, place, which)
        for which, kind in enumerate((deleting, stuck))
        for place, entries in enumerate(kind)
        for span in entries.spans
    ]
    listed += [(span, place, 0) for span, place in _leaving(classes, target, now)]
    kept: tuple[list[list[Span]], ...] = tuple([[] for _ in found] for _ in range(2))
    reached: dict[str, int] = {}
    for span, place, which in sorted(listed, key=lambda each: (each[0].cluster, each[0].first)):
        placed = target.placements.get(span.cluster, 0)
        above = max(placed, reached.get(span.cluster, 0))
        kept[which][place] += span.within(above, seen.get(span.cluster, _NOTHING).exist)
        reached[span.cluster] = max(span.last, above)
    left = sum(max(s.exist - target.placements.get(name, 0), 0) for name, s in seen.items())
    left -= sum(len(span) for kind in kept for spans in kind for span in spans)
    for place, units in enumerate(found):
        units.deleting = Entries(tuple(kept[0][place])).beside(deleting[place], left)
        left -= units.deleting.others
        units.stuck = Entries(tuple(kept[1][place])).beside(stuck[place], left)
        left -= units.stuck.others


def _leaving(classes: Classes, target: Target, now: datetime) -> Iterator[tuple[Span, int]]:
    """The units that are taken back now, and the subset that each was in."""
    before = target.leaving or {}
    fewer = {name for name, units in before.items() if units > target.placements.get(name, 0)}
    if not fewer:
        return
    pieces = classes.pieces(before)
    for cluster in sorted(fewer & pieces.keys()):
        for subset, above, last in _ranges(pieces[cluster]):
            span = Span(cluster, above + 1, last, stamp(now))
            for each in span.within(target.placements.get(cluster, 0), MOST_UNITS):
                yield each, subset


def _ranges(pieces: Pieces) -> Iterator[tuple[int, int, int]]:
    """(subset, the last unit before its own, its last unit), for each piece of a cluster."""
    above = 0
    for subset, units in pieces:
        yield subset, above, above + units
        above += units


def _overlap(above: int, last: int, other_above: int, other_last: int) -> int:
    return max(min(last, other_last) - max(above, other_above), 0)


def _seen(report: ClusterShare) -> _Seen:
    """Of a kind whose pods nobody knows, the units that are ready are those that exist."""
    finished = between(0, report.finished, MOST_UNITS)
    pods = max(report.current, report.scheduled + report.unschedulable)
    exist = between(0, max(pods, report.ready - finished), MOST_UNITS)
    return _Seen(exist, exist + finished)


def _moment(since: datetime, now: datetime) -> datetime:
    """As a member tells it: nothing waits from before the first cluster on, or from tomorrow on."""
    aware = since if since.tzinfo is not None else since.replace(tzinfo=UTC)
    return min(max(aware, _FIRST_MOMENT), now)
