"""The resources of a cluster, as the next decision sees them.

Each node has one of a host port; ports that are not in use are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.model.load import Load
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from machinery.types import hostports, quantities


class ResourceAmounts(NamedTuple):
    """Amounts by resource, in the smallest units.

    `reserved` is the part of `requested` that ledgers hold; `remaining` is allocatable minus
    requested, and may be negative.
    """

    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    reserved: Mapping[str, int]
    remaining: Mapping[str, int]


def amounts_of(snapshot: Snapshot, name: str) -> ResourceAmounts | None:
    row = snapshot.row.get(name)
    if row is None:
        return None
    reserved = _sum(snapshot.held(name))
    requested = _cells(row, snapshot.requested)
    for more in (_sum(snapshot.flights.on(row)), reserved):
        for resource, amount in more.items():
            requested[resource] = requested.get(resource, 0) + amount
    allocatable = _cells(row, snapshot.allocatable)
    here = snapshot.groups.cluster == row
    for port, users in _used(snapshot, here).items():
        requested[port] = requested.get(port, 0) + users
    nodes = int(snapshot.groups.count[here].sum())
    allocatable |= {r: nodes for r in requested if r.startswith(hostports.PREFIX)}
    known = sorted({*allocatable, *requested})
    remaining = {r: allocatable.get(r, 0) - requested.get(r, 0) for r in known}
    return ResourceAmounts(allocatable, requested, reserved, remaining)


def _sum(loads: Mapping[Load, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for load, replicas in loads.items():
        for resource, amount in load.request:
            total[resource] = total.get(resource, 0) + amount * replicas
    return total


def rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    """Sorted, with each resource under its public name."""
    ordered = sorted(amounts.items())
    return {hostports.words(resource): quantities.render(resource, n) for resource, n in ordered}


def _used(snapshot: Snapshot, here: Mask) -> dict[str, int]:
    nodes: dict[str, int] = {}
    groups = snapshot.groups
    for code, count in zip(groups.ports[here].tolist(), groups.count[here].tolist(), strict=True):
        for port in map(hostports.named, groups.port_sets[code]):
            nodes[port] = nodes.get(port, 0) + count
    return nodes


def _cells(row: int, columns: Mapping[str, Ints]) -> dict[str, int]:
    return {resource: int(column[row]) for resource, column in columns.items()}
