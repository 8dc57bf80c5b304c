"""The fleet as columns: one entry a cluster, one array a fact; a rule is a few array operations.

`FleetBuilder` takes one MemberCluster at a time and keeps the columns; `snapshot()` hands out an
immutable `Fleet` that later changes do not touch (what changes is copied first). Labels are
interned: a column of small integers for each key, so that a selector is evaluated once for each
distinct value and not once for each cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from controller.model import MemberCluster, Taint, Toleration
from crds.names import LABEL_CLUSTER
from machinery import quantities
from machinery.selectors import Requirement, SelectorTerm

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
Ints: TypeAlias = NDArray[np.int64]

ABSENT = 0
"""The code of a cluster that lacks a label."""
UNLIMITED = 2**40
"""Units that fit where nothing is checked."""


class Vocabulary:
    """Values to codes, in the order of arrival; code 0 stands for absence. Only ever grows."""

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.values: list[str | None] = [None]

    def code(self, value: str | None) -> int:
        """The code of a value, a new one where it is seen for the first time."""
        if value is None:
            return ABSENT
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = len(self.values)
            self.values.append(value)
        return code


@dataclass(frozen=True, slots=True)
class Column:
    """A label key's codes, one a cluster, and what they mean."""

    codes: Codes
    vocabulary: Vocabulary

    def where(self, holds: Callable[[str | None], bool]) -> Mask:
        """The clusters whose value satisfies the predicate, which sees each distinct value once."""
        table = np.fromiter(
            (holds(value) for value in self.vocabulary.values),
            dtype=np.bool_,
            count=len(self.vocabulary.values),
        )
        mask: Mask = table[self.codes]
        return mask

    def equals(self, value: str) -> Mask:
        """The clusters with exactly this value."""
        mask: Mask = self.codes == self.vocabulary.codes.get(value, -1)
        return mask


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """All node groups, flat. `cluster` is a row of the fleet, `shape` a kind of node."""

    cluster: Ints
    count: Ints
    shape: Codes
    free: Mapping[str, Ints]
    shapes: Sequence[tuple[Mapping[str, str], tuple[Taint, ...]]]


@dataclass(frozen=True, slots=True)
class Fleet:
    """An immutable snapshot. Rows are in no order; ties are broken by `by_name`."""

    names: Sequence[str]
    clusters: Sequence[MemberCluster]
    row: Mapping[str, int]
    labels: Mapping[str, Column]
    by_name: Ints
    ready: Mask
    cordoned: Mask
    deleting: Mask
    virtual: Mask
    taints: Mapping[Taint, Mask]
    rules: Column
    provider: Column
    version: Column
    secret_namespace: Column
    cost: NDArray[np.float64]
    latency: Ints
    reliability: Ints
    allocatable: Mapping[str, Ints]
    requested: Mapping[str, Ints]
    assumed: Mapping[str, Ints]
    groups: NodeGroups

    def __len__(self) -> int:
        return len(self.names)

    def column(self, key: str) -> Column:
        """A label key's column; all absent for a key that no cluster has."""
        found = self.labels.get(key)
        return found or Column(np.zeros(len(self), dtype=np.int32), Vocabulary())

    def meets(self, requirement: Requirement) -> Mask:
        """The clusters whose labels satisfy one expression."""
        key = requirement.key

        def holds(value: str | None) -> bool:
            return requirement.matches({} if value is None else {key: value})

        return self.column(key).where(holds)

    def matches(self, term: SelectorTerm) -> Mask:
        """The clusters that a term matches; an empty term matches none."""
        if not term.match_labels and not term.match_expressions:
            return np.zeros(len(self), dtype=np.bool_)
        mask = np.ones(len(self), dtype=np.bool_)
        for key, value in term.match_labels.items():
            mask &= self.column(key).equals(value)
        for requirement in term.match_expressions:
            mask &= self.meets(requirement)
        return mask

    def rows(self, names: Iterable[str]) -> Ints:
        """The rows of the clusters that exist among these names."""
        found = (self.row.get(name) for name in names)
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def untolerated(self, tolerations: Iterable[Toleration], effects: frozenset[str]) -> Mask:
        """The clusters with a taint of one of the effects that nothing tolerates."""
        mask = np.zeros(len(self), dtype=np.bool_)
        for taint, column in self.taints.items():
            if taint.effect in effects and not any(t.tolerates(taint) for t in tolerations):
                mask |= column
        return mask

    def fitting(
        self,
        request: Mapping[str, int],
        *,
        node_selector: Mapping[str, str],
        tolerations: Sequence[Toleration],
    ) -> Ints:
        """How many more units fit on each cluster, shape (n,), units in flight taken off.

        A cluster that is virtual, or has not told its room yet asks for no check only when virtual.
        A unit that requests nothing fits without limit.
        """
        if not request:
            return np.full(len(self), UNLIMITED, dtype=np.int64)
        groups = self.groups
        units = np.full(len(groups.count), UNLIMITED, dtype=np.int64)
        for resource, amount in request.items():
            free = groups.free.get(resource)
            if free is None:
                units[:] = 0
            else:
                np.minimum(units, free // amount, out=units)
        units[~self._usable(node_selector, tolerations)] = 0
        weights = np.minimum(units, UNLIMITED // np.maximum(groups.count, 1)) * groups.count
        fits = np.bincount(groups.cluster, weights=weights, minlength=len(self)).astype(np.int64)
        fits -= self._in_flight(request)
        fits = np.maximum(fits, 0)
        fits[self.virtual] = UNLIMITED
        return fits

    def _usable(self, node_selector: Mapping[str, str], tolerations: Sequence[Toleration]) -> Mask:
        table = np.fromiter(
            (_takes(shape, node_selector, tolerations) for shape in self.groups.shapes),
            dtype=np.bool_,
            count=len(self.groups.shapes),
        )
        mask: Mask = table[self.groups.shape]
        return mask

    def _in_flight(self, request: Mapping[str, int]) -> Ints:
        """Units of this size that decided but not yet counted shares take up, rounded up."""
        taken = np.zeros(len(self), dtype=np.int64)
        for resource, amount in request.items():
            held = self.assumed.get(resource)
            if held is not None:
                np.maximum(taken, -(-held // amount), out=taken)
        return taken


def _takes(
    shape: tuple[Mapping[str, str], tuple[Taint, ...]],
    node_selector: Mapping[str, str],
    tolerations: Sequence[Toleration],
) -> bool:
    """Whether nodes of this shape take the pod: taints, and the selector's keys that we know."""
    labels, taints = shape
    if any(labels.get(key, value) != value for key, value in node_selector.items()):
        return False
    return not any(
        taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in tolerations)
        for taint in taints
    )


@dataclass(slots=True)
class _Row:
    """What is kept of a cluster beside the columns: its node groups and totals."""

    cluster: MemberCluster
    allocatable: dict[str, int]
    requested: dict[str, int]
    groups: list[tuple[int, int, dict[str, int]]]
    assumed: dict[str, int] = field(default_factory=dict)


class FleetBuilder:
    """The columns while they change. `snapshot()` costs what changed since the last one."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._shapes: dict[str, int] = {}
        self._shape_list: list[tuple[Mapping[str, str], tuple[Taint, ...]]] = []
        self._vocabularies: dict[str, Vocabulary] = {}
        self._pseudo = {name: Vocabulary() for name in ("rules", "provider", "version", "secret")}
        self._shape_of: Fleet | None = None
        self._dirty: set[str] = set()
        self._assumed_dirty: set[str] = set()

    def upsert(self, cluster: MemberCluster) -> None:
        """Take a cluster, new or changed. Quantities that are none count as no room."""
        name = cluster.metadata.name
        old = self._rows.get(name)
        capacity = cluster.status.capacity
        self._rows[name] = _Row(
            cluster,
            _amounts(capacity.allocatable if capacity else {}),
            _amounts(capacity.requested if capacity else {}),
            [
                (group.count, self._shape(group.labels, group.taints), _amounts(group.free))
                for group in cluster.status.node_groups
            ],
            old.assumed if old else {},
        )
        self._dirty.add(name)

    def remove(self, name: str) -> None:
        """Forget a cluster."""
        if self._rows.pop(name, None) is not None:
            self._shape_of = None

    def assume(self, name: str, request: Mapping[str, int], units: int) -> None:
        """Count units (negative: no longer) that a cluster's status does not show yet."""
        row = self._rows.get(name)
        if row is None or not units:
            return
        for resource, amount in request.items():
            row.assumed[resource] = row.assumed.get(resource, 0) + amount * units
        self._assumed_dirty.add(name)

    def assumed(self, name: str) -> Mapping[str, int]:
        """What is counted as in flight on a cluster."""
        row = self._rows.get(name)
        return row.assumed if row else {}

    def get(self, name: str) -> MemberCluster | None:
        """The cluster of that name."""
        row = self._rows.get(name)
        return row.cluster if row else None

    def snapshot(self) -> Fleet:
        """The fleet as it is now; the same object while nothing has changed."""
        last = self._shape_of
        if last is None or any(name not in last.row for name in self._dirty):
            self._shape_of = self._build()
        elif self._dirty or self._assumed_dirty:
            self._shape_of = self._renewed(last)
        self._dirty.clear()
        self._assumed_dirty.clear()
        assert self._shape_of is not None  # noqa: S101 - both branches above set it
        return self._shape_of

    def _shape(self, labels: Mapping[str, str], taints: Sequence[Taint]) -> int:
        key = repr((sorted(labels.items()), sorted((t.key, t.value, t.effect) for t in taints)))
        code = self._shapes.get(key)
        if code is None:
            code = self._shapes[key] = len(self._shape_list)
            self._shape_list.append((labels, tuple(taints)))
        return code

    def _build(self) -> Fleet:
        names = list(self._rows)
        return self._assemble(names, {name: i for i, name in enumerate(names)}, self._order(names))

    def _order(self, names: Sequence[str]) -> Ints:
        order = np.empty(len(names), dtype=np.int64)
        order[np.argsort(np.array(names, dtype=object), kind="stable")] = np.arange(len(names))
        return order

    def _renewed(self, last: Fleet) -> Fleet:
        """Same rows, some of them with other facts: copy the columns and change those entries."""
        if len(self._dirty) > max(8, len(last) // 4):
            return self._assemble(last.names, last.row, last.by_name)
        changed = [(last.row[name], self._rows[name]) for name in self._dirty]
        touched = {*self._dirty, *(n for n in self._assumed_dirty if n in last.row)}
        if not changed:
            return _replaced(last, assumed=self._assumed(last, touched))
        clusters = list(last.clusters)
        for i, row in changed:
            clusters[i] = row.cluster
        return _replaced(
            last,
            clusters=clusters,
            labels=self._labels_of(last, changed),
            ready=_patched(last.ready, changed, lambda r: r.cluster.ready),
            cordoned=_patched(last.cordoned, changed, lambda r: r.cluster.spec.unschedulable),
            deleting=_patched(last.deleting, changed, lambda r: r.cluster.metadata.deleting),
            virtual=_patched(last.virtual, changed, lambda r: r.cluster.spec.virtual),
            taints=_patched_taints(last, changed),
            rules=self._patched_column(last.rules, "rules", changed),
            provider=self._patched_column(last.provider, "provider", changed),
            version=self._patched_column(last.version, "version", changed),
            secret_namespace=self._patched_column(last.secret_namespace, "secret", changed),
            cost=_patched(last.cost, changed, _cost),
            latency=_patched(last.latency, changed, _latency),
            reliability=_patched(last.reliability, changed, _reliability),
            allocatable=_patched_amounts(
                last.allocatable, changed, lambda r: r.allocatable, size=len(last)
            ),
            requested=_patched_amounts(
                last.requested, changed, lambda r: r.requested, size=len(last)
            ),
            assumed=self._assumed(last, touched),
            groups=_patched_groups(last.groups, changed, self._shape_list),
        )

    def _assumed(self, last: Fleet, names: Iterable[str]) -> Mapping[str, Ints]:
        rows = [(last.row[name], self._rows[name]) for name in names]
        return _patched_amounts(last.assumed, rows, lambda r: r.assumed, size=len(last))

    def _labels_of(self, last: Fleet, changed: Sequence[tuple[int, _Row]]) -> Mapping[str, Column]:
        labels = dict(last.labels)
        keys = {key for _, row in changed for key in _labels(row)}
        for key in keys - labels.keys():
            vocabulary = self._vocabularies.setdefault(key, Vocabulary())
            labels[key] = Column(np.zeros(len(last), dtype=np.int32), vocabulary)
        for key, column in labels.items():
            wanted = [column.vocabulary.code(_labels(row).get(key)) for _, row in changed]
            if any(column.codes[i] != code for (i, _), code in zip(changed, wanted, strict=True)):
                codes = column.codes.copy()
                for (i, _), code in zip(changed, wanted, strict=True):
                    codes[i] = code
                labels[key] = Column(codes, column.vocabulary)
        return labels

    def _patched_column(
        self, column: Column, name: str, changed: Sequence[tuple[int, _Row]]
    ) -> Column:
        vocabulary = self._pseudo[name]
        codes = _patched(column.codes, changed, lambda r: vocabulary.code(_PSEUDO[name](r)))
        return Column(codes, vocabulary)

    def _assemble(self, names: Sequence[str], row: Mapping[str, int], order: Ints) -> Fleet:
        rows = [self._rows[name] for name in names]
        pseudo = {
            name: Column(
                np.array([vocabulary.code(_PSEUDO[name](r)) for r in rows], dtype=np.int32),
                vocabulary,
            )
            for name, vocabulary in self._pseudo.items()
        }
        return Fleet(
            names=names,
            clusters=[r.cluster for r in rows],
            row=row,
            labels=self._all_labels(rows),
            by_name=order,
            ready=np.array([r.cluster.ready for r in rows], dtype=np.bool_),
            cordoned=np.array([r.cluster.spec.unschedulable for r in rows], dtype=np.bool_),
            deleting=np.array([r.cluster.metadata.deleting for r in rows], dtype=np.bool_),
            virtual=np.array([r.cluster.spec.virtual for r in rows], dtype=np.bool_),
            taints=_all_taints(rows),
            rules=pseudo["rules"],
            provider=pseudo["provider"],
            version=pseudo["version"],
            secret_namespace=pseudo["secret"],
            cost=np.array([_cost(r) for r in rows], dtype=np.float64),
            latency=np.array([_latency(r) for r in rows], dtype=np.int64),
            reliability=np.array([_reliability(r) for r in rows], dtype=np.int64),
            allocatable=_all_amounts(rows, lambda r: r.allocatable),
            requested=_all_amounts(rows, lambda r: r.requested),
            assumed=_all_amounts(rows, lambda r: r.assumed),
            groups=_all_groups(list(enumerate(rows)), self._shape_list),
        )

    def _all_labels(self, rows: Sequence[_Row]) -> Mapping[str, Column]:
        labels: dict[str, Column] = {}
        for i, row in enumerate(rows):
            for key, value in _labels(row).items():
                column = labels.get(key)
                if column is None:
                    vocabulary = self._vocabularies.setdefault(key, Vocabulary())
                    column = Column(np.zeros(len(rows), dtype=np.int32), vocabulary)
                    labels[key] = column
                column.codes[i] = column.vocabulary.code(value)
        return labels


def _labels(row: _Row) -> Mapping[str, str]:
    meta = row.cluster.metadata
    # Every cluster is a domain of its own, also before the propagator has labelled it.
    return {**meta.labels, LABEL_CLUSTER: meta.name}


def _normal_version(row: _Row) -> str | None:
    return row.cluster.status.version.removeprefix("v") or None


_PSEUDO: dict[str, Callable[[_Row], str | None]] = {
    "rules": lambda r: "\n".join(r.cluster.spec.namespaces.allow),
    "provider": lambda r: r.cluster.status.provider.lower() or None,
    "version": _normal_version,
    "secret": lambda r: r.cluster.spec.secret_ref.namespace or None,
}


def _cost(row: _Row) -> float:
    """The administrator's price of the cluster; NaN where there is none, or no number."""
    try:
        return float(row.cluster.metadata.annotations["stowage.dev/cost"])
    except (KeyError, ValueError):
        return float("nan")


def _latency(row: _Row) -> int:
    latency = row.cluster.status.latency_milliseconds
    return -1 if latency is None else latency


def _reliability(row: _Row) -> int:
    known = row.cluster.status.reliability
    return -1 if known is None else known.ready_percent


def _amounts(texts: Mapping[str, str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource, text in texts.items():
        try:
            amounts[resource] = quantities.amount(resource, text)
        except ValueError:
            amounts[resource] = 0
    return amounts


def _replaced(last: Fleet, **columns: object) -> Fleet:
    values = {name: getattr(last, name) for name in Fleet.__slots__}
    return Fleet(**{**values, **columns})


def _patched(
    column: NDArray[np.generic], changed: Sequence[tuple[int, _Row]], read: Callable[[_Row], Any]
) -> NDArray:  # type: ignore[type-arg] # of the column's own type
    copy = column.copy()
    for i, row in changed:
        copy[i] = read(row)
    return copy


def _patched_amounts(
    last: Mapping[str, Ints],
    changed: Sequence[tuple[int, _Row]],
    read: Callable[[_Row], Mapping[str, int]],
    *,
    size: int,
) -> Mapping[str, Ints]:
    columns = {resource: column.copy() for resource, column in last.items()}
    for i, row in changed:
        amounts = read(row)
        for resource in amounts.keys() - columns.keys():
            columns[resource] = np.zeros(size, dtype=np.int64)
        for resource, column in columns.items():
            column[i] = amounts.get(resource, 0)
    return columns


def _patched_taints(last: Fleet, changed: Sequence[tuple[int, _Row]]) -> Mapping[Taint, Mask]:
    columns = dict(last.taints)
    for i, row in changed:
        wanted = set(row.cluster.spec.taints)
        for taint in wanted | columns.keys():
            column = columns.get(taint, np.zeros(len(last), dtype=np.bool_))
            if column[i] != (taint in wanted):
                column = column.copy()
                column[i] = taint in wanted
                columns[taint] = column
    return {taint: column for taint, column in columns.items() if column.any()}


def _patched_groups(
    last: NodeGroups,
    changed: Sequence[tuple[int, _Row]],
    shapes: Sequence[tuple[Mapping[str, str], tuple[Taint, ...]]],
) -> NodeGroups:
    keep = ~np.isin(last.cluster, np.array([i for i, _ in changed], dtype=np.int64))
    fresh = _all_groups(changed, shapes)
    count = int(keep.sum())
    free = {
        resource: np.concatenate(
            [
                last.free[resource][keep]
                if resource in last.free
                else np.zeros(count, dtype=np.int64),
                fresh.free.get(resource, np.zeros(len(fresh.count), dtype=np.int64)),
            ]
        )
        for resource in {*last.free, *fresh.free}
    }
    return NodeGroups(
        np.concatenate([last.cluster[keep], fresh.cluster]),
        np.concatenate([last.count[keep], fresh.count]),
        np.concatenate([last.shape[keep], fresh.shape]),
        free,
        list(shapes),
    )


def _all_groups(
    rows: Sequence[tuple[int, _Row]],
    shapes: Sequence[tuple[Mapping[str, str], tuple[Taint, ...]]],
) -> NodeGroups:
    flat = [(i, *group) for i, row in rows for group in row.groups]
    resources = {resource for *_, free in flat for resource in free}
    return NodeGroups(
        np.array([i for i, *_ in flat], dtype=np.int64),
        np.array([count for _, count, *_ in flat], dtype=np.int64),
        np.array([shape for _, _, shape, _ in flat], dtype=np.int32),
        {
            resource: np.array([free.get(resource, 0) for *_, free in flat], dtype=np.int64)
            for resource in resources
        },
        list(shapes),
    )


def _all_taints(rows: Sequence[_Row]) -> Mapping[Taint, Mask]:
    columns: dict[Taint, Mask] = {}
    for i, row in enumerate(rows):
        for taint in row.cluster.spec.taints:
            columns.setdefault(taint, np.zeros(len(rows), dtype=np.bool_))[i] = True
    return columns


def _all_amounts(
    rows: Sequence[_Row], read: Callable[[_Row], Mapping[str, int]]
) -> Mapping[str, Ints]:
    columns: dict[str, Ints] = {}
    for i, row in enumerate(rows):
        for resource, amount in read(row).items():
            columns.setdefault(resource, np.zeros(len(rows), dtype=np.int64))[i] = amount
    return columns
