"""Assumed placements: the shares of every Workload, decided or written, and the replicas in flight.

A decision is assumed before anything is awaited (`assume`), so two decisions in a row never count
on the same room. Two watches have no order: the Workload names the version of the cluster that
counts its replicas first (`capacityVersion`); until that version arrives they stay in flight.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from controller.cache.placements import PlacementIndex
from controller.model.load import Load
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.builder import SnapshotBuilder
from crds.fields.shares import ShareHealth
from machinery.runtime.store import number
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector

_NOWHERE: dict[str, int] = {}
_LATEST = sys.maxsize
"""Stands for a version that is no number: later than any number."""

_Place: TypeAlias = tuple[str, str, tuple[str, str] | None]
"""Scheduler name, namespace, and a label pair; None for all of the namespace."""


@dataclass(frozen=True, slots=True)
class Late:
    """Replicas that their cluster counts from a version on that has not arrived yet."""

    version: int
    counted: int
    """All of the share that the version counts, including those counted before."""


@dataclass(slots=True)
class _AssumedCount:
    """The replicas of each share that are not in flight."""

    replicas: dict[str, int] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    """The finished ones among `replicas`; without zeros."""
    late: dict[str, Late] = field(default_factory=dict)


_NONE_LATE: dict[str, Late] = {}


@dataclass(frozen=True, slots=True)
class AssumedPlacement:
    """Most have no replica in flight, none finished and none late: these share what is empty."""

    workload: WorkloadInfo
    placements: Mapping[str, int]
    flying: dict[str, int]
    """Without zeros."""
    finished: dict[str, int]
    late: dict[str, Late]
    """Some of those in flight, by the cluster whose next status counts them."""

    @property
    def clusters(self) -> Collection[str]:
        """Those of its shares, and those that it leaves or may return to."""
        moving = self.workload.moving
        if not (moving.leaving or moving.displaced):
            return self.placements
        return {*self.placements, *moving.leaving, *moving.displaced}

    def counted(self, cluster: str) -> int:
        if self.workload.booked:
            return 0
        landed = self.placements.get(cluster, 0) - self.flying.get(cluster, 0)
        return max(landed - self.finished.get(cluster, 0), 0)


class PendingAffinity:
    """Workloads that require others, by scheduler name, namespace and label."""

    def __init__(self, infos: Iterable[WorkloadInfo] = ()) -> None:
        self._all: dict[Key, WorkloadInfo] = {}
        self._places: dict[_Place, dict[Key, None]] = {}
        for info in infos:
            self.put(info)

    def put(self, info: WorkloadInfo) -> None:
        before = self._all.get(info.key)
        if before is not None and (before.labels, before.scheduler_name) != (
            info.labels,
            info.scheduler_name,
        ):
            self.drop(info.key)
        self._all[info.key] = info
        for place in _places(info):
            self._places.setdefault(place, {})[info.key] = None

    def drop(self, key: Key) -> None:
        info = self._all.pop(key, None)
        for place in _places(info) if info is not None else ():
            members = self._places[place]
            del members[key]
            if not members:
                del self._places[place]

    def selected(self, by: WorkloadInfo, selector: LabelSelector) -> Iterator[WorkloadInfo]:
        pair = min(selector.match_labels.items(), default=None)
        keys = self._places.get((by.scheduler_name, by.namespace, pair), {})
        found = (self._all[key] for key in keys)
        return (info for info in found if selector.matches(info.labels))


def _places(info: WorkloadInfo) -> Iterator[_Place]:
    yield (info.scheduler_name, info.namespace, None)
    for pair in info.labels.items():
        yield (info.scheduler_name, info.namespace, pair)


class AssumedPlacements:
    """Assumed placements by Workload and by cluster; updates index and builder."""

    def __init__(self, index: PlacementIndex, builder: SnapshotBuilder) -> None:
        self._index = index
        self._builder = builder
        self._all: dict[Key, AssumedPlacement] = {}
        self._holders: dict[str, set[Key]] = {}
        self._seen: dict[str, int] = {}
        self._awaiting: dict[str, set[Key]] = {}
        self.pending_affinity = PendingAffinity()
        """Workloads that require others and have no share."""
        self.placed_affinity = PendingAffinity()
        """Workloads that require others and have a share."""

    def get(self, key: Key) -> AssumedPlacement | None:
        return self._all.get(key)

    def holders(self, cluster: str) -> Collection[Key]:
        """Return the Workloads that have a share of the cluster, leave it or may return to it."""
        return self._holders.get(cluster, ())

    def assume(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Record a decision whose write is in flight: all its new replicas are in flight."""
        before = self._all.get(info.key)
        counted = _AssumedCount()
        if before is not None:
            flew = before.flying
            replicas = {c: n - flew.get(c, 0) for c, n in before.placements.items()}
            late = {c: late for c, late in before.late.items() if c in placements}
            counted = _AssumedCount(replicas, before.finished, late)
        own = dict(placements)
        self._index.assume(info, own)
        self._put(info, own, counted)

    def take(self, workload: Workload) -> list[str]:
        """Return the clusters with fewer replicas in flight now."""
        placements, key = workload.placements, workload.metadata.key
        before = self._all.get(key)
        for cluster in list(before.late) if before is not None else ():
            self.land(key, cluster)
        counted = self._counted(workload, placements)
        self._index.put(workload.info, placements)
        self._put(workload.info, placements, counted)
        after = self._all[key].flying
        flew = before.flying.items() if before is not None else ()
        # If the cluster's status came first, these counted twice against its room until now.
        return [c for c, replicas in flew if c in placements and replicas > after.get(c, 0)]

    def _counted(self, workload: Workload, placements: Mapping[str, int]) -> _AssumedCount:
        counted, before = _AssumedCount(), self._all.get(workload.metadata.key)
        own = number(workload.metadata.resource_version)
        latest = _LATEST if own is None else own
        for share in workload.status.clusters:
            name = share.name
            # A suspended share has no pods, and takes no room.
            idle = share.health == ShareHealth.SUSPENDED
            finished = placements.get(name, 0) if idle else share.finished
            if finished:
                counted.finished[name] = finished
            replicas = share.scheduled
            # A version beyond the Workload's own was not written before it: do not wait for it. Any
            # other is passed by the cluster's next version.
            if self._seen.get(name, 0) < share.capacity_version <= latest and name in placements:
                counted.late[name] = Late(share.capacity_version, replicas + finished)
                replicas = min(replicas, before.counted(name)) if before is not None else 0
            counted.replicas[name] = replicas + finished
        return counted

    def drop(self, key: Key) -> None:
        self.pending_affinity.drop(key)
        self.placed_affinity.drop(key)
        self._fly(key, self._all.pop(key, None), None)
        self._index.drop(key)

    def saw(self, cluster: MemberCluster) -> list[Key]:
        """Return the Workloads to call `land` for."""
        name, version = cluster.metadata.name, number(cluster.metadata.resource_version)
        seen = self._seen[name] = _LATEST if version is None else version
        awaiting = self._awaiting.get(name, ())
        return [key for key in awaiting if self._all[key].late[name].version <= seen]

    def land(self, key: Key, cluster: str) -> None:
        held = self._all[key] if key in self._awaiting.get(cluster, ()) else None
        if held is None or held.late[cluster].version > self._seen.get(cluster, 0):
            return  # a newer state has arrived
        flying = max(held.placements[cluster] - held.late.pop(cluster).counted, 0)
        load, before = held.workload.load, held.counted(cluster)
        more = flying - held.flying.pop(cluster, 0)
        if flying:
            held.flying[cluster] = flying
        if more:
            self._builder.assume(cluster, load, more, held.workload.charge)
            self._builder.count(cluster, load, held.counted(cluster) - before)
        _discard(self._awaiting, cluster, key)

    def lost(self, cluster: str) -> None:
        self._seen.pop(cluster, None)

    def _put(
        self, info: WorkloadInfo, placements: Mapping[str, int], counted: _AssumedCount
    ) -> None:
        for index, member in (
            (self.pending_affinity, not placements),
            (self.placed_affinity, bool(placements)),
        ):
            if member and info.affinity.required:
                index.put(info)
            else:
                index.drop(info.key)
        if info.idle:  # until its clusters report otherwise
            fresh = {c: n for c, n in placements.items() if n and c not in counted.replicas}
            known, finished = counted.replicas | fresh, counted.finished | fresh
            counted = replace(counted, replicas=known, finished=finished)
        flying = {}
        for cluster, replicas in placements.items() if not info.booked else ():
            if more := max(replicas - counted.replicas.get(cluster, 0), 0):
                flying[cluster] = more
        before = self._all.get(info.key)
        after = AssumedPlacement(
            info,
            placements,
            flying if flying or counted.late else _NOWHERE,
            counted.finished or _NOWHERE,
            counted.late or _NONE_LATE,
        )
        self._all[info.key] = after
        self._fly(info.key, before, after)

    def _fly(
        self, key: Key, before: AssumedPlacement | None, after: AssumedPlacement | None
    ) -> None:
        was, now = (held.flying if held else _NOWHERE for held in (before, after))
        load, other = (held.workload.load if held else None for held in (after, before))
        charge, others = (held.workload.charge if held else None for held in (after, before))
        alike = (load, charge) == (other, others)
        for cluster, replicas in was.items():
            if other is not None and not (alike and now.get(cluster) == replicas):
                self._builder.assume(cluster, other, -replicas, others)
        for cluster, replicas in now.items():
            if load is not None and not (alike and was.get(cluster) == replicas):
                self._builder.assume(cluster, load, replicas, charge)
        left, there = (held.clusters if held else () for held in (before, after))
        _list(self._holders, key, left, there)
        awaited, awaits = (held.late if held else _NONE_LATE for held in (before, after))
        _list(self._awaiting, key, awaited, awaits)
        self._recount(other, _landed(before), load, _landed(after))

    def _recount(
        self, other: Load | None, was: dict[str, int], load: Load | None, now: dict[str, int]
    ) -> None:
        if load == other and was == now:
            return
        for cluster, replicas in was.items():
            if other is not None and (load != other or now.get(cluster) != replicas):
                self._builder.count(cluster, other, -replicas)
        for cluster, replicas in now.items():
            if load is not None and (load != other or was.get(cluster) != replicas):
                self._builder.count(cluster, load, replicas)


def _landed(held: AssumedPlacement | None) -> dict[str, int]:
    return {} if held is None else {cluster: held.counted(cluster) for cluster in held.placements}


def _list(keys: dict[str, set[Key]], key: Key, had: Collection[str], has: Collection[str]) -> None:
    for cluster in had:
        if cluster not in has:
            _discard(keys, cluster, key)
    for cluster in has:
        keys.setdefault(cluster, set()).add(key)


def _discard(keys: dict[str, set[Key]], cluster: str, key: Key) -> None:
    found = keys[cluster]
    found.discard(key)
    if not found:
        del keys[cluster]
