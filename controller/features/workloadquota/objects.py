"""The fields of WorkloadQuota that the controller reads."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadQuotaStatus
from machinery.types.metadata import Object


class WorkloadQuota(Object, frozen=True):
    """The amounts that a namespace may use over all clusters.

    The spec is not decoded: an undecodable quota would look deleted.
    `controller.features.workloadquota.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadQuotaStatus = WorkloadQuotaStatus()
