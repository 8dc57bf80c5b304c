"""A ledger: what a feature counts over all Workloads, kept up to date share by share.

The cache feeds every registered ledger with each Workload as it is placed, assumed shares included.
A plugin finds its own ledger in the index that it is given (`PlacementIndex.ledger`), so that a
pass on a set of Workloads, which sees them placed otherwise, reads an overlay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

from controller.model.load import Load
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key

PlacementsByWorkload: TypeAlias = Mapping[Key, tuple[WorkloadInfo, Mapping[str, int]]]
"""Workloads with the shares that they would have, by key."""


class Ledger(Protocol):
    """The counts of one feature. All calls come from one event loop.

    Three more methods are optional:

    `assume(info, placements)` gets a decision whose write is in flight, in place of `put`: these
    shares, or `info.present`, will stand, and `put` with those that do comes after it. It is for
    what must not be exceeded, whatever becomes of a write.

    `place(info, placements)` of an overlay places one more Workload so, or one of those before
    otherwise: very many may be decided in one pass. Without it a new overlay is made each time.

    `keep(room)` is called once with a `RoomHolder`, before any `put`. An overlay holds nothing.
    """

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Take a Workload with the shares that count: none of one that is being deleted."""
        ...

    def drop(self, key: Key) -> None:
        """Forget a Workload. An unknown key is no fault."""
        ...

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        """Return the ledger with these Workloads placed so; this one stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class RoomHolder:
    """Holds room of clusters on behalf of a ledger.

    Args:
        hold: holds the room of so many replicas of a load on a cluster; a negative number gives it
            back. Later decisions find that much less room, as if the replicas were in flight there.
            An unknown cluster is no fault.
        freed: announces that less is held on a cluster, to Workloads that wait for room.
    """

    hold: Callable[[str, Load, int], None]
    freed: Callable[[str], None]
