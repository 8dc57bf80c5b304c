"""A ledger: the counts of a feature over all Workloads, updated share by share.

The cache feeds each ledger with every Workload as placed, assumed shares included.
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

    Four more methods are optional:

    `assume(info, placements)` is called in place of `put` for a decision whose write is in flight.
    Either these shares or `info.present` will be stored, and a `put` with them follows. It is for
    limits that must hold whether or not the write succeeds.

    `place(info, placements)` of an overlay adds or replaces one Workload.

    `reads(feed)` is called once, before any `put`. `feed(namespace)` puts or assumes every Workload
    of the namespace again, in slices; nothing of the namespace is decided meanwhile. By it a ledger
    can leave out Workloads that none of its objects concern, and count them when one does.

    `keep(room)` is called once with a `RoomHolder`, before any `put`. An overlay holds nothing.
    """

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Store a Workload with the shares that count: none if it is being deleted."""
        ...

    def drop(self, key: Key) -> None: ...

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        """Return a copy with these Workloads placed so."""
        ...


@dataclass(frozen=True, slots=True)
class RoomHolder:
    """Holds room of clusters on behalf of a ledger.

    Args:
        hold: holds the room of these replicas of a load on a cluster; a negative number releases
            it. Later decisions see less room, as if the replicas were in flight there. An unknown
            cluster is ignored.
        freed: tells Workloads that wait for room that a cluster holds less.
    """

    hold: Callable[[str, Load, int], None]
    freed: Callable[[str], None]
