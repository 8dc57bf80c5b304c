"""The status of a WorkloadPolicy: the replicas of its domains, the claims, and whether it is valid.

A sum over all placements and claims as of now; nothing is added to the stored numbers. Every field
is kept within what the kind allows, as a status that the hub refuses says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from controller.claims.claims import HeldClaim
from controller.features.workloadpolicy.compiled import Policy
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.objects import WorkloadPolicy
from controller.snapshot.snapshot import Snapshot
from crds.workloadpolicy import PolicyCondition, PolicyReadyReason
from machinery.types import conditions
from machinery.types.bounds import MOST_UNITS

SUMMARY_LIMIT = 1024
MESSAGE_LIMIT = 4096


def status_of(
    policy: WorkloadPolicy,
    claims: Iterable[HeldClaim],
    counts: Tally,
    snapshot: Snapshot,
    now: datetime,
) -> dict[str, Any]:
    """Return the whole status; of two claims for one Workload the later one counts."""
    key, latest = policy.metadata.key, {claim.uid: claim for claim in claims}
    rules = counts.policy(key)
    fault = rules.fault if rules else ""
    domains = allocated(rules, counts, snapshot) if rules is not None and not fault else []
    return {
        "observedGeneration": policy.metadata.generation,
        "allocated": domains,
        "summary": _summary(domains),
        "workloads": counts.members(key),
        "claims": [claim.to_dict() for claim in latest.values()],
        "conditions": _conditions(policy, fault, now),
    }


def allocated(rules: Policy, counts: Tally, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the policy's domains in order, with their replicas, claimed ones included."""
    held = _held(rules, counts, snapshot)
    return [
        {
            "name": name,
            "replicas": min(held.get(name, 0), MOST_UNITS),
            "desired": int(desired),
        }
        for name, desired in zip(rules.domains, rules.desired, strict=True)
    ]


def _held(rules: Policy, counts: Tally, snapshot: Snapshot) -> dict[str, int]:
    """Return the counted replicas by domain, whether or not the policy lists it."""
    held = dict[str, int]()
    column = snapshot.column(rules.topology_key)
    for cluster, replicas in counts.replicas_of(rules.key).items():
        row = snapshot.row.get(cluster)
        value = None if row is None else column.vocabulary.values[column.codes[row]]
        if value is not None:
            held[value] = held.get(value, 0) + replicas
    return held


def _summary(domains: list[dict[str, Any]]) -> str:
    text = ",".join(f"{each['name']}={each['replicas']}/{each['desired']}" for each in domains)
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def _conditions(policy: WorkloadPolicy, fault: str, now: datetime) -> list[conditions.Condition]:
    """Return Ready, whether the policy is valid; an invalid one needs a person."""
    reason = PolicyReadyReason.INVALID_POLICY if fault else PolicyReadyReason.VALID
    before = policy.status.conditions
    ready = conditions.renewed(
        conditions.among(before, PolicyCondition.READY.value),
        type_=PolicyCondition.READY.value,
        true=not fault,
        reason=reason.value,
        message=fault[:MESSAGE_LIMIT],
        now=now,
        generation=policy.metadata.generation,
    )
    return conditions.with_progress([ready], waits=(), before=before, now=now)
