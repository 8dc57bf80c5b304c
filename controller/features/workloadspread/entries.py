"""Replicas under way: those that no member has shown yet, and those that still end on one.

The replicas of a cluster are numbered from 1. The status of the spread keeps ranges of these
numbers, each with the moment since when it waits: `member-a/81-100`. So a thousand replicas that
came at once are one entry, and a restart knows since when each of them waits. Entries beyond the
allowed number are stored as a sum: `*/250`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from machinery.clock import stored_time, timestamp
from machinery.types.bounds import MOST_UNITS

OTHERS = "*"
"""Stands for the clusters that are not named: none can have this name."""
MOST_ENTRIES = 512
"""Entries of one kind in the status of a spread, over all subsets."""
LEAST_ENTRIES = 8
"""Entries that each subset may have, however many subsets there are."""
TOLERATED = timedelta(seconds=5)
"""How far ahead of ours the clock of another process may be."""
_ID = re.compile(r"(?P<cluster>[^/]{1,253})/(?P<first>\d{1,10})(?:-(?P<last>\d{1,10}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """The replicas `first` to `last` of a cluster, which wait since that moment."""

    cluster: str
    first: int
    last: int
    since: datetime

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        numbers = f"{self.first}-{self.last}" if self.last > self.first else str(self.first)
        return f"{self.cluster}/{numbers}"

    def within(self, above: int, most: int) -> Iterator[Span]:
        """Yield the part that lies in `above + 1` to `most`, if any."""
        first, last = max(self.first, above + 1), min(self.last, most)
        if first <= last:
            yield replace(self, first=first, last=last)


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a status under one name: the spans, the number of `others`, and since when."""

    spans: tuple[Span, ...] = ()
    others: int = 0
    since: datetime | None = None

    def __len__(self) -> int:
        return sum(map(len, self.spans)) + self.others

    def first(self, after: timedelta) -> datetime | None:
        """Return when the first of them will have waited for so long; None where there are none."""
        moments = [span.since for span in self.spans] + ([self.since] if self.since else [])
        return min(moments) + after if moments else None

    def parted(self, late: timedelta, now: datetime) -> tuple[Entries, Entries]:
        """Part them into those that have not waited for so long, and those that have."""
        young, old = (
            Entries(tuple(s for s in self.spans if (s.since + late <= now) is due))
            for due in (False, True)
        )
        if self.since is not None and self.since + late <= now:
            return young, replace(old, others=self.others, since=self.since)
        return replace(young, others=self.others, since=self.since), old

    def beside(self, told: Entries, most: int) -> Entries:
        """Add the unnamed replicas of another entry, at most so many."""
        others = max(min(told.others, most), 0)
        return replace(self, others=others, since=told.since) if others else self

    def plus(self, more: Entries) -> Entries:
        moments = [each for each in (self.since, more.since) if each]
        others = self.others + more.others
        return Entries((*self.spans, *more.spans), others, max(moments, default=None))

    def to_dict(self, most: int) -> dict[str, str]:
        """Return at most so many entries; of the rest only the number, and the last moment."""
        spans = joined(self.spans)
        room = most - 1 if self.others or len(spans) > most else most
        told = {str(span): timestamp(span.since) for span in spans[:room]}
        left = spans[room:]
        moments = [span.since for span in left] + ([self.since] if self.since else [])
        if others := self.others + sum(map(len, left)):
            told[f"{OTHERS}/{min(others, MOST_UNITS)}"] = timestamp(max(moments))
        return told


NONE = Entries()


def entries_of(stored: Mapping[str, str], now: datetime) -> Entries:
    """Read the valid entries of a status; each replica counts once.

    A moment that is unreadable, or in the future, is taken for now.
    """
    spans, others, latest = [], 0, None
    for text, said in stored.items():
        if (found := _ID.fullmatch(text)) is None:
            continue
        first = int(found["first"])
        since = stored_time(said, not_after=now + TOLERATED) or stamp(now)
        last = int(found["last"] or first)
        if found["cluster"] == OTHERS:
            others, latest = others + first, max(since, latest or since)
        elif 1 <= first <= last <= MOST_UNITS:
            spans.append(Span(found["cluster"], first, last, since))
    return Entries(tuple(apart(spans)), min(others, MOST_UNITS), latest)


def stamp(moment: datetime) -> datetime:
    """Round up to a whole second: a stored moment is never too early, so nothing ends early."""
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + timedelta(seconds=1)


def most_entries(subsets: int) -> int:
    """Return how many entries of one kind each of so many subsets may have."""
    return max(MOST_ENTRIES // max(subsets, 1), LEAST_ENTRIES)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Sort the spans, and join those that follow one another and wait equally long."""
    found: list[Span] = []
    for span in sorted(spans, key=_place):
        if found and _follows(found[-1], span):
            found[-1] = replace(found[-1], last=span.last)
        else:
            found.append(span)
    return found


def named(spans: Sequence[Span], most: int) -> str:
    """Return, for messages, `member-a/1-3, member-b/2 and 4 more`."""
    listed = joined(spans)
    text = ", ".join(map(str, listed[:most]))
    more = sum(map(len, listed[most:]))
    return f"{text} and {more} more" if more else text


def apart(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans without repeated numbers."""
    cluster, reached = "", 0
    for span in sorted(spans, key=_place):
        reached = reached if span.cluster == cluster else 0
        cluster = span.cluster
        yield from span.within(reached, MOST_UNITS)
        reached = max(reached, span.last)


def _place(span: Span) -> tuple[str, int]:
    return (span.cluster, span.first)


def _follows(one: Span, other: Span) -> bool:
    return (one.cluster, one.last + 1, one.since) == (other.cluster, other.first, other.since)
