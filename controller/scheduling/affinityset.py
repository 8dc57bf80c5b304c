"""Workloads that require each other: all are placed beside each other, or none is.

The clusters of the first Workload are tried in the order of its ranking. The others follow, those
that a placed one waits for before the rest, each bound to the domains where it is waited for. The
number of passes is linear in the size of the set, and every pass is a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from controller.cache.assumed import PendingAffinity
from controller.cache.placements import PlacementIndex, PlacementOverlay, beside
from controller.framework.profile import Profile
from controller.model.objects import ClusterTerms, WorkloadAffinity, WorkloadTerm
from controller.model.unit import WorkloadInfo
from controller.scheduling.cycle import decide
from controller.scheduling.decision import FITS, Decision
from controller.scheduling.steps import Steps
from controller.snapshot.columns import Mask
from controller.snapshot.saturating import sums, times
from controller.snapshot.snapshot import Snapshot
from crds.names import LABEL_CLUSTER
from machinery.types.metadata import Key
from machinery.types.selectors import Requirement, SelectorTerm

_STARTS = 64
"""Clusters tried for the first Workload of a set. A set without a place by then waits for a change:
a set that is hard to place must not keep all the other Workloads from being decided."""
_PASSES = 4
"""Passes for each Workload of a set, over all starts."""


def decide_together(
    fleet: Snapshot,
    units: Sequence[WorkloadInfo],
    bound: PlacementIndex,
    profile: Profile,
    now: datetime,
    data: Mapping[str, Any] = MappingProxyType({}),
) -> Steps[list[Decision]]:
    """Return one decision for each Workload: all are placed beside each other, or none is.

    Where none is, each decision is the one on the Workload alone: a refusal, as it waits for
    another. `data` is as in `decide`.
    """
    search = _Search(fleet, units, bound, profile, now, data)
    starts = yield from search.starts()
    for row in starts:
        found = yield from search.beginning_at(fleet.names[row])
        if found:
            return [found[unit.key] for unit in units]
        if search.passes > _PASSES * len(units) + _STARTS:
            break
    alone: list[Decision] = []
    for unit in units:
        alone.append(decide(fleet, unit, bound, profile, now, data))
        yield
    return alone


def found_again(
    fleet: Snapshot,
    found: Sequence[Decision],
    bound: PlacementIndex,
    profile: Profile,
    now: datetime,
) -> Steps[bool]:
    """Whether the members of a set come to the same places in this snapshot.

    The search begins at the same cluster: looking for a start is half of its work.
    """
    search = _Search(fleet, [decision.unit for decision in found], bound, profile, now)
    places = {decision.unit.key: decision.placements for decision in found}
    anew = yield from search.beginning_at(next(iter(places[search.first]), fleet.names[0]))
    return bool(anew) and all(anew[key].placements == there for key, there in places.items())


@dataclass(slots=True)
class _Open:
    """A required term of a placed Workload that does not hold yet.

    `there` are the replicas of that Workload by cluster, `selected` the members that the term
    selects.
    """

    unit: WorkloadInfo
    there: Mapping[str, int]
    term: WorkloadTerm
    selected: frozenset[Key]

    def met(self, fleet: Snapshot, view: PlacementIndex) -> bool:
        rows, unit = fleet.rows(self.there), self.unit.with_present(self.there)
        return bool(beside(unit, self.term, fleet, view)[rows].all())

    def domains(self, fleet: Snapshot) -> tuple[str, tuple[str, ...]]:
        """Return the topology key, and its values on the Workload's clusters."""
        column = fleet.column(self.term.topology_key)
        codes = sorted(set(column.codes[fleet.rows(self.there)].tolist()))
        values = [v for c in codes if (v := column.vocabulary.values[c]) is not None]
        return self.term.topology_key, tuple(values)


@dataclass(slots=True)
class _Attempt:
    """A set half placed: what the next pass reads, and the terms that do not hold yet."""

    fleet: Snapshot
    view: PlacementOverlay
    left: dict[Key, WorkloadInfo]
    decisions: dict[Key, Decision] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)

    def following(self) -> WorkloadInfo:
        """Take the next member: the only one that can meet an open term, then one that can."""
        waited: WorkloadInfo | None = None
        for owed in self.open:
            able = [key for key in self.left if key in owed.selected]
            if len(able) == 1:
                return self.left.pop(able[0])
            waited = waited or (self.left[able[0]] if able else None)
        unit = waited or next(iter(self.left.values()))
        return self.left.pop(unit.key)

    def owed_by(self, unit: WorkloadInfo, *, strictly: bool) -> list[_Open]:
        """Return the open terms that `unit` may meet; `strictly`: that no later member can."""
        mine = [owed for owed in self.open if unit.key in owed.selected]
        return [o for o in mine if not (strictly and o.selected & self.left.keys())]


class _Search:
    """The search for places of one set. `passes` counts the calls of `decide`."""

    def __init__(
        self,
        fleet: Snapshot,
        units: Sequence[WorkloadInfo],
        bound: PlacementIndex,
        profile: Profile,
        now: datetime,
        data: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.passes = 0
        self._data = data
        self._fleet = fleet
        self._bound = bound
        self._profile = profile
        self._now = now
        self._turns = sorted(units, key=lambda unit: (not unit.whole, unit.key))
        self._seekers = PendingAffinity(units)
        self._selected: dict[Key, list[frozenset[Key]]] = {}

    @property
    def first(self) -> Key:
        return self._turns[0].key

    def starts(self) -> Steps[list[int]]:
        """Return the rows to try for the first member: its ranking, without hopeless clusters."""
        first, fleet = self._turns[0], self._fleet
        everybody = {unit.key for unit in self._turns}
        opened = self._decide(fleet, _without(first, self._terms(first), everybody), self._bound)
        masks: dict[Key, Mask] = {first.key: opened.verdicts == FITS}
        one = self._one_cluster()
        asked = everybody if one else {key for keys in self._terms(first) for key in keys}
        for unit in self._turns[1:]:
            yield
            if unit.key in asked:
                free = _without(unit, self._terms(unit), everybody)
                masks[unit.key] = self._decide(fleet, free, self._bound).verdicts == FITS
        possible = np.ones(len(fleet), dtype=np.bool_)
        for term, keys in zip(first.affinity.required, self._terms(first), strict=True):
            selected = [masks[key] for key in keys]
            possible &= beside(first, term, fleet, self._bound) | _around(fleet, term, selected)
            yield
        if one:
            possible &= np.all(list(masks.values()), axis=0) & _roomy(fleet, self._turns)
        rows = [row for row in map(int, opened.ranking) if possible[row]]
        # A member that takes several clusters is bound to none of them: one start is enough.
        return list(islice(rows, _STARTS if first.whole else 1))

    def beginning_at(self, cluster: str) -> Steps[dict[Key, Decision]]:
        """Decide all with the first member on that cluster; empty where one finds no place."""
        left = {unit.key: unit for unit in self._turns}
        attempt = _Attempt(self._fleet, self._bound.overlay({}), left)
        unit = left.pop(self._turns[0].key)
        pairs = {**unit.cluster_selector, LABEL_CLUSTER: cluster}
        start = replace(unit, cluster_selector=pairs) if unit.whole else unit
        while True:
            yield
            if not self._place(attempt, unit, start):
                return {}
            if not left:
                return {} if attempt.open else attempt.decisions
            yield
            unit = start = attempt.following()

    def _place(self, attempt: _Attempt, unit: WorkloadInfo, asked: WorkloadInfo) -> bool:
        """Decide a member beside the placed ones; False where it finds no place."""
        asked = _without(asked, self._terms(unit), attempt.left.keys())
        decision = None
        for strictly in (False, True):
            owed = attempt.owed_by(unit, strictly=strictly)
            if strictly and len(owed) == len(attempt.owed_by(unit, strictly=False)):
                break  # the same question
            found = self._decide(attempt.fleet, _bound_to(asked, owed, attempt.fleet), attempt.view)
            if found.scheduled:
                decision = found
                break
        if decision is None:
            return False
        self._take(attempt, unit, decision)
        return True

    def _take(self, attempt: _Attempt, unit: WorkloadInfo, decision: Decision) -> None:
        """Count a decision in what the next pass reads, and update the open terms."""
        there = decision.placements
        attempt.decisions[unit.key] = replace(decision, unit=unit)
        attempt.view.place(unit, there)
        attempt.fleet = attempt.fleet.assuming(unit.load, more(unit, there))
        fleet, view = attempt.fleet, attempt.view
        attempt.open = [
            o for o in attempt.open if unit.key not in o.selected or not o.met(fleet, view)
        ]
        for term, keys in zip(unit.affinity.required, self._terms(unit), strict=True):
            owed = _Open(unit, there, term, keys)
            if not keys.isdisjoint(attempt.left) and not owed.met(fleet, view):
                attempt.open.append(owed)

    def _terms(self, unit: WorkloadInfo) -> list[frozenset[Key]]:
        """Return for each required term the other members that it selects."""
        if unit.key not in self._selected:
            self._selected[unit.key] = [
                frozenset(other.key for other in self._seekers.selected(unit, t.label_selector))
                - {unit.key}
                for t in unit.affinity.required
            ]
        return self._selected[unit.key]

    def _one_cluster(self) -> bool:
        """Whether all members have to be on one and the same cluster."""
        return all(
            unit.whole and all(t.topology_key == LABEL_CLUSTER for t in unit.affinity.required)
            for unit in self._turns
        )

    def _decide(self, fleet: Snapshot, unit: WorkloadInfo, view: PlacementIndex) -> Decision:
        self.passes += 1
        return decide(fleet, unit, view, self._profile, self._now, self._data)


def _around(fleet: Snapshot, term: WorkloadTerm, masks: Iterable[Mask]) -> Mask:
    rows = np.flatnonzero(np.any([np.zeros(len(fleet), dtype=np.bool_), *masks], axis=0))
    return fleet.domain(term.topology_key, (fleet.names[int(row)] for row in rows))


def _roomy(fleet: Snapshot, units: Iterable[WorkloadInfo]) -> Mask:
    """Return the clusters whose nodes have, in sum, as much free as all Workloads ask for."""
    asked: dict[str, int] = {}
    for unit in units:
        for resource, amount in unit.request.items() if unit.counted else ():
            asked[resource] = asked.get(resource, 0) + amount * unit.replicas
    mask = np.ones(len(fleet), dtype=np.bool_)
    groups = fleet.groups
    for resource, amount in asked.items():
        free = times(groups.room(resource), groups.count)
        mask &= sums(groups.cluster, free, len(fleet)) >= amount
    return mask | fleet.virtual


def more(unit: WorkloadInfo, placements: Mapping[str, int]) -> dict[str, int]:
    """Return the replicas by cluster that take room which is not taken yet."""
    return {name: n - unit.present.get(name, 0) for name, n in placements.items()}


def _bound_to(unit: WorkloadInfo, owed: Iterable[_Open], fleet: Snapshot) -> WorkloadInfo:
    """Return the Workload, bound to the domains of placed members that wait for it."""
    for key, values in dict.fromkeys(each.domains(fleet) for each in owed):
        unit = _within(unit, Requirement(key, "In", list(values)))
    return unit


def _within(unit: WorkloadInfo, requirement: Requirement) -> WorkloadInfo:
    """Return the Workload with one more requirement on clusters."""
    required = unit.cluster_affinity.required or ClusterTerms([SelectorTerm({}, [])])
    # An empty term still matches nothing.
    terms = [
        SelectorTerm(term.match_labels, [*term.match_expressions, requirement])
        for term in required.cluster_selector_terms
        if term.match_labels or term.match_expressions or unit.cluster_affinity.required is None
    ]
    affinity = msgspec.structs.replace(unit.cluster_affinity, required=ClusterTerms(terms))
    return replace(unit, cluster_affinity=affinity)


def _without(
    unit: WorkloadInfo, selected: Sequence[frozenset[Key]], later: Iterable[Key]
) -> WorkloadInfo:
    """Return the Workload without the required terms that later members may meet."""
    terms = zip(unit.affinity.required, selected, strict=True)
    left = [term for term, keys in terms if keys.isdisjoint(later)]
    return replace(unit, affinity=WorkloadAffinity(left, unit.affinity.preferred))
