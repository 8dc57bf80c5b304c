"""The refused Workloads, found by the events that they await; and what has happened since.

An event that helps nobody may still change what is to be said of those who wait for news of such an
object. They may be all, so none of them is looked at for it: only where they wait is noted, and the
moment.

A lot is parked where hundreds of events a second go by, so nobody is looked at for an event that he
does not await: who waits is kept by the resource, by the object or the namespace that matters to
him, and by the set of events that he shares with all who were refused by the same plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from controller.framework.events import ANY_RESOURCE, About, Action, Hint
from controller.model.unit import WorkloadInfo
from controller.queue.hints import Awaits
from machinery import logs
from machinery.types.metadata import Key

LOG = logs.get(__name__)
Topic: TypeAlias = str | Key | None
MANY = 16
"""Events of one resource at once beyond which nobody asks hints: waking is cheaper than asking."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What happened to one object since the last look; several things where `blurred`."""

    resource: str
    key: Key
    action: Action
    old: Any
    new: Any
    blurred: bool = False
    by: Key | None = None
    """The Workload whose doing it is: its own affairs wake it not."""

    def helps(self, unit: WorkloadInfo, hints: Sequence[Hint] | None) -> bool:
        """Whether this could help that unit, as far as these hints know."""
        if hints is None or self.blurred:
            return True
        return any(self._asks(hint, unit) for hint in hints)

    def _asks(self, hint: Hint, unit: WorkloadInfo) -> bool:
        """What a hint says. One that fails must not keep the unit waiting, nor anybody else."""
        try:
            return hint(unit, self.old, self.new)
        except Exception:
            LOG.exception("a hint failed", extra={"object": "/".join(unit.key)})
            return True


class News:
    """Events since the last look, one for each object."""

    def __init__(self) -> None:
        self._events: dict[tuple[str, Key], Happened] = {}

    def add(self, happened: Happened) -> None:
        """Take an event; a second one about the same object leaves only what kinds they were."""
        place = (happened.resource, happened.key)
        before = self._events.get(place)
        if before is not None:
            action = before.action | happened.action
            by = before.by if before.by == happened.by else None
            happened = Happened(*place, action, None, None, blurred=True, by=by)
        self._events[place] = happened

    def pending(self) -> Iterable[Happened]:
        """All of them, to look at."""
        return self._events.values()

    def take(self) -> list[Happened]:
        """All of them, and begin anew."""
        events, self._events = list(self._events.values()), {}
        counts: dict[str, int] = {}
        for each in events:
            counts[each.resource] = counts.get(each.resource, 0) + 1
        return [
            replace(e, old=None, new=None, blurred=True)
            if counts[e.resource] > MANY and not e.blurred
            else e
            for e in events
        ]


_Waiting: TypeAlias = dict[Key, WorkloadInfo]
_Place: TypeAlias = tuple[str, Topic]
_Line: TypeAlias = tuple[Awaits, About | None]


def _concerned(resource: str, key: Key) -> Iterator[_Place]:
    """Whom it could matter to: everybody, those in its namespace, those who wait for it."""
    for each in (resource, ANY_RESOURCE):
        for topic in (None, key[0], key):
            yield each, topic


def _topic(about: About | None, unit: WorkloadInfo) -> Topic:
    """The object or the namespace that matters to the unit; any, where the plugin fails to say."""
    try:
        return about(unit) if about else None
    except Exception:
        LOG.exception("what it awaits is not known", extra={"object": "/".join(unit.key)})
        return None


class UnschedulableWorkloads:
    """Units by what they await."""

    def __init__(self) -> None:
        self._lines: dict[_Place, dict[_Line, _Waiting]] = {}
        self._places: dict[Key, list[tuple[_Place, _Line]]] = {}
        self._moved: dict[_Place, int] = {}  # of places where somebody waits
        self.moment = 0
        """How many things have happened."""

    def put(self, key: Key, unit: WorkloadInfo, awaits: Awaits) -> None:
        """Let it wait for these, and for nothing else."""
        self.drop(key)
        places = []
        for resource, about in awaits.hints:
            place, line = (resource, _topic(about, unit)), (awaits, about)
            self._lines.setdefault(place, {}).setdefault(line, {})[key] = unit
            places.append((place, line))
        self._places[key] = places

    def drop(self, key: Key) -> None:
        """It waits no more."""
        for place, line in self._places.pop(key, ()):
            lines = self._lines[place]
            waiting = lines[line]
            del waiting[key]
            if not waiting:
                del lines[line]
                if not lines:
                    del self._lines[place]
                    self._moved.pop(place, None)

    def move(self, resource: str, key: Key) -> bool:
        """Something happened to that object; whether that could matter to anybody."""
        self.moment += 1
        reached = [place for place in _concerned(resource, key) if place in self._lines]
        self._moved.update(dict.fromkeys(reached, self.moment))
        return bool(reached)

    def moved(self, key: Key, since: int) -> bool:
        """Whether anything has happened since that moment to what it waits for."""
        return any(self._moved.get(place, 0) > since for place, _ in self._places.get(key, ()))

    def helps(self, key: Key, events: Iterable[Happened]) -> bool:
        """Whether one of the events could help that one."""
        for event in events:
            reached = set(_concerned(event.resource, event.key))
            for place, line in self._places.get(key, ()):
                hints = line[0].ask(place[0], line[1], event.action) if place in reached else ()
                unit = self._lines[place][line][key]
                if hints != () and key != event.by and event.helps(unit, hints):
                    return True
        return False

    def helped(self, events: Iterable[Happened]) -> Iterator[Key | None]:
        """Those whom one of the events could help, each once; None for each that it does not.

        So that whoever walks through a long line can pause in it.
        """
        found: set[Key] = set()
        whole: set[tuple[_Place, _Line]] = set()
        for event in events:
            for place, line, waiting in self._reached(event):
                hints = line[0].ask(place[0], line[1], event.action)
                if (place, line) in whole or hints == ():
                    continue
                if (hints is None or event.blurred) and event.by is None:
                    whole.add((place, line))
                for key, unit in waiting:
                    if key not in found and key != event.by and event.helps(unit, hints):
                        found.add(key)
                        yield key
                    else:
                        yield None

    def _reached(
        self, event: Happened
    ) -> Iterator[tuple[_Place, _Line, list[tuple[Key, WorkloadInfo]]]]:
        """Who awaits events of this resource, about this object; copies."""
        for place in _concerned(event.resource, event.key):
            for line, waiting in list(self._lines.get(place, {}).items()):
                yield place, line, list(waiting.items())
