"""How many replicas of several sorts of pods fit on each cluster: first fit, largest pods first.

The pods of all replicas are laid into the node groups, one component after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.model.place import Part
from controller.snapshot.columns import Ints, sums, times
from controller.snapshot.nodegroups import NodeGroups
from machinery.types import hostports

_MOST = 2**44
"""The most pods of one component: their sum over all node groups is exact."""


def most(groups: NodeGroups, parts: Sequence[Part], upper: Ints) -> Ints:
    """Return how many replicas fit on each cluster, shape (n,); `upper` is known to be enough."""
    low, high = np.zeros_like(upper), upper.copy()
    tried = high
    while (low < high).any():
        fits = lacking(groups, parts, tried) < 0
        low, high = np.where(fits, tried, low), np.where(fits, high, tried - 1)
        tried = (low + high + 1) // 2
    return low


def at_most(groups: NodeGroups, parts: Sequence[Part], size: int) -> Ints:
    """Return a bound by the sums of what is free, and by each component alone, shape (size,)."""
    found = np.full(size, _MOST, dtype=np.int64)
    total: dict[str, int] = {}
    for part in parts:
        alone = sums(groups.cluster, times(_on_node(groups, part), groups.count), size)
        np.minimum(found, alone // part.count, out=found)
        for resource, amount in part.request:
            if hostports.code(resource) is None:
                total[resource] = total.get(resource, 0) + amount * part.count
    for resource, amount in total.items():
        free = times(groups.room(resource), groups.count)
        np.minimum(found, sums(groups.cluster, free, size) // amount, out=found)
    return found


def lacking(groups: NodeGroups, parts: Sequence[Part], replicas: Ints) -> Ints:
    """Return the first component of which pods find no node, shape (n,); -1 if all fit.

    `replicas` are laid into the free room of each cluster.
    """
    size, found = len(replicas), np.full(len(replicas), -1, dtype=np.int64)
    of, count = np.arange(len(groups.count)), groups.count
    named = {r for part in parts for r, _ in part.request if hostports.code(r) is None}
    free = {resource: groups.room(resource) for resource in named}
    for at, part in enumerate(parts):
        cluster, need = groups.cluster[of], np.minimum(replicas, _MOST // part.count) * part.count
        each = _open(groups, part)[of]
        for resource, amount in part.request:
            if resource in free:
                np.minimum(each, free[resource] // amount, out=each)
        room = np.minimum(times(each, count), need[cluster])
        before = room.cumsum() - room
        first = np.searchsorted(cluster, np.arange(size))
        before -= before[np.minimum(first, len(before) - 1)][cluster] if len(before) else 0
        taken = np.clip(need[cluster] - before, 0, room)
        short = sums(cluster, taken, size) < need
        found = np.where((found < 0) & short, at, found)
        full = taken // np.maximum(each, 1)
        last = taken - full * each
        pods = np.concatenate([each, last, np.zeros_like(each)])
        left = np.concatenate([full, (last > 0).astype(np.int64), count - full - (last > 0)])
        there = np.flatnonzero(left > 0)
        there = there[np.argsort(np.tile(cluster, 3)[there], kind="stable")]
        of, count = np.tile(of, 3)[there], left[there]
        asked = dict(part.request)
        free = {
            resource: (np.tile(known, 3) - pods * asked.get(resource, 0))[there]
            for resource, known in free.items()
        }
    return found


def _on_node(groups: NodeGroups, part: Part) -> Ints:
    return groups.replicas(dict(part.request), part.place)


def _open(groups: NodeGroups, part: Part) -> Ints:
    """Return the pods of a node if only its labels, taints and host ports counted."""
    ports = {resource: n for resource, n in part.request if hostports.code(resource) is not None}
    return np.minimum(groups.replicas(ports, part.place), _MOST)
