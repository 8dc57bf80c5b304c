# Generated from the models in `crds`; `make crds` writes it.
"""The parts of a Workload alone as they are stored."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from machinery.types.api import (
    DecisionReference,
    DeletionCost,
    DriftedObject,
    KeptObject,
    Part,
    Placement,
    PlacementChange,
    PlacementReasons,
    ReasonCount,
    ShareBlocked,
    ShareEnd,
)
from machinery.types.selectors import ClusterSelector


class ConnectionResource(Part, frozen=True, gc=False):
    name: str
    secret_name: str = ""


class OverrideTarget(Part, frozen=True, gc=False):
    kind: str
    name: str


class JsonPatchOperation(Part, frozen=True):
    op: str
    path: str
    value: Any = None


class ClusterOverride(Part, frozen=True):
    name: str
    cluster_selector: ClusterSelector = {}
    target: OverrideTarget | None = None
    patch: dict[str, Any] | None = None
    json_patch: list[JsonPatchOperation] | None = None


class IgnoredFields(Part, frozen=True):
    paths: list[str]
    target: OverrideTarget | None = None


class StatusField(Part, frozen=True):
    name: str
    path: str
    target: OverrideTarget | None = None


class Suspension(Part, frozen=True):
    cluster_selector: ClusterSelector = {}


class RolloutWave(Part, frozen=True):
    name: str
    cluster_selector: ClusterSelector = {}
    max_concurrent: int | str = 1
    soak_seconds: int = 0
    approval: bool = False


class RolloutApproval(Part, frozen=True, gc=False):
    revision: str
    wave: str


class Rollout(Part, frozen=True):
    waves: list[RolloutWave]
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 600
    on_failure: str = "Pause"
    paused: bool = False
    approvals: list[RolloutApproval] = []
    aborted: str = ""
    retry_after: datetime | None = None


class Publish(Part, frozen=True):
    cluster_decision: bool = False
    placement_decision: bool = False
    labels: list[str] = []


class ObservedGenerations(Part, frozen=True, gc=False):
    controller: int | None = None
    propagator: int | None = None


class OverriddenCluster(Part, frozen=True):
    name: str
    deletion_costs: list[DeletionCost] = []


class Override(Part, frozen=True):
    name: str = ""
    patch: Any = None
    clusters: list[OverriddenCluster] = []


class ReservedShare(Part, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    cluster: str
    replicas: int


class LeavingShare(Part, frozen=True, gc=False):
    cluster: str
    replicas: int
    replaced: int = 0
    completions: int = 0
    cause: str = ""
    name: str = ""
    since: str = ""


class OrdinalRange(Part, frozen=True, gc=False):
    cluster: str
    start: int


class DisplacedShare(Part, frozen=True, gc=False):
    cluster: str
    replicas: int
    cause: str = ""
    time: str = ""


class ClusterReference(Part, frozen=True, gc=False):
    name: str
    api_version: str = "stowage.dev/v1alpha1"
    kind: str = "MemberCluster"


class ShareFailover(Part, frozen=True, gc=False):
    revision: str
    replicas: int
    since: str = ""
    seconds: int = 0


class ClusterShare(Part, frozen=True):
    name: str
    replicas: int = 0
    scheduled: int = 0
    capacity_version: int | None = None
    current: int = 0
    finished: int = 0
    completed: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    ready: int = 0
    available: int | None = None
    unschedulable: int = 0
    unschedulable_since: str = ""
    refused: int | None = None
    updated: int = 0
    outdated: int | None = None
    observed_generation: int | None = None
    revision: str = ""
    state: str = "Pending"
    message: str = ""
    reason: str = ""
    asked: int | None = None
    decision: str = ""
    health: str = ""
    failover: ShareFailover | None = None
    ended: ShareEnd | None = None
    blocked: ShareBlocked | None = None
    holds: str = ""
    start: int | None = None
    load_balancer: dict[str, Any] | None = None
    fields: dict[str, str] | None = None


class PolicyReference(Part, frozen=True, gc=False):
    name: str


class ClusterLimit(Part, frozen=True):
    cluster: str
    replicas: int
    until: datetime
    hold_seconds: int
    doubted: bool = False


class Footprint(Part, frozen=True, gc=False):
    clusters: str = ""
    kinds: str = ""


class Dependency(Part, frozen=True, gc=False):
    kind: str
    name: str
    state: str
    message: str = ""


class WaveStatus(Part, frozen=True):
    name: str
    clusters: int = 0
    healthy: int = 0
    updating: list[str] = []
    failed: list[str] = []
    deferred: list[str] = []
    start_time: datetime | None = None
    end_time: datetime | None = None


class ClusterUpdate(Part, frozen=True):
    cluster: str
    start_time: datetime | None = None
    ready_time: datetime | None = None
    failed_time: datetime | None = None


class RolloutStatus(Part, frozen=True):
    phase: str
    revision: str
    stable: str = ""
    wave: str = ""
    waves: list[WaveStatus] = []
    updates: list[ClusterUpdate] = []
    message: str = ""


class RevisionException(Part, frozen=True):
    revision: str
    clusters: list[str]


class ReviewVerdict(Part, frozen=True, gc=False):
    generation: int
    refusal: str = ""


class WorkloadStatus(Part, frozen=True):
    observed_generation: int | None = None
    desired: int | None = None
    assigned: int | None = None
    pending: int | None = None
    placements: list[Placement] = []
    reasons: list[PlacementReasons] = []
    reason_counts: list[ReasonCount] = []
    history: list[PlacementChange] = []
    cluster_summary: str = ""
    plugins: dict[str, dict[str, Any]] = {}
    decision: DecisionReference | None = None
    observed: ObservedGenerations | None = None
    state: str = ""
    ready: int | None = None
    ready_summary: str = ""
    selector: str = ""
    overrides: list[Override] = []
    reservations: list[ReservedShare] = []
    leaving: list[LeavingShare] = []
    ordinals: list[OrdinalRange] = []
    completed: int | None = None
    run: str = ""
    displaced: list[DisplacedShare] = []
    rebalanced: str = ""
    carried: dict[str, str] | None = None
    cluster_ref: ClusterReference | None = None
    clusters: list[ClusterShare] = []
    fields_omitted: int | None = None
    service_external_ip: str = msgspec.field(default="", name="serviceExternalIP")
    policy_ref: PolicyReference | None = None
    limits: list[ClusterLimit] = []
    footprint: Footprint | None = None
    kept: list[KeptObject] = []
    drift: list[DriftedObject] = []
    dependencies: list[Dependency] = []
    rollout: RolloutStatus | None = None
    revisions: list[RevisionException] = []
    review: ReviewVerdict | None = None
    conditions: list[dict[str, Any]] = []
