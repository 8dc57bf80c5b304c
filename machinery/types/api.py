# Generated from the models in `crds`; `make crds` writes it.
"""The parts of all kinds, without those of a Workload alone as they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from machinery.types.selectors import ClusterSelector, LabelSelector, SelectorTerm
from machinery.types.taints import Taint, Toleration


class Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    pass


class SecretReference(Part, frozen=True, gc=False):
    name: str
    namespace: str = "stowage-system"


class ClusterEndpoint(Part, frozen=True, gc=False):
    server: str
    certificate_authority_data: str = ""


class NamespaceRule(Part, frozen=True):
    allow: list[str] = msgspec.field(default_factory=lambda: ["*"])


class ImageRule(Part, frozen=True, gc=False):
    from_: str = msgspec.field(name="from")
    to: str


class MemberClusterSpec(Part, frozen=True):
    mode: str = "Push"
    reported: str = "Pinned"
    secret_ref: SecretReference | None = None
    endpoint: ClusterEndpoint | None = None
    taints: list[Taint] = []
    unschedulable: bool = False
    virtual: bool = False
    namespaces: NamespaceRule = NamespaceRule()
    allowed_kinds: list[str] = []
    images: list[ImageRule] = []
    max_allocatable: dict[str, str | int] = {}
    provider: str = ""
    version: str = ""
    former_names: list[str] = []


class EvacuationCause(Part, frozen=True, gc=False):
    name: str
    since: str = ""


class BlockedWorkload(Part, frozen=True, gc=False):
    namespace: str
    name: str
    reason: str = ""
    message: str = ""


class Evacuation(Part, frozen=True):
    causes: list[EvacuationCause] = []
    dwells_until: str = ""
    dwell_seconds: int = 0
    units: int = 0
    left: int = 0
    workloads: int = 0
    blocked: list[BlockedWorkload] = []


class NodeGroup(Part, frozen=True):
    count: int
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    free: dict[str, str | int] = {}


class CapacitySummary(Part, frozen=True, gc=False):
    cpu: str = ""
    memory: str = ""


class Capacity(Part, frozen=True):
    nodes: int = 0
    allocatable: dict[str, str | int] = {}
    requested: dict[str, str | int] = {}
    summary: CapacitySummary | None = None


class MemberNamespaces(Part, frozen=True):
    given: list[str] | None = None
    refused: list[str] = []


class QuotaLeft(Part, frozen=True):
    namespace: str
    name: str
    free: dict[str, str | int] = {}


class HeldWorkload(Part, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    objects: int
    claims: int = 0


class HeldSweep(Part, frozen=True):
    count: int
    workloads: list[HeldWorkload] = []


class MemberPull(Part, frozen=True, gc=False):
    namespace: str
    release: str = ""
    started: str = ""
    token_ends: str = ""
    skew_seconds: int | None = None
    upgrade: str = ""


class Reliability(Part, frozen=True, gc=False):
    ready_percent: int


class MemberClusterStatus(Part, frozen=True):
    observed_generation: int | None = None
    conditions: list[dict[str, Any]] = []
    state: str = ""
    evacuation: Evacuation | None = None
    cluster_id: str = msgspec.field(default="", name="clusterID")
    cluster_uid: str = msgspec.field(default="", name="clusterUID")
    cluster_set: str = ""
    version: str = ""
    provider: str = ""
    node_groups: list[NodeGroup] = []
    capacity: Capacity | None = None
    namespaces: MemberNamespaces | None = None
    kinds: list[str] | None = None
    kinds_omitted: int = 0
    quotas: list[QuotaLeft] = []
    sweep_held: HeldSweep | None = None
    shard: int | None = None
    pull: MemberPull | None = None
    latency_milliseconds: int | None = None
    reliability: Reliability | None = None


class WorkloadKindStatus(Part, frozen=True):
    observed_generation: int | None = None
    conditions: list[dict[str, Any]] = []
    workloads: int | None = None


class WorkloadQuotaSpec(Part, frozen=True):
    hard: dict[str, str | int]


class LeftAmounts(Part, frozen=True):
    workload: str
    uid: str
    amounts: dict[str, str | int]


class ClaimedShare(Part, frozen=True, gc=False):
    cluster: str
    replicas: int


class Claim(Part, frozen=True):
    workload: str
    uid: str
    holder: str
    placements: list[ClaimedShare] = []
    time: str = ""


class WorkloadQuotaStatus(Part, frozen=True):
    observed_generation: int | None = None
    conditions: list[dict[str, Any]] = []
    hard: dict[str, str | int] = {}
    used: dict[str, str | int] = {}
    left: list[LeftAmounts] = []
    claims: list[Claim] = []


class Allocation(Part, frozen=True, gc=False):
    name: str
    replicas: int


class WorkloadPolicySpec(Part, frozen=True):
    topology_key: str
    allocation_policy: list[Allocation]
    label_selector: LabelSelector = LabelSelector()
    allocation_type: str = "Preferred"
    allocation_method: str = ""
    schedule_strategy: str = ""


class Allocated(Part, frozen=True, gc=False):
    name: str
    replicas: int
    desired: int


class WorkloadPolicyStatus(Part, frozen=True):
    observed_generation: int | None = None
    conditions: list[dict[str, Any]] = []
    allocated: list[Allocated] = []
    summary: str = ""
    workloads: int | None = None
    claims: list[Claim] = []


class DistributionWeight(Part, frozen=True):
    weight: int
    cluster_selector: ClusterSelector = {}
    min_replicas: int | None = None
    max_replicas: int | None = None


class SpreadConstraint(Part, frozen=True, gc=False):
    topology_key: str
    min_domains: int | None = None
    max_domains: int | None = None


class TargetCluster(Part, frozen=True, gc=False):
    name: str
    namespace: str = ""


class RequiredClusterTerms(Part, frozen=True):
    cluster_selector_terms: list[SelectorTerm]


class PreferredClusterTerm(Part, frozen=True):
    weight: int
    preference: SelectorTerm


class ClusterAffinity(Part, frozen=True):
    required: RequiredClusterTerms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredClusterTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class WorkloadAffinityTerm(Part, frozen=True):
    topology_key: str
    label_selector: LabelSelector = LabelSelector()


class PreferredWorkloadTerm(Part, frozen=True):
    weight: int
    workload_affinity_term: WorkloadAffinityTerm


class WorkloadAffinity(Part, frozen=True):
    required: list[WorkloadAffinityTerm] = msgspec.field(
        default_factory=list, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredWorkloadTerm] = msgspec.field(
        default_factory=list, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class OwnerObject(Part, frozen=True, gc=False):
    name: str
    api_version: str = ""
    kind: str = "Workload"
    namespace: str = ""
    uid: str = ""


class OwnerController(Part, frozen=True, gc=False):
    kind: str
    name: str
    api_version: str = ""
    namespace: str = ""
    uid: str = ""


class Owner(Part, frozen=True):
    object: OwnerObject | None = None
    controller: OwnerController | None = None
    label_selector: LabelSelector | None = None


class Placement(Part, frozen=True, gc=False):
    cluster: str
    replicas: int
    completions: int | None = None


class PlacementRule(Part, frozen=True):
    rule: str
    numbers: dict[str, int] = {}
    name: str = ""


class PlacementStep(Part, frozen=True):
    units: int
    time: str = ""
    cause: str = ""
    name: str = ""
    because: list[PlacementRule] = []


class PlacementReasons(Part, frozen=True):
    cluster: str
    steps: list[PlacementStep] = []


class ReasonCount(Part, frozen=True, gc=False):
    rule: str
    clusters: int
    units: int


class PlacementMove(Part, frozen=True):
    cluster: str
    before: int | None = msgspec.field(default=None, name="from")
    now: int | None = msgspec.field(default=None, name="to")
    because: list[PlacementRule] = []


class UntoldMoves(Part, frozen=True, gc=False):
    clusters: int
    came: int = 0
    went: int = 0


class PlacementChange(Part, frozen=True):
    cause: str
    time: str = ""
    name: str = ""
    desired: int = 0
    assigned: int = 0
    moves: list[PlacementMove] = []
    more: UntoldMoves | None = None
    id: str = ""


class DecisionReference(Part, frozen=True, gc=False):
    hash: str
    time: str = ""
    id: str = ""


class CurrentOwner(Part, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    cluster: str
    replicas: int
    kind: str = "Workload"


class ReservationStatus(Part, frozen=True):
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
    phase: str = ""
    cluster_name: str = ""
    allocatable: dict[str, str | int] = {}
    allocated: dict[str, str | int] = {}
    current_owners: list[CurrentOwner] = []
    owners: int | None = None
    conditions: list[dict[str, Any]] = []


class Topology(Part, frozen=True, gc=False):
    topology_key: str
    mode: str = "Required"


class WorkloadGroupSpec(Part, frozen=True):
    min_member: int
    min_resources: dict[str, str | int] = {}
    schedule_timeout_seconds: int | None = None
    topology: Topology | None = None


class WorkloadGroupStatus(Part, frozen=True):
    observed_generation: int | None = None
    phase: str = ""
    workloads: int | None = None
    desired: int | None = None
    scheduled: int | None = None
    waiting: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    schedule_start_time: str = ""
    quorum_time: str = ""
    gate: str = ""
    decisions: dict[str, str] = {}
    retained: dict[str, dict[str, int]] = {}
    reached: dict[str, str] = {}
    failures: int | None = None
    retry_time: str = ""
    last_failure_time: str = ""
    conditions: list[dict[str, Any]] = []


class TargetReference(Part, frozen=True, gc=False):
    api_version: str
    kind: str
    name: str


class PatchMetadata(Part, frozen=True):
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}


class Patch(Part, frozen=True):
    metadata: PatchMetadata | None = None
    spec: dict[str, Any] | None = None


class Subset(Part, frozen=True):
    name: str
    required_node_selector_term: SelectorTerm | None = None
    required_cluster_selector_term: SelectorTerm | None = None
    preferred_node_selector_terms: list[PreferredClusterTerm] = []
    tolerations: list[Toleration] = []
    max_replicas: int | str | None = None
    patch: Patch | None = None


class Adaptive(Part, frozen=True, gc=False):
    reschedule_critical_seconds: int | None = None
    disable_simulation_schedule: bool = False


class ScheduleStrategy(Part, frozen=True):
    type: str = "Fixed"
    adaptive: Adaptive | None = None


class WorkloadSpreadSpec(Part, frozen=True):
    target_ref: TargetReference
    subsets: list[Subset]
    schedule_strategy: ScheduleStrategy = ScheduleStrategy()


class SubsetStatus(Part, frozen=True):
    name: str
    replicas: int = 0
    missing_replicas: int = 0
    creating_pods: dict[str, str] = {}
    deleting_pods: dict[str, str] = {}
    stuck_pods: dict[str, str] = {}
    deletion_cost: int = 0
    conditions: list[dict[str, Any]] = []


class WorkloadSpreadStatus(Part, frozen=True):
    observed_generation: int | None = None
    conditions: list[dict[str, Any]] = []
    subset_statuses: list[SubsetStatus] = []
    summary: str = ""


class ClusterDecisionSpec(Part, frozen=True):
    labels: list[str] = []


class ClusterDecisionStatus(Part, frozen=True):
    observed_generation: int | None = None
    decisions: list[dict[str, str]] = []
    conditions: list[dict[str, Any]] = []


class AssignedWorkload(Part, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    generation: int


class AssignedSecret(Part, frozen=True, gc=False):
    name: str
    as_: str = msgspec.field(name="as")
    digest: str


class ShareEnd(Part, frozen=True, gc=False):
    result: str
    time: str = ""
    object: str = ""
    message: str = ""


class Movement(Part, frozen=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    min_ready_seconds: int = 0
    returns: bool = True
    data: str = "Hold"
    rebalance_after: str = ""
    unhealthy_seconds: int | None = None
    carry: list[str] = []


class DeletionCost(Part, frozen=True, gc=False):
    cost: int
    replicas: int


class KeptObject(Part, frozen=True, gc=False):
    cluster: str
    kind: str
    name: str
    cluster_uid: str = msgspec.field(default="", name="clusterUID")
    namespace: str = ""


class AssignmentRules(Part, frozen=True):
    adoption: str = "Never"
    drift: str = "Repair"
    on_delete: str = "Delete"
    ended: ShareEnd | None = None
    left: bool = False
    deleted: bool = False
    forgotten: bool = False
    done: int | None = None
    part: int | None = None
    awaits_end: bool = False
    budgets: Movement | None = None
    forced: bool = False
    accepted: bool = False
    allowed_kinds: list[str] = []
    deletion_costs: list[DeletionCost] = []
    revision: str = ""
    kept: list[KeptObject] = []


class AssignmentSpec(Part, frozen=True):
    workload: AssignedWorkload
    order: str
    target_namespace: str
    digest: str
    decided: str
    replicas: int = 0
    bundle: str = ""
    secrets: list[AssignedSecret] = []
    share_rules: AssignmentRules = msgspec.field(default=AssignmentRules(), name="rules")


class AssignmentCounts(Part, frozen=True, gc=False):
    asked: int = 0
    scheduled: int = 0
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


class ShareBlocked(Part, frozen=True, gc=False):
    reason: str
    message: str = ""


class DriftedField(Part, frozen=True, gc=False):
    path: str
    hub: str = ""
    member: str = ""
    manager: str = ""


class DriftedObject(Part, frozen=True):
    cluster: str
    kind: str
    name: str
    state: str
    namespace: str = ""
    group: str = ""
    paths: list[DriftedField] = []
    since: str = ""


class AssignmentStatus(Part, frozen=True):
    digest: str = ""
    decided: str = ""
    state: str = ""
    reason: str = ""
    message: str = ""
    counts: AssignmentCounts | None = None
    health: str = ""
    ended: ShareEnd | None = None
    blocked: ShareBlocked | None = None
    holds: str = ""
    start: int | None = None
    fields: dict[str, str] | None = None
    kept: list[KeptObject] = []
    looked: bool = False
    drift: list[DriftedObject] = []
    load_balancer: dict[str, Any] | None = None
    reported: str = ""
    time: str = ""


class UnassignedWorkload(Part, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    objects: int
    claims: int = 0
    version: str = ""
    made: str = ""


class Unassigned(Part, frozen=True):
    count: int
    workloads: list[UnassignedWorkload] = []


class MemberReportStatus(Part, frozen=True):
    claim: str = ""
    release: str = ""
    started: str = ""
    upgrade: str = ""
    cluster_id: str = msgspec.field(default="", name="clusterID")
    cluster_uid: str = msgspec.field(default="", name="clusterUID")
    version: str = ""
    provider: str = ""
    node_groups: list[NodeGroup] = []
    capacity: Capacity | None = None
    namespaces: MemberNamespaces | None = None
    kinds: list[str] | None = None
    kinds_omitted: int = 0
    quotas: list[QuotaLeft] = []
    unassigned: Unassigned | None = None
