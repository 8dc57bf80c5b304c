"""What the debug endpoints tell of a cluster: the numbers that the next decision will read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cache.cache import World
from controller.cache.columns import Ints
from machinery.types import quantities


def of_cluster(world: World, name: str) -> dict[str, Any] | None:
    """Labels, room and shares of a cluster; None for one that does not exist.

    `requested` counts the units that were decided and that the cluster does not count yet, so
    remaining == allocatable - requested.
    """
    fleet = world.fleet()
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
    meta = fleet.clusters[row].metadata
    return {
        "name": name,
        "labels": meta.labels,
        "generation": meta.generation,
        "allocatable": _rendered(allocatable),
        "requested": _rendered(requested),
        "remaining": _rendered(remaining),
        "shares": {"/".join(key): units for key, units in world.shares(name).items()},
    }


def _cells(row: int, columns: Mapping[str, Ints]) -> dict[str, int]:
    return {resource: int(column[row]) for resource, column in columns.items()}


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: quantities.render(resource, n) for resource, n in sorted(amounts.items())}
