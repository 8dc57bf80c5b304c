"""Where a gang is tried, the most promising first: inside one domain, in few, or anywhere.

Required keeps a gang inside one domain. Preferred tries one after the other, then the roomiest
together, then all clusters. Domains without room by columns are left out, except two: an attempt
has to report what is missing.

A gang takes at most `MOST_PASSES` passes, but four ways at least. In each domain the members go in
the order given, then the smaller ones first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.reach import Reach
from controller.framework.explains import either
from controller.framework.gathering import Attempt
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import ABSENT, Ints, Mask, sums
from controller.snapshot.snapshot import Snapshot
from machinery.types.metadata import Key

UNLABELLED: Final = "Unlabelled"
OUTSIDE: Final = "Outside"
HOMELESS: Final = "Homeless"
MOST_PASSES = 1024
"""Decisions on single members that one gang may cost: half a second on a thousand clusters."""
MOST_WAYS = 64
"""Domains, or groups of them, that are tried."""
_LEAST_WAYS = 4
_HOPELESS = 2
"""Domains that are tried although no column shows enough room there."""


@dataclass(frozen=True, slots=True)
class Within:
    """The domains that new replicas may go to: those values of the label.

    `stands`: the gang has replicas there, else it is tried there. `homeless` are its clusters in no
    domain, if none is in any.
    """

    group: Key
    topology_key: str
    values: tuple[str, ...]
    stands: bool = False
    homeless: tuple[str, ...] = ()

    def inside(self, snapshot: Snapshot) -> Mask:
        column = snapshot.domains_by(self.topology_key)
        codes = [column.vocabulary.codes.get(value, -1) for value in self.values]
        mask: Mask = np.isin(column.codes, codes)
        return mask

    def outside(self, snapshot: Snapshot) -> list[tuple[Mask, str, str]]:
        column = snapshot.domains_by(self.topology_key)
        missing = column.missing()
        bare = f"without label {self.topology_key}"
        other = ~missing & ~self.inside(snapshot)
        code = OUTSIDE if self.values else HOMELESS
        return [(missing, bare, UNLABELLED), (other, self._words(), code)]

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
    infos: Sequence[WorkloadInfo],
    snapshot: Snapshot,
    ledger: Groups,
    kept: Mask | None = None,
) -> Iterator[Attempt]:
    """Yield the ways to place a gang; `told` is a `Within`, or None."""
    orders = _orders(infos, snapshot)
    most = MOST_PASSES // max(len(infos) * len(orders), 1)
    ways = _ways(group, infos, snapshot, ledger, kept) if group.topology_key else iter((None,))
    for told in islice(ways, min(max(most, _LEAST_WAYS), MOST_WAYS)):
        for order in orders:
            yield Attempt(order, told)


def standing(group: CompiledGroup, snapshot: Snapshot, ledger: Groups) -> Within | None:
    """Return the domains of a gang's replicas; None if it may go anywhere."""
    if not group.topology_key:
        return None
    # A cluster that is gone binds no gang.
    there = [name for name in ledger.clusters(group.key) if name in snapshot.row]
    if not there:
        return None
    column = snapshot.domains_by(group.topology_key)
    codes = np.unique(column.codes[snapshot.rows(there)])
    values = tuple(sorted(str(column.vocabulary.values[c]) for c in codes if c != ABSENT))
    # Without any value, all replicas are outside of every domain, so no new one can be beside them.
    return Within(
        group.key, group.topology_key, values, True, () if values else tuple(sorted(there))
    )


def refuge(group: CompiledGroup, snapshot: Snapshot, ledger: Groups) -> Within | None:
    """Return the roomiest domain for a gang whose clusters are all gone."""
    members = ledger.members(group.key).values()
    if not group.topology_key or not any(member.assigned for member in members):
        return None
    infos = [member.workload.with_present({}) for member in members]
    domains = _Domains.of(group, infos, snapshot, ledger, None)
    values = tuple(domains.values[:1])
    return Within(group.key, group.topology_key, values) if values else None


def no_domain(group: CompiledGroup, snapshot: Snapshot) -> str:
    if not (group.topology_key and group.topology_required and len(snapshot)):
        return ""
    if not snapshot.domains_by(group.topology_key).missing().all():
        return ""
    return (
        f"is to be inside one domain of {group.topology_key}, and no cluster has that "
        "label: label MemberClusters, or change spec.topology.topologyKey of the group"
    )


def _orders(infos: Sequence[WorkloadInfo], snapshot: Snapshot) -> list[tuple[Key, ...]]:
    given = tuple(info.key for info in infos)
    totals = {r: _total(snapshot, r) for r in {r for info in infos for r in info.request}}
    sizes = {info.key: _size(info, totals) for info in infos}
    smaller = tuple(sorted(given, key=sizes.__getitem__))
    return [given] if smaller == given else [given, smaller]


def _total(snapshot: Snapshot, resource: str) -> float:
    groups = snapshot.groups
    return max(float((groups.room(resource).astype(np.float64) * groups.count).sum()), 1.0)


def _size(info: WorkloadInfo, totals: Mapping[str, float]) -> float:
    together = info.replicas if info.whole else 1
    return together * max((n / totals[r] for r, n in info.request.items()), default=0.0)


def _ways(
    group: CompiledGroup,
    infos: Sequence[WorkloadInfo],
    snapshot: Snapshot,
    ledger: Groups,
    kept: Mask | None,
) -> Iterator[Within | None]:
    domains = _Domains.of(group, infos, snapshot, ledger, kept)
    here, required = standing(group, snapshot, ledger), group.topology_required
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

    `able` is of shape (classes, domains), `any_units` of any class, `wanted` by class.
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
        infos: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        ledger: Groups,
        kept: Mask | None,
    ) -> _Domains:
        column = snapshot.domains_by(group.topology_key)
        codes, at = np.unique(column.codes, return_inverse=True)
        reach = Reach.of(infos, snapshot, kept)
        able = reach.able_in(at, len(codes))
        there = codes != ABSENT
        values = [str(column.vocabulary.values[code]) for code in codes[there]]
        need = max(group.min_member - ledger.assigned(group.key), 1)
        whole = sums(at, reach.any_units, len(codes))[there]
        made = _Domains(values, able[:, there], whole, reach.wanted, need)
        return made._in_order(made._turns())

    def _turns(self) -> list[int]:
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
        first = [i for i, value in enumerate(self.values) if value in values]
        rest = [i for i, value in enumerate(self.values) if value not in values]
        return replace(self._in_order([*first, *rest]), first=len(first))

    def _places(self, able: Ints, any_units: Ints) -> Ints:
        each: Ints = np.minimum(able, self.wanted[:, np.newaxis]).sum(axis=0)
        return np.minimum(each, any_units)

    def _hopeful(self) -> int:
        return int((self._places(self.able, self.any_units) >= self.need).sum())

    def alone(self) -> Iterator[tuple[str, ...]]:
        return ((value,) for value in self.values[: self._hopeful()])

    def hopeless(self) -> Iterator[tuple[str, ...]]:
        start = self._hopeful()
        return ((value,) for value in self.values[start : start + _HOPELESS])

    def together(self) -> Iterator[tuple[str, ...]]:
        """Yield the first domains that could take the quorum; then more, by doubling steps."""
        places = self._places(np.cumsum(self.able, axis=1), np.cumsum(self.any_units))
        enough = np.flatnonzero(places >= self.need)
        if not len(enough):
            return
        number, step = max(int(enough[0]) + 1, self.first, 1 if self.first else 2), 1
        while number <= len(self.values):
            yield tuple(self.values[:number])
            number += step
            step = step * 2 if number > 8 else 1
