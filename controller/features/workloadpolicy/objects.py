"""The fields of WorkloadPolicy that the controller reads."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.api import WorkloadPolicyStatus
from machinery.types.metadata import Object


class WorkloadPolicy(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadPolicyStatus = WorkloadPolicyStatus()
