"""MemberCluster: a cluster that Workloads may be placed on, and its state.

The spec is the administrator's (the registrar writes spec.secretRef when a labelled Secret
registers a cluster, the controller writes a new one for a ClusterProfile). The status is the
propagator's, which alone holds a credential for the member; the controller reads it, never asks the
member anything, and writes what leaves the cluster and why, and what an inventory says of it.
`crds/membercluster.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from crds.base import (
    ATOMIC,
    NAME,
    Condition,
    Count,
    DnsLabel,
    DnsName,
    Flag,
    Int32,
    Int64,
    Kind,
    LabelMap,
    Model,
    Resources,
    Rule,
    Timestamp,
    amounts,
    atomic,
    listmap,
)
from crds.fields.labels import Taint, TaintEffect
from crds.fields.overrides import MOST_IMAGES, ImageRule
from crds.names import (
    GROUP,
    LABEL_CLUSTER,
    SYSTEM_NAMESPACE,
    TAINT_DRAIN,
    TAINT_OUT_OF_SERVICE,
)

MOST_TAINTS = 64
MOST_BLOCKED = 10
"""Workloads that cannot leave and are named."""


class MemberClusterCondition(StrEnum):
    """The condition types of a MemberCluster."""

    READY = "Ready"
    """Whether the cluster answers and this hub serves it."""
    RECONCILING = "Reconciling"
    """Not Ready, and perhaps again without anybody's help; there only while it is True."""
    STALLED = "Stalled"
    """Not Ready before a person does something; there only while it is True."""
    SWEEP_HELD = "SweepHeld"
    """Whether objects of Workloads that the hub does not have stay until a person says more."""
    INVENTORY_UNHEALTHY = "InventoryUnhealthy"
    """Its ClusterProfile is gone or says that it is not healthy; there only while it is True."""
    EVACUATING = "Evacuating"
    """Whether replicas leave the cluster."""
    SERVED = "Served"
    """There only while it is False."""
    AGENT_OLD = "AgentOld"
    """The agent is of a release that the hub does not serve; there only while it is True."""
    REPORT_DIFFERS = "ReportDiffers"
    """The agent told something that is not believed; there only while it is True."""
    HUB_FORGOT = "HubForgot"
    """The member has objects of Workloads that have no Assignment; there only while it is True."""


class ServedReason(StrEnum):
    """Reasons of Served."""

    SHARD_UNHELD = "ShardUnheld"
    """No propagator holds the shard of the cluster."""


class ReadyReason(StrEnum):
    """Reasons of Ready. CONNECTED is the one that is good."""

    CONNECTED = "Connected"
    """The cluster answers, and this hub holds it."""
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, no secret
    """The Secret of its kubeconfig does not exist."""
    INVALID_KUBECONFIG = "InvalidKubeconfig"
    """The kubeconfig of its Secret cannot be used; the message says why."""
    UNAUTHORIZED = "Unauthorized"
    """The cluster refuses the credential: `stowage join` makes another one."""
    TLS_VERIFICATION_FAILED = "TLSVerificationFailed"
    """The certificate of its API server is not one of the CA in the kubeconfig."""
    UNREACHABLE = "Unreachable"
    """Its API server does not answer."""
    CLUSTER_CHANGED = "ClusterChanged"
    """Another cluster answers than the one that was registered."""
    ALREADY_REGISTERED = "AlreadyRegistered"
    """Another MemberCluster is the same cluster."""
    HELD_BY_ANOTHER_HUB = "HeldByAnotherHub"
    """Another hub holds the Lease `stowage-hub` there."""
    INVENTORY_UNHEALTHY = "InventoryUnhealthy"
    """Its ClusterProfile is gone, or says that the cluster is unhealthy."""
    AGENT_SILENT = "AgentSilent"
    """Its agent does not renew its Lease."""
    AGENT_REVOKED = "AgentRevoked"
    """Its agent has no account any more."""
    WRONG_HUB = "WrongHub"
    """Its agent serves another hub."""


WAITING = frozenset({ReadyReason.UNREACHABLE, ReadyReason.AGENT_SILENT})
"""Reasons of Ready that pass by themselves; the others need a person."""


class SweepHeldReason(StrEnum):
    """Reasons of SweepHeld, which is there only while it is True."""

    TOO_MANY = "TooMany"
    """More than 10 Workloads, and more than a tenth of those there, would be removed."""
    HUB_WENT_BACK = "HubWentBack"
    """The hub was set back, as from a backup of etcd, and may lack later Workloads."""
    HUB_RESTORED = "HubRestored"
    """`stowage restore` made the hub's objects from a backup, which may lack later Workloads."""
    HOLDS_DATA = "HoldsData"
    """Claims are among it; what has none goes all the same."""
    KIND_MADE_ANEW = "KindMadeAnew"
    """It was made before the kind Workload of this hub: an earlier installation left it."""


class InventoryUnhealthyReason(StrEnum):
    """Reasons of InventoryUnhealthy."""

    PROFILE_NOT_FOUND = "ProfileNotFound"
    """Its ClusterProfile is gone."""
    CONTROL_PLANE_UNHEALTHY = "ControlPlaneUnhealthy"
    """Its ClusterProfile says that the control plane is unhealthy."""


class EvacuatingReason(StrEnum):
    """Reasons of Evacuating: the first four where it is True, the others where it is not."""

    DRAINING = "Draining"
    """A person drains it: `stowage drain`."""
    TAINTED = "Tainted"
    """A taint of effect NoExecute lets replicas leave."""
    LOST = "Lost"
    """The cluster is lost, and replicas that do not tolerate that leave."""
    OUT_OF_SERVICE = "OutOfService"
    """A person says that nothing runs there: `stowage.dev/out-of-service`."""
    NONE = "None"
    """Nothing has to leave."""
    DRAINED = "Drained"
    """Everything that had to leave has left."""
    TOLERATING = "Tolerating"
    """The cluster is lost, and no Workload leaves it yet."""
    BRAKED = "Braked"
    """The cluster is lost, and so many others are that nothing moves."""
    BLIND = "Blind"
    """Whether the cluster is lost is not known, as no propagator looks."""
    DWELLING = "Dwelling"
    """The cluster is back, and has to stay so for a while before anything returns."""


class MemberClusterEventReason(StrEnum):
    """Reasons of the events on a MemberCluster."""

    CONNECTED = "Connected"
    """The cluster became Ready."""
    DISCONNECTED = "Disconnected"
    """The cluster is Ready no more; the note has the reason."""
    DRAINING = "Draining"
    """A drain began."""
    DRAINED = "Drained"
    """Everything that had to leave has left."""
    RETURNED = "Returned"
    """The cluster is back and has stayed so; what belongs there may return."""
    BRAKE_RELEASED = "BrakeReleased"
    """So few clusters are lost again that replicas move."""
    LOST = "Lost"
    """The cluster is lost, and replicas leave it."""
    FAILOVER_BRAKED = "FailoverBraked"
    """So many clusters are lost that nothing moves."""
    TOKEN_NOT_RENEWED = "TokenNotRenewed"  # noqa: S105 - a reason
    """The token of its Secret is due to be renewed, and could not be."""
    SHARD_CHANGED = "ShardChanged"
    """Another shard of the propagator serves it."""
    NOT_EXPORTED = "NotExported"
    """Another manager's ClusterProfile has its name."""
    AGENT_CONNECTED = "AgentConnected"
    """Its agent serves it."""
    AGENT_SILENT = "AgentSilent"
    """Its agent renews its Lease no more."""
    AGENT_REVOKED = "AgentRevoked"
    """The account of its agent is gone."""
    INVITE_USED = "InviteUsed"
    """An agent came with the invitation and got its token."""
    HUB_FORGOT = "HubForgot"
    """It has objects of Workloads that have no Assignment."""


class MemberMode(StrEnum):
    """spec.mode: who connects to whom."""

    PUSH = "Push"
    """The propagator connects to the member."""
    PULL = "Pull"
    """An agent on the member connects to the hub."""


class Reported(StrEnum):
    """spec.reported: what an agent may change of what it told at first."""

    PINNED = "Pinned"
    """Provider and version count as at the join."""
    ACCEPTED = "Accepted"
    """Provider and version count as they are told."""


class ClusterProfileEventReason(StrEnum):
    """Reasons of the events on a ClusterProfile of another cluster manager."""

    NOT_IMPORTED = "NotImported"
    """It becomes no MemberCluster."""


_OURS = (TAINT_DRAIN, TAINT_OUT_OF_SERVICE)


class ClusterTaint(Taint):
    """Keeps Workloads away from a cluster, or has them leave it, that do not tolerate it."""

    rules = (
        Rule(
            field="key",
            text=f"of the taints {GROUP}/* a person writes {' and '.join(_OURS)} alone; remove it",
            cel=f"!self.key.startsWith('{GROUP}/') || self.key in {list(_OURS)}",
            holds=lambda t: not t.key.startswith(f"{GROUP}/") or t.key in _OURS,
        ),
        Rule(
            field="effect",
            text=f"{' and '.join(_OURS)} have the effect NoExecute alone",
            cel=f"!(self.key in {list(_OURS)}) || self.effect == 'NoExecute'",
            holds=lambda t: t.key not in _OURS or t.effect is TaintEffect.NO_EXECUTE,
        ),
    )


class SecretReference(Model):
    """The Secret that holds the way into the cluster."""

    namespace: DnsLabel = SYSTEM_NAMESPACE
    """Its namespace on the hub."""
    name: DnsName
    """Its name."""


Glob = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9*?!\[\]-]+$")]
"""A namespace, or a pattern of namespaces."""


class ClusterEndpoint(Model):
    """The address of a cluster."""

    server: Annotated[str, Field(max_length=2048, pattern=r"^https://[!-~]+$")]
    """Its URL."""
    certificate_authority_data: (
        Annotated[str, Field(max_length=65536, pattern=r"^[A-Za-z0-9+/]*={0,2}$")] | None
    ) = None
    """The certificates that its server is verified by: PEM in base64."""


class NamespaceRule(Model):
    """The target namespaces that this cluster takes."""

    allow: Annotated[list[Glob], Field(max_length=256, json_schema_extra=ATOMIC)] = Field(
        default=["*"]
    )
    """Globs of namespaces; kube-* and stowage-system are never a target."""


GuardedKind = Annotated[
    str,
    Field(max_length=317, pattern=rf"^{NAME}(\.{NAME})*/[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"),
]
"""`<group>/<kind>`, such as core/Namespace or rbac.authorization.k8s.io/Role."""


Pinned = Annotated[
    str,
    Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]*[A-Za-z0-9])?$"),
]
"""As the label of it may hold it; a + becomes a - there."""


class MemberClusterSpec(Model):
    """The administrator's rules for the cluster."""

    rules = (amounts("maxAllocatable"),)

    mode: MemberMode = MemberMode.PUSH
    """Push: the propagator connects to the member. Pull: an agent on it connects to the hub."""
    reported: Reported = Reported.PINNED
    """Of Pull. Pinned: provider and version count as at the join. Accepted: as they are told."""
    secret_ref: SecretReference | None = None
    """The Secret with the kubeconfig, or its parts key by key."""
    endpoint: ClusterEndpoint | None = None
    """Its address where the Secret gives none; of a ClusterProfile it is taken once, when made."""
    taints: list[ClusterTaint] = listmap("key", "effect", most=MOST_TAINTS)
    """Keep Workloads away that do not tolerate them; with the effect NoExecute, these leave."""
    unschedulable: Flag = False
    """Cordon: nothing new is placed here; what is here stays."""
    virtual: Flag = False
    """A virtual kubelet is behind it: no capacity check."""
    namespaces: NamespaceRule = NamespaceRule()
    """The target namespaces that this cluster takes."""
    allowed_kinds: list[GuardedKind] = atomic(64)
    """Cluster-scoped and RBAC kinds that it takes, as <group>/<kind>; the core group is core."""
    images: list[ImageRule] = listmap("from", most=MOST_IMAGES)
    """Where its pods pull images from, in place of what a Workload names; the longest from wins."""
    max_allocatable: Resources = Field(default_factory=dict)
    """The most that is believed of what its nodes offer together, by resource."""
    provider: Pinned | None = None
    """The provider that it counts as, over that of its nodes; lower case."""
    version: Pinned | None = None
    """The version that it counts as, over that of its API server, such as v1.36.3."""
    former_names: Annotated[list[DnsName], Field(max_length=16, json_schema_extra=ATOMIC)] = Field(
        default_factory=list
    )
    """Names that this cluster had, the last one first; `stowage rename` writes them.

    While no MemberCluster has such a name, shares that name it are this cluster's. The propagator
    takes a name off once a younger MemberCluster has it.
    """


class NodeGroup(Model):
    """Nodes that are alike for placement: same labels and taints, similar free room."""

    count: Count
    """How many nodes."""
    labels: LabelMap = Field(default_factory=dict)
    """The labels that they share."""
    taints: list[Taint] = atomic(64)
    """The taints that they share."""
    free: Resources = Field(default_factory=dict)
    """Free room of each of them, rounded down."""


class CapacitySummary(Model):
    """The columns of kubectl's table, rounded down, as people write it; compute with the others."""

    cpu: Annotated[str, Field(max_length=63)] = ""
    """Cores, such as 7.9."""
    memory: Annotated[str, Field(max_length=63)] = ""
    """Such as 23.5Gi."""


class Capacity(Model):
    """The sums over all nodes."""

    nodes: Count = 0
    """Ready nodes that take pods."""
    allocatable: Resources = Field(default_factory=dict)
    """The amounts that the nodes offer to pods."""
    requested: Resources = Field(default_factory=dict)
    """The requests of the pods on them."""
    summary: CapacitySummary | None = None
    """The offered amounts as people write them."""


class Reliability(Model):
    """How often the cluster answers."""

    ready_percent: Annotated[
        int, Field(strict=True, ge=0, le=100, json_schema_extra={"format": "int32"})
    ]
    """The share of probes that were answered, recent ones counting more."""


class MemberNamespaces(Model):
    """The target namespaces that the member itself takes, where its credential knows that."""

    given: Annotated[list[DnsLabel], Field(max_length=256, json_schema_extra=ATOMIC)] | None = None
    """The only ones, by name; unset where a namespace that is missing may be made."""
    refused: list[DnsLabel] = atomic(64)
    """Some that were asked for, exist there, and were not given."""


MOST_SERVED = 512
"""Kinds that a member serves and that are listed."""
MOST_QUOTAS = 256
"""ResourceQuotas of a member that are listed."""

SERVED = rf"^{NAME}(\.{NAME})+/{NAME}/[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
Served = Annotated[str, Field(max_length=381, pattern=SERVED)]
"""`<group>/<version>/<kind>`, such as argoproj.io/v1alpha1/Rollout."""


class QuotaLeft(Model):
    """A ResourceQuota of the member, as far as it bounds pods."""

    namespace: DnsLabel
    """Its namespace on the member."""
    name: DnsName
    """Its name."""
    free: Resources = Field(default_factory=dict)
    """What is left of it, by its own names: pods, requests.cpu, limits.memory."""


MOST_HELD = 256
"""Workloads of a held sweep that are listed; they are let go in as many portions."""


class HeldWorkload(Model):
    """A Workload that the hub does not know, and of which the member has objects."""

    namespace: Annotated[str, Field(max_length=63)]
    """Its namespace, as its objects name it."""
    name: Annotated[str, Field(max_length=253)]
    """Its name, as its objects name it."""
    uid: Annotated[str, Field(max_length=128)]
    """Its UID."""
    objects: Count
    """How many objects of it there are."""
    claims: Count = 0
    """How many of them are PersistentVolumeClaims."""


class HeldSweep(Model):
    """A removal that is held until a person confirms it (`stowage sweep`)."""

    count: Count
    """How many Workloads."""
    workloads: list[HeldWorkload] = atomic(MOST_HELD)
    """The first of them, by namespace and name."""


class EvacuationCause(Model):
    """A reason to leave the cluster."""

    name: Annotated[str, Field(min_length=1, max_length=400)]
    """A taint of effect NoExecute, `<key>[=<value>]:NoExecute`; of a lost cluster
    stowage.dev/not-ready."""
    since: Timestamp
    """When the controller first saw it: tolerationSeconds count from then."""


class BlockedWorkload(Model):
    """A Workload with replicas that should leave and do not."""

    namespace: Annotated[str, Field(max_length=63)]
    """Its namespace."""
    name: Annotated[str, Field(max_length=253)]
    """Its name."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """As in its condition Moving."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """As in its condition Moving."""


class Evacuation(Model):
    """What leaves the cluster."""

    causes: list[EvacuationCause] = atomic(MOST_TAINTS + 1)
    """Why: its taints, and its loss."""
    dwells_until: Timestamp | None = None
    """Until when nothing new goes here, as the cluster was lost a short while ago."""
    dwell_seconds: Count = 0
    """For how long that is; a loss meanwhile doubles it."""
    units: Count = 0
    """The replicas that had to leave."""
    left: Count = 0
    """Those of them that still are here."""
    workloads: Count = 0
    """The Workloads that they belong to."""
    blocked: list[BlockedWorkload] = atomic(MOST_BLOCKED)
    """Some of the Workloads that cannot leave now."""


class MemberPull(Model):
    """The agent of a member in mode Pull."""

    namespace: DnsLabel
    """The namespace on the hub in which it is served."""
    release: Annotated[str, Field(max_length=63)] = ""
    """Its release."""
    started: Timestamp | None = None
    """When it started, by its own clock."""
    token_ends: Timestamp | None = None
    """When its token ends, as far as the hub has given it one."""
    skew_seconds: Int32 | None = None
    """By how much its clock is ahead of the hub's."""
    upgrade: Annotated[str, Field(max_length=1024)] = ""
    """Why the image of `stowage agents upgrade` does not start there; empty where it does."""


class MemberClusterStatus(Model):
    """The propagator's view of the cluster, and what leaves it."""

    observed_generation: Int64 | None = None
    """The metadata.generation that the last probe read. Writer: propagator."""
    conditions: list[Condition] = listmap("type", most=32)
    """Ready; Reconciling or Stalled while that is not True; SweepHeld while a removal waits for a
    person; AgentOld, ReportDiffers and HubForgot of a member in mode Pull. Writer: propagator.

    Evacuating, whether replicas leave the cluster; InventoryUnhealthy while the ClusterProfile that
    it comes from says so, or is gone; Served while it is False, as no propagator holds the shard of
    the cluster. Writer: controller."""
    state: Annotated[str, Field(max_length=63)] | None = None
    """The STATUS column, as of a Node: Ready or NotReady; SchedulingDisabled while it is cordoned,
    Draining and then Drained while it is drained. Writer: propagator."""
    evacuation: Evacuation | None = None
    """What leaves the cluster. Writer: controller."""
    # The generated alias would be clusterId; Kubernetes writes ID.
    cluster_id: Annotated[str | None, Field(alias="clusterID", max_length=128)] = None
    """Its ClusterProperty cluster.clusterset.k8s.io, where that may be read, else the UID of its
    kube-system; noted when it is Ready. Writer: propagator.

    While the Secret leads to another cluster, nothing is done there. Who takes the note off
    confirms that this other cluster is meant."""
    cluster_uid: Annotated[str | None, Field(alias="clusterUID", max_length=128)] = None
    """The UID of its kube-system, where clusterID is another one; empty where it may not be read.
    Writer: propagator."""
    cluster_set: Annotated[str | None, Field(max_length=128)] = None
    """Its ClusterProperty clusterset.k8s.io, within which the clusterID is its own.
    Writer: propagator."""
    version: Annotated[str, Field(max_length=63)] | None = None
    """As its API server reports it, such as v1.36.3. Writer: propagator."""
    provider: Annotated[str, Field(max_length=63)] | None = None
    """From its nodes' providerID, in lower case: aws, gcp, azure, kind. Writer: propagator."""
    node_groups: list[NodeGroup] = atomic(64)
    """Free room, by nodes that are alike. Kept as it was while unreachable. Writer: propagator."""
    capacity: Capacity | None = None
    """The sums over all nodes. Writer: propagator."""
    namespaces: MemberNamespaces | None = None
    """Which target namespaces the member takes, with narrow rights. Writer: propagator."""
    kinds: (
        Annotated[list[Served], Field(max_length=MOST_SERVED, json_schema_extra=ATOMIC)] | None
    ) = None
    """The kinds that it serves, of groups with a dot; unset while that is not known.
    Writer: propagator.

    A Workload with another kind of such a group is not placed here, unless some are omitted."""
    kinds_omitted: Count = 0
    """How many more there are, or may be. Writer: propagator."""
    quotas: list[QuotaLeft] = atomic(MOST_QUOTAS)
    """Its ResourceQuotas without scopes that bound pods, in namespaces that are targets; none where
    they may not be read. Writer: propagator."""
    sweep_held: HeldSweep | None = None
    """The removal that the condition SweepHeld is about. Writer: propagator."""
    shard: Annotated[int, Field(ge=0, le=63)] | None = None
    """The shard of the propagator that serves it, where there are several. Writer: propagator."""
    pull: MemberPull | None = None
    """The agent, in mode Pull. Writer: propagator."""
    latency_milliseconds: Count | None = None
    """The round trip of a probe, the fastest of a minute. Writer: propagator."""
    reliability: Reliability | None = None
    """How often it answers. Writer: propagator."""


class MemberCluster(Kind):
    """A cluster of the fleet."""

    plural = "memberclusters"
    short = "mc"
    namespaced = False
    columns = (
        ("Status", "string", ".status.state", 0),
        ("Version", "string", ".status.version", 0),
        ("Provider", "string", ".status.provider", 0),
        ("Nodes", "integer", ".status.capacity.nodes", 0),
        ("CPU", "string", ".status.capacity.summary.cpu", 0),
        ("Memory", "string", ".status.capacity.summary.memory", 0),
        ("Mode", "string", ".spec.mode", 1),
        ("Shard", "integer", ".status.shard", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )

    rules = (
        Rule(
            field="metadata.name",
            text=f"at most 63 characters, as it becomes the value of the label {LABEL_CLUSTER}",
            cel="size(self.metadata.name) <= 63",
            holds=lambda c: len(c.metadata.get("name", "")) <= 63,
            located=False,
        ),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["MemberCluster"] = "MemberCluster"
    spec: MemberClusterSpec = MemberClusterSpec()
    """The administrator's rules for the cluster."""
    status: MemberClusterStatus | None = None
    """The propagator's view of the cluster, and what leaves it."""
