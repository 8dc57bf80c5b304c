"""The events that an unschedulable Workload awaits: those of all plugins that refused it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from controller.framework.events import (
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
