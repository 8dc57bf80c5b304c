"""How decisions read a stored Workload: by the present names of clusters, and what waits.

`stowage rename` creates a MemberCluster whose `spec.formerNames` has the old name. Once the old
MemberCluster is gone, decisions read its shares as those of the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import msgspec

from controller.model.moving import MovingState
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.model.work import Work
from machinery.types.bounds import MOST_UNITS
from machinery.types.metadata import Key
from machinery.types.workload_api import DisplacedShare, LeavingShare

V = TypeVar("V")


class Renames:
    """The former names that no cluster has now, fed as clusters come and go."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._unproven: set[str] = set()
        """The registrations among `_there` without a cluster yet: one may be refused."""
        self._renamed: dict[str, MemberCluster] = {}
        self._now: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._now

    def saw(self, old: MemberCluster | None, new: MemberCluster | None) -> set[str]:
        """Record a cluster that came, changed or went; return the names of shares to read again."""
        known = new or old
        assert known is not None  # noqa: S101 - the informer's promise
        name, before = known.metadata.name, self._now
        (self._there.discard if new is None else self._there.add)(name)
        proven = new is None or new.ready or bool(new.status.cluster_id)
        (self._unproven.discard if proven else self._unproven.add)(name)
        if new is not None and new.spec.former_names:
            self._renamed[name] = new
        else:
            self._renamed.pop(name, None)
        if not (self._renamed or before):
            return set()
        # A second registration of a cluster under its former name changes nothing.
        self._now = current_names(self._renamed.values(), self._there - self._unproven)
        changed = before.items() ^ self._now.items()
        return {each for pair in changed for each in pair}

    def of(self, workload: Workload) -> Workload:
        """Return the Workload with the present names of its clusters; itself if none changed."""
        info: WorkloadInfo | None = workload.info
        if not self._now or info is None:
            return workload
        shares, moving = {each.cluster for each in info.reservations}, info.moving
        moves = {*moving.leaving, *moving.displaced, *moving.surplus}
        every = {
            *info.present,
            *info.ended,
            *info.limits,
            *info.shown,
            *info.waits,
            *info.holding,
            *shares,
            *moves,
        }
        if self._now.keys().isdisjoint(every):
            return workload
        named = self._now.get
        info = replace(
            info,
            present=self._present(info.present),
            ended=self._named(info.ended),
            limits=self._named(info.limits),
            shown=self._named(info.shown),
            waits=self._named(info.waits),
            holding=self._named(info.holding),
            moving=self._moving(moving),
            work=None if info.work is None else self._work(info.work),
            reservations=tuple(
                msgspec.structs.replace(each, cluster=named(each.cluster, each.cluster))
                for each in info.reservations
            ),
        )
        clusters = [
            msgspec.structs.replace(each, name=named(each.name, each.name))
            for each in workload.status.clusters
        ]
        status = msgspec.structs.replace(workload.status, clusters=clusters)
        return msgspec.structs.replace(workload, info=info, status=status)

    def _moving(self, moving: MovingState) -> MovingState:
        return replace(
            moving,
            leaving=by_name(with_names(moving.leaving.values(), self._now)),
            displaced=by_name(with_names(moving.displaced.values(), self._now)),
            ready=self._named(moving.ready),
            away=frozenset(self._now.get(name, name) for name in moving.away),
            surplus=self._named(moving.surplus),
            kept=self._named(moving.kept),
            unhealthy=self._named(moving.unhealthy),
        )

    def _work(self, work: Work) -> Work:
        return replace(
            work,
            parts=self._named(work.parts),
            leaving=self._named(work.leaving),
            done=self._named(work.done),
            begun=frozenset(self._now.get(name, name) for name in work.begun),
        )

    def _named(self, by_cluster: Mapping[str, V]) -> dict[str, V]:
        return named_now(by_cluster, self._now)

    def _present(self, present: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, replicas in present.items():
            now = self._now.get(name, name)
            found[now] = min(found.get(now, 0) + replicas, MOST_UNITS)
        return found


def named_now(by_cluster: Mapping[str, V], now: Mapping[str, str]) -> dict[str, V]:
    """Return it by present names. An entry under one comes before entries under former names."""
    renamed = {now[name]: each for name, each in by_cluster.items() if name in now}
    return renamed | {name: e for name, e in by_cluster.items() if name not in now}


S = TypeVar("S", LeavingShare, DisplacedShare)


def with_names(shares: Iterable[S], now: Mapping[str, str]) -> list[S]:
    return [msgspec.structs.replace(s, cluster=now.get(s.cluster, s.cluster)) for s in shares]


def by_name(shares: Iterable[S]) -> dict[str, S]:
    return {each.cluster: each for each in shares}


def renamed(
    names: Iterable[str], clusters: Iterable[MemberCluster], there: Collection[str]
) -> dict[str, str]:
    """As `current_names`, for shares of these names; skipped if all of them exist."""
    return {} if all(name in there for name in names) else current_names(clusters, there)


def current_names(clusters: Iterable[MemberCluster], there: Collection[str]) -> dict[str, str]:
    """Map each name that no cluster has any more to the oldest cluster that had it.

    A name is given away once.
    """
    oldest = sorted(clusters, key=lambda c: (c.metadata.creation_timestamp, c.metadata.name))
    found: dict[str, str] = {}
    for cluster in oldest:
        for name in cluster.spec.former_names:
            if name not in there:
                found.setdefault(name, cluster.metadata.name)
    return found


class SeenWaits:
    """Since when this term has seen replicas wait for a node, by Workload and cluster.

    A status may be old: the hub was set back, or nobody could write to it. So the patience begins
    with the first look at the earliest, and anew with each term. `now` is the wall clock.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[Key, Mapping[str, datetime]] = {}

    def of(self, workload: Workload) -> Workload:
        info: WorkloadInfo | None = workload.info
        if info is None:
            return workload
        waits = {*info.waits, *(name for name, each in info.shown.items() if each.since)}
        if not waits:
            self._since.pop(info.key, None)
            return workload
        # To the second, as statuses have it.
        before, now = self._since.get(info.key, {}), self._now().replace(microsecond=0)
        self._since[info.key] = seen = {name: before.get(name, now) for name in waits}
        shown = {
            name: replace(each, since=max(each.since, seen[name])) if each.since else each
            for name, each in info.shown.items()
        }
        later = {name: max(since, seen[name]) for name, since in info.waits.items()}
        return msgspec.structs.replace(workload, info=replace(info, shown=shown, waits=later))

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def clear(self) -> None:
        self._since.clear()
