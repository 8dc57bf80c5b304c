"""Workloads whose required affinities select each other: all are placed together, or none.

`together` finds the set, a strongly connected component. `decide_together` tries clusters for the
first Workload by its ranking. The others follow, those that a placed one waits for first, bound to
the domains where it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

import msgspec
import numpy as np

from controller.cache.assumed import PendingAffinity
from controller.cache.placements import PlacementIndex, beside
from controller.model.unit import WorkloadInfo
from controller.scheduling.decision import FITS, Decision
from controller.scheduling.sets import SetPass, SetState
from controller.scheduling.steps import Steps
from controller.snapshot.columns import Mask, sums, times
from controller.snapshot.snapshot import Snapshot
from crds.names import LABEL_CLUSTER
from machinery.types.api import RequiredClusterTerms, WorkloadAffinity, WorkloadAffinityTerm
from machinery.types.metadata import Key
from machinery.types.selectors import Requirement, SelectorTerm

_STARTS = 64
"""Clusters tried for the first Workload: a set that is hard to place must not block all others."""
_PASSES = 4
"""Passes per Workload of a set, over all starts."""
MOST_TOGETHER = 200
"""Larger sets are decided one by one, to not block all other decisions."""


def together(
    info: WorkloadInfo, *among: PendingAffinity, partner: Callable[[Key], bool] = lambda _: True
) -> Steps[list[WorkloadInfo]]:
    """Return the Workloads that require each other with `info`, by key; else `info` alone.

    `partner` returns whether another one may be decided with it.
    """
    reached, front = {info.key: info}, [info]
    edges: list[tuple[Key, Key]] = []
    while front:
        by = front.pop()
        for other in _wanted(by, among):
            if other.key != info.key and not partner(other.key):
                continue
            edges.append((by.key, other.key))
            if other.key not in reached:
                reached[other.key] = other
                front.append(other)
        if len(reached) > MOST_TOGETHER:
            return [info]
        yield
    if len(reached) == 1:
        return [info]
    import networkx as nx  # noqa: PLC0415 - see above

    graph = nx.DiGraph(edges)
    graph.add_node(info.key)
    found = next(each for each in nx.strongly_connected_components(graph) if info.key in each)
    return [reached[key] for key in sorted(found)]


def _wanted(info: WorkloadInfo, among: Sequence[PendingAffinity]) -> Iterable[WorkloadInfo]:
    found: dict[Key, WorkloadInfo] = {}
    for term, seekers in product(info.affinity.required, among):
        chosen = islice(seekers.selected(info, term.label_selector), MOST_TOGETHER + 1)
        found |= {other.key: other for other in chosen}
    return found.values()


def decide_together(state: SetState, infos: Sequence[WorkloadInfo]) -> Steps[list[Decision]]:
    """All placed, or each the decision on it alone."""
    search = _Search(state, infos)
    starts = yield from search.starts()
    for row in starts:
        found = yield from search.beginning_at(state.snapshot.names[row])
        if found:
            return [found[info.key] for info in infos]
        if search.passes > _PASSES * len(infos) + _STARTS:
            break
    alone: list[Decision] = []
    for info in infos:
        alone.append(state.decide(info))
        yield
    return alone


def decide_again(state: SetState, found: Sequence[Decision]) -> Steps[Mapping[Key, Decision]]:
    """Empty if one finds no place, beginning where the set began."""
    search = _Search(state, [decision.workload for decision in found])
    places = {decision.workload.key: decision.placements for decision in found}
    start = next(iter(places[search.first]), next(iter(state.snapshot.names), None))
    return {} if start is None else (yield from search.beginning_at(start))


@dataclass(slots=True)
class _Open:
    """A required term of a placed Workload that does not hold yet.

    `there` are its replicas by cluster, `selected` the members that the term selects.
    """

    info: WorkloadInfo
    there: Mapping[str, int]
    term: WorkloadAffinityTerm
    selected: frozenset[Key]

    def met(self, snapshot: Snapshot, view: PlacementIndex) -> bool:
        rows, info = snapshot.rows(self.there), self.info.with_present(self.there)
        return bool(beside(info, self.term, snapshot, view)[rows].all())

    def domains(self, snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
        column = snapshot.domains_by(self.term.topology_key)
        codes = sorted(set(column.codes[snapshot.rows(self.there)].tolist()))
        values = [v for c in codes if (v := column.vocabulary.values[c]) is not None]
        return self.term.topology_key, tuple(values)


@dataclass(slots=True)
class _Attempt(SetPass):
    left: dict[Key, WorkloadInfo] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)

    def following(self) -> WorkloadInfo:
        """Take the next member: the only one that can meet an open term, else one that can."""
        waited: WorkloadInfo | None = None
        for owed in self.open:
            able = [key for key in self.left if key in owed.selected]
            if len(able) == 1:
                return self.left.pop(able[0])
            waited = waited or (self.left[able[0]] if able else None)
        info = waited or next(iter(self.left.values()))
        return self.left.pop(info.key)

    def owed_by(self, info: WorkloadInfo, *, strictly: bool) -> list[_Open]:
        """Return the open terms that `info` may meet; `strictly` those no later member can."""
        mine = [owed for owed in self.open if info.key in owed.selected]
        return [o for o in mine if not (strictly and o.selected & self.left.keys())]


class _Search:
    def __init__(self, state: SetState, infos: Sequence[WorkloadInfo]) -> None:
        self.passes = 0
        self._state = state
        self._turns = sorted(infos, key=lambda info: (not info.whole, info.key))
        self._seekers = PendingAffinity(infos)
        self._selected: dict[Key, list[frozenset[Key]]] = {}

    @property
    def first(self) -> Key:
        return self._turns[0].key

    def starts(self) -> Steps[list[int]]:
        first, state, snapshot = self._turns[0], self._state, self._state.snapshot
        everybody = {info.key for info in self._turns}
        opened = self._decide(state, _without(first, self._terms(first), everybody))
        masks: dict[Key, Mask] = {first.key: opened.verdicts == FITS}
        one = self._one_cluster()
        asked = everybody if one else {key for keys in self._terms(first) for key in keys}
        for info in self._turns[1:]:
            yield
            if info.key in asked:
                free = _without(info, self._terms(info), everybody)
                masks[info.key] = self._decide(state, free).verdicts == FITS
        possible = np.ones(len(snapshot), dtype=np.bool_)
        for term, keys in zip(first.affinity.required, self._terms(first), strict=True):
            selected = [masks[key] for key in keys]
            possible &= beside(first, term, snapshot, state.bound) | _around(
                snapshot, term, selected
            )
            yield
        if one:
            possible &= np.all(list(masks.values()), axis=0) & _roomy(snapshot, self._turns)
        rows = [row for row in map(int, opened.ranking) if possible[row]]
        # A member that takes several clusters is bound to none of them, so one start is enough.
        return list(islice(rows, _STARTS if first.whole else 1))

    def beginning_at(self, cluster: str) -> Steps[dict[Key, Decision]]:
        """Empty if one finds no place."""
        left = {info.key: info for info in self._turns}
        attempt = _Attempt.over(self._state)
        attempt.left = left
        info = left.pop(self._turns[0].key)
        pairs = {**info.cluster_selector, LABEL_CLUSTER: cluster}
        start = replace(info, cluster_selector=pairs) if info.whole else info
        while True:
            yield
            if not self._place(attempt, info, start):
                return {}
            if not left:
                return {} if attempt.open else attempt.decisions
            yield
            info = start = attempt.following()

    def _place(self, attempt: _Attempt, info: WorkloadInfo, asked: WorkloadInfo) -> bool:
        asked = _without(asked, self._terms(info), attempt.left.keys())
        decision = None
        for strictly in (False, True):
            owed = attempt.owed_by(info, strictly=strictly)
            if strictly and len(owed) == len(attempt.owed_by(info, strictly=False)):
                break  # the same question
            found = self._decide(attempt, _bound_to(asked, owed, attempt.snapshot))
            if found.scheduled:
                decision = found
                break
        if decision is None:
            return False
        self._take(attempt, info, decision)
        return True

    def _take(self, attempt: _Attempt, info: WorkloadInfo, decision: Decision) -> None:
        there = decision.placements
        attempt.take(replace(decision, workload=info))
        snapshot, view = attempt.snapshot, attempt.bound
        attempt.open = [
            o for o in attempt.open if info.key not in o.selected or not o.met(snapshot, view)
        ]
        for term, keys in zip(info.affinity.required, self._terms(info), strict=True):
            owed = _Open(info, there, term, keys)
            if not keys.isdisjoint(attempt.left) and not owed.met(snapshot, view):
                attempt.open.append(owed)

    def _terms(self, info: WorkloadInfo) -> list[frozenset[Key]]:
        if info.key not in self._selected:
            self._selected[info.key] = [
                frozenset(other.key for other in self._seekers.selected(info, t.label_selector))
                - {info.key}
                for t in info.affinity.required
            ]
        return self._selected[info.key]

    def _one_cluster(self) -> bool:
        return all(
            info.whole and all(t.topology_key == LABEL_CLUSTER for t in info.affinity.required)
            for info in self._turns
        )

    def _decide(self, state: SetState, info: WorkloadInfo) -> Decision:
        self.passes += 1
        return state.decide(info)


def _around(snapshot: Snapshot, term: WorkloadAffinityTerm, masks: Iterable[Mask]) -> Mask:
    rows = np.flatnonzero(np.any([np.zeros(len(snapshot), dtype=np.bool_), *masks], axis=0))
    return snapshot.domain(term.topology_key, (snapshot.names[int(row)] for row in rows))


def _roomy(snapshot: Snapshot, infos: Iterable[WorkloadInfo]) -> Mask:
    asked: dict[str, int] = {}
    for info in infos:
        for resource, amount in info.request.items() if info.counted else ():
            asked[resource] = asked.get(resource, 0) + amount * info.replicas
    mask = np.ones(len(snapshot), dtype=np.bool_)
    groups = snapshot.groups
    for resource, amount in asked.items():
        free = times(groups.room(resource), groups.count)
        mask &= sums(groups.cluster, free, len(snapshot)) >= amount
    return mask | snapshot.virtual


def _bound_to(info: WorkloadInfo, owed: Iterable[_Open], snapshot: Snapshot) -> WorkloadInfo:
    for key, values in dict.fromkeys(each.domains(snapshot) for each in owed):
        info = _within(info, Requirement(key, "In", tuple(values)))
    return info


def _within(info: WorkloadInfo, requirement: Requirement) -> WorkloadInfo:
    required = info.cluster_affinity.required or RequiredClusterTerms([SelectorTerm({}, [])])
    # An empty term still matches nothing.
    terms = [
        SelectorTerm(term.match_labels, [*term.match_expressions, requirement])
        for term in required.cluster_selector_terms
        if term.match_labels or term.match_expressions or info.cluster_affinity.required is None
    ]
    affinity = msgspec.structs.replace(info.cluster_affinity, required=RequiredClusterTerms(terms))
    return replace(info, cluster_affinity=affinity)


def _without(
    info: WorkloadInfo, selected: Sequence[frozenset[Key]], later: Iterable[Key]
) -> WorkloadInfo:
    terms = zip(info.affinity.required, selected, strict=True)
    left = [term for term, keys in terms if keys.isdisjoint(later)]
    return replace(info, affinity=WorkloadAffinity(left, info.affinity.preferred))
