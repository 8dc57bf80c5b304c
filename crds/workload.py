"""Workload: what a user wants to run somewhere in the fleet, and what became of it.

The spec is the user's. Each field of the status has one writer, named beside it; both writers send
merge patches that carry the resourceVersion they read, and keep the other's conditions as they
found them. `crds/workload.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.affinity import (
    ClusterAffinity,
    DistributionWeight,
    SpreadConstraint,
    TargetCluster,
    WorkloadAffinity,
)
from crds.base import (
    Condition,
    Count,
    DnsName,
    Int32,
    Int64,
    Kind,
    LabelMap,
    Model,
    Rule,
    TargetNamespace,
    Timestamp,
    Version,
    atomic,
    listmap,
)
from crds.labels import Toleration
from crds.names import DEFAULT_SCHEDULER
from crds.template import (
    ConnectionResource,
    Footprint,
    Manifest,
    Override,
    Service,
    TargetDeployment,
    Template,
    replicas_path_fits,
)
from crds.why import (
    ClusterLimit,
    DecisionReference,
    PlacementChange,
    PlacementReasons,
    ReasonCount,
    ReviewVerdict,
)


class Distribution(StrEnum):
    """How replicas become shares where no policy or spread says otherwise."""

    SINGLE = "Single"
    DIVIDED = "Divided"
    DUPLICATED = "Duplicated"


class Packing(StrEnum):
    """How Divided chooses among the clusters that could take a share."""

    PROPORTIONAL = "Proportional"
    FEWEST = "Fewest"


class Adoption(StrEnum):
    """What to do with an object that exists on the member already."""

    NEVER = "Never"
    IF_UNOWNED = "IfUnowned"


class WorkloadState(StrEnum):
    """status.state: how far the Workload has come."""

    PENDING = "Pending"
    SCHEDULED = "Scheduled"
    CREATING = "Creating"
    RUNNING = "Running"
    FAILED = "Failed"


class ShareState(StrEnum):
    """status.clusters[].state: how far one cluster has come."""

    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    FAILED = "Failed"
    LEAVING = "Leaving"
    UNREACHABLE = "Unreachable"


class WorkloadCondition(StrEnum):
    """The condition types: the first two are the controller's, the others the propagator's."""

    SCHEDULED = "Scheduled"
    FAILED = "Failed"
    PROPAGATED = "Propagated"
    READY = "Ready"


class ScheduledReason(StrEnum):
    """Reasons of Scheduled and of Failed. SCHEDULED is the one that is good."""

    SCHEDULED = "Scheduled"
    FAILED_TO_SCHEDULE = "FailedToSchedule"
    REPLICAS_REACHED = "ReplicasReached"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    POLICY_NOT_FOUND = "PolicyNotFound"
    INVALID_POLICY = "InvalidPolicy"
    AMBIGUOUS_POLICY = "AmbiguousPolicy"
    INVALID_SPREAD = "InvalidSpread"
    GROUP_NOT_FOUND = "GroupNotFound"
    GROUP_DENIED = "GroupDenied"
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    WAITING_FOR_GROUP = "WaitingForGroup"
    WAITING_ON_PERMIT = "WaitingOnPermit"
    """Shares are found and reserved; a Permit plugin holds back the write."""
    PLUGIN_ERROR = "PluginError"
    """A plugin raised; the message names it and the extension point."""
    INVALID_WORKLOAD = "InvalidWorkload"
    """What admission would have refused, on a hub without the admission policies."""


class PropagatedReason(StrEnum):
    """Reasons of Propagated. PROPAGATED is the one that is good, PROPAGATING is on its way."""

    PROPAGATED = "Propagated"
    PROPAGATING = "Propagating"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, no secret
    ALREADY_EXISTS = "AlreadyExists"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    INVALID_WORKLOAD = "InvalidWorkload"
    """The controller's review refused it, on a hub without the validating policy."""
    NOT_REVIEWED = "NotReviewed"
    """The controller has not reviewed this edit yet, on a hub without the validating policy."""
    KIND_NOT_ALLOWED = "KindNotAllowed"
    """The member does not take an object of that kind, or the Workload may not bring it along."""
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    REJECTED = "Rejected"
    CONFLICT = "Conflict"
    """Somebody else changes the same fields on the member, again and again."""
    HUB_UNAVAILABLE = "HubUnavailable"
    """The hub did not answer a request of the propagator; nothing is wrong with the cluster."""


class WorkloadReadyReason(StrEnum):
    """Reasons of Ready. ALL_READY is the one that is good."""

    ALL_READY = "AllReady"
    REPLICAS_NOT_READY = "ReplicasNotReady"


class EventReason(StrEnum):
    """Reasons of the events on a Workload."""

    SCHEDULED = "Scheduled"
    FAILED_SCHEDULING = "FailedScheduling"
    WAITING_ON_PERMIT = "WaitingOnPermit"
    INCOMPLETE_SET = "IncompleteSet"
    PROPAGATED = "Propagated"
    PROPAGATION_FAILED = "PropagationFailed"


class WorkloadSpec(Model):
    """What is wanted."""

    rules = (
        Rule(
            field="template",
            text="give exactly one of targetDeployment and template",
            cel="has(self.targetDeployment) != has(self.template)",
            holds=lambda s: (s.target_deployment is None) != (s.template is None),
        ),
        Rule(
            field="replicasPath",
            text="needed for a custom kind, such as spec.replicas; a Deployment, StatefulSet, "
            "ReplicaSet or Job has a path of its own, a DaemonSet or CronJob has none: remove it",
            cel="!has(self.template) ? (!has(self.replicasPath) || self.replicasPath =="
            " 'spec.replicas')"
            " : self.template.apiVersion.contains('.') ? has(self.replicasPath)"
            " : !has(self.replicasPath)"
            " || (self.template.kind in ['Deployment', 'StatefulSet', 'ReplicaSet']"
            " && self.replicasPath == 'spec.replicas')"
            " || (self.template.kind == 'Job' && self.replicasPath == 'spec.parallelism')",
            holds=lambda s: replicas_path_fits(s.template, s.replicas_path),
        ),
        Rule(
            field="spreadConstraints",
            text="minDomains above 1 never holds where all units go to one cluster: remove it, or "
            "set spec.distribution to Divided or Duplicated",
            cel="(has(self.distribution) && self.distribution != 'Single')"
            " || (has(self.template) && self.template.kind == 'DaemonSet')"
            " || !has(self.spreadConstraints)"
            " || self.spreadConstraints.all(c, !has(c.minDomains) || c.minDomains <= 1)",
            holds=lambda s: (
                s.distribution is not Distribution.SINGLE
                or (s.template is not None and s.template.kind == "DaemonSet")
                or all((c.min_domains or 1) <= 1 for c in s.spread_constraints)
            ),
        ),
    )

    replicas: Count | None = None
    """The units wanted; the template's own number when unset. An HPA needs it set."""
    scheduler_name: Annotated[str, Field(max_length=253)] = DEFAULT_SCHEDULER
    """Who chooses the clusters; a name that is not a profile of ours is left alone."""
    priority: Int32 = 0
    """Higher goes first in the queue."""
    distribution: Distribution = Distribution.SINGLE
    """Single: all on the best cluster. Divided: split. Duplicated: all on each that matches."""
    distribution_weights: list[DistributionWeight] = atomic(64)
    """Static weights of Divided; without them it weighs by free capacity."""
    packing: Packing = Packing.PROPORTIONAL
    """Proportional to the weights, or the Fewest clusters that hold all units."""
    spread_constraints: list[SpreadConstraint] = listmap("topologyKey", most=8)
    """Over how many regions, zones or clusters the shares go."""
    target_namespace: TargetNamespace | None = None
    """The namespace on the members, metadata.namespace when unset; others need the verb `use`."""
    target_cluster: TargetCluster | None = None
    """Only this cluster."""
    cluster_selector: LabelMap = Field(default_factory=dict)
    """Labels that a cluster must have; also cloudProvider, clusterVersion, clusterName …"""
    cluster_affinity: ClusterAffinity | None = None
    """Required and preferred rules on the labels of clusters."""
    workload_affinity: WorkloadAffinity | None = None
    """Beside which other Workloads."""
    workload_anti_affinity: WorkloadAffinity | None = None
    """Away from which other Workloads."""
    tolerations: list[Toleration] = atomic(64)
    """Taints of clusters that do not matter."""
    target_deployment: TargetDeployment | None = None
    """The Deployment to run; either this or template."""
    target_service: Service | None = None
    """A Service beside it, on each chosen cluster."""
    template: Template | None = None
    """A Deployment, StatefulSet, ReplicaSet, Job, CronJob, DaemonSet, or a custom kind."""
    replicas_path: (
        Annotated[str, Field(max_length=253, pattern=r"^spec(\.[A-Za-z0-9_-]+)+$")] | None
    ) = None
    """Where a custom kind keeps its number of units, such as spec.replicas."""
    manifests: list[Manifest] = atomic(64)
    """Objects of any kind that go along to each chosen cluster."""
    resources: list[ConnectionResource] = listmap("name", most=64)
    """Secrets of this namespace, copied to each chosen cluster before the rest."""
    adoption: Adoption = Adoption.NEVER
    """Never touches an object that exists there; IfUnowned takes it over if nobody owns it."""


class Placement(Model):
    """A share: how many units one cluster is given."""

    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """Its units."""


class ClusterReference(Model):
    """The chosen cluster, where there is exactly one."""

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    """stowage.dev/v1alpha1."""
    kind: Literal["MemberCluster"] = "MemberCluster"
    """MemberCluster."""
    name: DnsName
    """The MemberCluster's name."""


class PolicyReference(Model):
    """The WorkloadPolicy that bounds the shares."""

    name: DnsName
    """Its name, in this namespace."""


class ClusterShare(Model):
    """How one cluster is doing. Writer: propagator."""

    name: DnsName
    """The MemberCluster's name."""
    replicas: Count = 0
    """Units asked of it."""
    scheduled: Count = 0
    """Pods that hold room on a node, as its published capacity counts them."""
    capacity_version: Version | None = None
    """The MemberCluster's resourceVersion from which on its capacity counts `scheduled`."""
    current: Count = 0
    """Pods that are there for it, those that end included; 0 where scheduled and unschedulable are
    all of them."""
    finished: Count = 0
    """Units of a Job that ended: they need no room any more."""
    ready: Count = 0
    """Pods that are ready."""
    unschedulable: Count = 0
    """Pods that its scheduler finds no node for."""
    unschedulable_since: Timestamp | None = None
    """Since when the oldest of these waits."""
    updated: Count = 0
    """Pods of the newest template."""
    observed_generation: Int64 | None = None
    """The Workload's generation of which everything has been written there."""
    state: ShareState = ShareState.PENDING
    """How far it has come."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why it does not go on, if it does not."""
    load_balancer: dict[str, Any] | None = None
    """The Service's status.loadBalancer there."""


class WorkloadStatus(Model):
    """What became of it. The writer of each field stands with it."""

    observed_generation: Int64 | None = None
    """The metadata.generation that the last decision read. Writer: controller."""
    state: WorkloadState | None = None
    """How far it has come.

    Writer: controller, in the write that empties or first fills placements; while there are
    placements: propagator, from Scheduled on.
    """
    desired: Count | None = None
    """Units wanted, over all clusters. Writer: controller."""
    assigned: Count | None = None
    """Units that have a cluster; assigned + pending = desired. Writer: controller."""
    pending: Count | None = None
    """Units without a cluster. Writer: controller."""
    ready: Count | None = None
    """Ready units, over all clusters. Writer: propagator."""
    ready_summary: Annotated[str, Field(max_length=64)] | None = None
    """The READY column, `4/6`. Writer: propagator."""
    selector: Annotated[str, Field(max_length=4096)] | None = None
    """The pods' label selector, for the scale subresource. Writer: controller."""
    placements: list[Placement] = listmap("cluster", most=10000)
    """The shares. Writer: the scheduler that spec.schedulerName names; ours is the controller."""
    overrides: list[Override] = atomic(64)
    """What differs between the shares. Writer: the controller, in the write of the placements.

    The propagator honours it with the placements of any writer.
    """
    reasons: list[PlacementReasons] = listmap("cluster", most=100)
    """Why the shares are what they are; of more than it holds, the largest and the best ranked.

    Writer: controller, in the write that changes the placements.
    """
    reason_counts: list[ReasonCount] = atomic(16)
    """The other shares, by the rule that made them. Writer: controller."""
    history: list[PlacementChange] = atomic(20)
    """The last changes of placement, the newest last. Writer: controller."""
    cluster_summary: Annotated[str, Field(max_length=4096)] | None = None
    """The CLUSTERS column, `member-a=1,host=3`.

    Writer: controller; for an external scheduler that writes none: propagator.
    """
    cluster_ref: ClusterReference | None = None
    """The cluster, where there is exactly one. Writer: controller."""
    clusters: list[ClusterShare] = atomic(10000)
    """How each cluster is doing. Writer: propagator alone, each cluster once."""
    # The generated alias would be serviceExternalIp; Kubernetes writes IP.
    service_external_ip: Annotated[
        str | None, Field(alias="serviceExternalIP", max_length=4096)
    ] = None
    """The SERVICE-EXTERNAL-IP column. Writer: propagator."""
    policy_ref: PolicyReference | None = None
    """The policy that bounds the shares. Writer: controller."""
    limits: list[ClusterLimit] = atomic(10000)
    """What clusters were seen to run and no more. Writer: controller."""
    footprint: Footprint | None = None
    """Which members may hold something. Writer: of more, who places; of less, the propagator."""
    decision: DecisionReference | None = None
    """What the placements were decided on. Writer: controller."""
    review: ReviewVerdict | None = None
    """Whether the last edit may reach a member, where the hub did not judge it. Writer: controller.

    The propagator honours it on every hub without the validating policy, whoever schedules.
    """
    conditions: list[Condition] = listmap("type", most=32)
    """Scheduled and Failed: controller. Propagated and Ready: propagator."""


class Workload(Kind):
    """Something to run in the fleet, where to run it, and what became of it."""

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["Workload"] = "Workload"
    spec: WorkloadSpec
    """What is wanted."""
    status: WorkloadStatus | None = None
    """What became of it."""
