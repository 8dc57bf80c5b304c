"""The kind WorkloadQuota as the hub stores it, as far as the controller reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.claims.claims import Claim
from machinery.types.metadata import Object


class QuotaStatus(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadQuota.status."""

    observed_generation: int = 0
    conditions: list[dict[str, Any]] = []
    hard: dict[str, Any] = {}
    used: dict[str, Any] = {}
    claims: list[Claim] = []


class WorkloadQuota(Object, frozen=True):
    """What a namespace may take over all clusters.

    The spec is left as it is stored: one that cannot be decoded would be as good as deleted.
    `controller.features.workloadquota.compiled` makes sense of it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: QuotaStatus = QuotaStatus()
