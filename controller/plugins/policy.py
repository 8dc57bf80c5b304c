"""WorkloadPolicy: so many units for each domain of a topology, shared by all that it counts.

PreFilter binds the policy and takes a picture of what it counts; Filter refuses what a Required
policy does not let in; Score is the column that people know; the order in which units go to domains
is the policy's, before any other score (`controller.apportion.quota`). Each point can be switched
off by itself: without PreFilter nothing of it happens, without Filter the numbers bind nobody,
without Score the units stay within them but follow the other plugins' ranking. A policy that is
edited moves nothing that is placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from controller.apportion import quota
from controller.apportion.divisor import Ints
from controller.apportion.quota import OUTSIDE, Clusters, Quota
from controller.columns import Mask
from controller.framework.points import (
    NOTHING_REFUSED,
    Assignment,
    Candidates,
    CycleState,
    Refused,
)
from controller.framework.status import SKIP, SUCCESS, Status, unschedulable
from controller.index import Index
from controller.plugins.assign import Duplicated, Single
from controller.plugins.divide import Divided
from controller.plugins.selection import ClusterAffinity, ClusterSelector, NamedCluster
from controller.policies import Policy
from controller.reasons import Reason, Why
from controller.snapshot import Fleet
from controller.unit import Unit
from crds.workload import ScheduledReason

NAME = "WorkloadPolicy"
_VIEW = "WorkloadPolicy/view"
NAMED_DOMAINS = 20
"""Domains that a message names; the others are in the policy's status."""

_OWN_RULES = (NamedCluster(), ClusterSelector(), ClusterAffinity())
"""A cluster that the Workload itself excludes is neither chosen nor counted."""


@dataclass(slots=True)
class PolicyState:
    """What one pass knows of the policy: nothing of it changes when the policy is edited.

    `units` are the counted units by cluster; `after` those of each domain once shares are given.
    """

    policy: Policy
    matches: bool
    units: Mapping[str, int]
    bound: Index
    after: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def domain(self, fleet: Fleet) -> Ints:
        """The domain of each cluster, OUTSIDE where it is in no listed one."""
        column = fleet.column(self.policy.topology_key)
        table = np.full(len(column.vocabulary.values), OUTSIDE, dtype=np.int64)
        for number, name in enumerate(self.policy.domains):
            code = column.vocabulary.codes.get(name)
            if code is not None:
                table[code] = number
        domains: Ints = table[column.codes]
        return domains

    def held(self, fleet: Fleet) -> Ints:
        """The counted units of each cluster."""
        held = np.zeros(len(fleet), dtype=np.int64)
        for cluster, units in self.units.items():
            row = fleet.row.get(cluster)
            if row is not None:
                held[row] = units
        return held

    def full(self) -> Ints:
        """The domains that hold their number, or more, once shares are given."""
        return np.flatnonzero(self.after >= self.policy.desired)

    def count(self, domain: Ints, held: Ints) -> Ints:
        """The counted units of each listed domain."""
        listed = domain != OUTSIDE
        size = len(self.policy.domains)
        return np.bincount(domain[listed], weights=held[listed], minlength=size).astype(np.int64)


class WorkloadPolicy:
    """The policy at PreFilter, Filter, Score and PostFilter."""

    name = NAME
    ignored_during_execution = True

    def pre_filter(self, state: CycleState, unit: Unit, _fleet: Fleet, bound: Index) -> Status:
        """Bind the policy, or say why that cannot be done."""
        if not unit.bound:
            return SUCCESS
        if unit.policy is None:
            names = ", ".join(unit.policies)
            text = f"labels bind it to several workload-policies: {names}; leave one"
            return unschedulable(NAME, text, reason=ScheduledReason.AMBIGUOUS_POLICY)
        policy = bound.policy(unit.policy)
        if policy is None:
            text = "workload-policy {1} does not exist in namespace {0}".format(*unit.policy)
            return unschedulable(NAME, text, reason=ScheduledReason.POLICY_NOT_FOUND)
        if policy.fault:
            text = f"workload-policy {policy.name}: {policy.fault}"
            return unschedulable(NAME, text, reason=ScheduledReason.INVALID_POLICY)
        units = dict(bound.units_of(unit.policy))
        state.data[NAME] = PolicyState(policy, policy.picks(unit.unit_labels), units, bound)
        return SUCCESS

    def add_share(self, state: CycleState, _unit: Unit, cluster: str, units: int) -> None:
        """Count these units there as well."""
        known: PolicyState | None = state.data.get(NAME)
        if known is not None:
            more = {**known.units, cluster: max(known.units.get(cluster, 0) + units, 0)}
            state.data[NAME] = PolicyState(known.policy, known.matches, more, known.bound)

    def remove_share(self, state: CycleState, unit: Unit, cluster: str, units: int) -> None:
        """Count them no longer."""
        self.add_share(state, unit, cluster, -units)

    def filter(self, state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        """What a Required policy does not let in; everything, for units that it does not mean."""
        known: PolicyState | None = state.data.get(NAME)
        if known is None:
            return NOTHING_REFUSED
        if not known.matches:
            every = np.ones(len(fleet), dtype=np.bool_)
            return Refused([(every, "didn't match the workload-policy constraints")])
        if not known.policy.required:
            return NOTHING_REFUSED
        domain, held = _view(known, state, unit, fleet)
        reached = known.count(domain, held) >= known.policy.desired
        inside, name = domain != OUTSIDE, known.policy.name
        full = inside.copy()
        full[inside] = reached[domain[inside]]
        return Refused(
            [(~inside, f"not in a domain of workload-policy {name}")],
            [(full, f"reached the replicas of workload-policy {name}")],
        )

    def pre_score(
        self, state: CycleState, _unit: Unit, _fleet: Fleet, _bound: Index, _feasible: Mask
    ) -> Status:
        """No column where no policy has a say."""
        return SUCCESS if NAME in state.data else SKIP

    def score(self, state: CycleState, unit: Unit, fleet: Fleet, _bound: Index) -> Ints:
        """The policy's score for the next unit."""
        known: PolicyState | None = state.data.get(NAME)
        if known is None:
            return np.zeros(len(fleet), dtype=np.int64)
        domain, held = _view(known, state, unit, fleet)
        column = np.append(quota.scores(_quota(known, state, known.count(domain, held))), 0)
        values: Ints = column[domain]  # OUTSIDE is the last one
        return values

    def post_filter(self, state: CycleState, _unit: Unit, _fleet: Fleet) -> Status:
        """Name the domains that are full."""
        known: PolicyState | None = state.data.get(NAME)
        if known is None or not len(known.after):
            return SUCCESS
        full = known.full()
        texts = [
            f"{known.policy.domains[d]} ({known.after[d]}/{known.policy.desired[d]})"
            for d in full[:NAMED_DOMAINS]
        ]
        more = f" and {len(full) - NAMED_DOMAINS} more" if len(full) > NAMED_DOMAINS else ""
        if not texts:
            return SUCCESS
        text = f"workload-policy {known.policy.name} reached {', '.join(texts)}{more}"
        return Status(reasons=(text,), plugin=NAME)


class PolicyShares:
    """Shares under a policy: what is placed stays, the rest goes by the policy's order."""

    name = "PolicyShares"

    def __init__(self) -> None:
        self._unbound = (Single(), Duplicated(), Divided())

    def serves(self, unit: Unit) -> bool:
        """Whatever names a policy and has replicas."""
        return unit.bound

    def assign(self, unit: Unit, field: Candidates) -> Assignment:
        """The shares; by the Workload's own distribution where the policy is switched off."""
        known: PolicyState | None = field.state.data.get(NAME)
        if known is None:
            unbound = next(each for each in self._unbound if _alone(each, unit))
            return unbound.assign(unit, field)
        present = np.where(field.keeps, field.present, 0)
        domain, held = _view(known, field.state, unit, field.fleet)
        if known.matches:
            held = held - np.minimum(field.present - present, held)
        limits = _quota(known, field.state, known.count(domain, held))
        more = unit.replicas - int(present.sum())
        # Units that the policy does not count cannot be taken from a domain's count: they go first.
        uncounted = (present > held) | (not known.matches)
        place = np.where(uncounted, OUTSIDE, domain) if more < 0 else domain
        clusters = Clusters(
            domain=place,
            room=np.where(field.feasible, np.maximum(field.room - field.present, 0), 0),
            present=present,
            held=held,
            score=field.scores,
            order=field.fleet.by_name,
        )
        if more >= 0:
            change = quota.grow(limits, clusters, more)
        else:
            change = -quota.shrink(limits, clusters, -more)
        shares = present + change
        counted = np.where(place == domain, change, 0)
        known.after = known.count(domain, np.maximum(held + counted, 0))
        beyond = limits.required and known.matches and more > _gap(limits, domain)
        rows = np.flatnonzero(shares)
        last = np.where(domain == OUTSIDE, len(limits.desired), domain)[rows]
        rows = rows[np.lexsort((clusters.order[rows], last))]
        return Assignment(
            shares={int(row): int(shares[row]) for row in rows},
            in_order=True,  # that of the policy's list
            desired=unit.replicas,
            why=lambda row: _why(known, field, domain, shares, row),
            full=tuple(known.policy.domains[at] for at in known.full()),
            turns=lambda: _turns(known, limits, clusters, more),
            short=ScheduledReason.REPLICAS_REACHED
            if beyond
            else ScheduledReason.INSUFFICIENT_CAPACITY,
        )


def _gap(limits: Quota, domain: Ints) -> int:
    """Units that the numbers would let into the domains that have clusters."""
    below = np.maximum(limits.desired - limits.count, 0)
    return int(below[np.unique(domain[domain != OUTSIDE])].sum())


def _alone(plugin: Single | Duplicated | Divided, unit: Unit) -> bool:
    return plugin.name == unit.distribution


def _quota(known: PolicyState, state: CycleState, count: Ints) -> Quota:
    policy = known.policy
    required = policy.required and state.has("filter", NAME)
    return Quota(policy.desired, count, policy.method, required, state.has("score", NAME))


def _view(known: PolicyState, state: CycleState, unit: Unit, fleet: Fleet) -> tuple[Ints, Ints]:
    """The domain and the counted units of each cluster; computed once for a unit and a fleet."""
    found = state.data.get(_VIEW)
    if found is not None and found[0] is known and found[1] is unit and found[2] is fleet:
        view: tuple[Ints, Ints] = found[3]
        return view
    domain, held = known.domain(fleet), known.held(fleet)
    held[_excluded(state, unit, fleet, known.bound)] = 0
    state.data[_VIEW] = (known, unit, fleet, (domain, held))
    return domain, held


def _excluded(state: CycleState, unit: Unit, fleet: Fleet, bound: Index) -> Mask:
    """The clusters that the Workload's own words exclude."""
    out = np.zeros(len(fleet), dtype=np.bool_)
    for rule in _OWN_RULES:
        for mask, _ in rule.filter(state, unit, fleet, bound).reasons:
            out |= mask
    return out


def _turns(known: PolicyState, limits: Quota, clusters: Clusters, units: int) -> list[str]:
    """Each new unit's domain, in the order in which they were given; `-` for none of the list."""
    if not limits.ordered:
        return []
    names = (*known.policy.domains, "-")
    return [names[turn] for turn in quota.sequence(limits, clusters, units)]


def _why(
    known: PolicyState, field: Candidates, domain: Ints, shares: Ints, row: int
) -> tuple[Reason, ...]:
    """What was kept, the domain's number, and the room where that was the end of it."""
    if not shares[row]:
        return ()
    policy, reasons = known.policy, []
    kept = int(min(field.present[row], shares[row])) if field.keeps[row] else 0
    if kept:
        reasons.append(Reason(Why.KEPT, kept))
    if domain[row] != OUTSIDE:
        at = int(domain[row])
        held, desired = int(known.after[at]), int(policy.desired[at])
        kind = Why.DOMAIN_QUOTA if held == desired else Why.DOMAIN
        number = desired if held == desired else held
        reasons.append(Reason(kind, number, name=policy.domains[at], of=desired))
    if field.feasible[row] and shares[row] >= field.room[row]:
        reasons.append(Reason(Why.ROOM, int(field.room[row])))
    return tuple(reasons)
