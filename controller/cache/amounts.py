"""What a cluster has and what of it is taken, in numbers that people can add up.

The numbers are those of the next decision: units that were decided and that the cluster does not
count yet are taken, and so is what is held for somebody. Whoever tells of room over HTTP tells
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.cache.columns import Ints
from controller.cache.inflight import Load
from controller.cache.snapshot import Fleet
from machinery.types import quantities


class Amounts(NamedTuple):
    """By resource, in the smallest units.

    `reserved` is the part of `requested` that is held for somebody; `remaining` is the difference
    between allocatable and requested, which may be negative.
    """

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    reserved: Mapping[str, int]
    remaining: Mapping[str, int]


def amounts_of(fleet: Fleet, name: str) -> Amounts | None:
    """Those of a cluster; None for one that does not exist."""
    row = fleet.row.get(name)
    if row is None:
        return None
    reserved = _sum(fleet.held(name))
    requested = _cells(row, fleet.requested)
    for more in (_sum(fleet.flights.on(row)), reserved):
        for resource, amount in more.items():
            requested[resource] = requested.get(resource, 0) + amount
    allocatable = _cells(row, fleet.allocatable)
    known = sorted({*allocatable, *requested})
    remaining = {r: allocatable.get(r, 0) - requested.get(r, 0) for r in known}
    return Amounts(allocatable, requested, reserved, remaining)


def _sum(loads: Mapping[Load, int]) -> dict[str, int]:
    """What all these units ask for."""
    total: dict[str, int] = {}
    for load, units in loads.items():
        for resource, amount in load.request:
            total[resource] = total.get(resource, 0) + amount * units
    return total


def rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """As quantities, sorted by resource."""
    return {resource: quantities.render(resource, n) for resource, n in sorted(amounts.items())}


def _cells(row: int, columns: Mapping[str, Ints]) -> dict[str, int]:
    return {resource: int(column[row]) for resource, column in columns.items()}
