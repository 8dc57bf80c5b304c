"""Shares in a Workload's status: how many replicas a cluster is given, and how it does with them.

`Placement` is what a scheduler decides, `ClusterShare` what the propagator sees there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import Count, DnsLabel, DnsName, Int64, Model, Timestamp, Version


class ShareState(StrEnum):
    """status.clusters[].state: how far one cluster has come."""

    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    COMPLETE = "Complete"
    """It has ended well; its objects there may be gone."""
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    """spec.suspend names the cluster: what runs there stays as it is."""
    LEAVING = "Leaving"
    UNREACHABLE = "Unreachable"


class ShareHealth(StrEnum):
    """How the object that runs a share's replicas is doing, as its cluster shows it."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    """It says that it is stuck, or its kind says so."""
    SUSPENDED = "Suspended"
    UNKNOWN = "Unknown"
    """It says nothing that could be read: that is not being ready."""


class Placement(Model):
    """A share: how many replicas one cluster is given."""

    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """Its replicas."""
    completions: Count | None = None
    """Its part of the completions of a divided Job; unset until it is known how much is left."""


class ShareResult(StrEnum):
    """How a share came to its end."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


MOST_FIELDS = 32
"""Fields of one share: those of its author, and those of its kind."""
LONGEST_FIELD = 256
FieldValue = Annotated[str, Field(max_length=LONGEST_FIELD)]
MOST_END_WORDS = 1024
"""Characters of what an object says of its failure."""


class ShareEnd(Model):
    """The end of a share: it is never made again, moved or counted, wherever its object went."""

    result: ShareResult
    """Succeeded or Failed."""
    time: Timestamp
    """When the propagator saw it."""
    object: Annotated[str, Field(max_length=512)] = ""
    """What has ended, as kind and name: an object of another name runs anew."""
    message: Annotated[str, Field(max_length=MOST_END_WORDS)] = ""
    """What the object said of a failure."""


class LeavingShare(Model):
    """Replicas that leave a cluster."""

    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """The replicas that still stand there beside those of placements."""
    replaced: Count = 0
    """Of these, those whose successors are ready: they go as soon as the member lets them."""
    completions: Count = 0
    """Its part of the completions of a divided Job: what it has not done goes on elsewhere."""
    cause: Annotated[str, Field(max_length=64)] = ""
    """What set the move off, as in `history`."""
    name: Annotated[str, Field(max_length=317)] = ""
    """The object that the cause is about."""
    since: Timestamp
    """When it began."""


MOST_ORDINALS = 1000
"""Clusters that one Workload may count pods on."""


class OrdinalRange(Model):
    """Where the ordinals of a cluster begin; the ranges of clusters begin 1000 apart."""

    cluster: DnsName
    """The MemberCluster's name."""
    start: Count
    """The first ordinal there."""


MOST_RESERVED_SHARES = 1024
"""Reservations, times clusters, that one Workload may be inside of."""


class ReservedShare(Model):
    """Replicas of a share that lie in the room of a Reservation."""

    namespace: DnsLabel
    """The Reservation's namespace."""
    name: DnsName
    """Its name."""
    uid: Annotated[str, Field(max_length=128)]
    """Its UID: an object that was deleted and made again by the same name is another one."""
    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """How many of the replicas there."""


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


MOST_PLUGINS = 32
"""Plugins of other packages that tell something of one placement."""
PluginsTold = Annotated[dict[str, dict[str, Any]], Field(max_length=MOST_PLUGINS)]
"""By plugin an object of any form. The controller holds each to 4 KiB, all to 16 KiB."""


class BlockedReason(StrEnum):
    """Reasons of a share that is not lowered as far as it should be."""

    DISRUPTION_BUDGET = "DisruptionBudget"
    """A PodDisruptionBudget of the member lets none of the pods go."""
    NOT_READY_ELSEWHERE = "NotReadyElsewhere"
    """Too few replicas are ready on other clusters."""


class ShareBlocked(Model):
    """Why a share is not lowered as far as it should be."""

    reason: BlockedReason
    """One word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """A sentence for people."""


class ShareFailover(Model):
    """What tells whether a share is unhealthy, and for how long: `now - since`, or `seconds`."""

    revision: Annotated[str, Field(max_length=16)]
    """The revision that was ready there. Of another one nothing is counted."""
    replicas: Count
    """How many replicas of it were ready at once, of those that are wanted."""
    since: Timestamp | None = None
    """When the share became unhealthy, put off by the time for which its cluster was silent. Unset
    while it is healthy, and while its cluster does not answer."""
    seconds: Count = 0
    """For how long it was unhealthy as last counted: when its cluster fell silent, and when
    spec.movement.unhealthySeconds were over."""


class ClusterShare(Model):
    """How one cluster is doing. Writer: propagator."""

    name: DnsName
    """The MemberCluster's name."""
    replicas: Count = 0
    """Replicas asked of it."""
    scheduled: Count = 0
    """Pods that hold room on a node, as its published capacity counts them."""
    capacity_version: Version | None = None
    """The MemberCluster's resourceVersion from which on its capacity counts `scheduled`."""
    current: Count = 0
    """Pods that are there for it, those that end included; 0 where scheduled and unschedulable are
    all of them."""
    finished: Count = 0
    """Replicas that ended, of a Job or a custom kind: they need no room any more."""
    completed: Count | None = None
    """Pods that have succeeded, of a kind that ends; unset where none did."""
    succeeded: Count | None = None
    """Of them, those that ended well; unset where none did. `ready` counts them, too."""
    failed: Count | None = None
    """Of them, those that did not, and are not tried again; unset where there is none."""
    ready: Count = 0
    """Pods that are ready."""
    available: Count | None = None
    """Of them, those that have been so for spec.movement.minReadySeconds; unset where that is 0."""
    unschedulable: Count = 0
    """Pods that its scheduler finds no node for."""
    unschedulable_since: Timestamp | None = None
    """Since when the oldest of these waits, or one is refused."""
    refused: Count | None = None
    """Pods that it refuses to make, as over a quota, where the object or its Events tell so."""
    updated: Count = 0
    """Pods of the newest template."""
    outdated: Count | None = None
    """Pods of an older template, which may be among the ready ones; unset where there is none."""
    observed_generation: Int64 | None = None
    """The Workload's generation of which everything has been written there."""
    revision: Annotated[str, Field(max_length=16)] | None = None
    """The revision that was last written there, wholly; unset without spec.rollout."""
    state: ShareState = ShareState.PENDING
    """How far it has come."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Why it does not go on, if it does not."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """The same in one word, a reason of Propagated; unset while nothing is wrong with it."""
    asked: Count | None = None
    """Replicas that the objects there ask for, where that is not `replicas`; told where several
    shards of the propagator report the Workload."""
    decision: Annotated[str, Field(max_length=64)] | None = None
    """The decision that the share was last reconciled with; told as `asked`, while replicas leave a
    cluster."""
    health: ShareHealth | None = None
    """How the object that runs its replicas is doing, by what is known of its kind."""
    failover: ShareFailover | None = None
    """What spec.movement.unhealthySeconds goes by; unset without it, and before it was ready."""
    ended: ShareEnd | None = None
    """How it ended; unset while it runs. It stays while the share is one of placements."""
    blocked: ShareBlocked | None = None
    """Why replicas stay that should have left."""
    holds: Annotated[str, Field(max_length=256)] | None = None
    """What a new object would lack that the one there knows, so that it stays; unset without."""
    start: Count | None = None
    """The first ordinal of the object there; unset of a kind that counts no pods."""
    load_balancer: dict[str, Any] | None = None
    """The Service's status.loadBalancer there."""
    fields: Annotated[dict[str, FieldValue], Field(max_length=MOST_FIELDS)] | None = None
    """The values of spec.statusFields there, by name; unset where there is none."""


MOST_KEPT = 64
"""Kept objects that a status names."""


class KeptObject(Model):
    """An object on a member that holds data, or is marked to be kept."""

    cluster: DnsName
    """The MemberCluster's name."""
    # The generated alias would be clusterUid; Kubernetes writes UID.
    cluster_uid: Annotated[str | None, Field(alias="clusterUID", max_length=128)] = None
    """The UID of its kube-system, by which the cluster is known under another name; unset where it
    is not known."""
    kind: Annotated[str, Field(max_length=63)]
    """Such as PersistentVolumeClaim."""
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Its namespace on the member; empty where it has none."""
    name: Annotated[str, Field(max_length=253)]
    """Its name on the member."""
