"""The snapshot that a decision reads: one row a cluster, one array a fact; immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from controller.model import nodelabels
from controller.model.load import ANYWHERE, Load, in_parts, less
from controller.model.objects import MemberCluster
from controller.model.place import Place
from controller.model.requests import Charge
from controller.snapshot.columns import (
    ABSENT,
    Column,
    DerivedColumns,
    Floats,
    Ints,
    Mask,
    sums,
    times,
)
from controller.snapshot.inflight import MOST_PLACES, InFlight, cost_of, taken, taken_by
from controller.snapshot.nodegroups import UNLIMITED, NodeGroups, Quotas, at_most, lacking, most
from machinery.types import hostports, quantities
from machinery.types.bounds import MOST_AMOUNT
from machinery.types.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    SelectorPart,
    SelectorTerm,
    label_selector,
)
from machinery.types.taints import Taint, Toleration

_ALL = b""
"""The key of all rows; other keys are the bytes of the row numbers."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable snapshot. Rows are in no order; ties are broken by `by_name`.

    Args:
        names: the clusters' names, by row.
        clusters: the objects that the columns were made of.
        row: the row of each name.
        by_name: the place of each row in the order of names.
        labels: a column for each label key; `stowage.dev/cluster` is on every cluster.
        node_labels: the values on nodes of keys that the cluster itself lacks, one a line
            (`controller.model.nodelabels`).
        domains: its labels, and those on which all its nodes agree.
        taints: a mask for each taint of any cluster.
        evacuating: Workloads leave it, or it was lost a short while ago (status.evacuation).
        rules: the globs of spec.namespaces, one a line.
        kinds: spec.allowedKinds, one a line.
        given, withheld: status.namespaces, one a line; absent if the member takes any other.
        provider, version: as pinned, published or labelled; in lower case, no leading v.
        secret_namespace: the namespace of the cluster's Secret.
        cost: the price; NaN without one.
        latency, reliability: milliseconds and percent; -1 if not measured.
        allocatable, requested: sums over the nodes, by resource, within their bounds.
        groups: the free room.
        flights: replicas that are decided and not yet counted in `groups`.
        holds: replicas whose room ledgers hold, as if in flight.
        merged: all held loads of a cluster, by its name, if `holds` has merged some of them.
        counted: for clusters with spec.maxAllocatable, the replicas that the hub placed and they
            count.
        served: the kinds of groups with a dot, one a line, between two ends of lines; absent if
            there may be others.
        quotas: what ResourceQuotas of members leave, by namespace.
        charged: for clusters with quotas, the replicas in flight, by the cluster's name.
        kept: columns computed from the snapshot, shared with snapshots made by `assuming`.
    """

    names: Sequence[str]
    clusters: Sequence[MemberCluster]
    row: Mapping[str, int]
    by_name: Ints
    ready: Mask
    agent_old: Mask
    cordoned: Mask
    deleting: Mask
    virtual: Mask
    evacuating: Mask
    cost: Floats
    latency: Ints
    reliability: Ints
    rules: Column
    kinds: Column
    given: Column
    withheld: Column
    served: Column
    provider: Column
    version: Column
    secret_namespace: Column
    labels: Mapping[str, Column]
    node_labels: Mapping[str, Column]
    domains: Mapping[str, Column]
    taints: Mapping[Taint, Mask]
    allocatable: Mapping[str, Ints]
    requested: Mapping[str, Ints]
    groups: NodeGroups
    flights: InFlight
    holds: InFlight
    merged: Mapping[str, Mapping[Load, int]]
    counted: Mapping[str, Mapping[Load, int]]
    quotas: Mapping[str, Quotas]
    charged: Mapping[str, Mapping[Charge, int]]
    kept: DerivedColumns = field(
        init=False, default_factory=DerivedColumns, compare=False, repr=False
    )
    _coming: dict[bytes, InFlight] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _left: dict[str, Mapping[str, Ints]] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def __len__(self) -> int:
        return len(self.names)

    def column(self, key: str) -> Column:
        """All absent for an unknown key."""
        return self.labels.get(key) or Column.absent(len(self))

    def domains_by(self, key: str) -> Column:
        """All absent for an unknown key."""
        return self.domains.get(key) or Column.absent(len(self))

    def meets(self, requirement: Requirement) -> Mask:
        """Return the clusters that meet it by their labels, or by their nodes' without one."""
        mask, nodes = self._meets(requirement), self.node_labels.get(requirement.key)
        if nodes is None:
            return mask
        of_nodes = nodes.where(
            lambda values: values is not None and nodelabels.holds(requirement, values)
        )
        found: Mask = np.where(nodes.missing(), mask, of_nodes)
        return found

    def _meets(self, requirement: Requirement) -> Mask:
        key = requirement.key

        def holds(value: str | None) -> bool:
            return requirement.matches({} if value is None else {key: value})

        return self.column(key).where(holds)

    def _equals(self, key: str, value: str) -> Mask:
        mask = self.column(key).equals(value)
        nodes = self.node_labels.get(key)
        return (
            mask
            if nodes is None
            else mask
            | nodes.where(lambda values: values is not None and value in values.split("\n"))
        )

    def labelled(self, selector: LabelSelector | SelectorTerm) -> Mask:
        """Return the clusters with these labels of their own; an empty selector means all."""
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in selector.match_labels.items():
            mask &= self.column(key).equals(value)
        for requirement in selector.match_expressions:
            mask &= self._meets(requirement)
        return mask

    def selected(self, selector: LabelSelector | SelectorTerm) -> Mask:
        """Return the clusters with these labels, or nodes with them; all for an empty one."""
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in selector.match_labels.items():
            mask &= self._equals(key, value)
        for requirement in selector.match_expressions:
            mask &= self.meets(requirement)
        return mask

    def chosen(self, said: Mapping[str, SelectorPart]) -> Mask:
        """Return the clusters that a spec.clusterSelector takes.

        Reserved keys: clusterName, clusterNamespace (of the cluster's Secret), cloudProvider and
        its alias clusterProvider (case does not matter), clusterVersion (a leading v does not
        matter). A cluster's own label of that name counts too.
        """
        selector = label_selector(said)
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in selector.match_labels.items():
            mask &= self._has(key, value)
        for each in selector.match_expressions:
            if each.key in _RESERVED and each.operator in (Operator.IN, Operator.NOT_IN):
                among = np.zeros(len(self), dtype=np.bool_)
                for value in each.values:
                    among |= self._has(each.key, value)
                mask &= among if each.operator == Operator.IN else ~among
            else:
                mask &= self.meets(each)
        return mask

    def _has(self, key: str, value: str) -> Mask:
        holds = self._equals(key, value)
        reserved = _RESERVED.get(key)
        return holds | reserved(self, value) if reserved else holds

    def matches(self, term: SelectorTerm, *, own: bool = False) -> Mask:
        """Return the clusters that a term matches, by their `own` labels alone or their nodes' too.

        An empty term matches none.
        """
        if not term.match_labels and not term.match_expressions:
            return np.zeros(len(self), dtype=np.bool_)
        return self.labelled(term) if own else self.selected(term)

    def rows(self, names: Iterable[str]) -> Ints:
        found = (self.row.get(name) for name in names)
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def names_of(self, mask: Mask) -> list[str]:
        return sorted(self.names[row] for row in np.flatnonzero(mask).tolist())

    def by_row(self, numbers: Mapping[str, int], default: int = 0) -> Ints:
        """Shape (n,); `default` for those without a number."""
        column = np.full(len(self), default, dtype=np.int64)
        for name, number in numbers.items():
            if (row := self.row.get(name)) is not None:
                column[row] = number
        return column

    def domain(self, key: str, names: Iterable[str]) -> Mask:
        """Return the clusters with the same value as one of these."""
        codes = self.domains_by(key).codes
        there = codes[self.rows(names)]
        mask: Mask = np.isin(codes, there[there != ABSENT])
        return mask

    def untolerated(self, tolerations: Sequence[Toleration], effects: frozenset[str]) -> Ints:
        """Return the number of its taints of these effects, shape (n,)."""

        def counted() -> Ints:
            count = np.zeros(len(self), dtype=np.int64)
            for taint, column in self.taints.items():
                if taint.effect in effects and not any(t.tolerates(taint) for t in tolerations):
                    count += column
            return count

        return self.kept.fixed(("untolerated", tuple(tolerations), effects), counted).copy()

    def nodes(self, place: Place) -> Ints:
        """The nodes of each cluster that admit a pod, full or not, shape (n,)."""

        def counted() -> Ints:
            groups = self.groups
            there = np.where(groups.open_to(place), groups.count, 0)
            found = sums(groups.cluster, there, len(self))
            return np.where(self.virtual, UNLIMITED, np.minimum(found, UNLIMITED))

        return self.kept.fixed(("nodes", place), counted).copy()

    def fitting(self, request: Mapping[str, int], place: Place = ANYWHERE) -> Ints:
        """Return how many replicas fit on each cluster next to those in flight or held, shape (n,).

        0 on a cluster that has not reported its room. `UNLIMITED` on a virtual cluster, and for a
        replica that requests nothing.
        """
        if not request:
            return np.full(len(self), UNLIMITED, dtype=np.int64)
        if place.parts:
            return self._fitting_together(request, place)
        load = Load.of(request, place)

        def replicas(groups: NodeGroups) -> Ints:
            return groups.replicas(request, place)

        def alike() -> tuple[Ints, Floats, Floats]:
            fit = replicas(self.groups)
            costs = cost_of(load, self.groups, fit, request, len(self))
            return _free(self.groups, fit, len(self)), *costs

        def compute(rows: Ints | None) -> Ints:
            loads, groups = self._loads(rows), self.groups
            virtual = self.virtual if rows is None else self.virtual[rows]
            if rows is not None and loads.only(load):
                room, each, reach = self.kept.fixed(("alike", load), alike)
                at = rows[loads.cluster]
                free, coming = room[rows], taken_by(loads, each[at], reach[at], len(rows))
            else:
                groups = groups if rows is None else groups.of(rows)
                fit, size = replicas(groups), len(virtual)
                free, coming = _free(groups, fit, size), taken(loads, groups, fit, request, size)
            fits: Ints = np.maximum(free - coming, 0)
            fits[virtual] = UNLIMITED
            return fits

        return self.kept.column(("fitting", load), compute).copy()

    def _fitting_together(self, request: Mapping[str, int], place: Place) -> Ints:
        asked = [
            replace(each, request=tuple(pair for pair in each.request if pair[0] in request))
            for each in place.parts
        ]
        parts = [each for each in asked if each.request]

        def compute(rows: Ints | None) -> Ints:
            there = np.arange(len(self)) if rows is None else rows
            groups, size = self.groups.of(there), len(there)
            free = most(groups, parts, at_most(groups, parts, size))
            least, taken = np.full(size, UNLIMITED, dtype=np.int64), np.zeros(size)
            for each in parts:
                wanted = dict(each.request)
                fits = self.fitting(wanted, each.place)[there]
                np.minimum(least, fits // each.count, out=least)
                alone = _free(groups, groups.replicas(wanted, each.place), size)
                # What is in flight takes of all components together, in parts of each.
                coming = np.maximum(alone - fits, 0)
                taken += np.divide(each.count, coming, where=coming > 0, out=np.zeros(size))
            lost = np.divide(1.0, taken, where=taken > 0, out=np.zeros(size))
            found: Ints = np.minimum(free - np.ceil(lost).astype(np.int64), least)
            found = np.maximum(found, 0)
            found[self.virtual[there]] = UNLIMITED
            return found

        return self.kept.column(("together", tuple(parts)), compute).copy()

    def lacking(self, place: Place, replicas: Ints | int) -> Ints:
        """The first component without a node for so many replicas, or -1."""
        asked: Ints = np.zeros(len(self), dtype=np.int64) + replicas
        return lacking(self.groups, place.parts, asked)

    def assuming(
        self, load: Load, replicas: Mapping[str, int], charge: Charge | None = None
    ) -> Snapshot:
        """Return a copy with more replicas of this load in flight, by the cluster's name.

        `charge` is what quotas there take them for.
        """
        more = {self.row[name]: n for name, n in replicas.items() if name in self.row and n > 0}
        pods = ((row, *part) for row, n in more.items() for part in in_parts(load, n))
        flights = self.flights.plus(pods)
        after = replace(self, flights=flights, charged=self._charging(charge, more))
        if len(after.flights.places) + len(after.holds.places) <= MOST_PLACES:
            # Beyond that a row also depends on the places of other rows.
            kept = self.kept.after(np.array(sorted(more), dtype=np.int64))
            object.__setattr__(after, "kept", kept)
        return after

    def _charging(
        self, charge: Charge | None, more: Mapping[int, int]
    ) -> Mapping[str, Mapping[Charge, int]]:
        found = self.quotas.get(charge.namespace) if charge is not None else None
        if charge is None or found is None or not charge.pod:
            return self.charged
        after = dict(self.charged)
        for row in found.rows[np.isin(found.rows, list(more))].tolist():
            there = after.get(self.names[row], {})
            after[self.names[row]] = {**there, charge: there.get(charge, 0) + more[row]}
        return after

    def left(self, namespace: str) -> Mapping[str, Ints]:
        """What quotas leave beside replicas in flight, for each of their `rows`."""
        found = self._left.get(namespace)
        if found is None:
            found = self._left[namespace] = self._beside_flights(self.quotas[namespace], namespace)
        return found

    def _beside_flights(self, quotas: Quotas, namespace: str) -> Mapping[str, Ints]:
        coming = [
            (self.row[name], charge, replicas)
            for name, there in self.charged.items()
            for charge, replicas in there.items()
            if charge.namespace == namespace
        ]
        if not coming:
            return quotas.left
        left = {name: amounts.copy() for name, amounts in quotas.left.items()}
        place = {row: at for at, row in enumerate(quotas.rows.tolist())}
        for row, charge, replicas in coming:
            for name, amount in charge.amounts.items():
                if row in place and name in left:
                    left[name][place[row]] -= min(replicas * amount, MOST_AMOUNT)
        return left

    def releasing(self, entries: Mapping[str, Mapping[Load, int]]) -> Snapshot:
        """Return a copy that holds less, by the cluster's name; no load falls below zero."""
        released: list[tuple[int, Load, int]] = []
        whole: dict[int, Mapping[Load, int]] = {}
        merged = dict(self.merged)
        for name, loads in entries.items():
            row = self.row.get(name)
            if row is None:
                continue
            pods = [part for load, n in loads.items() for part in in_parts(load, n)]
            released += ((row, *part) for part in pods)
            if name in merged:
                merged[name] = whole[row] = less(merged[name], dict(pods))
        return replace(self, holds=self.holds.releasing(released, whole, len(self)), merged=merged)

    def held(self, name: str) -> Mapping[Load, int]:
        return self.merged.get(name) or self.holds.on(self.row[name])

    def coming(self, resource: str, rows: Ints | None = None) -> Ints:
        """Return the request for a resource of replicas in flight and held; `rows` are sorted."""
        return self._loads(rows).amount(resource, len(self if rows is None else rows))

    def _loads(self, rows: Ints | None = None) -> InFlight:
        """On sorted rows or all; cached."""
        name = _ALL if rows is None else rows.tobytes()
        if (found := self._coming.get(name)) is None:
            flights, holds = self.flights, self.holds
            both = len(flights) > 0 and len(holds) > 0
            if rows is not None:
                flights, holds = (each.of(rows, len(self)) for each in (flights, holds))
            found = flights.joined(holds) if both else flights if len(flights) else holds
            self._coming[name] = found
        return found


def _named(snapshot: Snapshot, value: str) -> Mask:
    mask = np.zeros(len(snapshot), dtype=np.bool_)
    mask[snapshot.rows([value])] = True
    return mask


_RESERVED: Mapping[str, Callable[[Snapshot, str], Mask]] = {
    "clusterName": _named,
    "clusterNamespace": lambda snapshot, value: snapshot.secret_namespace.equals(value),
    "cloudProvider": lambda snapshot, value: snapshot.provider.equals(value.lower()),
    "clusterProvider": lambda snapshot, value: snapshot.provider.equals(value.lower()),
    "clusterVersion": lambda snapshot, value: snapshot.version.equals(value.removeprefix("v")),
}


def _free(groups: NodeGroups, replicas: Ints, size: int) -> Ints:
    free: Ints = np.minimum(sums(groups.cluster, times(replicas, groups.count), size), UNLIMITED)
    return free


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
