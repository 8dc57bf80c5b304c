"""WorkloadPolicies in the form of decisions, and the replicas by cluster that count against each.

Workloads of its namespace whose pod labels match count, and claims of other processes. Nothing is
kept of a namespace without a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import numpy as np

from controller.cache.ledger import PlacementsByWorkload
from controller.framework.runtime.feature import checked_spec
from controller.model.unit import WorkloadInfo
from controller.planner.replicacycle import Method
from controller.planner.webster import MAX_REPLICAS, Ints
from crds.workloadpolicy import AllocationType
from machinery.types.api import WorkloadPolicySpec, WorkloadPolicyStatus
from machinery.types.metadata import Key, Object
from machinery.types.selectors import LabelSelector


class WorkloadPolicy(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadPolicyStatus = WorkloadPolicyStatus()


@dataclass(frozen=True, slots=True)
class Policy:
    """`domains` are values of `topology_key`, `desired` their numbers."""

    key: Key
    topology_key: str
    selector: LabelSelector
    domains: tuple[str, ...]
    desired: Ints
    required: bool
    method: Method
    fault: str = ""

    @property
    def name(self) -> str:
        return self.key[1]

    def counts(self, info: WorkloadInfo) -> bool:
        return not self.fault and info.namespace == self.key[0] and self.picks(info.unit_labels)

    def picks(self, labels: Mapping[str, str]) -> bool:
        return not self.fault and self.selector.matches(labels)


def compile_policy(policy: WorkloadPolicy) -> Policy:
    key = policy.metadata.key
    spec, fault = checked_spec("WorkloadPolicy", policy.spec, WorkloadPolicySpec)
    if spec is None or fault:
        nothing = np.zeros(0, dtype=np.int64)
        return Policy(key, "", LabelSelector(), (), nothing, False, Method.BALANCE, fault)
    numbers = [min(each.replicas, MAX_REPLICAS) for each in spec.allocation_policy]
    return Policy(
        key=key,
        topology_key=spec.topology_key,
        selector=spec.label_selector,
        domains=tuple(each.name for each in spec.allocation_policy),
        desired=np.array(numbers, dtype=np.int64),
        required=spec.allocation_type == AllocationType.REQUIRED.value,
        method=Method(spec.allocation_method or spec.schedule_strategy or Method.BALANCE.value),
    )


Placements: TypeAlias = Mapping[str, int]
Told: TypeAlias = Callable[[set[Key], set[Key]], None]
"""Called with the changed policies, and those that may let in more."""


@dataclass(slots=True)
class _DomainTable:
    policy: Policy
    number: int
    """Later tables of the namespace have larger ones."""
    members: set[Key] = field(default_factory=set)
    replicas: dict[str, int] = field(default_factory=dict)
    foreign: Mapping[Key, Placements] = field(default_factory=dict)

    def add(self, shares: Placements, sign: int) -> None:
        for cluster, n in shares.items():
            left = self.replicas.get(cluster, 0) + sign * n
            if left:
                self.replicas[cluster] = left
            else:
                self.replicas.pop(cluster, None)


@dataclass(frozen=True, slots=True)
class _PolicyCount:
    labels: Mapping[str, str]
    shares: Placements
    newest: int
    """The number of the newest table that was asked to count it."""


@dataclass(slots=True)
class _Namespace:
    tables: dict[Key, _DomainTable] = field(default_factory=dict)
    counted: dict[Key, _PolicyCount] = field(default_factory=dict)
    newest: int = 0

    def add(self, policy: Policy) -> None:
        """An edited policy has a new table, which counts none yet."""
        before = self.tables.get(policy.key)
        self.newest += 1
        self.tables[policy.key] = table = _DomainTable(policy, self.newest)
        if before is not None:
            table.foreign = before.foreign

    def holding(self, key: Key) -> list[_DomainTable]:
        return [table for table in self.tables.values() if key in table.members]


_NOTHING = _Namespace()


class Tally:
    """`told` is called after each change."""

    def __init__(self, told: Told = lambda _touched, _eased: None) -> None:
        self._told = told
        self._namespaces: dict[str, _Namespace] = {}
        self._touched: set[Key] = set()
        self._eased: set[Key] = set()
        self._feed: Callable[[str], None] = lambda _: None

    def reads(self, feed: Callable[[str], None]) -> None:
        self._feed = feed

    def put_policy(self, policy: Policy) -> None:
        namespace = policy.key[0]
        self._namespaces.setdefault(namespace, _Namespace()).add(policy)
        self._feed(namespace)
        self._touched.add(policy.key)
        self._eased.add(policy.key)
        self._tell()

    def drop_policy(self, key: Key) -> None:
        there = self._of(key[0])
        there.tables.pop(key, None)
        if not there.tables:
            self._namespaces.pop(key[0], None)
        self._eased.add(key)
        self._tell()

    def put(self, info: WorkloadInfo, placements: Placements) -> None:
        there = self._namespaces.get(info.namespace)
        if there is None:
            return
        shares = info.own(placements)
        if placements and info.moving.leaving:
            leaving = {name: each.replicas for name, each in info.moving.leaving.items()}
            shares = {c: shares.get(c, 0) + leaving.get(c, 0) for c in {**shares, **leaving}}
        counted = _PolicyCount(info.unit_labels, shares, there.newest)
        before, asked = there.counted.get(info.key), 0
        if before == counted:
            return
        if before is not None and (before.labels, before.shares) == (counted.labels, shares):
            asked = before.newest
        elif before is not None:
            self._take_out(
                info.key,
                before,
                eases=before.labels != counted.labels or _falls(before.shares, shares),
            )
        there.counted[info.key] = counted
        for table in there.tables.values():
            if table.number > asked and table.policy.picks(counted.labels):
                table.members.add(info.key)
                table.add(shares, 1)
                self._touched.add(table.policy.key)
        self._tell()

    def assume(self, info: WorkloadInfo, placements: Placements) -> None:
        """Count on each cluster the most that may run there."""
        self.put(info, info.most(placements))

    def drop(self, key: Key) -> None:
        counted = self._of(key[0]).counted.pop(key, None)
        if counted is not None:
            self._take_out(key, counted, eases=bool(counted.shares))
            self._tell()

    def overlay(self, placed: PlacementsByWorkload) -> Tally:
        return _PolicyOverlay(self, placed)

    def policy(self, key: Key) -> Policy | None:
        table = self._table(key)
        return table.policy if table else None

    def policies(self) -> Iterator[Policy]:
        return (
            table.policy for each in self._namespaces.values() for table in each.tables.values()
        )

    def claimed(self, key: Key) -> dict[str, int]:
        table, found = self._table(key), dict[str, int]()
        for part in table.foreign.values() if table else ():
            for cluster, n in part.items():
                found[cluster] = found.get(cluster, 0) + n
        return found

    def counted(self, namespace: str) -> Mapping[Key, _PolicyCount]:
        return self._of(namespace).counted

    def members(self, key: Key) -> int:
        table = self._table(key)
        return len(table.members) if table else 0

    def replicas_of(self, key: Key, *, but: Collection[Key] = ()) -> Placements:
        table = self._table(key)
        if table is None:
            return {}
        foreign = [replicas for of, replicas in table.foreign.items() if of not in but]
        leaving = [self.counted(key[0])[each].shares for each in table.members.intersection(but)]
        if not foreign and not leaving:
            return table.replicas
        replicas = dict(table.replicas)
        for sign, parts in ((1, foreign), (-1, leaving)):
            for part in parts:
                for cluster, n in part.items():
                    replicas[cluster] = replicas.get(cluster, 0) + sign * n
        return replicas

    def set_foreign(self, key: Key, foreign: Mapping[Key, Placements]) -> bool:
        """Return whether they changed."""
        table = self._table(key)
        if table is None or table.foreign == foreign:
            return False
        before = sum(self.replicas_of(key).values())
        table.foreign = dict(foreign)
        self._touched.add(key)
        if sum(self.replicas_of(key).values()) < before:
            self._eased.add(key)
        self._tell()
        return True

    def touch_all(self) -> None:
        self._touched |= {key for each in self._namespaces.values() for key in each.tables}
        self._tell()

    def _tell(self) -> None:
        """Called last, when the counts are consistent."""
        touched, self._touched = self._touched, set()
        eased, self._eased = self._eased, set()
        if touched or eased:
            self._told(touched, eased)

    def _take_out(self, key: Key, counted: _PolicyCount, *, eases: bool) -> None:
        tables = self._of(key[0]).holding(key)
        for table in tables:
            table.members.discard(key)
            table.add(counted.shares, -1)
        changed = {table.policy.key for table in tables}
        self._touched |= changed
        if eases:
            self._eased |= changed

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace, _NOTHING)

    def _table(self, key: Key) -> _DomainTable | None:
        return self._of(key[0]).tables.get(key)


class _PolicyOverlay(Tally):
    def __init__(self, base: Tally, placed: PlacementsByWorkload) -> None:
        super().__init__()
        self._base = base
        self._placed = dict(placed)

    def place(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        self._placed[info.key] = (info, placements)

    def policy(self, key: Key) -> Policy | None:
        return self._base.policy(key)

    def replicas_of(self, key: Key, *, but: Collection[Key] = ()) -> Placements:
        rules = self._base.policy(key)
        found = dict(self._base.replicas_of(key, but={*self._placed, *but}))
        for of, (info, placements) in self._placed.items():
            if of not in but and rules and rules.counts(info):
                for cluster, n in placements.items():
                    found[cluster] = found.get(cluster, 0) + n
        return found


def _falls(before: Placements, after: Placements) -> bool:
    return any(after.get(cluster, 0) < replicas for cluster, replicas in before.items())
