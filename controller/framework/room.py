"""Room in units of one Workload: how many each cluster can hold, and how many it must."""

from __future__ import annotations

import numpy as np

from controller.cache.columns import Ints
from controller.cache.nodegroups import UNLIMITED
from controller.cache.snapshot import Fleet
from controller.framework.interface import CycleState
from controller.model.unit import Unit

_ROOM = "room"


def needed(unit: Unit) -> int:
    """The units that one cluster must have room for."""
    if not unit.counted:
        return 0
    whole = unit.whole or unit.everywhere
    return unit.replicas if whole else min(unit.replicas, 1)


def room_of(state: CycleState, unit: Unit, fleet: Fleet) -> Ints:
    """The room in all resources, computed once in a pass for the unit and fleet that hooks left."""
    known = state.data.get(_ROOM)
    if known is None or known[0] is not unit or known[1] is not fleet:
        known = state.data[_ROOM] = (unit, fleet, room(unit, fleet))
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
