"""What each share of a Workload gets beside its replicas: work to complete, and ordinals. Pure.

Work, such as the completions of a Job, is divided with the replicas: a share gets one for each
replica, and a part of the rest by its replicas. `status.ordinals` is written with the placements. A
missing start is taken from the clusters' reports, and no new range is given before every cluster
has reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.model.objects import Workload
from crds.fields.shares import ShareResult, ShareState
from crds.names import ANNOTATION_ORDINALS
from machinery.kinds.ordinals import MOST_RANGES, known_ranges, with_new_ranges
from machinery.types.workload_api import OrdinalRange


@dataclass(frozen=True, slots=True)
class Work:
    """The work, and its parts.

    Args:
        total: all of it; None without a number: each share takes from a queue.
        parts: those of present and ended shares, by cluster.
        leaving: those of the shares that leave, by cluster: their rest is not known yet.
        completed: the work done by shares that have left.
        done: the work that each cluster reports as done.
        begun: the clusters on which pods have started.
        well: whether a share has succeeded, so that no further replica need start. Never in a gang:
            its replicas start together.
    """

    total: int | None
    parts: Mapping[str, int] = field(default_factory=dict)
    leaving: Mapping[str, int] = field(default_factory=dict)
    completed: int = 0
    done: Mapping[str, int] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    well: bool = False

    @property
    def missing(self) -> int:
        """The work that is in no part and not done."""
        known = sum(self.parts.values()) + sum(self.leaving.values()) + self.completed
        return max((self.total or 0) - known, 0)

    def wanted(self, replicas: int, present: Mapping[str, int]) -> int:
        """Return how many of the wanted replicas have work."""
        if self.total is not None:
            return min(replicas, sum(present.values()) + self.missing)
        if not self.well:
            return replicas
        # The rest of a queue is done by the shares that have begun.
        return sum(n for cluster, n in present.items() if cluster in self.begun)

    def after(self, shares: Mapping[str, int], leaving: Iterable[str], pending: int) -> Work:
        """Return the work after a decision with these shares, and those that leave clusters.

        Pending replicas keep theirs.
        """
        left = {cluster: self._part(cluster) for cluster in leaving}
        stay = {c: part for c, part in self.parts.items() if c in shares and c not in left}
        went = (self.parts.keys() | self.leaving.keys()) - stay.keys() - left.keys()
        done = {c: min(self.done.get(c, 0), self._part(c)) for c in went}
        back = {c: self._part(c) - done[c] for c in went if shares.get(c)}
        left, parts = {c: part for c, part in left.items() if part}, {**stay, **back}
        completed = self.completed + sum(done.values())
        now = replace(self, parts=parts, leaving=left, completed=completed)
        new = {c: n for c, n in shares.items() if c not in parts and n}
        if self.total is None or not new or left:
            return now
        return replace(now, parts={**parts, **_divided(now.missing, new, pending)})

    def _part(self, cluster: str) -> int:
        return self.leaving.get(cluster, self.parts.get(cluster, 0))


def _divided(total: int, shares: Mapping[str, int], pending: int) -> dict[str, int]:
    """Return the parts of shares with these replicas: the largest first, equals by name."""
    replicas = sum(shares.values()) + pending
    least, rest = min(total, replicas), max(total - replicas, 0)
    found, before, given, extra = {}, 0, 0, 0
    for name in sorted(shares, key=lambda each: (-shares[each], each)):
        before += shares[name]
        own = min(before, least) - given
        more = -(-rest * before // replicas) - extra
        given, extra = given + own, extra + more
        found[name] = own + more
    return found


def work_of(
    workload: Workload, total: int | None, ended: Mapping[str, int], *, run: str, gang: bool
) -> Work:
    """Return the work of that run; nothing of another one is divided or done for it."""
    status = workload.status
    if status.run not in ("", run):
        return Work(total)
    shares = [s for s in status.clusters if s.ended is None or s.ended.object in ("", run)]
    parts = {s.cluster: s.completions for s in status.placements if s.completions is not None}
    results = {s.name: s.ended.result for s in shares if s.ended is not None and s.name in ended}
    return Work(
        total,
        parts,
        {each.cluster: each.completions for each in status.leaving if each.completions},
        status.completed,
        {share.name: share.completed for share in shares if share.completed},
        frozenset(s.name for s in shares if s.scheduled or s.ready),
        not gang and ShareResult.SUCCEEDED in results.values(),
    )


def known_in(workload: Workload, first: int) -> dict[str, int]:
    """`first` is the template's start."""
    status = workload.status
    told = {share.name: share.start for share in status.clusters if share.start is not None}
    noted = {each.cluster: each.start for each in status.ordinals}
    return known_ranges({**_annotated(workload, first), **noted}, told)


def ordinals_of(
    workload: Workload, placements: Mapping[str, int], known: Mapping[str, int], first: int
) -> list[OrdinalRange]:
    """Return the ranges after the decision, by cluster.

    `known` is `known_in` by the present names of clusters; `first` is the template's start.
    """
    status = workload.status
    silent = (s for s in status.clusters if s.name not in known and s.state not in _NOTHING_YET)
    if not known or not any(silent):
        known = with_new_ranges(known, sorted(placements), first)
    needed = {*placements, *(each.cluster for each in status.leaving)}
    needed |= {each.name for each in status.clusters if each.start is not None}
    kept = sorted(known, key=lambda name: (name not in needed, name))[:MOST_RANGES]
    return [OrdinalRange(name, known[name]) for name in sorted(kept)]


_NOTHING_YET = (ShareState.PENDING.value, ShareState.LEAVING.value)


def _annotated(workload: Workload, first: int) -> dict[str, int]:
    try:
        found: Any = json.loads(workload.metadata.annotations.get(ANNOTATION_ORDINALS, "{}"))
    except ValueError:
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: start or first for name, start in pairs if type(start) is int and start >= 0}
