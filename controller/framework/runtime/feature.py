"""A feature: a kind of its own, with everything that belongs to it, in one folder.

The process loops over its features and knows none by name: it watches their kinds, feeds their
ledgers, makes their plugins, and runs what they have to do while this instance leads. A feature
imports the framework; nothing of the scheduler or the queue imports a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from controller.cache.ledger import Ledger
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.handle import Handle
from controller.model.placed import PlacedKind
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import ConfigurationError
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer

if TYPE_CHECKING:
    from machinery.api.client import ApiClient


Handler: TypeAlias = Callable[[Any, Any], None]
"""(the object before, the object now): None for one that is new, or gone."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a feature reads: decoded as `type_`, each change told to `handler`.

    MemberClusters and Workloads are shared with the scheduler, which hears of a change first. A hub
    may lack any other kind. With `placed` a handler of Workloads is told of the objects of placed
    kinds too, as the Workloads that decisions read.
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

    `informer` is that of a kind among the feature's watches; `recorder` tells people of objects.
    """

    client: ApiClient
    clock: Clock
    check: Callable[[], None]
    informer: Callable[[Resource], Informer[Any]]
    recorder: EventRecorder


@runtime_checkable
class Places(Protocol):
    """What a feature may have beside: kinds whose objects get clusters as Workloads do."""

    @property
    def places(self) -> Sequence[PlacedKind]:
        """They; its own `watches` of such a kind hear of a change before the scheduler does."""
        ...


def placed_kinds(features: Iterable[Feature]) -> list[PlacedKind]:
    """The kinds that they place. Raises ConfigurationError for one that two of them place."""
    found = [kind for each in features if isinstance(each, Places) for kind in each.places]
    for kind in found:
        if sum(other.resource == kind.resource for other in found) > 1:
            raise ConfigurationError(f"{kind.resource.plural} are placed by two features")
    return found


def told_of_placed(features: Iterable[Feature]) -> list[Handler]:
    """The handlers that are told of objects of placed kinds as of Workloads."""
    return [watch.handler for each in features for watch in each.watches if watch.placed]


class Running(Protocol):
    """What a feature does while this instance leads."""

    async def run(self) -> None:
        """Until cancelled."""
        ...


class Feature(Protocol):
    """One for each process. Its plugins are pure, but for what they ask of it around the write."""

    @property
    def plugins(self) -> Mapping[str, Factory]:
        """Its plugins by name."""
        ...

    @property
    def defaults(self) -> Sequence[Enabled]:
        """Where the default profile enables them."""
        ...

    @property
    def ledgers(self) -> Sequence[Ledger]:
        """What the cache is to feed; at most one of a type."""
        ...

    @property
    def watches(self) -> Sequence[Watch]:
        """The kinds that it reads."""
        ...

    def attach(self, handle: Handle) -> None:
        """Called once, before anything is watched; never where decisions are only rehearsed."""
        ...

    def lead(self, term: Term) -> Running | None:
        """A term begins; None where there is nothing to do in it."""
        ...

    def rest(self) -> None:
        """The term is over."""
        ...
