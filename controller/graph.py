"""Workloads that wait for each other: who has to be decided together, and in which order.

An edge goes from a Workload to each one that its required affinity selects. A strongly connected
set can only be placed together or not at all: each of its members waits for another one. Sets are
in topological order, those that are required before those that require them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

import msgspec
import networkx as nx
import numpy as np

from controller.columns import Mask
from controller.cycle import decide
from controller.decision import FITS, Decision
from controller.framework.profile import Profile
from controller.index import Index
from controller.model import ClusterTerms, WorkloadAffinity, WorkloadTerm
from controller.plugins.affinity import beside
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.names import LABEL_CLUSTER
from machinery.objects import Key
from machinery.selectors import Requirement, SelectorTerm

_STARTS = 64
"""Clusters tried for the first of a set. A set that has no place by then waits for a change: one
that is hard to place must not keep all the other Workloads from being decided."""


def ordered(units: Iterable[Unit]) -> list[list[Unit]]:
    """The sets that must be decided together, each by key, in the order to decide them."""
    known = {unit.key: unit for unit in units}
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(known))
    for unit in known.values():
        graph.add_edges_from((unit.key, other.key) for other in _wanted(unit, known.values()))
    sets = nx.condensation(graph)
    order = nx.lexicographical_topological_sort(
        sets.reverse(copy=False), key=lambda number: min(sets.nodes[number]["members"])
    )
    return [[known[key] for key in sorted(sets.nodes[number]["members"])] for number in order]


def together(key: Key, units: Mapping[Key, Unit]) -> list[Unit]:
    """The Workloads, this one included, that require each other; alone where there is none.

    Only those that it reaches are looked at, and whoever requires nobody reaches nobody.
    """
    asking = [u for u in units.values() if u.affinity.required and u.namespace == key[0]]
    reached, front = {key: units[key]}, [units[key]]
    while front:
        found = [other for other in _wanted(front.pop(), asking) if other.key not in reached]
        reached |= {other.key: other for other in found}
        front += found
    return next(each for each in ordered(reached.values()) if any(u.key == key for u in each))


def decide_together(
    fleet: Fleet, units: Sequence[Unit], bound: Index, profile: Profile, now: datetime
) -> list[Decision]:
    """One decision for each of the units: all find places beside each other, or none does.

    The clusters of the first one are tried in the order of its ranking, the others are decided one
    by one beside it. Where that comes to nothing, each is given what it gets alone: a refusal, as
    it waits for another one.
    """
    turns = sorted(units, key=lambda unit: (not _whole(unit), unit.key))
    opened = [decide(fleet, _without(u, turns), bound, profile, now) for u in turns]
    starts = _starts(fleet, turns, opened, bound)
    for row in islice(starts, _STARTS if _whole(turns[0]) else 1):
        found = _beginning_at(fleet.names[row], fleet, turns, bound, profile, now)
        if found:
            return [found[unit.key] for unit in units]
    return [decide(fleet, unit, bound, profile, now) for unit in units]


def _starts(
    fleet: Fleet, turns: Sequence[Unit], opened: Sequence[Decision], bound: Index
) -> list[int]:
    """The first unit's ranking without the clusters beside which the others have no place."""
    first, possible = turns[0], np.ones(len(fleet), dtype=np.bool_)
    masks = {d.unit.key: d.verdicts == FITS for d in opened}
    for term in first.affinity.required:
        selected = [masks[u.key] for u in turns if term.label_selector.matches(u.labels)]
        possible &= beside(first, term, fleet, bound) | _around(fleet, term, selected)
    return [row for row in map(int, opened[0].ranking) if possible[row]]


def _around(fleet: Fleet, term: WorkloadTerm, masks: Iterable[Mask]) -> Mask:
    rows = np.flatnonzero(np.any([np.zeros(len(fleet), dtype=np.bool_), *masks], axis=0))
    return fleet.domain(term.topology_key, (fleet.names[int(row)] for row in rows))


def _beginning_at(
    cluster: str,
    fleet: Fleet,
    turns: Sequence[Unit],
    bound: Index,
    profile: Profile,
    now: datetime,
) -> dict[Key, Decision]:
    """Decisions with the first unit on that cluster; empty when one of them finds no place."""
    placed: dict[Key, tuple[Unit, Mapping[str, int]]] = {}
    decisions: dict[Key, Decision] = {}
    for number, unit in enumerate(turns):
        later = turns[number + 1 :]
        view = bound.overlay(placed)
        asked = _owing(_without(unit, later), placed, later, fleet, view)
        if number == 0 and _whole(unit):
            pairs = {**asked.cluster_selector, LABEL_CLUSTER: cluster}
            asked = replace(asked, cluster_selector=pairs)
        decision = decide(fleet, asked, view, profile, now)
        if not decision.scheduled:
            return {}
        decisions[unit.key] = replace(decision, unit=unit)
        placed[unit.key] = (unit, decision.placements)
        fleet = fleet.assuming(unit.request, _more(unit, decision.placements))
    view = bound.overlay(placed)
    held = all(_unmet(u, there, fleet, view) == [] for u, there in placed.values())
    return decisions if held else {}


def _more(unit: Unit, placements: Mapping[str, int]) -> dict[str, int]:
    """The units that take room which is not taken yet."""
    return {name: n - unit.present.get(name, 0) for name, n in placements.items()}


def _owing(
    unit: Unit,
    placed: Mapping[Key, tuple[Unit, Mapping[str, int]]],
    later: Sequence[Unit],
    fleet: Fleet,
    view: Index,
) -> Unit:
    """The unit, bound to the domains of placed ones that only it can still satisfy."""
    for other, there in placed.values():
        for term in _unmet(other, there, fleet, view):
            selects = term.label_selector.matches
            if selects(unit.labels) and not any(selects(u.labels) for u in later):
                column = fleet.column(term.topology_key)
                codes = set(column.codes[fleet.rows(there)].tolist())
                values = [v for c in codes if (v := column.vocabulary.values[c]) is not None]
                unit = _within(unit, Requirement(term.topology_key, "In", values))
    return unit


def _unmet(
    unit: Unit, placements: Mapping[str, int], fleet: Fleet, view: Index
) -> list[WorkloadTerm]:
    """The required terms that do not hold on each of the unit's clusters."""
    rows, there = fleet.rows(placements), unit.with_present(placements)
    return [t for t in unit.affinity.required if not beside(there, t, fleet, view)[rows].all()]


def _within(unit: Unit, requirement: Requirement) -> Unit:
    """The unit with one more requirement on clusters. An empty term still matches nothing."""
    required = unit.cluster_affinity.required or ClusterTerms([SelectorTerm({}, [])])
    terms = [
        SelectorTerm(term.match_labels, [*term.match_expressions, requirement])
        for term in required.cluster_selector_terms
        if term.match_labels or term.match_expressions or unit.cluster_affinity.required is None
    ]
    affinity = msgspec.structs.replace(unit.cluster_affinity, required=ClusterTerms(terms))
    return replace(unit, cluster_affinity=affinity)


def _whole(unit: Unit) -> bool:
    """True for a Workload that goes to one cluster, so that trying clusters makes sense."""
    return unit.whole


def _wanted(unit: Unit, others: Iterable[Unit]) -> list[Unit]:
    selectors = [term.label_selector for term in unit.affinity.required]
    return [
        other
        for other in others
        if other.namespace == unit.namespace
        and any(selector.matches(other.labels) for selector in selectors)
    ]


def _without(unit: Unit, later: Sequence[Unit]) -> Unit:
    """The unit without the required terms that others, still to come, may meet."""
    left = [
        term
        for term in unit.affinity.required
        if not any(u is not unit and term.label_selector.matches(u.labels) for u in later)
    ]
    return replace(unit, affinity=WorkloadAffinity(left, unit.affinity.preferred))
