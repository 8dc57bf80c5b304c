"""Unschedulable Workloads by the events that they await: those of all plugins that refused them.

An index by resource, by the object or namespace that matters, and by set of events finds the
Workloads that await one. An event that helps no Workload may outdate messages: it only marks places
of the index with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from controller.framework.events import (
    ANY_RESOURCE,
    ANYTHING,
    PLAN_EVENTS,
    THE_PLAN,
    About,
    Action,
    EventHint,
    Hint,
)
from controller.framework.interface import EventsToRegister, Plugin
from controller.framework.profile import Profile
from controller.framework.runtime.framework import hinting
from controller.model.unit import WorkloadInfo
from machinery import logs
from machinery.types.metadata import Key


@dataclass(frozen=True, slots=True, eq=False)
class Awaits:
    hints: Mapping[tuple[str, About | None], Sequence[EventHint]]
    _asked: dict[tuple[str, About | None, Action], Sequence[Hint] | None] = field(
        default_factory=dict
    )

    @staticmethod
    def of(hints: Iterable[EventHint]) -> Awaits:
        found: dict[tuple[str, About | None], list[EventHint]] = {}
        for each in dict.fromkeys(hints):
            found.setdefault((each.event.resource, each.about), []).append(each)
        return Awaits(found)

    def ask(self, resource: str, about: About | None, action: Action) -> Sequence[Hint] | None:
        """Return the hints for an event, of which any may help.

        None means that it helps without a hint, () that it is not awaited.
        """
        place = (resource, about, action)
        if place not in self._asked:
            matching = [h for h in self.hints[resource, about] if h.event.action & action]
            asked = tuple(each.hint for each in matching if each.hint is not None)
            self._asked[place] = asked if len(asked) == len(matching) else None
        return self._asked[place]


NO_EVENT = Awaits({})
"""The Workload waits for an edit, or for the next resync."""
ANY_EVENT = Awaits.of(ANYTHING)


class Hints:
    def __init__(self, profile: Profile) -> None:
        refusing, hooks = profile.refusing(), profile.hooks()
        self._hooks = [plugin.name for plugin in hooks]
        registered = {
            plugin.name: _registered(plugin, profile.plugin_timeout)
            for plugin in (*refusing, *hooks)
        }
        self._registered = {THE_PLAN: PLAN_EVENTS, **registered}
        self._all = frozenset({THE_PLAN, *(plugin.name for plugin in refusing)})
        self._known: dict[tuple[frozenset[str], bool], Awaits] = {}

    def of(self, plugins: frozenset[str], *, changed: bool = True) -> Awaits:
        """Return the events that could lift the refusals of these plugins, or of any hook.

        If a hook has `changed` something, hints are skipped: they would get the stored Workload,
        not the refused one.
        """
        unasked = changed and bool(self._hooks)
        known = self._known.get((plugins, unasked))
        if known is None:
            names = [*plugins, *self._hooks]
            hints = chain(*(self._registered.get(name, ANYTHING) for name in names))
            known = Awaits.of(map(_unasked, hints) if unasked else hints)
            self._known[plugins, unasked] = known
        return known

    def all(self, *, changed: bool = True) -> Awaits:
        return self.of(self._all, changed=changed)


def _registered(plugin: Plugin, seconds: float) -> Sequence[EventHint]:
    if not isinstance(plugin, EventsToRegister):
        return ANYTHING
    return [
        each if each.hint is None else replace(each, hint=hinting(plugin, each.hint, seconds))
        for each in plugin.events_to_register()
    ]


def _unasked(hint: EventHint) -> EventHint:
    return EventHint(hint.event)


LOG = logs.get(__name__)
Topic: TypeAlias = str | Key | None
MANY = 16
"""More events of one resource than this requeue without hints, which is cheaper."""


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event of one object; several merged ones if `blurred`."""

    resource: str
    key: Key
    action: Action
    old: Any
    new: Any
    blurred: bool = False
    by: Key | None = None
    """The cause of the event, which is not requeued."""

    def helps(self, info: WorkloadInfo, hints: Sequence[Hint] | None) -> bool:
        if hints is None or self.blurred:
            return True
        return any(self._asks(hint, info) for hint in hints)

    def _asks(self, hint: Hint, info: WorkloadInfo) -> bool:
        try:
            return hint(info, self.old, self.new)
        except Exception:
            # A failing hint must not keep a Workload waiting.
            LOG.exception("a hint failed", extra={"object": "/".join(info.key)})
            return True


class PendingEvents:
    def __init__(self) -> None:
        self._events: dict[tuple[str, Key], QueuedEvent] = {}

    def add(self, event: QueuedEvent) -> None:
        place = (event.resource, event.key)
        before = self._events.get(place)
        if before is not None:
            action = before.action | event.action
            by = before.by if before.by == event.by else None
            event = QueuedEvent(*place, action, None, None, blurred=True, by=by)
        self._events[place] = event

    def pending(self) -> Iterable[QueuedEvent]:
        return self._events.values()

    def take(self) -> list[QueuedEvent]:
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


_Infos: TypeAlias = dict[Key, WorkloadInfo]
_Place: TypeAlias = tuple[str, Topic]
_Group: TypeAlias = tuple[Awaits, About | None]


def _concerned(resource: str, key: Key) -> Iterator[_Place]:
    for each in (resource, ANY_RESOURCE):
        for topic in (None, key[0], key):
            yield each, topic


def _topic(about: About | None, info: WorkloadInfo) -> Topic:
    """None for any, or if the plugin fails."""
    try:
        return about(info) if about else None
    except Exception:
        LOG.exception("what it awaits is not known", extra={"object": "/".join(info.key)})
        return None


class UnschedulableWorkloads:
    def __init__(self) -> None:
        self._groups: dict[_Place, dict[_Group, _Infos]] = {}
        self._places: dict[Key, list[tuple[_Place, _Group]]] = {}
        self._reached_at: dict[_Place, int] = {}  # only of places where a Workload waits
        self.event_seq = 0

    def add(self, key: Key, info: WorkloadInfo, awaits: Awaits) -> None:
        self.remove(key)
        places = []
        for resource, about in awaits.hints:
            place, group = (resource, _topic(about, info)), (awaits, about)
            self._groups.setdefault(place, {}).setdefault(group, {})[key] = info
            places.append((place, group))
        self._places[key] = places

    def remove(self, key: Key) -> None:
        for place, group in self._places.pop(key, ()):
            groups = self._groups[place]
            infos = groups[group]
            del infos[key]
            if not infos:
                del groups[group]
                if not groups:
                    del self._groups[place]
                    self._reached_at.pop(place, None)

    def note_event(self, resource: str, key: Key) -> bool:
        self.event_seq += 1
        reached = [place for place in _concerned(resource, key) if place in self._groups]
        self._reached_at.update(dict.fromkeys(reached, self.event_seq))
        return bool(reached)

    def reached_since(self, key: Key, since: int) -> bool:
        return any(self._reached_at.get(place, 0) > since for place, _ in self._places.get(key, ()))

    def helps(self, key: Key, events: Iterable[QueuedEvent]) -> bool:
        for event in events:
            reached = set(_concerned(event.resource, event.key))
            for place, group in self._places.get(key, ()):
                hints = group[0].ask(place[0], group[1], event.action) if place in reached else ()
                info = self._groups[place][group][key]
                if hints != () and key != event.by and event.helps(info, hints):
                    return True
        return False

    def helped(self, events: Iterable[QueuedEvent]) -> Iterator[Key | None]:
        """Yield each Workload that an event could help, once, and None for others."""
        found: set[Key] = set()
        whole: set[tuple[_Place, _Group]] = set()
        for event in events:
            for place, group, infos in self._reached(event):
                hints = group[0].ask(place[0], group[1], event.action)
                if (place, group) in whole or hints == ():
                    continue
                # The event requeues the whole group, so later events need not look at it.
                if (hints is None or event.blurred) and event.by is None:
                    whole.add((place, group))
                for key, info in infos:
                    if key not in found and key != event.by and event.helps(info, hints):
                        found.add(key)
                        yield key
                    else:
                        # Lets the caller pause in a long walk.
                        yield None

    def _reached(
        self, event: QueuedEvent
    ) -> Iterator[tuple[_Place, _Group, list[tuple[Key, WorkloadInfo]]]]:
        """Yield copies: the caller may pause while Workloads come and go."""
        for place in _concerned(event.resource, event.key):
            for group, infos in list(self._groups.get(place, {}).items()):
                yield place, group, list(infos.items())
