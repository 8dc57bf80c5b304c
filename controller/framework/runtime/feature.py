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
from crds.names import SYSTEM_NAMESPACE
from machinery.api.resources import Resource
from machinery.clock import Clock
from machinery.errors import ConfigurationError
from machinery.runtime.event_recorder import EventRecorder
from machinery.runtime.informer import Informer

if TYPE_CHECKING:
    from machinery.api.verbs import Verbs


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


@runtime_checkable
class Places(Protocol):
    """Optional for a feature: kinds whose objects get clusters as Workloads do."""

    @property
    def places(self) -> Sequence[PlacedKind]:
        """The kinds; the feature's own `watches` of them hear of a change before the scheduler."""
        ...


def placed_kinds(features: Iterable[Feature]) -> list[PlacedKind]:
    """Return the kinds that they place. Raises ConfigurationError where two place one kind."""
    found = [kind for each in features if isinstance(each, Places) for kind in each.places]
    for kind in found:
        if sum(other.resource == kind.resource for other in found) > 1:
            raise ConfigurationError(f"{kind.resource.plural} are placed by two features")
    return found


def told_of_placed(features: Iterable[Feature]) -> list[Handler]:
    """Return the handlers that get objects of placed kinds as Workloads."""
    return [watch.handler for each in features for watch in each.watches if watch.placed]


class Running(Protocol):
    """The work of a feature while this instance leads."""

    async def run(self) -> None:
        """Run until cancelled."""
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
        """The ledgers that the cache feeds; at most one of a type."""
        ...

    @property
    def watches(self) -> Sequence[Watch]:
        """The kinds that it reads."""
        ...

    def attach(self, handle: Handle) -> None:
        """Called once, before anything is watched; never in a dry run."""
        ...

    def lead(self, term: Term) -> Running | None:
        """Called when a term begins; return None where there is nothing to do in it."""
        ...

    def stop_leading(self) -> None:
        """Called when the term is over."""
        ...
