"""A ledger: what a feature counts over all Workloads, kept up to date share by share.

The cache feeds every registered ledger with each Workload as it is placed, decided shares included
before they are written. A plugin finds its own in the index that it is given (`Index.ledger`), so
that a pass on a set of Workloads, which sees them placed otherwise, reads an overlay.
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
    """The books of one feature. All calls come from one event loop."""

    def put(self, unit: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Take a Workload with the shares that count: none of one that is being deleted."""
        ...

    def drop(self, key: Key) -> None:
        """Forget a Workload; one that is unknown is no fault."""
        ...

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        """What the books would say with these Workloads placed so; these stay as they are."""
        ...


class RoomHolder(Protocol):
    """Room of clusters that a ledger takes out of what everybody may use, and gives back."""

    def hold(self, cluster: str, load: Load, units: int) -> None:
        """Hold the room of so many units of this load; a negative number gives it back.

        Whoever decides from then on finds that much less, as if the units were on their way there.
        A cluster that is not there yet, or no more, is no fault.
        """
        ...

    def freed(self, cluster: str) -> None:
        """Less is held there than before: those who wait for room are looked at again."""
        ...


@runtime_checkable
class HoldsRoom(Ledger, Protocol):
    """A ledger that holds room on clusters for somebody."""

    def keep(self, room: RoomHolder) -> None:
        """Called once, before anything is put. An overlay of the ledger holds nothing."""
        ...


@runtime_checkable
class TakesMore(Ledger, Protocol):
    """An overlay to which more Workloads can be added; of any other a new one is asked for.

    Very many may be decided in one pass, each over those before it.
    """

    def place(self, unit: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """One more Workload placed so, or one of them placed otherwise."""
        ...
