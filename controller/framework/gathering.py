"""Workloads that a plugin wants decided in one pass: all of them, or as many as it says, or none.

A plugin that is a `GroupScheduling` says which Workloads belong together. The scheduler decides
them one after the other over one snapshot, each seeing the room that those before it took, and the
plugin judges the result. The plugin may try several ways (`Attempt`), and the first that it accepts
is taken. So a set takes room as a whole or not at all, and no half of it waits for room that
another half holds.
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
"""By member, the part of its present shares that it keeps."""


class TrialResult(Enum):
    """The outcome of an attempt."""

    PLACE = "Place"
    """All members that found a cluster are placed."""
    WAIT = "Wait"
    """The placements are held, in the cache alone, until the plugin allows them."""
    REFUSE = "Refuse"
    """No member is placed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """The Workloads that are decided in one pass.

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
    """One way to place the members.

    During the attempt the plugin's own points find it under the plugin's name in the data of each
    pass. Around the write of a member that is not placed they find the Gathering there. `order` are
    members in another order, before those that it leaves out; `told` is the plugin's own.
    """

    order: tuple[Key, ...] = ()
    told: Any = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The decision on one member in an attempt.

    Args:
        info: the member, with its present shares.
        placements: the shares that it would have.
        desired: its replicas that are wanted, over all clusters.
        reason: that of the condition, were it alone.
        message: what its condition would say.
        feasible: the clusters that nothing refuses, shape (n,).
        crowded: those that only a lack of room refuses, shape (n,).
    """

    workload: WorkloadInfo
    placements: Mapping[str, int]
    desired: int
    reason: ScheduledReason
    message: str
    feasible: Mask
    crowded: Mask

    @property
    def assigned(self) -> int:
        return sum(self.placements.values())


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The plugin's verdict on an attempt.

    `status` says why the set waits (for `seconds` from now on) or is refused: its reasons become
    the conditions' messages. `withdrawn` are members of a refused set whose present shares are
    taken back, with the part that they keep; all others keep theirs. `late` is the message of a set
    that has waited for too long.
    """

    outcome: TrialResult
    status: Status = SUCCESS
    withdrawn: Withdrawn = field(default_factory=dict)
    late: str = ""


PLACE = GroupDecision(TrialResult.PLACE)


@runtime_checkable
class GroupScheduling(Plugin, Protocol):
    """A plugin at PreFilter that wants Workloads decided together.

    All but `concluded` are pure: plan, explain and diagnosis call them, too. `info` and `infos` are
    settled: they contain what else is known of them.
    """

    def gathering(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Gathering | None:
        """Return the set that `info` is decided with; None, at next to no cost, if it is alone."""
        ...

    def attempts(
        self,
        gathering: Gathering,
        infos: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Iterable[Attempt]:
        """Return the ways to try, the most promising first: at least one, each made on demand.

        `infos` are the members that can be decided now, in their order.
        """
        ...

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        snapshot: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        """Return the verdict. `snapshot` and `bound` are as they were before the attempt.

        The first attempt that is placed is taken; where none is, the best: one that waits, then the
        one with the most replicas, then the first.
        """
        ...

    def concluded(
        self, gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        """Note what the next leader must know of a decision. Only the leader calls it.

        Called right before the decision is counted, with no await between. After a refusal of the
        whole set, `tried` is empty.
        """
        ...
