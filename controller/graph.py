"""Workloads that wait for each other: who has to be decided together, and in which order.

An edge goes from a Workload to each other one that its required affinity selects. A strongly
connected set can only be placed together, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import networkx as nx

from controller.cycle import decide
from controller.decision import Decision
from controller.framework.profile import Profile
from controller.index import Index
from controller.model import WorkloadAffinity
from controller.snapshot import Fleet
from controller.unit import Unit
from machinery.objects import Key


def together(key: Key, units: Mapping[Key, Unit]) -> list[Unit]:
    """The Workloads, this one included, that require each other.

    By key. Alone where there is none.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(units)
    for unit in units.values():
        graph.add_edges_from((unit.key, other.key) for other in _wanted(unit, units.values()))
    for component in nx.strongly_connected_components(graph):
        if key in component:
            return [units[member] for member in sorted(component)]
    return []


def decide_together(
    fleet: Fleet, units: Sequence[Unit], bound: Index, profile: Profile, now: datetime
) -> list[Decision]:
    """One decision for each of the units: all of them find a place, or the last failures are given.

    The first one's clusters are tried in the order of its ranking; the others are then decided one
    by one beside what has been tried so far.
    """
    first = units[0]
    open_ = decide(fleet, _without(first, units[1:]), bound, profile, now)
    decisions = [open_]
    for row in open_.ranking:
        decisions = _beginning_at(int(row), fleet, units, bound, profile, now)
        if all(decision.scheduled for decision in decisions):
            return decisions
    return [decide(fleet, unit, bound, profile, now) for unit in units]


def _beginning_at(
    row: int,
    fleet: Fleet,
    units: Sequence[Unit],
    bound: Index,
    profile: Profile,
    now: datetime,
) -> list[Decision]:
    """Decisions with the first unit on that cluster, until one fails."""
    placed: dict[Key, tuple[Unit, Mapping[str, int]]] = {}
    decisions: list[Decision] = []
    for number, unit in enumerate(units):
        asked = _without(unit, units[number + 1 :])
        if number == 0:
            asked = replace(asked, cluster_selector={"clusterName": fleet.names[row]})
        decision = decide(fleet, asked, bound.overlay(placed), profile, now)
        decisions.append(replace(decision, unit=unit))
        if not decision.scheduled:
            break
        placed[unit.key] = (unit, decision.placements)
    return decisions


def _wanted(unit: Unit, others: Iterable[Unit]) -> list[Unit]:
    return [
        other
        for other in others
        if other.namespace == unit.namespace
        and any(t.label_selector.matches(other.labels) for t in unit.affinity.required)
    ]


def _without(unit: Unit, later: Sequence[Unit]) -> Unit:
    """The unit without the required terms that only those still to come can meet."""
    left = [
        term
        for term in unit.affinity.required
        if not any(term.label_selector.matches(other.labels) for other in later)
    ]
    return replace(unit, affinity=WorkloadAffinity(left, unit.affinity.preferred))
