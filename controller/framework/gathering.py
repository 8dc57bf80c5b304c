"""Workloads that a plugin wants decided in one pass, all or nothing.

The plugin judges the result, and may try several ways (`Attempt`).
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
"""By member, the present shares that it keeps."""


class TrialResult(Enum):
    PLACE = "Place"
    WAIT = "Wait"
    """The placements stay in the cache until the plugin allows them."""
    REFUSE = "Refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """A group for one pass.

    Args:
        key: that of the group's object.
        members: in the order of decision, including the one asked about.
        refusal: why the group is not tried; None if it is.
        withdrawn: of a refused group, the members that lose shares, and what they keep.
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

    Each pass has it in its data under the plugin's name; at the points around the write of a member
    that is not placed, the Gathering. Members missing in `order` come last. `told` is the plugin's
    own.
    """

    order: tuple[Key, ...] = ()
    told: Any = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The decision on one member in an attempt. Masks have shape (n,).

    Args:
        desired: the replicas wanted over all clusters.
        reason: that of the condition if the member were alone.
        feasible: refused by no plugin.
        crowded: refused only for insufficient room.
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

    Args:
        status: why the group is refused or waits. Its reasons become messages.
        withdrawn: as in `Gathering`.
        late: the message of a group that waited too long.
    """

    outcome: TrialResult
    status: Status = SUCCESS
    withdrawn: Withdrawn = field(default_factory=dict)
    late: str = ""


PLACE = GroupDecision(TrialResult.PLACE)


@runtime_checkable
class GroupScheduling(Plugin, Protocol):
    """A plugin at PreFilter that decides Workloads together. Pure except `concluded`."""

    def gathering(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Gathering | None:
        """Return the group of `info`; None if it is alone, which must be cheap."""
        ...

    def attempts(
        self,
        gathering: Gathering,
        infos: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Iterable[Attempt]:
        """Return at least one way, the most promising first, each made on demand."""
        ...

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        snapshot: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        """Return the verdict. `snapshot` and `bound` are from before the attempt.

        The first placed attempt is taken. Otherwise one that waits is best, then the one with the
        most replicas, then the first.
        """
        ...

    def concluded(
        self, gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        """Store what the next leader must know. Only the leader calls it.

        Called right before the decision is counted, without an await. `tried` is empty if the whole
        group was refused.
        """
        ...
