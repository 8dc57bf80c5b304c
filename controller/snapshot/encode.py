"""How a MemberCluster becomes cells of columns: a reader for each fact, a writer for each shape.

A writer takes the columns of the last snapshot and the changed rows, and returns new columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from controller.model import nodelabels
from controller.model.load import Load, entries, lying
from controller.model.objects import MemberCluster
from controller.model.requests import Charge, left_by
from controller.snapshot.columns import Codes, Column, Ints, Mask, Vocabulary
from controller.snapshot.inflight import LEAST_HOLDS, LEAST_LOADS, InFlight, most_loads
from controller.snapshot.nodegroups import NO_QUOTAS, NodeGroups, Quotas
from crds.names import ANNOTATION_COST
from machinery.types import hostports, quantities
from machinery.types.api import NodeGroup
from machinery.types.bounds import MOST_AMOUNT, MOST_NODES, MOST_UNITS, RESOURCES, between
from machinery.types.taints import Taint

Cell = TypeVar("Cell", bound=np.generic)
Members = TypeVar("Members", bound=Hashable)
UNKNOWN = -1
"""Latency and reliability of a cluster that was never measured."""


@dataclass(slots=True)
class Row:
    cluster: MemberCluster
    labels: Mapping[str, str]
    node_labels: Mapping[str, str]
    domains: Mapping[str, str]
    """Its labels, and those on which all its nodes agree."""
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    groups: Sequence[tuple[NodeGroup, Mapping[str, int], frozenset[int]]]
    """Each with the free amounts of a node, and the host ports in use."""
    offers: frozenset[str]
    flying: Mapping[Load, int]
    held: Mapping[Load, int]
    counted: Mapping[Load, int]
    """The replicas that the hub placed there and that are no longer in flight."""
    charged: Mapping[Charge, int]
    """Those in flight, as quotas count them."""

    @staticmethod
    def of(
        cluster: MemberCluster,
        flying: Mapping[Load, int],
        held: Mapping[Load, int],
        counted: Mapping[Load, int],
        charged: Mapping[Charge, int],
    ) -> Row:
        capacity = cluster.status.capacity
        reported = cluster.status.node_groups
        allocatable = _amounts(capacity.allocatable if capacity else {})
        requested = _amounts(capacity.requested if capacity else {})
        groups: list[Group] = [
            (group, _amounts(group.free), hostports.used(group.free)) for group in reported
        ]
        if most := _amounts(cluster.spec.max_allocatable):
            allocatable = {r: min(n, most.get(r, n)) for r, n in allocatable.items()}
            groups = [*within(groups, left(most, requested, counted))]
        labels, values = cluster.labels, cluster.node_labels
        return Row(
            cluster,
            labels,
            values,
            {**nodelabels.agreed(values), **labels} if values else labels,
            allocatable,
            requested,
            groups,
            frozenset(resource for _, free, _ in groups for resource, n in free.items() if n),
            flying,
            held,
            counted,
            charged,
        )

    def lying(self, loads: Mapping[Load, int]) -> Mapping[Load, int]:
        """None on a virtual cluster."""
        return {} if not loads or self.cluster.spec.virtual else lying(loads, self.offers)

    def most(self, size: int, loads: Mapping[Load, int], least: int) -> int:
        return least if len(loads) <= least else most_loads(size, len(self.groups), least)


@dataclass(frozen=True, slots=True)
class Changes:
    rows: Sequence[tuple[int, Row]]
    numbers: Ints

    @staticmethod
    def of(rows: Sequence[tuple[int, Row]]) -> Changes:
        return Changes(rows, np.array([i for i, _ in rows], dtype=np.int64))


# A hook may copy every cluster in each pass, with the same quantities.
_bounded = functools.lru_cache(maxsize=2**14, typed=True)(quantities.bounded)


def _amounts(texts: Mapping[str, Any]) -> dict[str, int]:
    """Parse reported amounts, cut to their bounds; an invalid quantity counts as 0.

    Ports are no columns.
    """
    amounts: dict[str, int] = {}
    # Each resource of a member is a column of all clusters: their number is bounded.
    for resource in texts if len(texts) <= RESOURCES else sorted(texts)[:RESOURCES]:
        if resource.startswith(hostports.PREFIX):
            continue
        try:
            amounts[resource] = _bounded(resource, texts[resource])
        except ValueError:
            amounts[resource] = 0
    return amounts


def _cost(row: Row) -> float:
    """NaN without a finite number."""
    try:
        cost = float(row.cluster.metadata.annotations[ANNOTATION_COST])
    except (KeyError, ValueError):
        return math.nan
    return cost if math.isfinite(cost) else math.nan


def _latency(row: Row) -> int:
    latency = row.cluster.status.latency_milliseconds
    return UNKNOWN if latency is None else between(0, latency, MOST_UNITS)


def _reliability(row: Row) -> int:
    known = row.cluster.status.reliability
    return UNKNOWN if known is None else between(0, known.ready_percent, 100)


PLAIN: Mapping[str, tuple[type[np.generic], Callable[[Row], Any]]] = {
    "ready": (np.bool_, lambda row: row.cluster.ready),
    "agent_old": (np.bool_, lambda row: row.cluster.agent_old),
    "cordoned": (np.bool_, lambda row: row.cluster.spec.unschedulable),
    "deleting": (np.bool_, lambda row: row.cluster.metadata.deleting),
    "virtual": (np.bool_, lambda row: row.cluster.spec.virtual),
    "evacuating": (np.bool_, lambda row: row.cluster.evacuating),
    "cost": (np.float64, _cost),
    "latency": (np.int64, _latency),
    "reliability": (np.int64, _reliability),
}
"""Columns of numbers and flags: their type, and the reader of a cell."""


def _given(row: Row) -> str | None:
    only = row.cluster.status.namespaces.given
    return None if only is None else "\n".join(only)


def _served(row: Row) -> str | None:
    only = row.cluster.served
    return None if only is None else "\n".join(("", *only, ""))


TEXTS: Mapping[str, Callable[[Row], str | None]] = {
    "rules": lambda row: "\n".join(row.cluster.spec.namespaces.allow),
    "kinds": lambda row: "\n".join(row.cluster.spec.allowed_kinds),
    "given": _given,
    "served": _served,
    "withheld": lambda row: "\n".join(row.cluster.status.namespaces.refused) or None,
    "provider": lambda row: row.cluster.provider.lower() or None,
    "version": lambda row: row.cluster.version.removeprefix("v") or None,
    "secret_namespace": lambda row: row.cluster.secret_namespace or None,
}
"""Columns of texts other than labels."""

AMOUNTS: Mapping[str, Callable[[Row], Mapping[str, int]]] = {
    "allocatable": lambda row: row.allocatable,
    "requested": lambda row: row.requested,
}


def plain(name: str, column: NDArray[Cell], changes: Changes) -> NDArray[Cell]:
    _, read = PLAIN[name]
    copy = column.copy()
    copy[changes.numbers] = [read(row) for _, row in changes.rows]
    return copy


def text(name: str, column: Column, changes: Changes) -> Column:
    read, code = TEXTS[name], column.vocabulary.code
    codes = column.codes.copy()
    codes[changes.numbers] = [code(read(row)) for _, row in changes.rows]
    return Column(codes, column.vocabulary).tidy()


LABELS: Mapping[str, Callable[[Row], Mapping[str, str]]] = {
    "labels": lambda row: row.labels,
    "node_labels": lambda row: row.node_labels,
    "domains": lambda row: row.domains,
}
"""Columns of texts by keys."""


def labels(
    name: str, last: Mapping[str, Column], changes: Changes, size: int
) -> Mapping[str, Column]:
    read = LABELS[name]
    columns = {key: Column(c.codes.copy(), c.vocabulary) for key, c in last.items()}
    for column in columns.values():
        column.codes[changes.numbers] = 0
    for i, row in changes.rows:
        for key, value in read(row).items():
            column = columns.get(key) or columns.setdefault(key, Column.absent(size))
            column.codes[i] = column.vocabulary.code(value)
    return {key: column.tidy() for key, column in columns.items() if column.codes.any()}


def taints(last: Mapping[Taint, Mask], changes: Changes, size: int) -> Mapping[Taint, Mask]:
    columns = {taint: mask.copy() for taint, mask in last.items()}
    for mask in columns.values():
        mask[changes.numbers] = False
    for i, row in changes.rows:
        for taint in row.cluster.spec.taints:
            if taint not in columns:
                columns[taint] = np.zeros(size, dtype=np.bool_)
            columns[taint][i] = True
    return {taint: mask for taint, mask in columns.items() if mask.any()}


def amounts(name: str, last: Mapping[str, Ints], changes: Changes, size: int) -> Mapping[str, Ints]:
    """A missing resource is 0."""
    read = AMOUNTS[name]
    columns = {resource: column.copy() for resource, column in last.items()}
    for column in columns.values():
        column[changes.numbers] = 0
    for i, row in changes.rows:
        for resource, amount in read(row).items():
            if resource not in columns:
                columns[resource] = np.zeros(size, dtype=np.int64)
            columns[resource][i] = amount
    return {resource: column for resource, column in columns.items() if column.any()}


def groups(last: NodeGroups, changes: Changes) -> NodeGroups:
    stay = ~np.isin(last.cluster, changes.numbers)
    fresh = [(i, *group) for i, row in changes.rows for group in row.groups]
    old = int(stay.sum())
    resources = {*last.free, *(resource for _, _, free, _ in fresh for resource in free)}
    keys = {*last.labels, *(key for _, group, _, _ in fresh for key in group.labels)}
    rows = np.concatenate([last.cluster[stay], _ints(i for i, *_ in fresh)])
    order = np.argsort(rows, kind="stable")
    count = np.concatenate([last.count[stay], _ints(_nodes(group) for _, group, *_ in fresh)])
    free = {
        r: np.concatenate(
            [_cut(last.free.get(r), stay, old), _ints(free.get(r, 0) for _, _, free, _ in fresh)]
        )
        for r in resources
    }
    columns = {
        key: _joined(last.labels.get(key), stay, old, [g.labels.get(key) for _, g, *_ in fresh])
        for key in keys
    }
    taints = [_taint_set(group.taints) for _, group, *_ in fresh]
    taint_codes, taint_sets = _sets(last.taints[stay], last.taint_sets, taints, order)
    used = [ports for *_, ports in fresh]
    port_codes, port_sets = _sets(last.ports[stay], last.port_sets, used, order)
    return NodeGroups(
        cluster=rows[order],
        count=count[order],
        free={resource: column[order] for resource, column in free.items() if column.any()},
        labels={
            key: Column(c.codes[order], c.vocabulary) for key, c in columns.items() if c.codes.any()
        },
        taints=taint_codes,
        taint_sets=taint_sets,
        ports=port_codes,
        port_sets=port_sets,
    )


def flights(last: InFlight, changes: Changes, size: int) -> InFlight:
    fresh: list[tuple[int, Load, int]] = []
    for i, row in changes.rows:
        loads = row.lying(row.flying)
        fresh += entries(i, loads, row.most(size, loads, LEAST_LOADS))
    return last.without(changes.numbers).plus(fresh)


def holds(
    last: InFlight, merged: Mapping[str, Mapping[Load, int]], changes: Changes, size: int
) -> tuple[InFlight, Mapping[str, Mapping[Load, int]]]:
    """Return also the unmerged loads of merged rows."""
    if not len(last) and not any(row.held for _, row in changes.rows):
        return last, merged
    fresh: list[tuple[int, Load, int]] = []
    whole = dict(merged)
    for i, row in changes.rows:
        loads, name = row.lying(row.held), row.cluster.metadata.name
        most = row.most(size, loads, LEAST_HOLDS)
        whole.pop(name, None)
        if len(loads) > most:
            whole[name] = loads
        fresh += entries(i, loads, most)
    return last.without(changes.numbers).plus(fresh), whole


def counted(
    last: Mapping[str, Mapping[Load, int]], changes: Changes
) -> Mapping[str, Mapping[Load, int]]:
    whole = dict(last)
    for _, row in changes.rows:
        name = row.cluster.metadata.name
        whole.pop(name, None)
        if row.counted and row.cluster.spec.max_allocatable:
            whole[name] = dict(row.counted)
    return whole


def charged(
    last: Mapping[str, Mapping[Charge, int]], changes: Changes
) -> Mapping[str, Mapping[Charge, int]]:
    quoted = [row for _, row in changes.rows if row.charged and row.cluster.status.quotas]
    if not quoted and not last:
        return last
    whole = dict(last)
    for _, row in changes.rows:
        whole.pop(row.cluster.metadata.name, None)
    for row in quoted:
        whole[row.cluster.metadata.name] = dict(row.charged)
    return whole


def quotas(
    last: Mapping[str, Quotas], clusters: Sequence[MemberCluster], changes: Changes
) -> Mapping[str, Quotas]:
    """`clusters` are the rows as they were."""
    fresh: dict[str, list[tuple[int, Mapping[str, int]]]] = {}
    for i, row in changes.rows:
        before, now = clusters[i].status.quotas, row.cluster.status.quotas
        if before == now:
            continue
        was, left = left_by(before), left_by(now)
        for namespace in {**was, **left}:
            if was.get(namespace) != left.get(namespace):
                fresh.setdefault(namespace, []).append((i, left.get(namespace, {})))
    if not fresh:
        return last
    whole = dict(last)
    for namespace, rows in fresh.items():
        found = whole.pop(namespace, NO_QUOTAS).replaced(rows)
        if len(found.rows):
            whole[namespace] = found
    return whole


def resized_quotas(last: Mapping[str, Quotas], keep: Mask) -> Mapping[str, Quotas]:
    if keep.all():
        return last
    number = np.cumsum(keep) - 1
    found = {namespace: each.picked(keep[each.rows], number) for namespace, each in last.items()}
    return {namespace: each for namespace, each in found.items() if len(each.rows)}


def _nodes(group: NodeGroup) -> int:
    return between(0, group.count, MOST_NODES)


def _sets(
    kept: Codes, known: Sequence[Members], fresh: Sequence[Members], order: Ints
) -> tuple[Codes, tuple[Members, ...]]:
    numbers = {each: code for code, each in enumerate(known)}
    added = np.array([numbers.setdefault(each, len(numbers)) for each in fresh], dtype=np.int32)
    codes, sets = np.concatenate([kept, added])[order], tuple(numbers)
    users = np.bincount(codes, minlength=len(sets)) > 0
    if users.all():
        return codes, sets
    recoded: Codes = (np.cumsum(users, dtype=np.int32) - 1)[codes].astype(np.int32)
    return recoded, tuple(each for each, used in zip(sets, users, strict=True) if used)


def _taint_set(found: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(sorted(set(found), key=lambda t: (t.key, t.value, t.effect)))


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _cut(column: Ints | None, stay: Mask, size: int) -> Ints:
    return np.zeros(size, dtype=np.int64) if column is None else column[stay]


def _joined(column: Column | None, stay: Mask, size: int, values: Sequence[str | None]) -> Column:
    vocabulary = Vocabulary() if column is None else column.vocabulary
    kept = np.zeros(size, dtype=np.int32) if column is None else column.codes[stay]
    fresh = np.array([vocabulary.code(value) for value in values], dtype=np.int32)
    return Column(np.concatenate([kept, fresh]), vocabulary).tidy()


def resized(column: NDArray[Cell], keep: Mask, extra: int) -> NDArray[Cell]:
    return np.concatenate([column[keep], np.zeros(extra, dtype=column.dtype)])


def resized_text(column: Column, keep: Mask, extra: int) -> Column:
    codes: Codes = resized(column.codes, keep, extra)
    return Column(codes, column.vocabulary)


def resized_groups(last: NodeGroups, keep: Mask) -> NodeGroups:
    stay = keep[last.cluster]
    number = np.cumsum(keep) - 1
    return last.picked(stay, number[last.cluster[stay]])


Amounts = Mapping[str, int]
Group = tuple[NodeGroup, Amounts, frozenset[int]]
"""Alike nodes, the free amounts of each, and the host ports in use."""


def left(most: Amounts, requested: Amounts, counted: Mapping[Load, int]) -> dict[str, int]:
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
