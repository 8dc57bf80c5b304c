"""The kind WorkloadGroup as the hub stores it, as far as the controller reads it."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.metadata import Object


class Topology(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadGroup.spec.topology."""

    topology_key: str = ""
    mode: str = "Required"


class GroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadGroup.spec, as `controller.features.workloadgroup.compiled` reads it."""

    min_member: int = 0
    min_resources: dict[str, Any] = {}
    schedule_timeout_seconds: int | None = None
    topology: Topology | None = None


class Released(msgspec.Struct, frozen=True):
    """One of status.released: a Workload, and which of its placements may stand on members."""

    name: str = ""
    uid: str = ""
    decision: str = ""


class GroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    """WorkloadGroup.status; times as they are stored, empty where there is none."""

    observed_generation: int = 0
    phase: str = ""
    workloads: int = 0
    desired: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str = ""
    quorum_time: str = ""
    gate: str = ""
    released: list[Released] = []
    failures: int = 0
    retry_time: str = ""
    last_failure_time: str = ""
    conditions: list[dict[str, Any]] = []


class WorkloadGroup(Object, frozen=True):
    """Workloads that start together or not at all.

    The spec is left as it is stored: what an older schema let in may be of any type, and a group
    that cannot be decoded would be as good as deleted, and its members without one.
    `controller.features.workloadgroup.compiled` makes sense of it.
    """

    spec: Any = msgspec.field(default_factory=dict)
    status: GroupStatus = GroupStatus()
