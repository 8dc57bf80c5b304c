"""The fields of the kind WorkloadPolicy that the controller reads, as the hub stores them."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadPolicyStatus
from machinery.types.metadata import Object


class WorkloadPolicy(Object, frozen=True):
    """How many replicas go to each domain of a topology.

    The spec stays as it is stored: an older schema may have let in a value of any type, and a
    policy that cannot be decoded would be as good as deleted.
    `controller.features.workloadpolicy.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadPolicyStatus = WorkloadPolicyStatus()
