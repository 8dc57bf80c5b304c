"""Room: how many units a cluster can hold, and how much of it is left afterwards."""

from __future__ import annotations

import numpy as np

from controller.columns import Ints
from controller.framework.points import NOTHING_REFUSED, CycleState, Refused
from controller.index import Index
from controller.snapshot import UNLIMITED, Fleet
from controller.unit import Unit

MEASURED = ("cpu", "memory")
"""The resources whose free share is scored."""


class ClusterResources:
    """Refuses clusters without room for what would have to go there, and prefers the emptier ones.

    Room is the units that fit into the free node groups, less those decided but not yet counted
    there, plus the ones of this Workload that are placed there. Single and Duplicated need room for
    all units on a cluster, Divided for one. Virtual clusters, and kinds without replicas, are
    not checked.
    """

    name = "ClusterResources"
    ignored_during_execution = True

    def filter(self, state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """The clusters with too little room, by the resources that are lacking."""
        need = needed(unit)
        full = room_of(state, unit, fleet) < need
        if not full.any():
            return NOTHING_REFUSED
        lacking = {
            resource: room(unit, fleet, only=resource) < need for resource in sorted(unit.request)
        }
        reasons = [(mask, f"insufficient {resource}") for resource, mask in lacking.items()]
        return Refused([*reasons, (full, "insufficient room")])

    def score(self, _state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """Percent that stays free after placing, averaged over cpu and memory."""
        units = needed(unit)
        total = np.zeros(len(fleet), dtype=np.int64)
        nothing = np.zeros(len(fleet), dtype=np.int64)
        for resource in MEASURED:
            offered = fleet.allocatable.get(resource, nothing)
            taken = fleet.requested.get(resource, nothing) + fleet.assumed.get(resource, nothing)
            left = offered - taken - unit.request.get(resource, 0) * units
            total += 100 * np.maximum(left, 0) // np.maximum(offered, 1)
        return np.minimum(total // len(MEASURED), 100)


def needed(unit: Unit) -> int:
    """The units that one cluster must have room for."""
    if not unit.counted:
        return 0
    whole = unit.whole or unit.everywhere
    return unit.replicas if whole else min(unit.replicas, 1)


def room_of(state: CycleState, unit: Unit, fleet: Fleet) -> Ints:
    """The room in all resources, computed once in a pass for the unit and fleet that hooks left."""
    known = state.data.get(ClusterResources.name)
    if known is None or known[0] is not unit or known[1] is not fleet:
        known = state.data[ClusterResources.name] = (unit, fleet, room(unit, fleet))
    units: Ints = known[2]
    return units


def room(unit: Unit, fleet: Fleet, *, only: str | None = None) -> Ints:
    """Units that each cluster can hold in all, its present ones included; one resource, or all."""
    if not unit.counted:
        return np.full(len(fleet), UNLIMITED, dtype=np.int64)
    request = unit.request if only is None else {only: unit.request[only]}
    fits = fleet.fitting(
        request, node_selector=unit.node_selector, tolerations=unit.pod_tolerations
    )
    for name, units in unit.present.items():
        row = fleet.row.get(name)
        if row is not None:
            fits[row] += units
    return fits
