"""A feature: a kind with its ledgers, plugins and controllers, in one folder.

Every instance counts, so a standby decides at once when its turn comes; only the leader writes
statuses and claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from controller.cache.ledger import Ledger
from controller.framework.runtime.arguments import Factory
from controller.framework.runtime.handle import Handle
from controller.model.placed import PlacedKind
from crds.admission.validation import fault_of
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
"""(old object, new object); None if added or deleted."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a feature reads.

    The scheduler handles changes of MemberClusters and Workloads first. The hub may lack any other
    kind. With `placed`, a handler of Workloads also gets objects of placed kinds as Workloads.
    """

    resource: Resource
    type_: type[Any]
    handler: Handler
    placed: bool = False


@dataclass(frozen=True, slots=True)
class Enabled:
    """A default plugin at a point, ahead of the plugin `before`, or last."""

    point: str
    plugin: str
    weight: int = 1
    before: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of leadership.

    `check` raises LeaseLost; call it right before each write. `informer` returns that of a kind in
    the feature's watches. `namespace` is that of the processes' Leases.
    """

    client: Verbs
    clock: Clock
    check: Callable[[], float | None]
    informer: Callable[[Resource], Informer[Any]]
    recorder: EventRecorder
    namespace: str = SYSTEM_NAMESPACE


class _Idle:
    """Replaces the controller outside of a term. Its methods do nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: object, **__: object) -> None:
    pass


IDLE: Any = _Idle()


class Feature:
    """One per process. Its plugins are pure except around the write.

    Subclassing is optional. `places` may be missing.

    Attributes:
        defaults: where the default profile enables its plugins.
        ledgers: what the cache feeds; at most one of a type.
        places: kinds whose objects get clusters as Workloads do. Its own watches of them handle a
            change before the scheduler.
        handle: before `attach`, and in a dry run, one that does nothing.
        controller: that of this term; `IDLE` while this instance does not lead.
    """

    plugins: Mapping[str, Factory] = {}
    defaults: Sequence[Enabled] = ()
    ledgers: Sequence[Ledger] = ()
    places: Sequence[PlacedKind] = ()
    watches: Sequence[Watch] = ()
    handle: Handle = Handle(clock=SystemClock(), holder="", client=None, recorder=IDLE)
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
        """Pass each change of that kind to `changed`; deletions to `gone` if given."""

        def either(old: Any, new: Any) -> None:
            if new is None and gone is not None:
                gone(old)
            else:
                changed(old, new)

        handler = changed if gone is None else either
        self.watches = (*self.watches, Watch(resource, type_, handler, placed))

    def attach(self, handle: Handle) -> None:
        """Called once before anything is watched; never in a dry run."""
        self.handle = handle

    def enabled(self, plugin: type[T]) -> list[T]:
        """Return the plugin's instances, one per profile."""
        return [each for each in self.handle.plugins if isinstance(each, plugin)]

    @property
    def leading(self) -> bool:
        return self.controller is not IDLE

    def start(self, term: Term) -> Any:
        """Return the controller of a term, which has `run()`, or None."""
        return None

    def lead(self, term: Term) -> Any:
        """Called when a term begins. Returns what to run, or None."""
        started = self.start(term)
        self.controller = IDLE if started is None else started
        return started

    def stop_leading(self) -> None:
        self.controller = IDLE


def placed_kinds(features: Iterable[Feature]) -> list[PlacedKind]:
    """Return the placed kinds. Raises ConfigurationError if two features place one."""
    found = [kind for each in features for kind in getattr(each, "places", ())]
    for kind in found:
        if sum(other.resource == kind.resource for other in found) > 1:
            raise ConfigurationError(f"{kind.resource.plural} are placed by two features")
    return found


def told_of_placed(features: Iterable[Feature]) -> list[Handler]:
    """Return the handlers that get placed objects as Workloads."""
    return [watch.handler for each in features for watch in each.watches if watch.placed]


S = TypeVar("S", bound=msgspec.Struct)


def read_spec(stored: Any, form: type[S]) -> tuple[S, str]:
    """Decode a spec; return an empty one and the fault if a field is of another type."""
    try:
        return msgspec.convert(stored, form), ""
    except msgspec.ValidationError as e:
        text, _, path = str(e).partition(" - at `$")
        return form(), f"spec{path.removesuffix('`')}: {text}"


def checked_spec(kind: str, stored: Any, form: type[S]) -> tuple[S | None, str]:
    """Decode a spec, None if a field is of another type; return its first fault as well."""
    fault = fault_of(kind, stored)
    try:
        return msgspec.convert(stored, form), fault
    except msgspec.ValidationError as e:
        return None, fault or f"spec: {e}"
