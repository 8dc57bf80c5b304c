"""Clusters that have another name now: what names them by an old one is read by the new one.

`stowage rename` gives a member another MemberCluster, whose `spec.formerNames` has the old name.
From the moment when the old MemberCluster is gone, every share that names it is a share of the new
one, in the units that decisions read. What is stored still says the old name, so each Workload is
decided once more, and one write renames all of it. Who dies in between leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from machinery.types.bounds import MOST_UNITS

V = TypeVar("V")


class Renames:
    """The names that clusters had and that no cluster has now, fed as clusters come and go."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._renamed: dict[str, MemberCluster] = {}
        self._now: dict[str, str] = {}

    def saw(self, old: MemberCluster | None, new: MemberCluster | None) -> set[str]:
        """A cluster came, changed or went: the names whose shares have to be read anew."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        name, before = known.metadata.name, self._now
        if new is None:
            self._there.discard(name)
        else:
            self._there.add(name)
        if new is not None and new.spec.former_names:
            self._renamed[name] = new
        else:
            self._renamed.pop(name, None)
        if not (self._renamed or before):
            return set()
        self._now = current_names(self._renamed.values(), self._there)
        changed = before.items() ^ self._now.items()
        return {each for pair in changed for each in pair}

    def of(self, workload: Workload) -> Workload:
        """The Workload with the names that its clusters have now; the same where they all stand."""
        unit: WorkloadInfo | None = workload.unit
        if not self._now or unit is None:
            return workload
        shares = {each.cluster for each in unit.reservations}
        if self._now.keys().isdisjoint({*unit.present, *unit.limits, *unit.shown, *shares}):
            return workload
        named = self._now.get
        unit = replace(
            unit,
            present=self._present(unit.present),
            limits=self._named(unit.limits),
            shown=self._named(unit.shown),
            reservations=tuple(
                msgspec.structs.replace(each, cluster=named(each.cluster, each.cluster))
                for each in unit.reservations
            ),
        )
        clusters = [
            msgspec.structs.replace(each, name=named(each.name, each.name))
            for each in workload.status.clusters
        ]
        status = msgspec.structs.replace(workload.status, clusters=clusters)
        return msgspec.structs.replace(workload, unit=unit, status=status)

    def _named(self, by_cluster: Mapping[str, V]) -> dict[str, V]:
        """What is told of the name that the cluster has now goes before what is told of others."""
        renamed = {self._now[name]: each for name, each in by_cluster.items() if name in self._now}
        return renamed | {name: e for name, e in by_cluster.items() if name not in self._now}

    def _present(self, present: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, units in present.items():
            now = self._now.get(name, name)
            found[now] = min(found.get(now, 0) + units, MOST_UNITS)
        return found


def current_names(clusters: Iterable[MemberCluster], there: Collection[str]) -> dict[str, str]:
    """By each name that no cluster has any more, that of the cluster that had it.

    Of several the older one, as a name is given away once.
    """
    oldest = sorted(clusters, key=lambda c: (c.metadata.creation_timestamp, c.metadata.name))
    found: dict[str, str] = {}
    for cluster in oldest:
        for name in cluster.spec.former_names:
            if name not in there:
                found.setdefault(name, cluster.metadata.name)
    return found
