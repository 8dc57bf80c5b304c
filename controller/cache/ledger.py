"""A ledger: what a feature counts over all Workloads, kept up to date share by share.

The cache feeds every registered ledger with each Workload as it is placed, assumed shares included.
A plugin finds its own ledger in the index that it is given (`PlacementIndex.ledger`), so that a
pass on a set of Workloads, which sees them placed otherwise, reads an overlay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self, TypeAlias, runtime_checkable

from controller.model.load import Load
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key

PlacementsByWorkload: TypeAlias = Mapping[Key, tuple[WorkloadInfo, Mapping[str, int]]]
"""Workloads with the shares that they would have, by key."""


class Ledger(Protocol):
    """The counts of one feature. All calls come from one event loop."""

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Take a Workload with the shares that count: none of one that is being deleted."""
        ...

    def drop(self, key: Key) -> None:
        """Forget a Workload. An unknown key is no fault."""
        ...

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        """Return the ledger with these Workloads placed so; this one stays as it is."""
        ...


class RoomHolder(Protocol):
    """Holds room of clusters on behalf of a ledger."""

    def hold(self, cluster: str, load: Load, replicas: int) -> None:
        """Hold the room of so many replicas of this load; a negative number gives it back.

        Later decisions find that much less room, as if the replicas were in flight there. An
        unknown cluster is no fault.
        """
        ...

    def freed(self, cluster: str) -> None:
        """Announce that less is held on a cluster, to Workloads that wait for room."""
        ...


@runtime_checkable
class HoldsRoom(Ledger, Protocol):
    """A ledger that holds room on clusters."""

    def keep(self, room: RoomHolder) -> None:
        """Take the room holder, once, before any `put`. An overlay of the ledger holds nothing."""
        ...


@runtime_checkable
class CountsUnwritten(Ledger, Protocol):
    """A ledger of what must not be exceeded, whatever becomes of a write."""

    def assume(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Take a decision whose write is in flight: these shares, or `info.present`, will stand.

        `put` with the shares that stand comes after it.
        """
        ...


@runtime_checkable
class TakesMore(Ledger, Protocol):
    """An overlay to which more Workloads can be added; of any other a new overlay is made.

    Very many Workloads may be decided in one pass, each over those before it.
    """

    def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Place one more Workload so, or one of those placed before otherwise."""
        ...
