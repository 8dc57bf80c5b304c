"""The extension points: one narrow protocol each, in the order in which a pass calls them.

A plugin is an object with a `name` that implements one or more of them. All but the last five are
pure: they read the snapshot, the Workload and the placements index, and return a value. Filters and
scores work on whole columns; `controller.framework.percluster` lets a plugin be written for one
cluster at a time, and only that plugin pays for the loop.

    QueueSort → hooks → PreFilter → hooks → Filter → Deschedule → PostFilter → PreScore → hooks →
    Score → NormalizeScore → Assign → Reserve → Permit → PreBind → Bind → PostBind
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from controller.cache.placements import PlacementIndex
from controller.framework.events import EventHint
from controller.framework.status import SUCCESS, Status
from controller.framework.variants import PlacementLimit, Variant
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.problem import Problem
from controller.planner.reasons import AssignmentOrder, Binding, Reasons, no_order, nothing_binds
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

Fields: TypeAlias = Callable[
    [WorkloadInfo, Mapping[str, int], Snapshot, PlacementIndex], Mapping[str, Any]
]
"""Returns what the plugins tell of a Workload, placed so, in its status."""


@dataclass(slots=True)
class CycleState:
    """State that plugins share within one pass; each keeps its own under its name in `data`."""

    data: dict[str, Any] = field(default_factory=dict)
    enabled: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of the profile's plugins at each point, for a plugin that serves several points."""
    plan: Apportionment | None = None
    """Set once replicas were divided."""
    tentative: set[str] = field(default_factory=set)
    """The names of plugins that first try something that may leave replicas pending; added
    at PreFilter or in a hook. A pass with any that does not place all replicas is repeated once."""
    without: frozenset[str] = frozenset()
    """In the repeated pass, the names that were in `tentative`: these plugins step aside."""
    refused: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The clusters that a hook before Filter refuses, by the hook's name and the reason."""
    limit: PlacementLimit | None = None
    """Of `controller.framework.room`, as the next three are: none of them takes a plugin's name."""
    variants: tuple[Variant, ...] = ()
    caps: tuple[Callable[[Snapshot], Ints], ...] = ()
    room: tuple[WorkloadInfo, Snapshot, Ints] | None = None
    """The room that was counted last, and of what; of what fits now where nothing changes that."""

    def refuse(self, hook: str, cluster: str, reason: str) -> None:
        """Before Filter: keep new replicas from that cluster. Replicas that are there may stay."""
        self.refused.setdefault((hook, reason), []).append(cluster)

    def has(self, point: str, plugin: str) -> bool:
        return plugin in self.enabled.get(point, ())


MaskedReason: TypeAlias = (
    tuple[Mask, str] | tuple[Mask, str, str] | tuple[Mask, str, str, tuple[str, ...]]
)
"""The clusters, the text, and with some the code and the args of a `Refusal`."""


@dataclass(frozen=True, slots=True)
class FilterMask:
    """The clusters that a filter refuses: one mask for each reason; the first that holds counts.

    A reason is a text, and may have the `code` and the `args` of a `Refusal` behind it. `reached`
    are refusals of clusters that would do, were a quota not used up, `short` of those that would,
    had they more room.
    """

    reasons: Sequence[MaskedReason]
    reached: Sequence[MaskedReason] = ()
    short: Sequence[MaskedReason] = ()


NOTHING_REFUSED = FilterMask(())


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The result of a pass that leaves replicas without a cluster; masks have one entry a cluster.

    Args:
        feasible: the clusters that nothing refused.
        refusals: the plugin, the text and the clusters of each reason to refuse.
        shares: the replicas that did find a place, by row.
        desired: the replicas wanted over all clusters.
        crowded: the clusters that nothing but a lack of room refused.
    """

    feasible: Mask
    refusals: Sequence[tuple[str, str, Mask]]
    shares: Mapping[int, int]
    desired: int
    crowded: Mask


class Plugin(Protocol):
    """Anything with a name. The name is the one in the configuration."""

    name: str


@runtime_checkable
class EventsToRegister(Plugin, Protocol):
    """A plugin that says what could lift its refusals; without it, any event helps."""

    def events_to_register(self) -> Sequence[EventHint]:
        """Return every event that could turn its refusal, or a shortage, into a placement.

        Called once. A refused Workload is not decided again before one of them happens.
        """
        ...


@runtime_checkable
class QueueSort(Plugin, Protocol):
    """Which Workload is decided first. Exactly one is enabled in a process."""

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        """Return a sort key; the smaller goes first."""
        ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    """Called once, before any cluster is looked at; may refuse the whole Workload."""

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        """Return SUCCESS, or why no cluster can take the Workload now."""
        ...


@runtime_checkable
class Filter(Plugin, Protocol):
    """Which clusters cannot take the Workload. `ignored_during_execution` spares present shares."""

    ignored_during_execution: bool

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> FilterMask:
        """Return the refused clusters, with reasons that can be counted."""
        ...


@dataclass(frozen=True, slots=True)
class Eviction:
    """The replicas of a Workload that must leave a cluster, be it now or later.

    Args:
        cause: the word of the history, such as Drained.
        name: the subject of the cause, such as the taint.
        due: from when on they leave; None where they do not leave before something changes.
        reason: why they do not leave yet, or none: a reason of the condition Moving.
        note: the same in words.
        lost: the cluster does not answer. What stands there is no surge, and no budget keeps it.
    """

    cause: str
    name: str = ""
    due: datetime | None = None
    reason: str = ""
    note: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Descheduling:
    """What a plugin says of the clusters that a Workload is on, or has left.

    Args:
        evictions: by cluster, of those with replicas in placements or in `leaving`.
        returns: from when on a cluster of `displaced` takes replicas again, by its name; the others
            take none.
        budget: how many replicas of all Workloads may begin to move now for a cause, and why no
            more do; None for any number.
    """

    evictions: Mapping[str, Eviction] = field(default_factory=dict)
    returns: Mapping[str, datetime] = field(default_factory=dict)
    budget: Callable[[str], tuple[int, str] | None] = lambda _cause: None


@runtime_checkable
class Deschedule(Plugin, Protocol):
    """Which of its clusters a Workload must leave. A replica stays where no other cluster fits.

    The other plugins find the new places. How many replicas leave at once, and what keeps the old
    ones until the new ones are ready, is no matter of the plugin.
    """

    def deschedule(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Descheduling:
        """Return what must leave, and what may come back."""
        ...


@runtime_checkable
class PostFilter(Plugin, Protocol):
    """Called when replicas found no cluster; may add to the message."""

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, unplaced: Unplaced
    ) -> Status:
        """Return a Status whose reasons are added to the message."""
        ...


@runtime_checkable
class PreScore(Plugin, Protocol):
    """Called once before scoring, with the clusters that are left."""

    def pre_score(
        self,
        state: CycleState,
        info: WorkloadInfo,
        snapshot: Snapshot,
        bound: PlacementIndex,
        feasible: Mask,
    ) -> Status:
        """Prepare what `score` needs; SKIP leaves the plugin's score out of this pass."""
        ...


@runtime_checkable
class Score(Plugin, Protocol):
    """How well each cluster suits, shape (n,). Without NormalizeScore the values are 0..100."""

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Ints:
        """Return integers, the greater the better; entries of refused clusters do not matter."""
        ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    """Brings a Score plugin's own scale to 0..100."""

    def normalize(self, state: CycleState, scores: Ints, feasible: Mask) -> Ints:
        """Return integers 0..100, shape (n,)."""
        ...


@runtime_checkable
class Assign(Plugin, Protocol):
    """Turns the ranking into shares that are not divided."""

    def serves(self, info: WorkloadInfo) -> bool:
        """Whether this plugin decides for the Workload's distribution; the first one counts."""
        ...

    def assign(self, info: WorkloadInfo, field: Candidates) -> Assignment:
        """Return the shares; see `Candidates` for what is known."""
        ...


@runtime_checkable
class Bounds(Plugin, Protocol):
    """Has a say in how replicas are divided: bounds, weights, an order of domains.

    All that are enabled at Assign are asked in turn, each for the problem that those before it
    made. Then one planner solves it (`controller.planner.plan`), so that they all hold together.
    """

    def divides(self, info: WorkloadInfo, state: CycleState) -> bool:
        """Whether replicas are divided because of this plugin, whatever their distribution."""
        ...

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """Return the problem with this plugin's rules; `problem` itself where it has none."""
        ...


@runtime_checkable
class Settle(Plugin, Protocol):
    """A plugin at Assign, or one that gathers, that knows more of a Workload than its object says.

    For example what clusters have made of their shares, or what another object says of it.
    """

    def settled(self, info: WorkloadInfo, now: datetime, bound: PlacementIndex) -> WorkloadInfo:
        """Return the Workload with what is known by now; itself where nothing is new."""
        ...

    def next_look(self, info: WorkloadInfo, now: datetime) -> float | None:
        """Return the seconds until `settled` may say something new without a report, or None."""
        ...


@runtime_checkable
class Reserve(Plugin, Protocol):
    """Sets aside what a decision takes.

    Called for decisions that change shares only.
    """

    def reserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, or why the decision cannot be had; then nothing of it is written.

        Nothing is awaited between the pass and this call, so the next decision finds it taken.
        """
        ...

    def unreserve(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        """Give back: the decision was not written. Also called when nothing was reserved."""
        ...


@runtime_checkable
class Permit(Plugin, Protocol):
    """The last word before the write."""

    def permit(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, a refusal, or `status.wait`: `WaitingWorkloads` takes the answer."""
        ...


@runtime_checkable
class PreBind(Plugin, Protocol):
    """I/O that must have happened before the decision is written."""

    async def pre_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        """Return SUCCESS, or a refusal: the Workload is decided again. May raise TransportError."""
        ...


@runtime_checkable
class PostBind(Plugin, Protocol):
    """Called after the decision was written."""

    def post_bind(
        self, state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        """Nothing depends on the answer."""
        ...


@runtime_checkable
class PreFilterHook(Plugin, Protocol):
    """Before PreFilter: may change a copy of the Workload, or refuse it."""

    def before_pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, bool] | Status:
        """Return (info, whether it was changed), or a refusal."""
        ...


@runtime_checkable
class FilterHook(Plugin, Protocol):
    """Before Filter: may change a copy of the Workload and of the snapshot, or refuse."""

    def before_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> tuple[WorkloadInfo, Snapshot, bool] | Status:
        """Return (info, snapshot, whether either was changed), or a refusal of the Workload.

        A cluster alone is refused by `state.refuse`.
        """
        ...


@runtime_checkable
class ScoreHook(Plugin, Protocol):
    """Before Score: may change a copy of the Workload, take clusters out of the list, or refuse."""

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
    """The input of an Assign plugin. Arrays have one entry a cluster, counts are in replicas.

    Args:
        snapshot: the clusters.
        feasible: may take new replicas.
        keeps: may keep what it has.
        line: rows of all clusters, the best first, equals by name.
        ranking: those of the feasible clusters.
        scores: the total scores.
        room: replicas that the cluster can hold in all, its present ones included.
        present: replicas placed now.
        held: has a share now, be it one of no replicas.
        reached: only quotas that are used up keep new replicas away, and their plugins give bounds.
        crowded: only a lack of room keeps new replicas away.
        state: what the plugins of this pass left for each other.
        staying: replicas that stay for now where they must leave: they are not divided.
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

    @property
    def able(self) -> Mask:
        """May take new replicas, or might if a quota of the plan let it."""
        mask: Mask = self.feasible | self.reached
        return mask


@dataclass(frozen=True, slots=True)
class Assignment:
    """The shares by row, and the replicas wanted over all clusters; the rest stays pending."""

    shares: Mapping[int, int]
    desired: int
    why: Reasons
    """Returns why the number of a row that holds replicas is what it is; called on demand, not in
    the     pass."""
    in_order: bool = False
    """The shares are told as they come; otherwise by name."""
    notes: tuple[str, ...] = ()
    """Added to the condition's message."""
    assignment_order: AssignmentOrder = no_order
    """Returns the domains of the new replicas one after the other, where an order of domains
    decided."""
    binding: Binding = nothing_binds
    """Returns the bounds of a plan that keep replicas out."""
    choosing: tuple[str, ...] = ()
    """Findings of the choice of domains: a constraint that cannot be met, choices that were
    not tried."""
    short: ScheduledReason = ScheduledReason.INSUFFICIENT_CAPACITY
    """The condition's reason when replicas stay pending although clusters are feasible."""
    shared_by: tuple[str, ...] = ()
    """The plugins that had a say, and `THE_PLAN` where one plan made the shares."""


__all__ = ["NOTHING_REFUSED", "SUCCESS", "Candidates", "CycleState", "FilterMask", "Status"]
