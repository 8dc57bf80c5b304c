"""WorkloadPolicy: how many replicas go to each domain of a topology, and what may happen beyond.

The spec is the user's. The whole status has one writer, the controller; schedulers of several names
share a policy through `status.claims`: a compare-and-swap on it takes quota before placements are
written. `crds/workloadpolicy.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import (
    Condition,
    Count,
    Int64,
    Kind,
    LabelKey,
    LabelValue,
    Model,
    Rule,
    atomic,
    listmap,
)
from crds.fields.claims import MOST_CLAIMS, Claim
from crds.fields.labels import LabelSelector

MOST_DOMAINS = 256


class AllocationType(StrEnum):
    """The meaning of a domain's number."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class AllocationMethod(StrEnum):
    """Which domain below its number takes the next replica."""

    FILL = "Fill"
    BALANCE = "Balance"


class PolicyCondition(StrEnum):
    """The condition types of a WorkloadPolicy."""

    READY = "Ready"
    """Whether the policy counts."""


class PolicyReadyReason(StrEnum):
    """Reasons of Ready. VALID is the one that is good."""

    VALID = "Valid"
    """The spec can be used."""
    INVALID_POLICY = "InvalidPolicy"
    """The spec is one that admission refuses; the message names the field."""


def _same(spec: Any) -> bool:
    return None in (spec.schedule_strategy, spec.allocation_method) or (
        spec.schedule_strategy is spec.allocation_method
    )


class Allocation(Model):
    """A domain, and its number of replicas."""

    name: Annotated[LabelValue, Field(min_length=1)]
    """A value of the topology key."""
    replicas: Count
    """How many replicas the domain shall hold, over all the Workloads that are counted."""


class WorkloadPolicySpec(Model):
    """The domains and their numbers."""

    rules = (
        Rule(
            field="scheduleStrategy",
            text="is another name of allocationMethod: give one of the two, or the same for both",
            cel="!has(self.scheduleStrategy) || !has(self.allocationMethod) "
            "|| self.scheduleStrategy == self.allocationMethod",
            holds=_same,
        ),
    )

    topology_key: LabelKey
    """A label of MemberClusters; those that share its value are one domain."""
    label_selector: LabelSelector
    """The replicas that count: those with these labels, of Workloads of this namespace."""
    allocation_policy: Annotated[
        list[Allocation],
        Field(
            min_length=1,
            max_length=MOST_DOMAINS,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    """The domains; equals go in this order."""
    allocation_type: AllocationType = AllocationType.PREFERRED
    """Required: nothing beyond the numbers. Preferred: elsewhere, when the domains are full."""
    allocation_method: AllocationMethod | None = None
    """Balance keeps the domains in proportion, Fill fills one after the other. Admission writes
    Balance where neither this nor scheduleStrategy is given."""
    schedule_strategy: AllocationMethod | None = None
    """Another name of allocationMethod."""


class Allocated(Model):
    """The replicas that a domain holds."""

    name: LabelValue
    """The domain."""
    replicas: Count
    """Replicas placed there, claimed ones included."""
    desired: Count
    """Its number."""


class WorkloadPolicyStatus(Model):
    """The replicas that the domains hold. Writer of every field: controller."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Ready; Reconciling or Stalled while that is not True. Writer: controller."""
    allocated: list[Allocated] = listmap("name", most=MOST_DOMAINS)
    """Replicas by domain. Writer: controller."""
    summary: Annotated[str, Field(max_length=1024)] | None = None
    """The ALLOCATED column: member=1/1,host=3/3. Writer: controller."""
    workloads: Count | None = None
    """How many Workloads are counted. Writer: controller."""
    claims: list[Claim] = atomic(MOST_CLAIMS)
    """Quota taken and not seen as placements by everybody yet. Writer: controller."""


class WorkloadPolicy(Kind):
    """How many replicas go to each domain of a topology."""

    plural = "workloadpolicies"
    short = "wlp"
    columns = (
        ("Topology", "string", ".spec.topologyKey", 0),
        ("Type", "string", ".spec.allocationType", 0),
        ("Method", "string", ".spec.allocationMethod", 0),
        ("Workloads", "integer", ".status.workloads", 0),
        ("Allocated", "string", ".status.summary", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 1),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["WorkloadPolicy"] = "WorkloadPolicy"
    spec: WorkloadPolicySpec
    """The domains and their numbers."""
    status: WorkloadPolicyStatus | None = None
    """The replicas that the domains hold."""
