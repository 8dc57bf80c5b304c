"""The fields of WorkloadQuota that the controller reads."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadQuotaStatus
from machinery.types.metadata import Object


class WorkloadQuota(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadQuotaStatus = WorkloadQuotaStatus()
