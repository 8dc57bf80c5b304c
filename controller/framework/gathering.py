"""Workloads that a plugin wants decided in one pass: all of them, or as many as it says, or none.

A plugin that is a `GroupScheduling` says who belongs together. The scheduler decides them one after
the other over one snapshot, each seeing the room that those before it took, and the plugin judges
what came of it. It may try several ways (`Attempt`), and the first that it lets pass is taken. So a
set takes room as a whole or not at all, and no half of it waits for room that another half holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol, TypeAlias, runtime_checkable

from controller.cache.placements import PlacementIndex
from controller.framework.interface import Plugin
from controller.framework.status import SUCCESS, Status
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.types.metadata import Key

Withdrawn: TypeAlias = Mapping[Key, Mapping[str, int]]
"""By member, what it keeps of its present shares."""


class TrialResult(Enum):
    """What becomes of an attempt."""

    PLACE = "Place"
    """Everything that found a cluster is placed."""
    WAIT = "Wait"
    """What found a cluster is held, in our books alone, until the plugin allows it."""
    REFUSE = "Refuse"
    """Nothing is placed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Who is decided in one pass.

    Args:
        key: what gathers them, such as the namespace and name of an object.
        members: the Workloads, the one asked about among them, in the order in which they are
            decided.
        refusal: why none of them is tried, in the plugin's words; None where they are.
        withdrawn: with a refusal, the members whose present shares are taken back, and what of
            these they keep.
        about: the plugin's own.
    """

    key: Key
    members: tuple[Key, ...]
    refusal: Status | None = None
    withdrawn: Withdrawn = field(default_factory=dict)
    about: Any = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to place them.

    While it is tried, the plugin's own points find it under the plugin's name in the data of each
    pass. Around the write of a member that is not placed they find the Gathering there. `order` are
    members in another order, those that it leaves out behind them; `told` is the plugin's own.
    """

    order: tuple[Key, ...] = ()
    told: Any = None


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one member in an attempt.

    Args:
        unit: the member, with its present shares.
        placements: the shares that it would have.
        desired: its units that are wanted, over all clusters.
        reason: that of the condition, were it alone.
        message: what its condition would say.
        feasible: the clusters that nothing refuses, shape (n,).
        crowded: those that only a lack of room refuses, shape (n,).
    """

    unit: WorkloadInfo
    placements: Mapping[str, int]
    desired: int
    reason: ScheduledReason
    message: str
    feasible: Mask
    crowded: Mask

    @property
    def assigned(self) -> int:
        """Units that have a cluster."""
        return sum(self.placements.values())


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What the plugin makes of an attempt.

    `status` says why it waits (with `seconds`, from now on) or is refused: its reasons become the
    conditions' messages. `withdrawn` are members of a refused one whose present shares are taken
    back, with what of these they keep; all others keep what they have. `late` is said of one that
    has waited for too long.
    """

    outcome: TrialResult
    status: Status = SUCCESS
    withdrawn: Withdrawn = field(default_factory=dict)
    late: str = ""


PLACE = GroupDecision(TrialResult.PLACE)


@runtime_checkable
class GroupScheduling(Plugin, Protocol):
    """A plugin at PreFilter that wants Workloads decided together.

    All but `concluded` are pure: plan, explain and diagnosis ask them, too. `unit` and `units` are
    settled: what else is known of them is in them.
    """

    def gathering(
        self, unit: WorkloadInfo, fleet: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Gathering | None:
        """Who is decided with it; None where it is decided alone, which costs next to nothing."""
        ...

    def attempts(
        self,
        gathering: Gathering,
        units: Sequence[WorkloadInfo],
        fleet: Snapshot,
        bound: PlacementIndex,
    ) -> Iterable[Attempt]:
        """The ways to try, the most promising first: one at least, each made when it is asked for.

        `units` are the members that can be decided now, in their order.
        """
        ...

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        fleet: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        """What becomes of it. `fleet` and `bound` are as they were before the attempt.

        The first that is placed is taken; where none is, the best of them: one that waits, then
        the one with the most units, then the first.
        """
        ...

    def concluded(
        self, gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        """It is decided so, by who leads: note what the next one must know.

        Called in the same breath in which the decision is counted. After a refusal of the whole,
        `tried` is empty.
        """
        ...
