"""The node groups of all clusters with their free room, and what ResourceQuotas leave.

Replicas of several sorts of pods are laid into the groups one component after the other: first fit,
largest pods first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from controller.model.place import NodeTerm, Part, Place
from controller.snapshot.columns import Codes, Column, Ints, Mask, sums, times
from machinery.types import hostports
from machinery.types.selectors import Requirement
from machinery.types.taints import Taint

UNLIMITED = 2**36
"""Replicas that fit if nothing is checked, and the most of any cluster. More than any Workload can
request; the sum over a hundred thousand clusters is exact in float64.
"""


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """All node groups of all clusters, flat: one entry a group, in the order of the rows.

    Args:
        cluster: the row of the snapshot that the group belongs to.
        count: its nodes.
        free: the room of each of its nodes, by resource.
        labels: a column for each label that node groups carry.
        taints: an index into `taint_sets`.
        taint_sets: each distinct set of taints once.
        ports: an index into `port_sets`.
        port_sets: each distinct set of host ports in use once, as codes of
            `machinery.types.hostports`. Each node has one of every other port.
    """

    cluster: Ints
    count: Ints
    free: Mapping[str, Ints]
    labels: Mapping[str, Column]
    taints: Codes
    taint_sets: Sequence[tuple[Taint, ...]]
    ports: Codes
    port_sets: Sequence[frozenset[int]]

    def of(self, rows: Ints) -> NodeGroups:
        """The rows are sorted, and renumbered from 0."""
        first, end = np.searchsorted(self.cluster, [rows, rows + 1])
        number = end - first
        before = number.cumsum() - number
        at = np.arange(number.sum()) + (first - before).repeat(number)
        return self.picked(at, np.arange(len(rows)).repeat(number))

    def picked(self, at: Ints | Mask, cluster: Ints) -> NodeGroups:
        return NodeGroups(
            cluster=cluster,
            count=self.count[at],
            free={resource: free[at] for resource, free in self.free.items()},
            labels={k: Column(c.codes[at], c.vocabulary) for k, c in self.labels.items()},
            taints=self.taints[at],
            taint_sets=self.taint_sets,
            ports=self.ports[at],
            port_sets=self.port_sets,
        )

    def replicas(self, request: Mapping[str, int], place: Place) -> Ints:
        """On one node of each group."""
        replicas = np.full(len(self.count), UNLIMITED, dtype=np.int64)
        ports: set[int] = set()
        for resource, amount in request.items():
            free, port = self.free.get(resource), hostports.code(resource)
            if port is not None:
                ports.add(port)
            elif free is None:
                replicas[:] = 0
            else:
                np.minimum(replicas, free // amount, out=replicas)
        if ports:
            np.minimum(replicas, self._with_free(ports), out=replicas)
        replicas[~self.open_to(place)] = 0
        return replicas

    def room(self, resource: str) -> Ints:
        """Return the free amount of a resource on one node of each group; of a port 1 or 0."""
        port = hostports.code(resource)
        if port is not None:
            return self._with_free({port})
        free = self.free.get(resource)
        return np.zeros(len(self.count), dtype=np.int64) if free is None else free

    def _with_free(self, ports: Collection[int]) -> Ints:
        sets = self.port_sets
        free = np.fromiter((used.isdisjoint(ports) for used in sets), np.int64, count=len(sets))
        column: Ints = free[self.ports]
        return column

    def without_any(self, asked: Sequence[frozenset[int]], of: Ints, group: Ints) -> Mask:
        """Whether, for each pair, a port of `asked[of]` is in use in `group`."""
        used = self.port_sets
        if not any(asked) or not any(used):
            return np.zeros(len(of), dtype=np.bool_)
        pairs, at = np.unique(of * len(used) + self.ports[group], return_inverse=True)
        first, second = (each.tolist() for each in np.divmod(pairs, len(used)))
        found = [not asked[i].isdisjoint(used[j]) for i, j in zip(first, second, strict=True)]
        mask: Mask = np.array(found, dtype=np.bool_)[at]
        return mask

    def open_to(self, place: Place) -> Mask:
        sets = self.taint_sets
        borne = (all(map(place.bears, taints)) for taints in sets)
        mask: Mask = np.fromiter(borne, np.bool_, count=len(sets))[self.taints]
        for key, value in place.labels:
            column = self.labels.get(key)
            if column is not None:  # groups report few labels: unknown is no refusal
                mask &= column.equals(value) | column.missing()
        if place.terms is not None:
            mask &= self._in_any(place.terms)
        return mask

    def _in_any(self, terms: Sequence[NodeTerm]) -> Mask:
        found = np.zeros(len(self.count), dtype=np.bool_)
        for term in terms:
            mask = np.ones(len(self.count), dtype=np.bool_)
            for each in term:
                column = self.labels.get(each.key)
                if column is not None:
                    mask &= column.where(partial(_holds, each))
            found |= mask
        return found


def _holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a label meets it; a missing label may only be unpublished, and meets it."""
    return value is None or requirement.matches({requirement.key: value})


UNBOUNDED = 2**60
"""That of a resource that no quota of the cluster counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Quotas:
    """What is left on some clusters.

    Args:
        rows: the clusters' rows of the snapshot, sorted.
        left: for each of them, by the names of `controller.model.requests.charges`.
    """

    rows: Ints
    left: Mapping[str, Ints]

    def replaced(self, fresh: Sequence[tuple[int, Mapping[str, int]]]) -> Quotas:
        """A row that nothing bounds goes."""
        numbers = np.array([row for row, _ in fresh], dtype=np.int64)
        stay = ~np.isin(self.rows, numbers)
        bound = [(row, left) for row, left in fresh if left]
        rows = np.concatenate([self.rows[stay], np.array([r for r, _ in bound], dtype=np.int64)])
        order = np.argsort(rows, kind="stable")
        none, left = np.full(len(self.rows), UNBOUNDED, dtype=np.int64), {}
        for name in {*self.left, *(name for _, amounts in bound for name in amounts)}:
            told = np.array([amounts.get(name, UNBOUNDED) for _, amounts in bound], dtype=np.int64)
            column = np.concatenate([self.left.get(name, none)[stay], told])[order]
            if (column < UNBOUNDED).any():
                left[name] = column
        return Quotas(rows[order], left)

    def picked(self, stay: Mask, number: Ints) -> Quotas:
        return Quotas(number[self.rows[stay]], {name: n[stay] for name, n in self.left.items()})


_NONE = np.zeros(0, dtype=np.int64)
NO_QUOTAS = Quotas(_NONE, {})


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
