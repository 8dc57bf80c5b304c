"""The fleet while it changes: MemberClusters in, immutable snapshots out.

A `FleetBuilder` takes one cluster at a time and remembers which rows it touched; `snapshot()`
copies the columns of the last snapshot and writes those rows. Clusters that came are rows at the
end, those that went are cut out, so that no change rebuilds a fleet of thousands. Room that was
given away and is not yet counted by its cluster is kept beside (`assume`), and is the one column
that changes with every decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from controller import facts
from controller.columns import ABSENT, Codes, Column, Floats, Ints, Mask
from controller.facts import Changes, Row
from controller.model import MemberCluster
from controller.snapshot import UNLIMITED, Fleet, NodeGroups

__all__ = [
    "ABSENT",
    "UNLIMITED",
    "Codes",
    "Column",
    "Fleet",
    "FleetBuilder",
    "Floats",
    "Ints",
    "Mask",
    "NodeGroups",
    "with_cluster",
]


@dataclass(slots=True)
class _Touched:
    """Which clusters the next snapshot has to look at again."""

    clusters: set[str] = field(default_factory=set)
    assumed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.clusters or self.assumed or self.gone)


class FleetBuilder:
    """The clusters as they are now. Not thread-safe; snapshots are."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._last = _empty()
        self._touched = _Touched()

    def upsert(self, cluster: MemberCluster) -> None:
        """Take a cluster, new or changed. A quantity that is none counts as no room."""
        name = cluster.metadata.name
        old = self._rows.get(name)
        self._rows[name] = Row.of(cluster, old.assumed if old else {})
        self._touched.clusters.add(name)
        self._touched.gone.discard(name)

    def remove(self, name: str) -> None:
        """Forget a cluster, and what was assumed on it."""
        if self._rows.pop(name, None) is not None:
            self._touched.clusters.discard(name)
            self._touched.assumed.discard(name)
            self._touched.gone.add(name)

    def assume(self, name: str, request: Mapping[str, int], units: int) -> None:
        """Count units (negative: no longer) that a cluster's status does not show yet."""
        row = self._rows.get(name)
        if row is None or not units:
            return
        for resource, amount in request.items():
            row.assumed[resource] = row.assumed.get(resource, 0) + amount * units
        self._touched.assumed.add(name)

    def snapshot(self) -> Fleet:
        """The fleet as it is now; the same object while nothing has changed."""
        if self._touched:
            self._last = self._next()
            self._touched = _Touched()
        return self._last

    def _next(self) -> Fleet:
        touched, last = self._touched, self._last
        new = [name for name in touched.clusters if name not in last.row]
        if new or touched.gone:
            last = _resized(last, {n for n in touched.gone if n not in self._rows}, new)
        if touched.clusters:
            names = touched.clusters | touched.assumed
            return _written(last, [(last.row[name], self._rows[name]) for name in names])
        changes = Changes.of([(last.row[name], self._rows[name]) for name in touched.assumed])
        return replace(last, assumed=facts.amounts("assumed", last.assumed, changes, len(last)))


def with_cluster(fleet: Fleet, cluster: MemberCluster) -> Fleet:
    """A copy in which one cluster, known by its name, is as given: for a hook before Filter.

    Raises KeyError for a cluster that is not in the fleet.
    """
    row = fleet.row[cluster.metadata.name]
    assumed = {resource: int(held[row]) for resource, held in fleet.assumed.items()}
    return _written(fleet, [(row, Row.of(cluster, assumed))])


def _empty() -> Fleet:
    nothing = np.zeros(0, dtype=np.int64)
    groups = NodeGroups(nothing, nothing, {}, {}, np.zeros(0, dtype=np.int32), ())
    columns: dict[str, Any] = {
        name: np.zeros(0, dtype=kind) for name, (kind, _) in facts.PLAIN.items()
    }
    columns |= {name: Column.absent(0) for name in facts.TEXTS}
    columns |= {name: {} for name in ("labels", "taints", *facts.AMOUNTS)}
    return Fleet(names=(), clusters=(), row={}, by_name=nothing, groups=groups, **columns)


def _written(last: Fleet, rows: Sequence[tuple[int, Row]]) -> Fleet:
    """The same rows, some of them with other facts."""
    changes, size = Changes.of(rows), len(last)
    clusters = list(last.clusters)
    for i, row in rows:
        clusters[i] = row.cluster
    columns: dict[str, Any] = {
        name: facts.plain(name, getattr(last, name), changes) for name in facts.PLAIN
    }
    columns |= {name: facts.text(name, getattr(last, name), changes) for name in facts.TEXTS}
    columns |= {
        name: facts.amounts(name, getattr(last, name), changes, size) for name in facts.AMOUNTS
    }
    return replace(
        last,
        clusters=clusters,
        labels=facts.labels(last.labels, changes, size),
        taints=facts.taints(last.taints, changes, size),
        groups=facts.groups(last.groups, changes),
        **columns,
    )


def _resized(last: Fleet, gone: set[str], new: Iterable[str]) -> Fleet:
    """Without the rows that went, and with empty ones at the end for those that came."""
    keep = np.fromiter((n not in gone for n in last.names), dtype=np.bool_, count=len(last))
    kept = [name for name in last.names if name not in gone]
    names = [*kept, *sorted(new)]
    extra = len(names) - len(kept)
    by_name = np.empty(len(names), dtype=np.int64)
    by_name[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    stay = [cluster for cluster, stays in zip(last.clusters, keep, strict=True) if stays]
    columns: dict[str, Any] = {
        name: {key: facts.resized(c, keep, extra) for key, c in getattr(last, name).items()}
        for name in ("taints", *facts.AMOUNTS)
    }
    columns |= {name: facts.resized(getattr(last, name), keep, extra) for name in facts.PLAIN}
    columns |= {name: facts.resized_text(getattr(last, name), keep, extra) for name in facts.TEXTS}
    return replace(
        last,
        names=names,
        row={name: i for i, name in enumerate(names)},
        by_name=by_name,
        clusters=[*stay, *[MemberCluster()] * extra],
        labels={key: facts.resized_text(c, keep, extra) for key, c in last.labels.items()},
        groups=facts.resized_groups(last.groups, keep),
        **columns,
    )
