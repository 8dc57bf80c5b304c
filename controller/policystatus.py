"""What a WorkloadPolicy says of itself: what its domains hold, the claims, whether it makes sense.

A sum over all placements and claims, as they are now; nothing is added to what stood there before.
Every field is kept within what the kind allows, as a status that the hub refuses says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from controller.claims import Taken
from controller.model import WorkloadPolicy
from controller.policies import Policy
from controller.world import World
from crds.workloadpolicy import PolicyCondition, PolicyReadyReason
from machinery.clock import timestamp

SUMMARY_LIMIT = 1024
MESSAGE_LIMIT = 4096
UNITS_LIMIT = 2**31 - 1


def status_of(
    policy: WorkloadPolicy, claims: Iterable[Taken], world: World, now: datetime
) -> dict[str, Any]:
    """The whole status; of two claims for one Workload the later one counts."""
    key, latest = policy.metadata.key, {claim.uid: claim for claim in claims}
    rules = world.index.policy(key)
    fault = rules.fault if rules else ""
    allocated = _allocated(rules, world) if rules is not None and not fault else []
    return {
        "observedGeneration": policy.metadata.generation,
        "allocated": allocated,
        "summary": _summary(allocated),
        "workloads": world.index.tally.members(key),
        "claims": [claim.to_dict() for claim in latest.values()],
        "conditions": [_condition(policy, fault, timestamp(now))],
    }


def _allocated(rules: Policy, world: World) -> list[dict[str, Any]]:
    """The domains, in the order of the policy, with their units, claimed ones included."""
    counts = _counts(rules, world)
    return [
        {
            "name": name,
            "replicas": min(counts.get(name, 0), UNITS_LIMIT),
            "desired": int(desired),
        }
        for name, desired in zip(rules.domains, rules.desired, strict=True)
    ]


def _counts(rules: Policy, world: World) -> dict[str, int]:
    fleet, counts = world.fleet(), dict[str, int]()
    column = fleet.column(rules.topology_key)
    for cluster, units in world.index.units_of(rules.key).items():
        row = fleet.row.get(cluster)
        value = None if row is None else column.vocabulary.values[column.codes[row]]
        if value is not None:
            counts[value] = counts.get(value, 0) + units
    return counts


def differs(status: Mapping[str, Any], policy: WorkloadPolicy) -> bool:
    """Whether the policy does not say all of it already."""
    stored = msgspec.to_builtins(policy.status)
    return any(stored.get(name) != value for name, value in status.items())


def _summary(allocated: list[dict[str, Any]]) -> str:
    text = ",".join(f"{each['name']}={each['replicas']}/{each['desired']}" for each in allocated)
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def _condition(policy: WorkloadPolicy, fault: str, now: str) -> dict[str, Any]:
    """Ready: whether the policy can be followed."""
    status = "False" if fault else "True"
    reason = PolicyReadyReason.INVALID_POLICY if fault else PolicyReadyReason.VALID
    old = next(iter(policy.status.conditions), {})
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {
        "type": PolicyCondition.READY.value,
        "status": status,
        "reason": reason.value,
        "message": fault[:MESSAGE_LIMIT],
        "lastTransitionTime": since or now,
        "observedGeneration": policy.metadata.generation,
    }
