"""What a cluster has and what of it is taken, in numbers that people can add up.

The numbers are those of the next decision: units that were decided and that the cluster does not
count yet are taken. Whoever tells of room over HTTP tells these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.cache.columns import Ints
from controller.cache.snapshot import Fleet
from machinery.types import quantities


class Amounts(NamedTuple):
    """By resource, in the smallest units; `remaining` is the difference, which may be negative."""

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    remaining: Mapping[str, int]


def amounts_of(fleet: Fleet, name: str) -> Amounts | None:
    """Those of a cluster; None for one that does not exist."""
    row = fleet.row.get(name)
    if row is None:
        return None
    requested = _cells(row, fleet.requested)
    for load, units in fleet.flights.on(row).items():
        for resource, amount in load.request:
            requested[resource] = requested.get(resource, 0) + amount * units
    allocatable = _cells(row, fleet.allocatable)
    known = sorted({*allocatable, *requested})
    remaining = {r: allocatable.get(r, 0) - requested.get(r, 0) for r in known}
    return Amounts(allocatable, requested, remaining)


def rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """As quantities, sorted by resource."""
    return {resource: quantities.render(resource, n) for resource, n in sorted(amounts.items())}


def _cells(row: int, columns: Mapping[str, Ints]) -> dict[str, int]:
    return {resource: int(column[row]) for resource, column in columns.items()}
