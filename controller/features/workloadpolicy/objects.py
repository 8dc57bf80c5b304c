"""The fields of WorkloadPolicy that the controller reads."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadPolicyStatus
from machinery.types.metadata import Object


class WorkloadPolicy(Object, frozen=True):
    """How many replicas go to each domain of a topology.

    The spec is not decoded: an older schema admitted values of any type, and an undecodable policy
    would look deleted. `controller.features.workloadpolicy.compiled` checks it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadPolicyStatus = WorkloadPolicyStatus()
