"""The fleet as a decision reads it: one row a cluster, one array a fact, and nothing that changes.

A rule is a few array operations over all clusters. `controller.fleet` makes the snapshots; a later
change makes another one and leaves this one as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.columns import ABSENT, Codes, Column, Floats, Ints, Mask
from controller.model import MemberCluster, Taint, Toleration
from machinery.selectors import LabelSelector, Requirement, SelectorTerm

UNLIMITED = 2**40
"""Units that fit where nothing is checked."""

HARD = frozenset({"NoSchedule", "NoExecute"})
SOFT = frozenset({"PreferNoSchedule"})


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """All node groups of all clusters, flat: one entry a group, in no order.

    Args:
        cluster: the row of the fleet that the group belongs to.
        count: its nodes.
        free: the room of each of its nodes, by resource.
        labels: a column for each label that node groups carry.
        taints: an index into `taint_sets`.
        taint_sets: each distinct set of taints once.
    """

    cluster: Ints
    count: Ints
    free: Mapping[str, Ints]
    labels: Mapping[str, Column]
    taints: Codes
    taint_sets: Sequence[tuple[Taint, ...]]

    def units(
        self,
        request: Mapping[str, int],
        node_selector: Mapping[str, str],
        tolerations: Sequence[Toleration],
    ) -> Ints:
        """How many units fit on one node of each group."""
        units = np.full(len(self.count), UNLIMITED, dtype=np.int64)
        for resource, amount in request.items():
            free = self.free.get(resource)
            if free is None:
                units[:] = 0
            else:
                np.minimum(units, free // amount, out=units)
        units[~self._open(node_selector, tolerations)] = 0
        return units

    def _open(self, node_selector: Mapping[str, str], tolerations: Sequence[Toleration]) -> Mask:
        """The groups whose taints and labels, as far as they are told, let the pod in."""
        sets = self.taint_sets
        borne = np.fromiter(
            (_bears(taints, tolerations) for taints in sets), dtype=np.bool_, count=len(sets)
        )
        mask: Mask = borne[self.taints]
        for key, value in node_selector.items():
            column = self.labels.get(key)
            if column is not None:  # a group tells few of its nodes' labels: unknown is no refusal
                mask &= column.equals(value) | column.missing()
        return mask


def _bears(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    return all(
        taint.effect not in HARD or any(t.tolerates(taint) for t in tolerations) for taint in taints
    )


@dataclass(frozen=True, slots=True)
class Fleet:
    """An immutable snapshot. Rows are in no order; ties are broken by `by_name`.

    Args:
        names: the clusters' names, by row.
        clusters: the objects that the columns were made of.
        row: the row of each name.
        by_name: the place of each row in the order of names.
        labels: a column for each label key; `stowage.dev/cluster` is on every cluster.
        taints: a mask for each taint that any cluster has.
        rules: the globs of spec.namespaces, one a line.
        provider, version: as published, else as labelled; in lower case, without the leading v.
        secret_namespace: where the cluster's Secret lies.
        cost: the price; NaN where there is none.
        latency, reliability: milliseconds and percent; -1 where not measured.
        allocatable, requested: sums over the nodes, by resource.
        assumed: what is decided and not yet counted in `groups`, by resource.
        groups: the free room.
    """

    names: Sequence[str]
    clusters: Sequence[MemberCluster]
    row: Mapping[str, int]
    by_name: Ints
    ready: Mask
    cordoned: Mask
    deleting: Mask
    virtual: Mask
    cost: Floats
    latency: Ints
    reliability: Ints
    rules: Column
    provider: Column
    version: Column
    secret_namespace: Column
    labels: Mapping[str, Column]
    taints: Mapping[Taint, Mask]
    allocatable: Mapping[str, Ints]
    requested: Mapping[str, Ints]
    assumed: Mapping[str, Ints]
    groups: NodeGroups

    def __len__(self) -> int:
        return len(self.names)

    def column(self, key: str) -> Column:
        """A label key's column; all absent for a key that no cluster has."""
        return self.labels.get(key) or Column.absent(len(self))

    def meets(self, requirement: Requirement) -> Mask:
        """The clusters whose labels satisfy one expression."""
        key = requirement.key

        def holds(value: str | None) -> bool:
            return requirement.matches({} if value is None else {key: value})

        return self.column(key).where(holds)

    def selected(self, selector: LabelSelector | SelectorTerm) -> Mask:
        """The clusters with these labels; an empty selector means all."""
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in selector.match_labels.items():
            mask &= self.column(key).equals(value)
        for requirement in selector.match_expressions:
            mask &= self.meets(requirement)
        return mask

    def matches(self, term: SelectorTerm) -> Mask:
        """The clusters that a term matches; an empty term matches none."""
        if not term.match_labels and not term.match_expressions:
            return np.zeros(len(self), dtype=np.bool_)
        return self.selected(term)

    def rows(self, names: Iterable[str]) -> Ints:
        """The rows of the clusters that exist among these names."""
        found = (self.row.get(name) for name in names)
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def domain(self, key: str, names: Iterable[str]) -> Mask:
        """All clusters that share a value of a label with one of these; none without the label."""
        codes = self.column(key).codes
        there = codes[self.rows(names)]
        mask: Mask = np.isin(codes, there[there != ABSENT])
        return mask

    def untolerated(self, tolerations: Sequence[Toleration], effects: frozenset[str]) -> Ints:
        """For each cluster, how many of its taints of these effects nothing tolerates."""
        count = np.zeros(len(self), dtype=np.int64)
        for taint, column in self.taints.items():
            if taint.effect in effects and not any(t.tolerates(taint) for t in tolerations):
                count += column
        return count

    def fitting(
        self,
        request: Mapping[str, int],
        *,
        node_selector: Mapping[str, str],
        tolerations: Sequence[Toleration],
    ) -> Ints:
        """How many more units fit on each cluster, units in flight taken off, shape (n,).

        A cluster that has not told its room has none. Nothing is checked on a virtual one, and
        for a unit that requests nothing.
        """
        if not request:
            return np.full(len(self), UNLIMITED, dtype=np.int64)
        groups = self.groups
        units = groups.units(request, node_selector, tolerations)
        # The sums are exact: numpy adds them up as float64, far below 2**53.
        weights = np.minimum(units, UNLIMITED // np.maximum(groups.count, 1)) * groups.count
        sums = np.bincount(groups.cluster, weights=weights, minlength=len(self))
        fits: Ints = np.maximum(sums.astype(np.int64) - self._in_flight(request), 0)
        fits[self.virtual] = UNLIMITED
        return fits

    def assuming(self, request: Mapping[str, int], units: Mapping[str, int]) -> Fleet:
        """A copy that counts more units of this size as in flight, by the cluster's name."""
        assumed = dict(self.assumed)
        rows = self.rows(units)
        numbers = np.array([n for name, n in units.items() if name in self.row], dtype=np.int64)
        for resource, amount in request.items():
            held = assumed.get(resource)
            column = np.zeros(len(self), dtype=np.int64) if held is None else held.copy()
            column[rows] += numbers * amount
            assumed[resource] = column
        return replace(self, assumed=assumed)

    def _in_flight(self, request: Mapping[str, int]) -> Ints:
        """Units of this size that decided but not yet counted shares take up, rounded up."""
        taken = np.zeros(len(self), dtype=np.int64)
        for resource, amount in request.items():
            held = self.assumed.get(resource)
            if held is not None:
                np.maximum(taken, -(-held // amount), out=taken)
        return taken
