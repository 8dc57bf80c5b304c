"""Makes snapshots: MemberClusters in, immutable snapshots out.

`snapshot()` copies the columns of the last snapshot and writes only the changed rows. Replicas in
flight (`assume`) are kept for absent clusters, too: a cluster that returns with ten thousand
Workloads costs no more than any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from controller.model.load import Load, in_parts
from controller.model.objects import MemberCluster
from controller.model.requests import Charge
from controller.snapshot import encode
from controller.snapshot.columns import ABSENT, Codes, Column, Floats, Ints, Mask
from controller.snapshot.encode import Changes, Row
from controller.snapshot.inflight import NO_FLIGHTS
from controller.snapshot.nodegroups import UNLIMITED, NodeGroups
from controller.snapshot.snapshot import Snapshot

__all__ = [
    "ABSENT",
    "UNLIMITED",
    "Codes",
    "Column",
    "Floats",
    "Ints",
    "Mask",
    "NodeGroups",
    "Snapshot",
    "SnapshotBuilder",
    "narrowed",
    "with_cluster",
    "with_clusters",
]


K = TypeVar("K")
STEP = 500
"""Many new clusters, as at the start, enter snapshots in steps of this size."""


@dataclass(slots=True)
class _Touched:
    clusters: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.clusters or self.loads or self.counted or self.gone)


class SnapshotBuilder:
    """The present clusters. Not thread-safe; snapshots are."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._flying: dict[str, dict[Load, int]] = {}
        self._held: dict[str, dict[Load, int]] = {}
        self._counted: dict[str, dict[Load, int]] = {}
        self._charged: dict[str, dict[Charge, int]] = {}
        self._last = _empty()
        self._touched = _Touched()

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def upsert(self, cluster: MemberCluster) -> None:
        """An invalid quantity counts as no room."""
        name = cluster.metadata.name
        self._rows[name] = self._row(cluster)
        self._touched.clusters.add(name)
        self._touched.gone.discard(name)
        if len(self._touched.clusters) >= STEP:
            self.snapshot()

    def _row(self, cluster: MemberCluster) -> Row:
        name, books = cluster.metadata.name, (self._flying, self._held, self._counted)
        charged = self._charged.setdefault(name, {})
        flying, held, counted = (loads.setdefault(name, {}) for loads in books)
        return Row.of(cluster, flying, held, counted, charged)

    def remove(self, name: str) -> None:
        """Its assumed replicas stay, in case it returns."""
        if self._rows.pop(name, None) is not None:
            self._tidy(name)
            self._touched.clusters.discard(name)
            self._touched.loads.discard(name)
            self._touched.counted.discard(name)
            self._touched.gone.add(name)

    def assume(self, name: str, load: Load, replicas: int, charge: Charge | None = None) -> None:
        """Count replicas (negative: uncount) that a cluster's status does not include yet.

        `charge` is what quotas there take them for.
        """
        for part, pods in in_parts(load, replicas):
            self._count(self._flying, self._touched.loads, name, part, pods)
        if charge is not None and charge.pod:
            self._count(self._charged, self._touched.loads, name, charge, replicas)

    def hold(self, name: str, load: Load, replicas: int) -> None:
        """Hold the room of these replicas (negative: release); see `RoomHolder.hold`."""
        for part, pods in in_parts(load, replicas):
            self._count(self._held, self._touched.loads, name, part, pods)

    def count(self, name: str, load: Load, replicas: int) -> None:
        """Count replicas (negative: uncount) that the hub placed and the cluster reports."""
        row = self._rows.get(name)
        # The row depends on this count only if the cluster's room is bounded.
        bounded = row is not None and row.cluster.spec.max_allocatable
        touched = self._touched.counted if bounded else set[str]()
        for part, pods in in_parts(load, replicas):
            self._count(self._counted, touched, name, part, pods)

    def _count(
        self,
        loads: dict[str, dict[K, int]],
        touched: set[str],
        name: str,
        load: K,
        replicas: int,
    ) -> None:
        if not replicas:
            return
        there = loads.setdefault(name, {})
        there[load] = there.get(load, 0) + replicas
        if not there[load]:
            del there[load]
        if name in self._rows:
            touched.add(name)
        else:
            self._tidy(name)

    def _tidy(self, name: str) -> None:
        for loads in (self._flying, self._held, self._counted):
            if not loads.get(name):
                loads.pop(name, None)
        if not self._charged.get(name):
            self._charged.pop(name, None)

    def snapshot(self) -> Snapshot:
        """Return the same object while nothing has changed."""
        if self._touched:
            self._last = self._next()
            self._touched = _Touched()
        return self._last

    def _next(self) -> Snapshot:
        touched, last = self._touched, self._last
        for name in touched.counted:
            self._rows[name] = self._row(self._rows[name].cluster)
        touched.clusters |= touched.counted
        new = [name for name in touched.clusters if name not in last.row]
        if new or touched.gone:
            last = _resized(last, {n for n in touched.gone if n not in self._rows}, new)
        if touched.clusters:
            names = touched.clusters | touched.loads
            return _written(last, [(last.row[name], self._rows[name]) for name in names])
        changes = Changes.of([(last.row[name], self._rows[name]) for name in touched.loads])
        return replace(last, **_loads(last, changes))


def with_cluster(snapshot: Snapshot, cluster: MemberCluster) -> Snapshot:
    """Return a copy with one cluster, known by its name, replaced: for a hook before Filter.

    Raises KeyError for a cluster that is not in the snapshot.
    """
    return with_clusters(snapshot, [cluster])


def with_clusters(snapshot: Snapshot, clusters: Iterable[MemberCluster]) -> Snapshot:
    """As `with_cluster`, for several."""
    there = [(snapshot.row[cluster.metadata.name], cluster) for cluster in clusters]
    numbers = [row for row, _ in there]
    flying, held = snapshot.flights.by_row(numbers), snapshot.holds.by_row(numbers)
    rows = []
    for row, cluster in there:
        name = cluster.metadata.name
        loads = (flying[row], snapshot.merged.get(name) or held[row])
        charged = snapshot.charged.get(name, {})
        rows.append((row, Row.of(cluster, *loads, snapshot.counted.get(name, {}), charged)))
    return _written(snapshot, rows) if rows else snapshot


def narrowed(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    return _resized(snapshot, {name for name in snapshot.names if name not in names}, [])


def _empty() -> Snapshot:
    nothing = np.zeros(0, dtype=np.int64)
    none = np.zeros(0, dtype=np.int32)
    groups = NodeGroups(nothing, nothing, {}, {}, none, (), none, ())
    columns: dict[str, Any] = {
        name: np.zeros(0, dtype=kind) for name, (kind, _) in encode.PLAIN.items()
    }
    columns |= {name: Column.absent(0) for name in encode.TEXTS}
    columns |= {name: {} for name in (*encode.LABELS, "taints", *encode.AMOUNTS)}
    return Snapshot(
        names=(),
        clusters=(),
        row={},
        by_name=nothing,
        groups=groups,
        flights=NO_FLIGHTS,
        holds=NO_FLIGHTS,
        merged={},
        counted={},
        quotas={},
        charged={},
        **columns,
    )


def _written(last: Snapshot, rows: Sequence[tuple[int, Row]]) -> Snapshot:
    changes, size = Changes.of(rows), len(last)
    clusters = list(last.clusters)
    for i, row in rows:
        clusters[i] = row.cluster
    columns: dict[str, Any] = {
        name: encode.plain(name, getattr(last, name), changes) for name in encode.PLAIN
    }
    columns |= {name: encode.text(name, getattr(last, name), changes) for name in encode.TEXTS}
    columns |= {
        name: encode.amounts(name, getattr(last, name), changes, size) for name in encode.AMOUNTS
    }
    columns |= {
        name: encode.labels(name, getattr(last, name), changes, size) for name in encode.LABELS
    }
    return replace(
        last,
        clusters=clusters,
        taints=encode.taints(last.taints, changes, size),
        groups=encode.groups(last.groups, changes),
        counted=encode.counted(last.counted, changes),
        quotas=encode.quotas(last.quotas, last.clusters, changes),
        **_loads(last, changes),
        **columns,
    )


def _loads(last: Snapshot, changes: Changes) -> dict[str, Any]:
    size = len(last)
    holds, merged = encode.holds(last.holds, last.merged, changes, size)
    flights = encode.flights(last.flights, changes, size)
    charged = encode.charged(last.charged, changes)
    return {"flights": flights, "holds": holds, "merged": merged, "charged": charged}


def _resized(last: Snapshot, gone: set[str], new: Iterable[str]) -> Snapshot:
    keep = np.fromiter((n not in gone for n in last.names), dtype=np.bool_, count=len(last))
    kept = [name for name in last.names if name not in gone]
    names = [*kept, *sorted(new)]
    extra = len(names) - len(kept)
    by_name = np.empty(len(names), dtype=np.int64)
    by_name[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    stay = [cluster for cluster, stays in zip(last.clusters, keep, strict=True) if stays]
    columns: dict[str, Any] = {
        name: {key: encode.resized(c, keep, extra) for key, c in getattr(last, name).items()}
        for name in ("taints", *encode.AMOUNTS)
    }
    columns |= {name: encode.resized(getattr(last, name), keep, extra) for name in encode.PLAIN}
    columns |= {
        name: encode.resized_text(getattr(last, name), keep, extra) for name in encode.TEXTS
    }
    columns |= {
        name: {key: encode.resized_text(c, keep, extra) for key, c in getattr(last, name).items()}
        for name in encode.LABELS
    }
    return replace(
        last,
        names=names,
        row={name: i for i, name in enumerate(names)},
        by_name=by_name,
        clusters=[*stay, *[MemberCluster()] * extra],
        groups=encode.resized_groups(last.groups, keep),
        flights=last.flights.kept(keep),
        holds=last.holds.kept(keep),
        merged={name: loads for name, loads in last.merged.items() if name not in gone},
        counted={name: loads for name, loads in last.counted.items() if name not in gone},
        quotas=encode.resized_quotas(last.quotas, keep),
        charged={name: loads for name, loads in last.charged.items() if name not in gone},
        **columns,
    )
