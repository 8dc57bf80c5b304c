"""The fields of the kind WorkloadPolicy that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.claims.claims import Claim
from machinery.types.metadata import Object
from machinery.types.selectors import LabelSelector


class Allocation(msgspec.Struct, frozen=True):
    """A domain, and its number of replicas."""

    name: str
    replicas: int


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadPolicy.spec, as `controller.features.workloadpolicy.compiled` reads it."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    allocation_policy: list[Allocation] = []
    allocation_type: str = "Preferred"
    allocation_method: str = ""
    schedule_strategy: str = ""


class Allocated(msgspec.Struct, frozen=True):
    """The replicas that a domain holds."""

    name: str
    replicas: int
    desired: int


class PolicyStatus(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadPolicy.status."""

    observed_generation: int = 0
    conditions: list[dict[str, Any]] = []
    allocated: list[Allocated] = []
    summary: str = ""
    workloads: int = 0
    claims: list[Claim] = []


class WorkloadPolicy(Object, frozen=True):
    """How many replicas go to each domain of a topology.

    The spec stays as it is stored: an older schema may have let in a value of any type, and a
    policy that cannot be decoded would be as good as deleted.
    `controller.features.workloadpolicy.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: PolicyStatus = PolicyStatus()
