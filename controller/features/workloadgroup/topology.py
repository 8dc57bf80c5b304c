"""Where a gang is tried, the most promising first: inside one domain, in few, or anywhere.

A domain is the clusters that share the value of a label (`spec.topology.topologyKey`); one without
the label is in none. Required keeps a gang inside one domain; Preferred tries one after the other,
then the roomiest together, one more each time, then everything. All domains are looked at by
columns, in one go, and those where the quorum can have no room are left out: what is counted is an
upper bound, so that a domain which would do is never among them. Two of these are tried anyway,
as a plugin may know of room that no column tells, and as somebody has to say what is missing.

Passes are bounded: a gang takes at most `MOST_PASSES` of them, but four ways to place it are always
tried, and never more than `MOST_WAYS`. In each domain the members go in the order given, and where
that misses the quorum the smaller ones first.

What runs is never moved: a domain keeps out new units alone, also where labels change later. A
member that comes after the quorum is bound to the domains where its siblings have units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import Reach
from controller.framework.explains import either
from controller.framework.gathering import Attempt
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import ABSENT, Ints, Mask
from controller.snapshot.saturating import sums
from controller.snapshot.snapshot import Snapshot
from machinery.types.metadata import Key

MOST_PASSES = 1024
"""Decisions on single members that one gang may cost: half a second on a thousand clusters."""
MOST_WAYS = 64
"""Domains, or groups of them, that are tried."""
_LEAST_WAYS = 4
_HOPELESS = 2
"""Domains that are tried although no column tells of enough room there."""


@dataclass(frozen=True, slots=True)
class Within:
    """The domains that new units of a gang may go to: those values of the label.

    `stands` says that the gang has units there, else that it is tried there. `homeless` are
    clusters with units of the gang that are in no domain, where none of its units is in any.
    """

    group: Key
    topology_key: str
    values: tuple[str, ...]
    stands: bool = False
    homeless: tuple[str, ...] = ()

    def inside(self, fleet: Snapshot) -> Mask:
        """The clusters of these domains, shape (n,)."""
        column = fleet.column(self.topology_key)
        codes = [column.vocabulary.codes.get(value, -1) for value in self.values]
        mask: Mask = np.isin(column.codes, codes)
        return mask

    def outside(self, fleet: Snapshot) -> list[tuple[Mask, str]]:
        """For a Filter: the clusters that it keeps out, with words that can be counted."""
        column = fleet.column(self.topology_key)
        missing = column.missing()
        bare = f"without label {self.topology_key}"
        return [(missing, bare), (~missing & ~self.inside(fleet), self._words())]

    def _words(self) -> str:
        gang = named(self.group)
        if not self.values:
            lacks = f"{either(self.homeless, 'and')} without label {self.topology_key}"
            return f"in a domain, while {gang} is on {lacks}"
        kind = self.topology_key.rpartition("/")[2]
        place = f"{kind} {either(self.values, 'and')}"
        return f"outside {place}, where {gang} is" + ("" if self.stands else " tried")


def attempts_of(
    group: CompiledGroup,
    units: Sequence[WorkloadInfo],
    fleet: Snapshot,
    ledger: Groups,
    kept: Mask | None = None,
) -> Iterator[Attempt]:
    """The ways to place a gang, each made when it is asked for; `told` is a `Within`, or None.

    Args:
        group: the gang.
        units: the members to decide, in their order.
        fleet: the clusters.
        ledger: where members have units by now.
        kept: clusters that are for somebody else just now, shape (n,).
    """
    orders = _orders(units, fleet)
    most = MOST_PASSES // max(len(units) * len(orders), 1)
    ways = _ways(group, units, fleet, ledger, kept) if group.topology_key else iter((None,))
    for told in islice(ways, min(max(most, _LEAST_WAYS), MOST_WAYS)):
        for order in orders:
            yield Attempt(order, told)


def standing(group: CompiledGroup, fleet: Snapshot, ledger: Groups) -> Within | None:
    """The domains where members of a gang have units; None where it may go anywhere.

    A cluster that is gone binds nobody. Where all of its units are on clusters that are in no
    domain, there is nowhere that new ones could be together with them.
    """
    if not group.topology_key:
        return None
    there = [name for name in ledger.clusters(group.key) if name in fleet.row]
    if not there:
        return None
    column = fleet.column(group.topology_key)
    codes = np.unique(column.codes[fleet.rows(there)])
    values = tuple(sorted(str(column.vocabulary.values[c]) for c in codes if c != ABSENT))
    return Within(
        group.key, group.topology_key, values, True, () if values else tuple(sorted(there))
    )


def refuge(group: CompiledGroup, fleet: Snapshot, ledger: Groups) -> Within | None:
    """The domain with the most room for a gang whose units are all on clusters that are gone.

    Its members come one by one then, and those after the first find that one there.
    """
    members = ledger.members(group.key).values()
    if not group.topology_key or not any(member.assigned for member in members):
        return None
    units = [member.unit.with_present({}) for member in members]
    domains = _Domains.of(group, units, fleet, ledger, None)
    values = tuple(domains.values[:1])
    return Within(group.key, group.topology_key, values) if values else None


def no_domain(group: CompiledGroup, fleet: Snapshot) -> str:
    """Why a gang can be placed nowhere: no cluster is in any domain; empty where one is."""
    if not (group.topology_key and group.topology_required and len(fleet)):
        return ""
    if not fleet.column(group.topology_key).missing().all():
        return ""
    return (
        f"{group} is to be inside one domain of {group.topology_key}, and no cluster has that "
        "label: label MemberClusters, or change spec.topology.topologyKey of the group"
    )


def _orders(units: Sequence[WorkloadInfo], fleet: Snapshot) -> list[tuple[Key, ...]]:
    """The order given, and, where that is another one, the smaller ones first."""
    given = tuple(unit.key for unit in units)
    totals = {r: _total(fleet, r) for r in {r for unit in units for r in unit.request}}
    sizes = {unit.key: _size(unit, totals) for unit in units}
    smaller = tuple(sorted(given, key=sizes.__getitem__))
    return [given] if smaller == given else [given, smaller]


def _total(fleet: Snapshot, resource: str) -> float:
    groups = fleet.groups
    return max(float((groups.room(resource).astype(np.float64) * groups.count).sum()), 1.0)


def _size(unit: WorkloadInfo, totals: Mapping[str, float]) -> float:
    """What must fit in one place, as the greatest share of what is free of a resource."""
    together = unit.replicas if unit.whole else 1
    return together * max((n / totals[r] for r, n in unit.request.items()), default=0.0)


def _ways(
    group: CompiledGroup,
    units: Sequence[WorkloadInfo],
    fleet: Snapshot,
    ledger: Groups,
    kept: Mask | None,
) -> Iterator[Within | None]:
    """Domains one by one; where they are but preferred, more and more of them, then all."""
    domains = _Domains.of(group, units, fleet, ledger, kept)
    here, required = standing(group, fleet, ledger), group.topology_required
    if here is not None and required:
        yield here
        return
    if here is not None:
        domains = domains.beginning_with(here.values)
    tried = Within(group.key, group.topology_key, ())
    for values in domains.alone() if here is None else ():
        yield replace(tried, values=values)
    if required:
        if here is None:
            yield from (replace(tried, values=v) for v in domains.hopeless())
        return
    for values in domains.together():
        yield replace(tried, values=values)
    yield None


@dataclass(frozen=True, slots=True)
class _Domains:
    """Every domain, the most promising first.

    `able` are the units of each class that fit there, shape (classes, domains), `any_units` those
    that fit of whatever class, `wanted` the units of each class, `need` those that the quorum
    lacks. The first `first` belong together.
    """

    values: Sequence[str]
    able: Ints
    any_units: Ints
    wanted: Ints
    need: int
    first: int = 0

    @staticmethod
    def of(
        group: CompiledGroup,
        units: Sequence[WorkloadInfo],
        fleet: Snapshot,
        ledger: Groups,
        kept: Mask | None,
    ) -> _Domains:
        column = fleet.column(group.topology_key)
        codes, at = np.unique(column.codes, return_inverse=True)
        reach = Reach.of(units, fleet, kept)
        able = reach.able_in(at, len(codes))
        there = codes != ABSENT
        values = [str(column.vocabulary.values[code]) for code in codes[there]]
        need = max(group.min_member - ledger.assigned(group.key), 1)
        whole = sums(at, reach.any_units, len(codes))[there]
        made = _Domains(values, able[:, there], whole, reach.wanted, need)
        return made._in_order(made._turns())

    def _turns(self) -> list[int]:
        """Those that have room for the quorum, then by room for this gang, then by all room."""
        places = self._places(self.able, self.any_units)
        keys = zip(places < self.need, -places, -self.any_units, self.values, strict=True)
        return [i for _, i in sorted((key, i) for i, key in enumerate(keys))]

    def _in_order(self, turns: Sequence[int]) -> _Domains:
        values = [self.values[i] for i in turns]
        order = np.array(turns, dtype=np.int64)
        return replace(
            self, values=values, able=self.able[:, order], any_units=self.any_units[order]
        )

    def beginning_with(self, values: Sequence[str]) -> _Domains:
        """The same with these ahead of all others."""
        first = [i for i, value in enumerate(self.values) if value in values]
        rest = [i for i, value in enumerate(self.values) if value not in values]
        return replace(self._in_order([*first, *rest]), first=len(first))

    def _places(self, able: Ints, any_units: Ints) -> Ints:
        """Units of the gang that may fit, at most."""
        each: Ints = np.minimum(able, self.wanted[:, np.newaxis]).sum(axis=0)
        return np.minimum(each, any_units)

    def _hopeful(self) -> int:
        """How many of them could each take the quorum; they come first."""
        return int((self._places(self.able, self.any_units) >= self.need).sum())

    def alone(self) -> Iterator[tuple[str, ...]]:
        """Each that could take the quorum."""
        return ((value,) for value in self.values[: self._hopeful()])

    def hopeless(self) -> Iterator[tuple[str, ...]]:
        """The best of the others."""
        start = self._hopeful()
        return ((value,) for value in self.values[start : start + _HOPELESS])

    def together(self) -> Iterator[tuple[str, ...]]:
        """The first ones, as few as could take the quorum; then more, by steps that double."""
        places = self._places(np.cumsum(self.able, axis=1), np.cumsum(self.any_units))
        enough = np.flatnonzero(places >= self.need)
        if not len(enough):
            return
        number, step = max(int(enough[0]) + 1, self.first, 1 if self.first else 2), 1
        while number <= len(self.values):
            yield tuple(self.values[:number])
            number += step
            step = step * 2 if number > 8 else 1
