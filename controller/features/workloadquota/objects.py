"""The fields of the kind WorkloadQuota that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.claims.claims import Claim
from machinery.types.metadata import Object


class LeftAmounts(msgspec.Struct, frozen=True):
    """What a Workload leaves on its clusters; `workload` is empty for the sum of many."""

    workload: str = ""
    uid: str = ""
    amounts: dict[str, Any] = {}


class QuotaStatus(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadQuota.status."""

    observed_generation: int = 0
    conditions: list[dict[str, Any]] = []
    hard: dict[str, Any] = {}
    used: dict[str, Any] = {}
    claims: list[Claim] = []
    left: list[LeftAmounts] = []


class WorkloadQuota(Object, frozen=True):
    """The amounts that a namespace may take over all clusters.

    The spec stays as it is stored: a quota that cannot be decoded would be as good as deleted.
    `controller.features.workloadquota.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: QuotaStatus = QuotaStatus()
