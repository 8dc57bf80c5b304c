"""The fleet as a decision reads it: one row a cluster, one array a fact, and nothing that changes.

A rule is a few array operations over all clusters. `controller.cache.builder` makes the snapshots;
a later change makes another one and leaves this one as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from controller.cache.columns import ABSENT, Column, Floats, Ints, Mask
from controller.cache.inflight import Flights, less, taken
from controller.cache.nodegroups import UNLIMITED, NodeGroups
from controller.cache.saturating import sums, times
from controller.model.load import Load
from controller.model.objects import MemberCluster, Taint, Toleration
from machinery.types.selectors import LabelSelector, Requirement, SelectorTerm


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
        kinds: spec.allowedKinds, one a line.
        provider, version: as published, else as labelled; in lower case, without the leading v.
        secret_namespace: where the cluster's Secret lies.
        cost: the price; NaN where there is none.
        latency, reliability: milliseconds and percent; -1 where not measured.
        allocatable, requested: sums over the nodes, by resource.
        groups: the free room.
        flights: what is decided and not yet counted in `groups`.
        holds: what ledgers hold for somebody, as if it were on its way.
        merged: all that is held on a cluster, by its name, where `holds` tells it put together.
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
    kinds: Column
    provider: Column
    version: Column
    secret_namespace: Column
    labels: Mapping[str, Column]
    taints: Mapping[Taint, Mask]
    allocatable: Mapping[str, Ints]
    requested: Mapping[str, Ints]
    groups: NodeGroups
    flights: Flights
    holds: Flights
    merged: Mapping[str, Mapping[Load, int]]
    _coming: list[Flights] = field(init=False, default_factory=list, compare=False, repr=False)

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
        """How many more units fit on each cluster, what is in flight or held taken off, shape (n,).

        A cluster that has not told its room has none. Nothing is checked on a virtual one, and
        for a unit that requests nothing.
        """
        if not request:
            return np.full(len(self), UNLIMITED, dtype=np.int64)
        groups = self.groups
        units = groups.units(request, node_selector, tolerations)
        held = sums(groups.cluster, times(units, groups.count), len(self))
        coming = taken(self._loads(), groups, units, request, len(self))
        fits: Ints = np.maximum(np.minimum(held, UNLIMITED) - coming, 0)
        fits[self.virtual] = UNLIMITED
        return fits

    def assuming(self, load: Load, units: Mapping[str, int]) -> Fleet:
        """A copy that counts more units of this load as in flight, by the cluster's name."""
        more = (
            (self.row[name], load, n) for name, n in units.items() if name in self.row and n > 0
        )
        return replace(self, flights=self.flights.plus(more))

    def releasing(self, entries: Mapping[str, Mapping[Load, int]]) -> Fleet:
        """A copy that holds less, by the cluster's name; never less than nothing of a load."""
        told: list[tuple[int, Load, int]] = []
        whole: dict[int, Mapping[Load, int]] = {}
        merged = dict(self.merged)
        for name, loads in entries.items():
            row = self.row.get(name)
            if row is None:
                continue
            told += ((row, load, n) for load, n in loads.items())
            if name in merged:
                merged[name] = whole[row] = less(merged[name], loads)
        return replace(self, holds=self.holds.releasing(told, whole, len(self)), merged=merged)

    def held(self, name: str) -> Mapping[Load, int]:
        """What is held on a cluster, by load."""
        return self.merged.get(name) or self.holds.on(self.row[name])

    def coming(self, resource: str) -> Ints:
        """What the units in flight, and those whose room is held, ask for of a resource."""
        return self._loads().amount(resource, len(self))

    def _loads(self) -> Flights:
        """All that takes room which `groups` does not count, put together once."""
        if not self._coming:
            self._coming.append(self.flights.joined(self.holds))
        return self._coming[0]
