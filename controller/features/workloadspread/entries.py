"""Replicas under way: those that no member has shown yet, and those that still end on one.

The replicas of a cluster are numbered from 1. The status has ranges of these numbers with the
moment since when each waits: `member-a/81-100`. Entries beyond the allowed number are a sum:
`*/250`.
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
"""Seconds that the clock of another process may be ahead of ours."""
_ID = re.compile(r"(?P<cluster>[^/]{1,253})/(?P<first>\d{1,10})(?:-(?P<last>\d{1,10}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
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


def entries_of(stored: Mapping[str, str], now: datetime) -> list[Span]:
    """Read the valid entries of a status.

    An unreadable or future moment is taken for now.
    """
    spans, others = list[Span](), list[Span]()
    for text, said in stored.items():
        if (found := _ID.fullmatch(text)) is None:
            continue
        first = int(found["first"])
        last = int(found["last"] or first)
        since = stored_time(said, not_after=now + TOLERATED) or stamp(now)
        if found["cluster"] == OTHERS:
            others.append(Span(OTHERS, 1, first, since))
        elif 1 <= first <= last <= MOST_UNITS:
            spans.append(Span(found["cluster"], first, last, since))
    return [*apart(spans), *unnamed(others, MOST_UNITS)]


def units(spans: Iterable[Span]) -> int:
    return sum(map(len, spans))


def unnamed(spans: Iterable[Span], most: int) -> list[Span]:
    """Return at most `most` replicas of clusters that are not named."""
    others = [span for span in spans if span.cluster == OTHERS]
    number = min(units(others), most)
    return [Span(OTHERS, 1, number, max(s.since for s in others))] if number > 0 else []


def first_due(spans: Iterable[Span], after: timedelta) -> datetime | None:
    first = min((span.since for span in spans), default=None)
    return None if first is None else first + after


def parted(spans: Sequence[Span], late: timedelta, now: datetime) -> tuple[list[Span], list[Span]]:
    due = [span for span in spans if span.since + late <= now]
    return [span for span in spans if span.since + late > now], due


def to_dict(spans: Sequence[Span], most: int) -> dict[str, str]:
    """Return at most `most` entries; of the rest the number and the last moment."""
    listed, others = joined(spans), unnamed(spans, MOST_UNITS)
    room = most - 1 if others or len(listed) > most else most
    told = {str(span): timestamp(span.since) for span in listed[:room]}
    if rest := [*listed[room:], *others]:
        last = timestamp(max(span.since for span in rest))
        told[f"{OTHERS}/{min(units(rest), MOST_UNITS)}"] = last
    return told


def named(spans: Sequence[Span], most: int) -> str:
    """Return, for messages, `member-a/1-3, member-b/2 and 4 more`."""
    listed = joined(spans)[:most]
    text, more = ", ".join(map(str, listed)), units(spans) - units(listed)
    if not more:
        return text
    return f"{text} and {more} more" if text else f"{more} more"


def stamp(moment: datetime) -> datetime:
    """Round up to a whole second, so nothing ends early."""
    whole = moment.replace(microsecond=0)
    return whole if whole == moment else whole + timedelta(seconds=1)


def most_entries(subsets: int) -> int:
    return max(MOST_ENTRIES // max(subsets, 1), LEAST_ENTRIES)


def joined(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted((s for s in spans if s.cluster != OTHERS), key=_place):
        at = (span.cluster, span.first, span.since)
        if found and (found[-1].cluster, found[-1].last + 1, found[-1].since) == at:
            found[-1] = replace(found[-1], last=span.last)
        else:
            found.append(span)
    return found


def apart(spans: Iterable[Span]) -> Iterator[Span]:
    cluster, reached = "", 0
    for span in sorted(spans, key=_place):
        reached = reached if span.cluster == cluster else 0
        cluster = span.cluster
        yield from span.within(reached, MOST_UNITS)
        reached = max(reached, span.last)


def _place(span: Span) -> tuple[str, int]:
    return (span.cluster, span.first)
