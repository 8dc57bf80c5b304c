"""What a plugin or a feature may ask of the process that it lives in, leading or not.

Every factory is given the handle, before there are clusters or profiles: until the process has
begun, the fleet and the configuration are empty, and nobody is woken. `PluginHandle` is that of a
controller. `DryRunHandle` has no hub: `stowage plan` and the tests of a plugin use it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from controller.cache.placements import PlacementIndex
from controller.framework.events import Action
from controller.framework.interface import Plugin
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime import fencing
from controller.snapshot.builder import SnapshotBuilder
from controller.snapshot.snapshot import Snapshot
from machinery import metrics
from machinery.clock import Clock, SystemClock
from machinery.runtime.event_recorder import EventType, ObjectRef
from machinery.types.metadata import Key

if TYPE_CHECKING:
    from machinery.api.client import ApiClient

REMEMBERED = 1000
"""So many events, looks and announcements a rehearsal keeps, the last ones."""


class Recorder(Protocol):
    """Tells people of objects, as `kubectl get events` shows it."""

    def event(
        self,
        regarding: Mapping[str, Any] | ObjectRef,
        *,
        type: EventType,  # noqa: A002 - the API's own word
        reason: str,
        note: str,
        action: str,
    ) -> None:
        """Report an occurrence; returns at once."""
        ...


class Handle(Protocol):
    """What is asked of the process. All of it belongs to the one event loop."""

    @property
    def holder(self) -> str:
        """The name of this process, as no other one has it."""
        ...

    @property
    def clock(self) -> Clock:
        """What time it is, and how long things take."""
        ...

    @property
    def client(self) -> ApiClient | None:
        """Requests to the hub; None where decisions are only rehearsed."""
        ...

    @property
    def recorder(self) -> Recorder:
        """For events about objects of the hub."""
        ...

    @property
    def metrics(self) -> metrics.Shared:
        """Metrics of the plugin's own, at zero from the start."""
        ...

    @property
    def configuration(self) -> SchedulerConfiguration:
        """The profiles with their plugins; without any until all of them are made."""
        ...

    @property
    def plugins(self) -> Collection[Plugin]:
        """Every plugin of every profile, once."""
        ...

    def check(self) -> None:
        """Raise LeaseLost where this instance leads no more: call it right before each write.

        Also for what was begun in an earlier term and has not ended with it.
        """
        ...

    def controls(self, plugin: str) -> bool:
        """Whether the controllers of that plugin run where decisions are made.

        --controller-plugins chooses. A plugin that cannot do without its own refuses at PreFilter
        with the words of `switched_off`.
        """
        ...

    def fleet(self) -> Snapshot:
        """The clusters as they are now, decisions in flight counted. Never to be changed."""
        ...

    def index(self) -> PlacementIndex:
        """Who is placed where, with the ledgers of all features. Never to be changed."""
        ...

    def look(self, keys: Iterable[Key]) -> None:
        """Have these Workloads decided again; one that is unknown, or not ours, is no fault.

        Of very many, each has its turn soon.
        """
        ...

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Something happened to an object of the plugin's: wake those who wait for that.

        Where both versions are None no hint is asked.
        """
        ...


class SharedState(Protocol):
    """What all plugins of a process see: `controller.eventhandlers.SchedulerCache`."""

    index: PlacementIndex

    def fleet(self) -> Snapshot:
        """The clusters as they are now."""
        ...

    def offer_in_steps(self, keys: Iterable[Key]) -> None:
        """These must be decided."""
        ...

    def announce(self, kind: str, key: Key, action: Action, old: Any, new: Any) -> None:
        """Something happened to an object."""
        ...


class PluginHandle:
    """The handle of a process, and of a rehearsal where there is no `client`."""

    metrics = metrics.SHARED

    def __init__(
        self,
        *,
        clock: Clock,
        holder: str,
        client: ApiClient | None,
        recorder: Recorder,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._controls: Callable[[str], bool] = lambda _: True
        self.clock, self.holder = clock, holder
        self.client, self.recorder = client, recorder
        self.configuration = SchedulerConfiguration({})
        self._shared: SharedState | None = None

    def begin(self, shared: SharedState, configuration: SchedulerConfiguration) -> None:
        """From now on there is something to see. Before any informer has listed."""
        self._shared, self.configuration = shared, configuration

    @property
    def plugins(self) -> Collection[Plugin]:
        """See `Handle`."""
        profiles = self.configuration.profiles.values()
        every = (each for profile in profiles for each in profile.every_plugin())
        return {id(each): each for each in every}.values()

    def choose(self, controls: Callable[[str], bool]) -> None:
        """From now on it is known whose controllers run."""
        self._controls = controls

    def check(self) -> None:
        """See `Handle`."""
        fencing.check()
        self._check()

    def controls(self, plugin: str) -> bool:
        """See `Handle`."""
        return self._controls(plugin)

    def fleet(self) -> Snapshot:
        """See `Handle`."""
        return SnapshotBuilder().snapshot() if self._shared is None else self._shared.fleet()

    def index(self) -> PlacementIndex:
        """See `Handle`."""
        return PlacementIndex() if self._shared is None else self._shared.index

    def look(self, keys: Iterable[Key]) -> None:
        """See `Handle`."""
        if self._shared is not None:
            self._shared.offer_in_steps(keys)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """See `Handle`."""
        if self._shared is not None:
            self._shared.announce(kind, key, action, old, new)


def switched_off(plugin: str) -> str:
    """Why a plugin whose controllers do not run lets nothing in."""
    return (
        f"the controller of plugin {plugin} is switched off: let --controller-plugins of "
        "`stowage controller` choose it"
    )


def once(plugins: Iterable[Plugin]) -> Collection[Plugin]:
    """One plugin of each name, the first: what is done once for a process is done by that."""
    first: dict[str, Plugin] = {}
    for plugin in plugins:
        first.setdefault(plugin.name, plugin)
    return first.values()


class RecordedEvent(NamedTuple):
    """An event that a rehearsal has kept."""

    regarding: Mapping[str, Any] | ObjectRef
    type: str
    reason: str
    note: str
    action: str


class _Kept:
    """A recorder that writes nothing."""

    def __init__(self, events: deque[RecordedEvent]) -> None:
        self._events = events

    def event(
        self,
        regarding: Mapping[str, Any] | ObjectRef,
        *,
        type: EventType,  # noqa: A002 - as above
        reason: str,
        note: str,
        action: str,
    ) -> None:
        self._events.append(RecordedEvent(regarding, type, reason, note, action))


class DryRunHandle(PluginHandle):
    """A handle without a hub: remembers what was asked of it, and does nothing of it.

    `events`, `looked` and `announced` hold the last of each. Give it clusters by `begin`.
    """

    def __init__(self, *, clock: Clock | None = None, holder: str = "rehearsal") -> None:
        self.events: deque[RecordedEvent] = deque(maxlen=REMEMBERED)
        self.looked: deque[Key] = deque(maxlen=REMEMBERED)
        self.announced: deque[tuple[str, Key, Action]] = deque(maxlen=REMEMBERED)
        recorder = _Kept(self.events)
        super().__init__(
            clock=clock or SystemClock(), holder=holder, client=None, recorder=recorder
        )

    def look(self, keys: Iterable[Key]) -> None:
        """Remember them."""
        self.looked.extend(keys)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Remember it."""
        self.announced.append((kind, key, action))
