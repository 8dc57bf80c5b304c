"""Whether a cluster whose nodes changed may hold a replica that it could not hold before. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from machinery.types import hostports, quantities
from machinery.types.api import NodeGroup


class _Node(NamedTuple):
    """The free amounts of a node by resource, without zeros, and the host ports in use."""

    free: tuple[tuple[str, int], ...]
    ports: frozenset[int]

    def within(self, other: _Node) -> bool:
        """Whether everything that fits on this node fits on `other`."""
        if not self.ports >= other.ports:
            return False
        room = dict(other.free)
        return all(amount <= room.get(resource, 0) for resource, amount in self.free)


_Kinds: TypeAlias = dict[bytes, Counter[_Node]]


def roomier(before: Iterable[NodeGroup], after: Iterable[NodeGroup]) -> bool:
    """Whether a replica may fit on the nodes that did not fit before.

    False if each node has a counterpart among the nodes before, with the same labels and taints and
    at least its room.
    """
    was, now = _kinds(before), _kinds(after)
    return any(_more(was.get(kind, Counter()), nodes) for kind, nodes in now.items())


def _more(before: Counter[_Node], after: Counter[_Node]) -> bool:
    before, after = before - after, after - before  # an unchanged node is its own counterpart
    for node in sorted(after, reverse=True):
        left = after[node]
        for other in sorted(before):
            if left and node.within(other):
                taken = min(left, before[other])
                before[other] -= taken
                left -= taken
        if left:
            return True
        before = +before
    return False


def _kinds(groups: Iterable[NodeGroup]) -> _Kinds:
    kinds: _Kinds = defaultdict(Counter)
    for group in groups:
        if group.count > 0:
            kind = msgspec.json.encode((group.labels, group.taints), order="deterministic")
            kinds[kind][_node(group)] += group.count
    return kinds


def _node(group: NodeGroup) -> _Node:
    free = {}
    for resource, text in group.free.items():
        if resource.startswith(hostports.PREFIX):
            continue  # a port in use is no amount
        try:
            amount = quantities.bounded(resource, text)
        except ValueError:
            continue  # counts as no room, as in the snapshot
        if amount:
            free[resource] = amount
    return _Node(tuple(sorted(free.items())), frozenset(hostports.used(group.free)))
