"""Bounds a member's reported room by MemberCluster.spec.maxAllocatable.

Against the bound counts the reported usage or the replicas that the hub placed there, whichever is
more: a member that forgets its pods stays bounded. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from controller.model.load import Load
from machinery.types.api import NodeGroup
from machinery.types.bounds import MOST_AMOUNT, MOST_NODES, between

Amounts = Mapping[str, int]
Group = tuple[NodeGroup, Amounts, frozenset[int]]
"""Alike nodes, the free amounts of each, and the host ports in use."""


def left(most: Amounts, requested: Amounts, counted: Mapping[Load, int]) -> dict[str, int]:
    """Return what may still be free of each bounded resource."""
    ours: dict[str, int] = {}
    for load, replicas in counted.items():
        for resource, amount in load.request:
            ours[resource] = ours.get(resource, 0) + amount * replicas
    taken = {r: max(requested.get(r, 0), ours.get(r, 0)) for r in most}
    return {r: between(0, n - taken[r], MOST_AMOUNT) for r, n in most.items()}


def within(groups: Iterable[Group], left: Amounts) -> Iterator[Group]:
    """Yield the same nodes, offering together no more than `left`.

    The first nodes keep their room, the next one a part, and the others none of a used-up resource.
    """
    budget = dict(left)
    for group, free, ports in groups:
        nodes = between(0, group.count, MOST_NODES)
        while nodes:
            each = {r: min(n, budget.get(r, n)) for r, n in free.items()}
            alike = [budget[r] // n for r, n in each.items() if n and r in budget]
            count = min([nodes, *alike])
            for resource in budget.keys() & each.keys():
                budget[resource] -= each[resource] * count
            nodes -= count
            yield msgspec.structs.replace(group, count=count), each, ports
