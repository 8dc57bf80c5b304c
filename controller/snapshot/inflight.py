"""Replicas in flight: placed, but not yet counted in their cluster's reported room.

`docs/design/in-flight.md` derives the bound.

A host port is a resource of which every node has one, kept as sets because ports are many. Reported
room is rounded down by less than half: a replica may use a node where twice the room would hold it.
Beyond a number of templates a cluster merges the rest into one with the largest requests, for any
node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.model.load import MOST_FLYING, Load, entries
from controller.model.place import Place
from controller.snapshot.columns import CEILING, Floats, Ints, Mask, sums, times
from controller.snapshot.nodegroups import NodeGroups
from machinery.types import hostports

MOST_PAIRS = 100_000
"""Templates in flight, times the groups for each, that a decision computes."""
LEAST_LOADS = 4
"""Templates that are kept apart on each cluster, however many clusters there are."""
LEAST_HOLDS = 32
"""The same for held room: it stays for days, while replicas in flight land within seconds."""
MOST_PLACES = 16
"""Node selectors and tolerations that are evaluated; others count as fitting any node."""
_EVERYWHERE = -1
_SPARE_LOADS = 64
_ROUNDING = 1e-9
"""Float errors are smaller: a slightly high estimate is cut to the same integer."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """All replicas in flight, flat: an entry for each load on each cluster, in no order.

    Args:
        cluster: the row of the snapshot.
        load: the code of the request of each replica.
        replicas: how many, at least one.
        codes: each distinct load once, with its code.
        amounts: the request of one replica of each load, by resource; without ports.
        ports: the codes of the host ports of each load.
        place: an index into `places` for each load, or -1 for any node.
        places: each distinct place once.
    """

    cluster: Ints
    load: Ints
    replicas: Ints
    codes: Mapping[Load, int]
    amounts: Mapping[str, Ints]
    ports: Sequence[frozenset[int]]
    place: Ints
    places: Sequence[Place]

    def __len__(self) -> int:
        return len(self.cluster)

    def without(self, rows: Ints) -> InFlight:
        return self._where(~np.isin(self.cluster, rows))

    def kept(self, keep: Mask) -> InFlight:
        found = self._where(keep[self.cluster])
        return replace(found, cluster=np.cumsum(keep)[found.cluster] - 1)

    def of(self, rows: Ints, size: int) -> InFlight:
        """Return those of sorted `rows` among `size`, renumbered from 0."""
        if not len(self):
            return self
        place = np.full(size, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        at = place[self.cluster]
        there = at >= 0
        return self._with(at[there], self.load[there], self.replicas[there])

    def only(self, load: Load) -> bool:
        return bool((self.load == self.codes.get(load, -1)).all())

    def plus(self, entries: Iterable[tuple[int, Load, int]]) -> InFlight:
        """Return these and more: (row, load, replicas)."""
        listed = list(entries)
        if not listed:
            return self
        if all(each in self.codes for _, each, _ in listed):
            more = np.array([(row, self.codes[each], n) for row, each, n in listed], dtype=np.int64)
            columns = (self.cluster, self.load, self.replicas)
            return self._with(*np.concatenate((columns, more.T), axis=1))
        codes: dict[Load, int] = {}
        load = _ints(codes.setdefault(each, len(codes)) for _, each, _ in listed)
        cluster, replicas = _ints(row for row, _, _ in listed), _ints(n for _, _, n in listed)
        both = self._beside(_coded(cluster, load, replicas, codes))
        return both if len(both.codes) <= 2 * len(both) + _SPARE_LOADS else _used(both)

    def joined(self, other: InFlight) -> InFlight:
        few, many = sorted((self, other), key=lambda each: len(each.codes))
        both = many._beside(few)  # noqa: SLF001 - one class
        place = both.cluster * len(both.codes) + both.load
        found, entry = np.unique(place, return_inverse=True)
        replicas = np.minimum(sums(entry, both.replicas, len(found)), MOST_FLYING)
        cluster, load = np.divmod(found, len(both.codes))
        return replace(both, cluster=cluster, load=load, replicas=replicas)

    def releasing(
        self,
        others: Sequence[tuple[int, Load, int]],
        whole: Mapping[int, Mapping[Load, int]],
        rows: int,
    ) -> InFlight:
        """As `less`; `whole` has all that is left on each row with merged entries."""
        left = self.less(others, rows)
        if not whole:
            return left
        # Loads that were kept apart stay so. Merged again, less could seem to take more.
        apart = self.by_row(list(whole))
        touched = {row for row, load, _ in others if row in whole and load not in apart[row]}
        fresh = [
            entry
            for row in touched
            for entry in entries(
                row, {load: n for load, n in whole[row].items() if load not in apart[row]}, 1
            )
        ]
        merged = left.place[left.load] == _EVERYWHERE
        return left._where(~merged | ~np.isin(left.cluster, list(touched))).plus(fresh)  # noqa: SLF001 - one class

    def less(self, others: Iterable[tuple[int, Load, int]], rows: int) -> InFlight:
        """Never less than nothing."""
        listed = [(row, self.codes[load], n) for row, load, n in others if load in self.codes]
        touched = np.zeros(rows, dtype=np.bool_)
        touched[[row for row, _, _ in listed]] = True
        at = np.flatnonzero(touched[self.cluster])
        place = self.cluster[at] * len(self.codes) + self.load[at]
        by_place = dict(zip(place.tolist(), at.tolist(), strict=True))
        replicas = self.replicas.copy()
        for row, load, n in listed:
            if (entry := by_place.get(row * len(self.codes) + load)) is not None:
                replicas[entry] -= min(max(n, 0), int(replicas[entry]))
        left = replicas > 0
        return self._with(self.cluster[left], self.load[left], replicas[left])

    def on(self, row: int) -> dict[Load, int]:
        return self.by_row([row])[row]

    def by_row(self, rows: Sequence[int]) -> dict[int, dict[Load, int]]:
        found: dict[int, dict[Load, int]] = {row: {} for row in rows}
        if len(self):
            loads = list(self.codes)
            at = np.flatnonzero(np.isin(self.cluster, rows))
            columns = (each[at].tolist() for each in (self.cluster, self.load, self.replicas))
            for row, load, replicas in zip(*columns, strict=True):
                found[row][loads[load]] = replicas
        return found

    def amount(self, resource: str, rows: int) -> Ints:
        """Shape (rows,)."""
        each = self.amounts.get(resource)
        if each is None or not len(self):
            return np.zeros(rows, dtype=np.int64)
        return sums(self.cluster, times(self.replicas, each[self.load]), rows)

    def _where(self, mask: Mask) -> InFlight:
        return self._with(self.cluster[mask], self.load[mask], self.replicas[mask])

    def _beside(self, other: InFlight) -> InFlight:
        codes = dict(self.codes)
        recoded = _ints(codes.setdefault(load, len(codes)) for load in other.codes)
        cluster = np.concatenate([self.cluster, other.cluster])
        load = np.concatenate([self.load, recoded[other.load]])
        replicas = np.concatenate([self.replicas, other.replicas])
        if len(codes) == len(self.codes):
            return self._with(cluster, load, replicas)
        old = len(self.codes)
        amounts = {r: np.zeros(len(codes), dtype=np.int64) for r in {*self.amounts, *other.amounts}}
        for resource, column in amounts.items():
            column[:old] = self.amounts.get(resource, 0)
            column[recoded] = other.amounts.get(resource, 0)
        places = {each: code for code, each in enumerate(self.places)}
        replaced = _ints(places.setdefault(each, len(places)) for each in other.places)
        place = np.full(len(codes), _EVERYWHERE, dtype=np.int64)
        place[:old] = self.place
        bound = other.place != _EVERYWHERE
        place[recoded[bound]] = replaced[other.place[bound]]
        ports = tuple(each.ports for each in codes)
        return InFlight(cluster, load, replicas, codes, amounts, ports, place, tuple(places))

    def _with(self, cluster: Ints, load: Ints, replicas: Ints) -> InFlight:
        tables = (self.codes, self.amounts, self.ports, self.place, self.places)
        return InFlight(cluster, load, replicas, *tables)


def most_loads(clusters: int, groups: int, least: int) -> int:
    return max(least, MOST_PAIRS // max(clusters * groups, 1))


def taken(
    flights: InFlight, groups: NodeGroups, replicas: Ints, request: Mapping[str, int], rows: int
) -> Ints:
    """Return the most replicas of the template that those in flight displace, shape (rows,).

    Args:
        flights: the replicas in flight.
        groups: the room that does not count them.
        replicas: of the template, that fit on a node of each group.
        request: of one of them.
        rows: the number of clusters.
    """
    found = _costs(flights, groups, replicas, request, rows)
    return np.zeros(rows, dtype=np.int64) if found is None else taken_by(*found, rows)


def taken_by(flights: InFlight, each: Floats, reach: Floats, rows: int) -> Ints:
    """As `taken`, if a replica of each entry takes `each`, and all of them at most `reach`."""
    cost = np.minimum(flights.replicas * each, reach)
    total = np.bincount(flights.cluster, weights=cost, minlength=rows)
    most = np.minimum(total * (1 + _ROUNDING) + _ROUNDING, CEILING / 2)
    found: Ints = np.floor(most).astype(np.int64)
    return found


def cost_of(
    load: Load, groups: NodeGroups, replicas: Ints, request: Mapping[str, int], rows: int
) -> tuple[Floats, Floats]:
    """Return `each` and `reach` of one load on each cluster, for `taken_by`, shape (rows,)."""
    everywhere, none = np.arange(rows), np.zeros(rows, dtype=np.int64)
    each, reach = np.zeros((2, rows))
    found = _costs(_coded(everywhere, none, none + 1, {load: 0}), groups, replicas, request, rows)
    if found is not None:
        each[found[0].cluster], reach[found[0].cluster] = found[1:]
    return each, reach


def _costs(
    flights: InFlight, groups: NodeGroups, replicas: Ints, request: Mapping[str, int], rows: int
) -> tuple[InFlight, Floats, Floats] | None:
    """With `each` and `reach`; None without any entry that takes anything."""
    pairs = _Pairs.of(flights, groups, replicas, rows)
    if pairs is None:
        return None
    lies = pairs.lies()
    each = np.maximum.reduceat(np.where(lies, pairs.share(request), 0.0), pairs.first)
    held = times(replicas, groups.count).astype(np.float64)[pairs.group]  # the sums would wrap
    return pairs.flights, each, np.add.reduceat(np.where(lies, held, 0.0), pairs.first)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Each entry in flight, paired with each group of its cluster that fits the template.

    Other groups lose nothing.
    """

    flights: InFlight
    groups: NodeGroups
    replicas: Ints
    entry: Ints
    group: Ints
    first: Ints

    @staticmethod
    def of(flights: InFlight, groups: NodeGroups, replicas: Ints, rows: int) -> _Pairs | None:
        if not len(flights):
            return None
        open_ = np.flatnonzero((replicas > 0) & (groups.count > 0))
        there = groups.cluster[open_]
        bounds = np.searchsorted(there, np.arange(rows + 1))
        begin = bounds[flights.cluster]
        number = bounds[flights.cluster + 1] - begin
        if not number.any():
            return None
        flights, begin = flights._where(number > 0), begin[number > 0]  # noqa: SLF001 - one module
        number = number[number > 0]
        first = np.cumsum(number) - number
        entry = np.repeat(np.arange(len(number)), number)
        group = open_[np.arange(len(entry)) - first[entry] + begin[entry]]
        return _Pairs(flights, groups, replicas, entry, group, first)

    def lies(self) -> Mask:
        load = self.flights.load[self.entry]
        place = self.flights.place[load]
        bound = place != _EVERYWHERE
        mask = np.ones(len(load), dtype=np.bool_)
        for resource, amounts in self.flights.amounts.items():
            free = self.groups.free.get(resource)
            room = 0 if free is None else 2 * free[self.group]
            mask &= amounts[load] <= room
        mask &= ~self.groups.without_any(self.flights.ports, load, self.group)
        mask |= ~bound
        for code, each in enumerate(self.flights.places[:MOST_PLACES]):
            lets_in = self.groups.open_to(each)
            mask &= (place != code) | lets_in[self.group]
        return mask

    def share(self, request: Mapping[str, int]) -> Floats:
        """Return how many replicas of the template one of an entry takes on a group at most."""
        load = self.flights.load[self.entry]
        share = np.zeros(len(load), dtype=np.float64)
        ports = hostports.codes(request)
        if ports:  # F = t = 1: all of a replica where both ask for the same, else nothing
            alike = (not asked.isdisjoint(ports) for asked in self.flights.ports)
            share = np.fromiter(alike, np.float64, count=len(self.flights.ports))[load]
        for resource, own in request.items():
            amounts = self.flights.amounts.get(resource)
            if amounts is None:
                continue
            free, replicas = self.groups.free[resource], self.replicas
            spare = np.maximum(free - replicas * own, 0)
            last = np.maximum(free - own + 1, 1)
            slope = np.maximum(1.0 / (spare + 1.0), replicas / last)[self.group]
            whole = -(-amounts // own)
            np.maximum(share, np.minimum(whole[load], amounts[load] * slope), out=share)
        return share


def _ints(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def _coded(cluster: Ints, load: Ints, replicas: Ints, codes: Mapping[Load, int]) -> InFlight:
    resources = {resource for load in codes for resource in load.resources}
    amounts = {r: np.zeros(len(codes), dtype=np.int64) for r in resources}
    places: dict[Place, int] = {}
    place = np.full(len(codes), _EVERYWHERE, dtype=np.int64)
    for each, code in codes.items():
        for resource, amount in each.request:
            if resource in each.resources:
                amounts[resource][code] = amount
        if each.place is not None:
            place[code] = places.setdefault(each.place, len(places))
    ports = tuple(each.ports for each in codes)
    return InFlight(cluster, load, replicas, codes, amounts, ports, place, tuple(places))


def _used(flights: InFlight) -> InFlight:
    used, load = np.unique(flights.load, return_inverse=True)
    loads = list(flights.codes)
    codes = {loads[old]: new for new, old in enumerate(used.tolist())}
    return _coded(flights.cluster, load, flights.replicas, codes)


_NOTHING: Ints = np.zeros(0, dtype=np.int64)
NO_FLIGHTS = _coded(_NOTHING, _NOTHING, _NOTHING, {})
