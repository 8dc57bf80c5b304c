"""WorkloadPolicy: a number of replicas per domain, shared by all counted Workloads.

The order of domains precedes other scores (`controller.planner.replicacycle`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.claims.controller import ClaimsQuota
from controller.features.workloadpolicy.counts import Policy, Tally
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Note, NoteKind, Shortage, Stop, either
from controller.framework.interface import (
    NOTHING_REFUSED,
    Candidates,
    CycleState,
    FilterMask,
    Unplaced,
)
from controller.framework.runtime.services import Route
from controller.framework.status import SKIP, SUCCESS, Refusal, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.planner import replicacycle
from controller.planner.indomain import WithinDomain
from controller.planner.problem import Problem
from controller.planner.reasons import RuleKind
from controller.planner.replicacycle import OUTSIDE, DomainOrder, DomainQuota
from controller.planner.webster import Ints
from controller.plugins.clusterselection import ClusterAffinityPlugin, ClusterSelector, NamedCluster
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.base import NAME as OBJECT_NAME
from crds.workload import ScheduledReason
from machinery.types.bounds import MOST_UNITS
from machinery.types.metadata import Key

NAME = "WorkloadPolicy"
KIND = "WorkloadPolicy"
_NAME = re.compile(rf"{OBJECT_NAME}(\.{OBJECT_NAME})*")
_NAME_LIMIT = 253
_VIEW = "WorkloadPolicy/view"
_NO_DOMAIN = "NoDomain"
NAMED_DOMAINS = 20
"""Domains that a message names."""

_OWN_RULES = (NamedCluster(), ClusterSelector(), ClusterAffinityPlugin())
"""Clusters that these exclude do not count, if the profile has the rule."""


def policy_of(info: WorkloadInfo) -> Key | None:
    """Return None for kinds without replicas, or several policies."""
    return (info.namespace, info.bindings[0]) if info.bound and len(info.bindings) == 1 else None


def _about(info: WorkloadInfo) -> Key:
    return policy_of(info) or (info.namespace, "")


_EVENTS = (
    on(KIND, Action.every(), about=_about),
    on(
        MEMBER_CLUSTER,
        # These change which clusters the Workload's own rules exclude from the counts.
        Action.ADDED | Action.DELETED | Action.LABELS | Action.SPEC | Action.VERSION,
    ),
)


@dataclass(slots=True)
class PolicyState:
    """`replicas` are the counted ones by cluster."""

    policy: Policy
    matches: bool
    replicas: Mapping[str, int]
    bound: PlacementIndex

    def domain(self, snapshot: Snapshot) -> Ints:
        """Shape (n,); OUTSIDE for none listed."""
        column = snapshot.domains_by(self.policy.topology_key)
        table = np.full(len(column.vocabulary.values), OUTSIDE, dtype=np.int64)
        for number, name in enumerate(self.policy.domains):
            code = column.vocabulary.codes.get(name)
            if code is not None:
                table[code] = number
        domains: Ints = table[column.codes]
        return domains

    def held(self, snapshot: Snapshot) -> Ints:
        return np.clip(snapshot.by_row(self.replicas), 0, MOST_UNITS)

    def count(self, domain: Ints, held: Ints) -> Ints:
        listed = domain != OUTSIDE
        size = len(self.policy.domains)
        return np.bincount(domain[listed], weights=held[listed], minlength=size).astype(np.int64)


class WorkloadPolicyPlugin(ClaimsQuota):
    name = NAME
    ignored_during_execution = True

    def __init__(self) -> None:
        super().__init__()
        self.endpoints: Sequence[Route] = ()

    def events_to_register(self) -> Sequence[EventHint]:
        return _EVENTS

    def routes(self) -> Sequence[Route]:
        return self.endpoints

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        if not info.bound:
            return SUCCESS
        key = policy_of(info)
        if key is None:
            names = ", ".join(info.bindings)
            text = f"labels bind it to several workload-policies: {names}; leave one"
            return unschedulable(NAME, text, reason=ScheduledReason.AMBIGUOUS_POLICY)
        counts = bound.ledger(Tally)
        policy = counts.policy(key)
        if policy is None:
            text = "workload-policy {1} does not exist in namespace {0}".format(*key)
            return unschedulable(NAME, text, reason=ScheduledReason.POLICY_NOT_FOUND)
        if policy.fault:
            text = f"workload-policy {policy.name}: {policy.fault}"
            return unschedulable(NAME, text, reason=ScheduledReason.INVALID_POLICY)
        if closed := self.closed():
            return unschedulable(NAME, f"workload-policy {policy.name} takes no replicas: {closed}")
        replicas = dict(counts.replicas_of(key))
        state.data[NAME] = PolicyState(policy, policy.picks(info.unit_labels), replicas, bound)
        return SUCCESS

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        known: PolicyState | None = state.data.get(NAME)
        if known is None:
            return NOTHING_REFUSED
        if not known.matches:
            every = np.ones(len(snapshot), dtype=np.bool_)
            return FilterMask([(every, "didn't match the workload-policy constraints")])
        if not known.policy.required:
            return NOTHING_REFUSED
        domain, held = _view(known, state, info, snapshot)
        reached = (known.count(domain, held) >= known.policy.desired) & (info.replicas > 0)
        inside, name = domain != OUTSIDE, known.policy.name
        full = inside.copy()
        full[inside] = reached[domain[inside]]
        return FilterMask(
            [(~inside, f"not in a domain of workload-policy {name}", _NO_DOMAIN)],
            [(full, f"reached the replicas of workload-policy {name}")],
        )

    def cure(self, shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        policies = " and ".join(shortage.workload.bindings)
        policy, namespace = f"WorkloadPolicy {policies}", shortage.workload.namespace
        by_reason = {
            ScheduledReason.POLICY_NOT_FOUND: f"{policy} in namespace {namespace}",
            ScheduledReason.INVALID_POLICY: f"{policy} as its rules say",
            ScheduledReason.AMBIGUOUS_POLICY: "one label that binds a policy instead of several",
        }
        if shortage.reason in by_reason:
            return by_reason[shortage.reason]
        if refusal.code == _NO_DOMAIN:
            where = f"spec.allocationPolicy of {policy}"
            return f"its domain in {where}, or a label that puts it into one"
        return f"labels on its replicas that spec.labelSelector of {policy} matches"

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        key = policy_of(shortage.workload)
        if key is None or shortage.reason is not ScheduledReason.REPLICAS_REACHED:
            return ()
        policy = key[1]
        plan = shortage.state.plan
        where = f" for {either(sorted(plan.full))}" if plan is not None and plan.full else ""
        text = f"a larger quota in WorkloadPolicy {policy}{where}"
        return (Note(NoteKind.QUOTA, shortage.pending, policy, text),)

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        if NAME not in shortage.state.data:
            return ()
        rows = shortage.made_by(RuleKind.DOMAIN_QUOTA)
        return (Stop(NoteKind.QUOTA, rows, "at the quota of the domain"),)

    def where(self, shortage: Shortage, rows: Mask) -> str:
        if NAME not in shortage.state.data:
            return ""
        reasons = (each for row in np.flatnonzero(rows).tolist() for each in shortage.why(row))
        names = sorted({each.name for each in reasons if each.kind is RuleKind.DOMAIN})
        return f"domain {either(names, 'and')}" if names else ""

    def pre_score(
        self,
        state: CycleState,
        _info: WorkloadInfo,
        _snapshot: Snapshot,
        _bound: PlacementIndex,
        _feasible: Mask,
    ) -> Status:
        return SUCCESS if NAME in state.data else SKIP

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        known: PolicyState | None = state.data.get(NAME)
        if known is None:
            return np.zeros(len(snapshot), dtype=np.int64)
        domain, held = _view(known, state, info, snapshot)
        column = np.append(replicacycle.scores(_quota(known, state, known.count(domain, held))), 0)
        values: Ints = column[domain]  # OUTSIDE is the last one
        return values

    def divides(self, _info: WorkloadInfo, state: CycleState) -> bool:
        return NAME in state.data

    def bound(self, info: WorkloadInfo, field: Candidates, problem: Problem) -> Problem:
        """Rank decides within a domain."""
        known: PolicyState | None = field.state.data.get(NAME)
        if known is None:
            return problem
        domain, held = _view(known, field.state, info, field.snapshot)
        if known.matches:
            held = held - np.minimum(field.present - problem.present, held)
        quota = _quota(known, field.state, known.count(domain, held))
        # Replicas that the policy does not count leave first: they lower no domain's count.
        uncounted = (problem.present > held) | (not known.matches)
        order = DomainOrder(known.policy.domains, domain, quota, held, uncounted)
        weight = np.ones_like(problem.weight)
        return replace(problem, domains=order, inside=WithinDomain.RANK, weight=weight)

    def post_filter(
        self, state: CycleState, _info: WorkloadInfo, _snapshot: Snapshot, _unplaced: Unplaced
    ) -> Status:
        known: PolicyState | None = state.data.get(NAME)
        order = None if state.plan is None else state.plan.order
        if known is None or order is None:
            return SUCCESS
        count, desired = order.quota.count, known.policy.desired
        full = np.flatnonzero(count >= desired)
        texts = [f"{order.names[d]} ({count[d]}/{desired[d]})" for d in full[:NAMED_DOMAINS]]
        more = f" and {len(full) - NAMED_DOMAINS} more" if len(full) > NAMED_DOMAINS else ""
        if not texts:
            return SUCCESS
        text = f"workload-policy {known.policy.name} reached {', '.join(texts)}{more}"
        return Status(reasons=(text,), plugin=NAME)

    def status_fields(
        self,
        info: WorkloadInfo,
        _placements: Mapping[str, int],
        _snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        key = policy_of(info)
        named = key is not None and len(key[1]) <= _NAME_LIMIT and _NAME.fullmatch(key[1])
        return {"policyRef": {"name": key[1]} if key and named else None}


def _quota(known: PolicyState, state: CycleState, count: Ints) -> DomainQuota:
    policy = known.policy
    required = policy.required and state.has("filter", NAME)
    return DomainQuota(policy.desired, count, policy.method, required, state.has("score", NAME))


def _view(
    known: PolicyState, state: CycleState, info: WorkloadInfo, snapshot: Snapshot
) -> tuple[Ints, Ints]:
    found = state.data.get(_VIEW)
    if found is not None and found[0] is known and found[1] is info and found[2] is snapshot:
        view: tuple[Ints, Ints] = found[3]
        return view
    domain, held = known.domain(snapshot), known.held(snapshot)
    held[_excluded(state, info, snapshot, known.bound)] = 0
    state.data[_VIEW] = (known, info, snapshot, (domain, held))
    return domain, held


def _excluded(
    state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
) -> Mask:
    out = np.zeros(len(snapshot), dtype=np.bool_)
    for rule in _OWN_RULES:
        if not state.has("filter", rule.name):
            continue
        for mask, *_ in rule.filter(state, info, snapshot, bound).reasons:
            out |= mask
    return out
