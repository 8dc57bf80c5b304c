"""The room of a member once units have come and gone, as its own report would have it. Pure.

A unit that comes goes to the node with the most free cpu, as the scheduler of a member spreads
pods; which node a unit has left is not known, so the fullest one gets its room back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.model.objects import Capacity, MemberCluster, NodeGroup
from controller.model.unit import WorkloadInfo
from machinery.types import hostports, quantities

_CPU = "cpu"


@dataclass(slots=True)
class _Nodes:
    """Nodes that are alike; `free` is the room of each."""

    group: NodeGroup
    count: int
    free: dict[str, int]


class MemberRoom:
    """The nodes of one cluster, and the sum of what is requested there."""

    def __init__(self, cluster: MemberCluster) -> None:
        self._cluster = cluster
        self._capacity = cluster.status.capacity or Capacity()
        self._requested = _amounts(self._capacity.requested)
        self._nodes = [
            _Nodes(group, group.count, _amounts(group.free)) for group in cluster.status.node_groups
        ]

    def come(self, info: WorkloadInfo, units: int) -> int:
        """Take units in; return how many of them found a node."""
        request = _request(info)
        for taken in range(units):
            fitting = [each for each in self._nodes if _fits(each, info, request)]
            if not fitting:
                return taken
            self._use(max(fitting, key=lambda each: each.free.get(_CPU, 0)), request, -1)
        return units

    def go(self, info: WorkloadInfo, units: int) -> None:
        """Give back the room of units."""
        request = _request(info)
        for _ in range(units):
            nodes = [each for each in self._nodes if _takes(each.group, info)]
            if nodes:
                self._use(min(nodes, key=lambda each: each.free.get(_CPU, 0)), request, 1)

    def _use(self, nodes: _Nodes, request: Mapping[str, int], sign: int) -> None:
        one = nodes
        if nodes.count > 1:
            nodes.count -= 1
            one = _Nodes(nodes.group, 1, dict(nodes.free))
            self._nodes.append(one)
        for resource, amount in request.items():
            one.free[resource] = one.free.get(resource, 0) + sign * amount
            requested = self._requested.get(resource, 0) - sign * amount
            self._requested[resource] = max(requested, 0)
        alike = (each for each in self._nodes if each is not one and each.group is one.group)
        if (same := next((each for each in alike if each.free == one.free), None)) is not None:
            same.count += one.count
            self._nodes.remove(one)

    def reported(self) -> MemberCluster:
        """Return the cluster with this room."""
        groups = [
            msgspec.structs.replace(each.group, count=each.count, free=_texts(each.free))
            for each in self._nodes
        ]
        capacity = msgspec.structs.replace(self._capacity, requested=_texts(self._requested))
        status = msgspec.structs.replace(
            self._cluster.status, node_groups=groups, capacity=capacity
        )
        return msgspec.structs.replace(self._cluster, status=status)


def _request(info: WorkloadInfo) -> dict[str, int]:
    return {k: n for k, n in info.request.items() if not k.startswith(hostports.PREFIX)}


def _fits(nodes: _Nodes, info: WorkloadInfo, request: Mapping[str, int]) -> bool:
    fits = all(nodes.free.get(resource, 0) >= amount for resource, amount in request.items())
    return fits and _takes(nodes.group, info)


def _takes(group: NodeGroup, info: WorkloadInfo) -> bool:
    return info.place.takes(group.labels) and all(map(info.place.bears, group.taints))


def _amounts(texts: Mapping[str, str | int]) -> dict[str, int]:
    """Parse what a member reports; an invalid quantity counts as nothing, as in a snapshot."""
    found = dict[str, int]()
    for resource, text in texts.items():
        try:
            found[resource] = quantities.bounded(resource, text)
        except ValueError:
            found[resource] = 0
    return found


def _texts(amounts: Mapping[str, int]) -> dict[str, Any]:
    return {resource: quantities.render(resource, n) for resource, n in amounts.items()}
