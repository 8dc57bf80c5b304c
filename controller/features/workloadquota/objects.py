"""The fields of the kind WorkloadQuota that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadQuotaStatus
from machinery.types.metadata import Object


class WorkloadQuota(Object, frozen=True):
    """The amounts that a namespace may take over all clusters.

    The spec stays as it is stored: a quota that cannot be decoded would be as good as deleted.
    `controller.features.workloadquota.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadQuotaStatus = WorkloadQuotaStatus()
