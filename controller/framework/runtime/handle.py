"""The handle: what a plugin or a feature may ask of its process, leading or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from controller.cache.away import AwayClusters
from controller.cache.placements import PlacementIndex
from controller.framework.events import Action
from controller.framework.interface import Plugin
from controller.framework.profile import SchedulerConfiguration
from controller.framework.runtime import fencing
from controller.model.objects import Workload
from controller.snapshot.builder import SnapshotBuilder
from controller.snapshot.snapshot import Snapshot
from machinery import metrics
from machinery.clock import Clock, SystemClock
from machinery.runtime.event_recorder import EventType, ObjectRef
from machinery.types.metadata import Key

if TYPE_CHECKING:
    from machinery.api.client import ApiClient

REMEMBERED = 1000


class Recorder(Protocol):
    def event(
        self,
        regarding: Mapping[str, Any] | ObjectRef,
        *,
        type: EventType,  # noqa: A002 - the API's own word
        reason: str,
        note: str,
        action: str,
    ) -> None:
        """Record an occurrence. Returns at once."""
        ...


class SharedState(Protocol):
    """The state that plugins see: `controller.eventhandlers.SchedulerCache`."""

    index: PlacementIndex
    away: AwayClusters

    def snapshot(self) -> Snapshot: ...

    def named(self, workload: Workload) -> Workload: ...

    def holders(self, cluster: str) -> Collection[Key]: ...

    def activate_in_steps(self, keys: Iterable[Key]) -> None: ...

    def announce(self, kind: str, key: Key, action: Action, old: Any, new: Any) -> None: ...


class Handle:
    """The services of the process, for its event loop only; without a `client`, of a dry run.

    Args:
        clock: the hub's time if the local clock differs, and a monotonic clock.
        holder: the name of this process, unique among all.
        check: raises LeaseLost if this instance no longer leads.
    """

    metrics = metrics.SHARED
    """Metrics of the plugin's own, at zero from the start."""

    def __init__(
        self,
        *,
        clock: Clock,
        holder: str,
        client: ApiClient | None,
        recorder: Recorder,
        check: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._check = check
        self._controls: Callable[[str], bool] = lambda _: True
        self.clock, self.holder = clock, holder
        self.client, self.recorder = client, recorder
        self.configuration = SchedulerConfiguration({})
        """The profiles; empty until all plugins are made."""
        self._shared: SharedState | None = None

    def begin(self, shared: SharedState, configuration: SchedulerConfiguration) -> None:
        """Set the cache and the configuration. Called before any informer has listed."""
        self._shared, self.configuration = shared, configuration

    @property
    def plugins(self) -> Collection[Plugin]:
        """Every plugin of every profile, once."""
        profiles = self.configuration.profiles.values()
        every = (each for profile in profiles for each in profile.every_plugin())
        return {id(each): each for each in every}.values()

    def choose(self, controls: Callable[[str], bool]) -> None:
        self._controls = controls

    def check(self) -> None:
        """Raise LeaseLost if this instance no longer leads. Call it right before each write."""
        fencing.check()
        self._check()

    def controls(self, plugin: str) -> bool:
        """Whether --controller-plugins lets the plugin's controllers run.

        A plugin that needs them refuses at PreFilter with `switched_off`.
        """
        return self._controls(plugin)

    def snapshot(self) -> Snapshot:
        """Return the clusters, including assumed placements. Read only."""
        return SnapshotBuilder().snapshot() if self._shared is None else self._shared.snapshot()

    def index(self) -> PlacementIndex:
        """Return the placements with the ledgers of all features. Read only."""
        return PlacementIndex() if self._shared is None else self._shared.index

    def away(self) -> AwayClusters:
        """Return the clusters that shares name without a MemberCluster."""
        return AwayClusters() if self._shared is None else self._shared.away

    def holders(self, cluster: str) -> Collection[Key]:
        """Return the Workloads that have a share of the cluster, leave it or may return to it."""
        return () if self._shared is None else self._shared.holders(cluster)

    def named(self, workload: Workload) -> Workload:
        """Return a stored Workload as decisions read it.

        Its clusters have their present names. No replica has waited longer than this term knows.
        """
        return workload if self._shared is None else self._shared.named(workload)

    def look(self, keys: Iterable[Key]) -> None:
        """Requeue these Workloads in turn. Unknown keys are ignored."""
        if self._shared is not None:
            self._shared.activate_in_steps(keys)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        """Requeue Workloads that await this event. Without versions no hint is called."""
        if self._shared is not None:
            self._shared.announce(kind, key, action, old, new)


def switched_off(plugin: str) -> str:
    return (
        f"the controller of plugin {plugin} is switched off: let --controller-plugins of "
        "`stowage controller` choose it"
    )


def once(plugins: Iterable[Plugin]) -> Collection[Plugin]:
    first: dict[str, Plugin] = {}
    for plugin in plugins:
        first.setdefault(plugin.name, plugin)
    return first.values()


class RecordedEvent(NamedTuple):
    regarding: Mapping[str, Any] | ObjectRef
    type: str
    reason: str
    note: str
    action: str


class _Kept:
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


class DryRunHandle(Handle):
    """A handle without a hub, which only records calls: for `stowage plan` and tests of plugins."""

    def __init__(self, *, clock: Clock | None = None, holder: str = "rehearsal") -> None:
        self.events: deque[RecordedEvent] = deque(maxlen=REMEMBERED)
        self.looked: deque[Key] = deque(maxlen=REMEMBERED)
        self.announced: deque[tuple[str, Key, Action]] = deque(maxlen=REMEMBERED)
        recorder = _Kept(self.events)
        super().__init__(
            clock=clock or SystemClock(), holder=holder, client=None, recorder=recorder
        )

    def look(self, keys: Iterable[Key]) -> None:
        self.looked.extend(keys)

    def announce(
        self, kind: str, key: Key, action: Action, old: Any = None, new: Any = None
    ) -> None:
        self.announced.append((kind, key, action))
