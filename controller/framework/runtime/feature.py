"""A feature: a kind of its own, with everything that belongs to it, in one folder.

The process loops over its features and knows none by name: it watches their kinds, feeds their
ledgers, makes their plugins, and runs what they have to do while this instance leads. A feature
imports the framework; nothing of the scheduler or the queue imports a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from controller.cache.ledger import Ledger
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.handle import Handle, PluginHandle
from controller.model.placed import PlacedKind
from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import Resource
from machinery.clock import Clock, SystemClock
from machinery.errors import ConfigurationError
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer

if TYPE_CHECKING:
    from machinery.api.verbs import Verbs


T = TypeVar("T")
Handler: TypeAlias = Callable[[Any, Any], None]
"""(the object before, the object now): None for one that is new, or gone."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a feature reads: decoded as `type_`, each change passed to `handler`.

    MemberClusters and Workloads are shared with the scheduler, which hears of a change first. A hub
    may lack any other kind. With `placed` a handler of Workloads also gets the objects of placed
    kinds, as the Workloads that decisions read.
    """

    resource: Resource
    type_: type[Any]
    handler: Handler
    placed: bool = False


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin of the default profile: at that point, ahead of the plugin `before`, or last."""

    point: str
    plugin: str
    weight: int = 1
    before: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of leadership. `check` raises LeaseLost; call it right before each write.

    `informer` returns that of a kind among the feature's watches; `recorder` records Events.
    `namespace` is that of our processes' Leases.
    """

    client: Verbs
    clock: Clock
    check: Callable[[], float | None]
    informer: Callable[[Resource], Informer[Any]]
    recorder: EventRecorder
    namespace: str = SYSTEM_NAMESPACE


class _Idle:
    """Stands in for the controller of a term: whatever is called does nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    pass


IDLE: Any = _Idle()


class Feature:
    """One for each process. Its plugins are pure, but for what they ask of it around the write.

    An object that has these members without being a subclass is a feature as well; it may lack
    `places`.

    Attributes:
        plugins: its plugins by name.
        defaults: where the default profile enables them.
        ledgers: what the cache feeds; at most one of a type.
        places: kinds whose objects get clusters as Workloads do. Its own watches of them hear of a
            change before the scheduler.
        watches: the kinds that it reads; `watch` adds to them.
        handle: that of the process; before `attach`, and in a dry run, one that does nothing.
        controller: that of this term; while this instance does not lead, each of its methods does
            nothing and returns None.
    """

    plugins: Mapping[str, Factory] = {}
    defaults: Sequence[Enabled] = ()
    ledgers: Sequence[Ledger] = ()
    places: Sequence[PlacedKind] = ()
    watches: Sequence[Watch] = ()
    handle: Handle = PluginHandle(clock=SystemClock(), holder="", client=None, recorder=IDLE)
    controller: Any = IDLE

    def watch(
        self,
        resource: Resource,
        type_: type[T],
        changed: Callable[[T | None, T], None] | Handler,
        *,
        gone: Callable[[T], None] | None = None,
        placed: bool = False,
    ) -> None:
        """Have each change of that kind told to `changed`; with `gone` a deletion goes there."""

        def either(old: Any, new: Any) -> None:
            if new is None and gone is not None:
                gone(old)
            else:
                changed(old, new)

        handler = changed if gone is None else either
        self.watches = (*self.watches, Watch(resource, type_, handler, placed))

    def attach(self, handle: Handle) -> None:
        """Called once, before anything is watched; never in a dry run."""
        self.handle = handle

    def enabled(self, plugin: type[T]) -> list[T]:
        """Return the instances of a plugin, one for each profile that enables it."""
        return [each for each in self.handle.plugins if isinstance(each, plugin)]

    @property
    def leading(self) -> bool:
        """Whether a controller runs in this term."""
        return self.controller is not IDLE

    def start(self, term: Term) -> Any:
        """Return the controller of a term, which has `run()`; None where nothing is to be done."""
        return None

    def lead(self, term: Term) -> Any:
        """Called when a term begins; returns what is run until the term ends, or None."""
        started = self.start(term)
        self.controller = IDLE if started is None else started
        return started

    def stop_leading(self) -> None:
        """Called when the term is over."""
        self.controller = IDLE


def placed_kinds(features: Iterable[Feature]) -> list[PlacedKind]:
    """Return the kinds that they place. Raises ConfigurationError where two place one kind."""
    found = [kind for each in features for kind in getattr(each, "places", ())]
    for kind in found:
        if sum(other.resource == kind.resource for other in found) > 1:
            raise ConfigurationError(f"{kind.resource.plural} are placed by two features")
    return found


def told_of_placed(features: Iterable[Feature]) -> list[Handler]:
    """Return the handlers that get objects of placed kinds as Workloads."""
    return [watch.handler for each in features for watch in each.watches if watch.placed]
