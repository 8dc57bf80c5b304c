"""The fields of the kind WorkloadSpread that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadSpreadStatus
from machinery.types.metadata import Object


class WorkloadSpread(Object, frozen=True):
    """Over which subsets of clusters the replicas of a Workload go, in which order.

    The spec stays as it is stored: an older schema may have let in a value of any type, and a
    spread that cannot be decoded would be as good as deleted.
    `controller.features.workloadspread.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadSpreadStatus = WorkloadSpreadStatus()
