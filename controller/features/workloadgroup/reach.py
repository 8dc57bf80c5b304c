"""How many units of a gang fit where, at most: by columns, without a pass.

Members that follow the same rules and ask for the same are one class. Where a class may go its own
rules and the clusters' state say, as the plugins do that come with Stowage; how many of it fit is
what a pass would find, with nothing of the gang placed yet and with all that is held for somebody
given back, as some of it may be held for the gang. So a pass never places more. Of very many
classes the last ones count as if they fitted everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.cache.columns import Ints, Mask
from controller.cache.inflight import NO_FLIGHTS
from controller.cache.nodegroups import UNLIMITED
from controller.cache.placements import Index
from controller.cache.snapshot import Fleet
from controller.framework.interface import CycleState
from controller.framework.room import room
from controller.model.unit import Unit
from controller.plugins.clusterselection import ClusterAffinity, ClusterSelector, NamedCluster
from controller.plugins.clusterstate import (
    AllowedKinds,
    ClusterReady,
    TaintToleration,
    TargetNamespace,
)

MOST_CLASSES = 64
"""Classes of members that are told apart: some five milliseconds on a thousand clusters."""
_RULES = (
    NamedCluster(),
    ClusterSelector(),
    ClusterAffinity(),
    TargetNamespace(),
    AllowedKinds(),
    ClusterReady(),
    TaintToleration(),
)


def usable(unit: Unit, fleet: Fleet) -> Mask:
    """The clusters that its own rules and their state leave to new units, shape (n,)."""
    refused = np.zeros(len(fleet), dtype=np.bool_)
    state, bound = CycleState(), Index()
    for rule in _RULES:
        for mask, _ in rule.filter(state, unit, fleet, bound).reasons:
            refused |= mask
    return ~refused


@dataclass(frozen=True, slots=True)
class Class:
    """Members that are alike: the first of them, and how many units they want together."""

    unit: Unit
    members: int
    wanted: int


def classes(units: Iterable[Unit]) -> list[Class]:
    """The members by what a pass reads of them, in the order in which they come."""
    found: dict[Any, Class] = {}
    for unit in units:
        alike = (unit.constraints, unit.load, unit.kind, unit.whole and unit.replicas)
        own = unit.key if unit.present else None
        more = max(unit.replicas - sum(unit.present.values()), 0)
        before = found.get((own, alike))
        first, members, wanted = (
            (before.unit, before.members, before.wanted) if before else (unit, 0, 0)
        )
        found[own, alike] = Class(first, members + 1, wanted + more)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Reach:
    """What fits where.

    `able` are the units of each class that fit on each cluster, shape (classes, n), `any_units`
    those that fit of whatever class, shape (n,), `wanted` the units of each class.
    """

    able: Sequence[Ints]
    any_units: Ints
    wanted: Ints

    @staticmethod
    def of(units: Sequence[Unit], fleet: Fleet, kept: Mask | None = None) -> Reach:
        """Of these members; none on the clusters that are `kept`, shape (n,)."""
        fleet = replace(fleet, holds=NO_FLIGHTS, merged={})
        found = classes(units)
        able = [_able(each, fleet, kept) for each in found[:MOST_CLASSES]]
        able += [_open(fleet, kept)] * max(len(found) - MOST_CLASSES, 0)
        wanted = [_wanted(each, fleet) for each in found]
        return Reach(able, _any_units(found, fleet, kept), np.array(wanted, dtype=np.int64))

    def places(self) -> int:
        """Units of the gang that may fit over all clusters, at most."""
        each = (min(int(able.sum()), want) for able, want in self._pairs())
        return min(sum(each), int(self.any_units.sum()))

    def _pairs(self) -> Iterator[tuple[Ints, int]]:
        return zip(self.able, self.wanted.tolist(), strict=True)


def _wanted(each: Class, fleet: Fleet) -> int:
    return each.wanted * len(fleet) if each.unit.everywhere else each.wanted


def _open(fleet: Fleet, kept: Mask | None) -> Ints:
    free: Ints = np.full(len(fleet), UNLIMITED, dtype=np.int64)
    return free if kept is None else np.where(kept, 0, free)


def _able(each: Class, fleet: Fleet, kept: Mask | None) -> Ints:
    """The units of a class that fit on each cluster: whole Workloads only, where they are whole."""
    unit = each.unit
    fits = np.minimum(room(unit, fleet), UNLIMITED)
    if unit.everywhere:
        fits = np.where(fits >= unit.replicas, unit.replicas * each.members, 0)
    elif unit.whole and not unit.present:
        fits = fits // max(unit.replicas, 1) * unit.replicas
    fits = np.where(usable(unit, fleet), fits, 0)
    return fits if kept is None else np.where(kept, 0, fits)


def _any_units(found: Sequence[Class], fleet: Fleet, kept: Mask | None) -> Ints:
    """How often the least that any unit asks for fits on each cluster."""
    counted = [each.unit for each in found if each.unit.counted and each.wanted]
    least = _least([unit.request for unit in counted])
    if len(counted) < sum(1 for each in found if each.wanted) or not least:
        return _open(fleet, kept)
    tolerations = {t: None for unit in counted for t in unit.pod_tolerations}
    fits = fleet.fitting(least, node_selector={}, tolerations=tuple(tolerations))
    return fits if kept is None else np.where(kept, 0, fits)


def _least(requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Of each resource that all of them ask for, the least."""
    shared = set.intersection(*map(set, requests)) if requests else set()
    return {r: min(each[r] for each in requests) for r in shared}
