"""The extension points: one protocol each, in the order of a pass.

All but the last five are pure: they read the snapshot, the Workload and the placements index, and
return a value. docs/plugin-reference.md describes each point.

    QueueSort → hooks → PreFilter → hooks → Filter → Deschedule → PostFilter → PreScore → hooks →
    Score → NormalizeScore → Assign → Reserve → Permit → PreBind → Bind → PostBind
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from controller.cache.placements import PlacementIndex
from controller.framework.events import EventHint
from controller.framework.status import SUCCESS, Status
from controller.model.place import Place
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.problem import Problem
from controller.planner.reasons import AssignmentOrder, Binding, Reasons, no_order, nothing_binds
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.types.taints import Toleration


@dataclass(frozen=True, slots=True)
class Variant:
    """A replica as it is on some clusters.

    `rows` returns these, shape (n,), of a snapshot that a hook may have replaced. `tolerations` are
    for the clusters' own taints.
    """

    rows: Callable[[Snapshot], Mask]
    request: Mapping[str, int]
    place: Place
    tolerations: tuple[Toleration, ...]
    pod: bytes = b""
    """As `WorkloadInfo.pod`, with a patch laid over it."""


@dataclass(frozen=True, slots=True)
class PlacementLimit:
    """The replicas of a Workload that may be placed in all, including present ones.

    `reason` is the condition's if the limit is reached.
    """

    units: int
    plugin: str
    reason: ScheduledReason


Fields: TypeAlias = Callable[
    [WorkloadInfo, Mapping[str, int], Snapshot, PlacementIndex], Mapping[str, Any]
]
"""Returns the plugins' status fields for these placements."""


@dataclass(slots=True)
class CycleState:
    """The state of one pass. Each plugin keeps its own in `data` under its name."""

    data: dict[str, Any] = field(default_factory=dict)
    enabled: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of the plugins at each point."""
    plan: Apportionment | None = None
    tentative: set[str] = field(default_factory=set)
    """Plugins that try a preference, added at PreFilter or in a hook. If it leaves replicas
    pending, the pass is repeated once without them."""
    without: frozenset[str] = frozenset()
    """In the repeated pass, the former `tentative`."""
    refused: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Clusters that hooks before Filter refuse, by hook and reason."""
    limit: PlacementLimit | None = None
    """This field and the next three belong to `controller.framework.room`."""
    variants: tuple[Variant, ...] = ()
    caps: tuple[Callable[[Snapshot], Ints], ...] = ()
    room: tuple[WorkloadInfo, Snapshot, Ints] | None = None
    """The last count of room, with the Workload and the snapshot that it is for."""

    def refuse(self, hook: str, cluster: str, reason: str) -> None:
        """Before Filter: keep new replicas from the cluster. Present ones may stay."""
        self.refused.setdefault((hook, reason), []).append(cluster)

    def has(self, point: str, plugin: str) -> bool:
        return plugin in self.enabled.get(point, ())


MaskedReason: TypeAlias = (
    tuple[Mask, str] | tuple[Mask, str, str] | tuple[Mask, str, str, tuple[str, ...]]
)
"""The clusters, the text, and optionally `code` and `args` of a `Refusal`."""


@dataclass(frozen=True, slots=True)
class FilterMask:
    """The refused clusters, one mask per reason; the first that matches counts.

    `reached` are refused only for an exhausted quota, `short` only for insufficient room.
    """

    reasons: Sequence[MaskedReason]
    reached: Sequence[MaskedReason] = ()
    short: Sequence[MaskedReason] = ()


NOTHING_REFUSED = FilterMask(())


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pass that leaves replicas without a cluster. Masks have shape (n,).

    Args:
        feasible: refused by no plugin.
        refusals: the plugin, the text and the clusters of each reason.
        shares: the placed replicas, by row.
        desired: the replicas wanted over all clusters.
        crowded: refused only for insufficient room.
    """

    feasible: Mask
    refusals: Sequence[tuple[str, str, Mask]]
    shares: Mapping[int, int]
    desired: int
    crowded: Mask


class _Point(type(Protocol)):  # type: ignore[misc] # mypy takes no metaclass that is computed
    """Remembers which points the plugins of a class have."""

    _known: ClassVar[WeakKeyDictionary[type, dict[object, bool]]] = WeakKeyDictionary()

    def __instancecheck__(cls, instance: Any) -> bool:
        known = cls._known.setdefault(type(instance), {})
        asked = cls, *getattr(instance, "__dict__", ())
        if asked not in known:
            known[asked] = super().__instancecheck__(instance)
        return known[asked]


class Plugin(Protocol, metaclass=_Point):
    name: str


@runtime_checkable
class EventsToRegister(Plugin, Protocol):
    """Without this, any event may lift a plugin's refusal."""

    def events_to_register(self) -> Sequence[EventHint]:
        """Return every event that could lift a refusal. Called once."""
        ...


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """Orders the queue. Exactly one is enabled in a process."""

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        """Return a sort key; the smallest is decided first."""
        ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        """Return SUCCESS, or a refusal of the whole Workload."""
        ...


@runtime_checkable
class Filter(Plugin, Protocol):
    """Refuses clusters. With `ignored_during_execution`, present shares may stay."""

    ignored_during_execution: bool

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> FilterMask: ...


@dataclass(frozen=True, slots=True)
class Eviction:
    """Replicas that must leave a cluster, now or later.

    Args:
        cause: the word in the history, such as Drained.
        name: the object of the cause, such as the taint.
        due: when they leave; None to wait for a change.
        reason: of the condition Moving, if they do not leave yet.
        note: the same as text.
        lost: the cluster is unreachable. Its replicas are no surge and need no budget.
    """

    cause: str
    name: str = ""
    due: datetime | None = None
    reason: str = ""
    note: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Descheduling:
    """Which clusters a Workload must leave, and which it may return to.

    Args:
        evictions: by cluster, of those in placements or in `leaving`.
        returns: when a cluster of `displaced` takes replicas again; others do not.
        budget: returns how many replicas of the fleet may begin to move for a cause, and why no
            more; None for any number.
    """

    evictions: Mapping[str, Eviction] = field(default_factory=dict)
    returns: Mapping[str, datetime] = field(default_factory=dict)
    budget: Callable[[str], tuple[int, str] | None] = lambda _cause: None


@runtime_checkable
class Deschedule(Plugin, Protocol):
    """Names the clusters that a Workload must leave.

    The pass decides how many replicas leave at once.
    """

    def deschedule(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Descheduling: ...


@runtime_checkable
class PostFilter(Plugin, Protocol):
    def post_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, unplaced: Unplaced
    ) -> Status:
        """Return reasons for the message if replicas found no cluster."""
        ...


@runtime_checkable
class PreScore(Plugin, Protocol):
    def pre_score(
        self,
        state: CycleState,
        info: WorkloadInfo,
        snapshot: Snapshot,
        bound: PlacementIndex,
        feasible: Mask,
    ) -> Status:
        """Prepare for `score`. SKIP disables the plugin's score in this pass."""
        ...


@runtime_checkable
class Score(Plugin, Protocol):
    """Scores clusters, 0..100 unless the plugin has NormalizeScore."""

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Ints:
        """Return integers, shape (n,), higher is better. Refused clusters do not matter."""
        ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    def normalize(self, state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Return integers 0..100, shape (n,)."""
        ...


@runtime_checkable
class Assign(Plugin, Protocol):
    def serves(self, info: WorkloadInfo) -> bool:
        """Whether this plugin assigns the Workload's distribution. The first that does counts."""
        ...

    def assign(self, info: WorkloadInfo, field: Candidates) -> Assignment: ...


@runtime_checkable
class Bounds(Plugin, Protocol):
    """Adds bounds, weights or an order of domains to the division of replicas.

    Each plugin gets the problem of those before it.
    """

    def divides(self, info: WorkloadInfo, state: CycleState) -> bool:
        """Whether the plugin requires division, whatever the distribution."""
        ...

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """Return the problem with the plugin's rules, or `problem` itself."""
        ...


@runtime_checkable
class Settle(Plugin, Protocol):
    """Enriches a Workload with facts that its object lacks. At Assign, or a GroupScheduling."""

    def settled(self, info: WorkloadInfo, now: datetime, bound: PlacementIndex) -> WorkloadInfo:
        """Return the enriched Workload, or `info` itself."""
        ...

    def next_look(self, info: WorkloadInfo, now: datetime) -> float | None:
        """Return the seconds until `settled` may change without a report, or None."""
        ...


@runtime_checkable
class Reserve(Plugin, Protocol):
    """Reserves what a decision takes. Called only for decisions that change shares."""

    def reserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, or a refusal of the decision."""
        ...

    def unreserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        """The decision was not written. Also called without a reservation."""
        ...


@runtime_checkable
class Permit(Plugin, Protocol):
    def permit(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, a refusal, or `status.wait`; `WaitingWorkloads` takes later answers."""
        ...


@runtime_checkable
class PreBind(Plugin, Protocol):
    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, or a refusal, which requeues. May raise TransportError."""
        ...


@runtime_checkable
class PostBind(Plugin, Protocol):
    def post_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None: ...


@runtime_checkable
class PreFilterHook(Plugin, Protocol):
    def before_pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, bool] | Status:
        """Return (info, whether it was changed), or a refusal."""
        ...


@runtime_checkable
class FilterHook(Plugin, Protocol):
    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool] | Status:
        """Return (info, snapshot, whether either was changed), or a refusal of the Workload."""
        ...


@runtime_checkable
class ScoreHook(Plugin, Protocol):
    def before_score(
        self,
        state: CycleState,
        info: WorkloadInfo,
        snapshot: Snapshot,
        bound: PlacementIndex,
        feasible: Mask,
    ) -> tuple[WorkloadInfo, Mask, bool] | Status:
        """Return (info, feasible clusters, whether either was changed), or a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """The input of an Assign plugin. Arrays have shape (n,); counts are replicas.

    Args:
        feasible: may take new replicas.
        keeps: may keep what it has.
        line: all rows, best first, ties by name.
        ranking: the feasible rows of `line`.
        scores: the total scores.
        room: what fits in all, including present ones.
        present: placed now.
        held: has a share now, even an empty one.
        reached: kept out only by exhausted quotas, whose plugins give bounds.
        crowded: kept out only by insufficient room.
        staying: replicas that must leave but stay for now. They are not divided.
        fixed: rows whose shares stay as they are.
    """

    snapshot: Snapshot
    feasible: Mask
    keeps: Mask
    line: Ints
    ranking: Ints
    scores: Ints
    room: Ints
    present: Ints
    held: Mask
    reached: Mask
    crowded: Mask
    state: CycleState
    staying: int = 0
    fixed: Sequence[int] = ()

    @property
    def able(self) -> Mask:
        """May take new replicas, perhaps after the plan's quotas."""
        mask: Mask = self.feasible | self.reached
        return mask


@dataclass(frozen=True, slots=True)
class Assignment:
    """The shares by row. The rest of `desired` stays pending."""

    shares: Mapping[int, int]
    desired: int
    why: Reasons
    """Returns why a row has its number. Called on demand."""
    in_order: bool = False
    """List shares in this order; otherwise by name."""
    notes: tuple[str, ...] = ()
    """Added to the condition's message."""
    assignment_order: AssignmentOrder = no_order
    """Returns the domain of each new replica in turn, if domains have an order."""
    binding: Binding = nothing_binds
    """Returns the bounds of a plan that keep replicas out."""
    choosing: tuple[str, ...] = ()
    """An unmet constraint on domains, or choices that were not tried."""
    short: ScheduledReason = ScheduledReason.INSUFFICIENT_CAPACITY
    """The condition's reason if replicas stay pending despite feasible clusters."""
    shared_by: tuple[str, ...] = ()
    """The contributing plugins, and `THE_PLAN` for shares of a plan."""


__all__ = ["NOTHING_REFUSED", "SUCCESS", "Candidates", "CycleState", "FilterMask", "Status"]
