"""How many replicas of a gang fit where, at most: by columns, without a pass.

Nothing of the gang counts as placed, and all held room as free, so a pass never places more.
Classes beyond `MOST_CLASSES` count as if they fitted everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.framework.interface import CycleState
from controller.framework.profile import Profile
from controller.framework.room import room
from controller.model.load import Load
from controller.model.place import Place
from controller.model.unit import WorkloadInfo
from controller.plugins.clusterselection import ClusterAffinityPlugin, ClusterSelector, NamedCluster
from controller.plugins.clusterstate import (
    AllowedKinds,
    ClusterReady,
    NamespaceGiven,
    TaintToleration,
    TargetNamespace,
)
from controller.plugins.memberfacts import ServedKinds
from controller.snapshot.columns import ABSENT, CEILING, Ints, Mask, plus, sums, times
from controller.snapshot.inflight import NO_FLIGHTS
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot

MOST_CLASSES = 16
"""Classes of members that are looked at one by one: a few milliseconds on a thousand clusters."""
_RULES = (
    NamedCluster(),
    ClusterSelector(),
    ClusterAffinityPlugin(),
    TargetNamespace(),
    NamespaceGiven(),
    AllowedKinds(),
    ServedKinds(),
    ClusterReady(),
    TaintToleration(),
)
_NAMES = frozenset(rule.name for rule in _RULES)


Filters: TypeAlias = Callable[[WorkloadInfo], Collection[str]]
"""Returns the names of the plugins at Filter in the profile of a Workload."""


def of_default_profile(_: WorkloadInfo) -> Collection[str]:
    return _NAMES


def filters_of(profiles: Mapping[str, Profile]) -> Filters:
    def named(info: WorkloadInfo) -> Collection[str]:
        profile = profiles.get(info.scheduler_name)
        return _NAMES if profile is None else [each.name for each in profile.filter]

    return named


def usable(info: WorkloadInfo, snapshot: Snapshot, filters: Filters = of_default_profile) -> Mask:
    """Return the clusters that the profile's rules leave to new replicas, shape (n,)."""
    refused = np.zeros(len(snapshot), dtype=np.bool_)
    state, bound, asked = CycleState(), PlacementIndex(), filters(info)
    for rule in _RULES:
        if rule.name not in asked:
            continue
        for mask, *_ in rule.filter(state, info, snapshot, bound).reasons:
            refused |= mask
    return ~refused


@dataclass(frozen=True, slots=True)
class Class:
    """Members that are alike, and how many replicas they want together."""

    workload: WorkloadInfo
    members: int
    wanted: int


def classes(infos: Iterable[WorkloadInfo]) -> list[Class]:
    found: dict[Any, Class] = {}
    for info in infos:
        alike = (info.constraints, info.shape, info.kind, info.whole and info.replicas)
        own = info.key if info.present or info.moving.kept else None
        more = max(info.replicas - sum(info.present.values()), 0)
        before = found.get((own, alike))
        first, members, wanted = (
            (before.workload, before.members, before.wanted) if before else (info, 0, 0)
        )
        found[own, alike] = Class(first, members + 1, wanted + more)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Reach:
    """`able` is of shape (classes, n), `any_units` of any class (n,), `wanted` by class."""

    able: Sequence[Ints]
    any_units: Ints
    wanted: Ints
    wholes: Sequence[int]

    @staticmethod
    def of(
        infos: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        kept: Mask | None = None,
        given: Mapping[str, Ints] | None = None,
        filters: Filters = of_default_profile,
    ) -> Reach:
        """Return the reach of these members.

        `kept`: clusters where none may go, shape (n,). `given`: amounts that others give back,
        shape (n,) each.
        """
        found = classes(infos)
        room = _Room(replace(snapshot, holds=NO_FLIGHTS, merged={}), kept, given, filters)
        able = [room.able(each) for each in found[:MOST_CLASSES]]
        wanted = [_wanted(each, snapshot) for each in found]
        if len(found) > MOST_CLASSES:  # the others as one
            able.append(room.open())
            wanted[MOST_CLASSES:] = [sum(wanted[MOST_CLASSES:])]
        somewhere = np.any([np.zeros(len(snapshot), dtype=np.int64), *able], axis=0)
        wholes = [each.members if _goes_whole(each) else 0 for each in found[:MOST_CLASSES]]
        wholes += [0] * (len(able) - len(wholes))
        any_units = np.where(somewhere, room.any_units(found) + staying(infos, snapshot), 0)
        return Reach(able, any_units, np.array(wanted, dtype=np.int64), wholes)

    def places(self) -> int:
        return int(self.places_in(np.zeros(len(self.any_units), dtype=np.int64), 1)[0])

    def places_in(self, domain: Ints, domains: int) -> Ints:
        """Return the most replicas in each domain; `domain` is of shape (n,)."""
        able = np.minimum(self.able_in(domain, domains), self.wanted[:, np.newaxis])
        each: Ints = able.sum(axis=0)
        return np.minimum(each, sums(domain, self.any_units, domains))

    def able_in(self, domain: Ints, domains: int) -> Ints:
        """Shape (classes, domains)."""
        able = np.zeros((len(self.able), domains), dtype=np.int64)
        for row, fits, members in zip(able, self.able, self.wholes, strict=True):
            row[:] = sums(domain, fits, domains)
            if members:
                most = np.zeros(domains, dtype=np.int64)
                np.maximum.at(most, domain, fits)
                np.minimum(row, times(most, members), out=row)
        return able


def _goes_whole(each: Class) -> bool:
    return each.workload.whole and not each.workload.present


def _wanted(each: Class, snapshot: Snapshot) -> int:
    return each.wanted * len(snapshot) if each.workload.everywhere else each.wanted


def fitting(
    group: CompiledGroup,
    infos: Sequence[WorkloadInfo],
    snapshot: Snapshot,
    need: int,
    given: Mapping[str, Ints],
    filters: Filters = of_default_profile,
) -> Mask:
    """Return the clusters that could take the quorum with these amounts back, shape (n,).

    Empty if the `need` replicas would not fit even so.
    """
    none = np.zeros(len(snapshot), dtype=np.bool_)
    if not len(snapshot) or not _amounts_fit(group, snapshot, given):
        return none
    reach = Reach.of(infos, snapshot, given=given, filters=filters)
    domain, outside = _domains(group, snapshot)
    size = int(domain.max()) + 1
    enough = (reach.places_in(domain, size) >= need)[domain] & ~outside
    mask: Mask = enough & np.any([none, *reach.able], axis=0)
    return mask


def _amounts_fit(group: CompiledGroup, snapshot: Snapshot, given: Mapping[str, Ints]) -> bool:
    if snapshot.virtual.any():
        return True
    none = np.zeros(len(snapshot), dtype=np.int64)
    for resource, amount in group.min_resources.items():
        left = np.maximum(free(resource, snapshot) - snapshot.coming(resource), 0)
        if int(sums(none, plus(left, given.get(resource, none)), 1)[0]) < amount:
            return False
    return True


def _domains(group: CompiledGroup, snapshot: Snapshot) -> tuple[Ints, Mask]:
    if not (group.topology_key and group.topology_required):
        return np.zeros(len(snapshot), dtype=np.int64), np.zeros(len(snapshot), dtype=np.bool_)
    codes = snapshot.domains_by(group.topology_key).codes.astype(np.int64)
    return codes, codes == ABSENT


def free(resource: str, snapshot: Snapshot, lets_in: Mask | None = None) -> Ints:
    """Return the free amount of a resource on each cluster, shape (n,)."""
    groups = snapshot.groups
    amounts = times(groups.room(resource), groups.count)
    amounts = amounts if lets_in is None else np.where(lets_in, amounts, 0)
    return sums(groups.cluster, amounts, len(snapshot))


def amounts(taken: Mapping[str, Mapping[Load, int]], snapshot: Snapshot) -> dict[str, Ints]:
    """Return the taken amounts as columns (n,) by resource."""
    found: dict[str, list[int]] = {}
    for name, loads in taken.items():
        row = snapshot.row.get(name)
        if row is None:
            continue
        for load, replicas in loads.items():
            for resource, amount in load.request:
                column = found.setdefault(resource, [0] * len(snapshot))
                column[row] += amount * replicas
    return {r: np.array([min(n, CEILING) for n in each]) for r, each in found.items()}


@dataclass(frozen=True, slots=True)
class _Room:
    snapshot: Snapshot
    kept: Mask | None
    given: Mapping[str, Ints] | None
    filters: Filters

    def open(self) -> Ints:
        return self._kept_out(np.full(len(self.snapshot), UNLIMITED, dtype=np.int64))

    def able(self, each: Class) -> Ints:
        info, given = each.workload, self.given
        if given is None or not info.counted:
            fits = room(info, self.snapshot)
        else:
            fits = self._freed(info.request, info.place, given) + staying([info], self.snapshot)
        if info.everywhere:
            fits = np.where(fits >= info.replicas, info.replicas * each.members, 0)
        elif _goes_whole(each):
            fits = np.minimum(fits, each.wanted)
        return self._kept_out(np.where(usable(info, self.snapshot, self.filters), fits, 0))

    def any_units(self, found: Sequence[Class]) -> Ints:
        wanting = [each.workload for each in found if each.wanted]
        least = _least([info.request for info in wanting])
        if not least or not all(info.counted for info in wanting):
            return self.open()
        tolerations = tuple({t: None for info in wanting for t in info.place.tolerations})
        place = Place(tolerations=tolerations)
        if self.given is not None:
            return self._kept_out(self._freed(least, place, self.given))
        return self._kept_out(self.snapshot.fitting(least, place))

    def _kept_out(self, fits: Ints) -> Ints:
        return fits if self.kept is None else np.where(self.kept, 0, fits)

    def _freed(self, request: Mapping[str, int], place: Place, given: Mapping[str, Ints]) -> Ints:
        fits = np.full(len(self.snapshot), UNLIMITED, dtype=np.int64)
        lets_in, none = self.snapshot.groups.open_to(place), np.zeros_like(fits)
        for resource, amount in request.items():
            has = free(resource, self.snapshot, lets_in)
            left = np.maximum(has - self.snapshot.coming(resource), 0)
            fits = np.minimum(fits, plus(left, given.get(resource, none)) // amount)
        fits[self.snapshot.virtual] = UNLIMITED
        return fits


def staying(infos: Iterable[WorkloadInfo], snapshot: Snapshot) -> Ints:
    """Return the replicas that stay until others are placed, shape (n,)."""
    kept = (snapshot.by_row(info.moving.kept) for info in infos if info.moving.kept)
    return sum(kept, np.zeros(len(snapshot), dtype=np.int64))


def _least(requests: Sequence[Mapping[str, int]]) -> dict[str, int]:
    shared = set.intersection(*map(set, requests)) if requests else set()
    return {r: min(each[r] for each in requests) for r in shared}
