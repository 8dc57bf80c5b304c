"""Assignment: the share of one Workload on a member in mode Pull, for the agent there to carry out.

It stands in the namespace of that member alone, and its name is the UID of the Workload. The spec
has one writer, the shard of the propagator that serves the member; the status has one, the agent.
A removal is an order of its own: an Assignment that is missing removes nothing.
`crds/assignment.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import (
    ATOMIC,
    Count,
    DnsLabel,
    DnsName,
    Flag,
    Int64,
    Kind,
    Model,
    Rule,
    TargetNamespace,
    Timestamp,
    atomic,
)
from crds.fields.drift import MOST_DRIFTED, Drift, DriftedObject
from crds.fields.movement import Movement
from crds.fields.shares import (
    MOST_FIELDS,
    MOST_KEPT,
    FieldValue,
    KeptObject,
    ShareBlocked,
    ShareEnd,
    ShareHealth,
)
from crds.fields.template import DeletionCost
from crds.workload import Adoption, OnDelete

MOST_BUNDLE = 700 * 1024
"""Bytes of an encoded bundle; etcd takes 1.5 MiB of an object."""
MOST_SECRETS = 128

Digest = Annotated[str, Field(max_length=128, pattern=r"^[0-9a-f]*$")]
"""A digest in hexadecimal digits."""


class AssignmentOrder(StrEnum):
    """spec.order: what the agent does with the share."""

    APPLY = "Apply"
    """The bundle is written, with `replicas`; what it names no more is removed."""
    LOWER = "Lower"
    """Only the replicas change, as far as the budgets let them."""
    KEEP = "Keep"
    """Nothing is written but what drifted; what runs stays."""
    OBSERVE = "Observe"
    """Nothing is written, and what is there is told."""
    REMOVE = "Remove"
    """All objects of the Workload go, but for those that a rule keeps."""


class AssignmentState(StrEnum):
    """status.state: how far the order has come. The first seven are as in status.clusters."""

    PENDING = "Pending"
    CREATING = "Creating"
    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    LEAVING = "Leaving"
    KEPT = "Kept"
    """An order to remove was not carried out: what is there is younger, or a rule keeps it."""
    REMOVED = "Removed"
    """Nothing of the Workload is there any more but claims that its replicas left."""


class AssignedWorkload(Model):
    """The Workload that the share is of."""

    namespace: DnsLabel
    """Its namespace on the hub."""
    name: DnsName
    """Its name."""
    uid: Annotated[str, Field(min_length=1, max_length=128)]
    """Its UID."""
    generation: Int64
    """The metadata.generation that the share was rendered from."""


class AssignedSecret(Model):
    """A Secret that goes along: a copy of it is in the namespace of the Assignment."""

    name: DnsName
    """The copy's name, in this namespace."""
    as_: Annotated[DnsName, Field(alias="as")]
    """Its name on the member."""
    digest: Digest
    """A digest of its contents: the Assignment is not carried out with others."""


class AssignmentRules(Model):
    """What the Workload and the hub say of the share, beside its objects."""

    adoption: Adoption = Adoption.NEVER
    """As spec.adoption of the Workload."""
    drift: Drift = Drift.REPAIR
    """As spec.drift of the Workload."""
    on_delete: OnDelete = OnDelete.DELETE
    """As spec.onDelete of the Workload."""
    ended: ShareEnd | None = None
    """How the share ended, as the hub has stored it: it is never made again."""
    left: Flag = False
    """Whether the placements name other members only."""
    deleted: Flag = False
    """Whether the Workload is deleted, or delivered by another tool: it wants nothing anywhere."""
    forgotten: Flag = False
    """Whether the hub knows no such Workload any more: its objects tell whether they stay."""
    done: Count | None = None
    """How much of its part of the work the hub has stored as done, of a share that has left."""
    part: Count | None = None
    """Its part of the work, of a kind that is divided."""
    awaits_end: Flag = False
    """Whether the end of the share counts for all clusters, and is not stored yet."""
    budgets: Movement | None = None
    """As spec.movement of the Workload."""
    forced: Flag = False
    """Whether replicas go whatever the disruption budgets there say."""
    accepted: Flag = False
    """Whether the Workload was edited or accepted since the hub was restored or set back: what is
    younger on the member is written and removed."""
    allowed_kinds: Annotated[
        list[Annotated[str, Field(max_length=317)]],
        Field(max_length=256, json_schema_extra=ATOMIC),
    ] = Field(default_factory=list)
    """Of its kinds, those that the MemberCluster lists in spec.allowedKinds."""
    deletion_costs: list[DeletionCost] = atomic(128)
    """The deletion costs of its pods, the highest first; without any the agent takes its own off.
    """
    revision: Annotated[str, Field(max_length=16)] = ""
    """The revision that the bundle is of; empty without spec.rollout."""
    kept: list[KeptObject] = atomic(MOST_KEPT)
    """Claims that shares have left there, as status.kept of the Workload names them: the agent
    looks at them, too, and goes on to tell those that stand."""


class AssignmentSpec(Model):
    """The share. Writer: propagator."""

    workload: AssignedWorkload
    """The Workload that the share is of."""
    order: AssignmentOrder
    """What the agent does: Apply, Lower, Keep, Observe or Remove."""
    target_namespace: TargetNamespace
    """The namespace on the member."""
    replicas: Count = 0
    """The replicas that may run there now, after every rule that looks at other members."""
    bundle: Annotated[str, Field(max_length=MOST_BUNDLE)] = ""
    """The rendered objects in their waves: JSON, compressed by zlib, in base64. No Secret is in it.
    """
    digest: Digest
    """A digest of the objects, the replicas and the Secrets."""
    secrets: Annotated[
        list[AssignedSecret], Field(max_length=MOST_SECRETS, json_schema_extra=ATOMIC)
    ] = Field(default_factory=list)
    """The Secrets that go along."""
    decided: Annotated[str, Field(max_length=20, pattern=r"^[0-9]*$")]
    """The hub's resourceVersion at which this was decided: what is younger on the member is not
    removed by it."""
    # A model's own rules have the plain name.
    share_rules: Annotated[AssignmentRules, Field(alias="rules")] = AssignmentRules()
    """What the Workload and the hub say of the share, beside its objects."""


class AssignmentCounts(Model):
    """The pods of the share, as in status.clusters of the Workload."""

    rules = (
        Rule(
            field="ready",
            text="must not be more than asked; report no more pods than were asked for",
            cel="self.ready <= self.asked",
            holds=lambda c: c.ready <= c.asked,
        ),
        Rule(
            field="available",
            text="must not be more than ready",
            cel="!has(self.available) || self.available <= self.ready",
            holds=lambda c: c.available is None or c.available <= c.ready,
        ),
    )

    asked: Count = 0
    """Replicas that the objects there ask for."""
    scheduled: Count = 0
    """Pods that hold room on a node."""
    current: Count = 0
    """Pods that are there, those that end included."""
    finished: Count = 0
    """Replicas that ended and need no room any more."""
    completed: Count | None = None
    """Pods that have succeeded, of a kind that ends."""
    succeeded: Count | None = None
    """Of the pods that ended, those that ended well."""
    failed: Count | None = None
    """Of the pods that ended, those that did not, and are not tried again."""
    ready: Count = 0
    """Pods that are ready, at most as many as are asked for."""
    available: Count | None = None
    """Of them, those that have been so for spec.movement.minReadySeconds."""
    unschedulable: Count = 0
    """Pods that the member's scheduler finds no node for."""
    unschedulable_since: Timestamp | None = None
    """Since when the oldest of these waits."""
    refused: Count | None = None
    """Pods that the member refuses to make."""
    updated: Count = 0
    """Pods of the newest template."""
    outdated: Count | None = None
    """Pods of an older template."""


class AssignmentStatus(Model):
    """What became of it. Writer of every field: the agent."""

    digest: Digest | None = None
    """spec.digest of what was carried out last. Writer: agent."""
    decided: Annotated[str, Field(max_length=20, pattern=r"^[0-9]*$")] | None = None
    """spec.decided of what was carried out last. Writer: agent."""
    state: AssignmentState | None = None
    """How far the order has come. Writer: agent."""
    reason: Annotated[str, Field(max_length=64)] | None = None
    """Why it does not go on, in one word: a reason of Propagated. Writer: agent."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The same in a sentence. Writer: agent."""
    counts: AssignmentCounts | None = None
    """The pods of the share. Writer: agent."""
    health: ShareHealth | None = None
    """How the object that runs its replicas is doing. Writer: agent."""
    ended: ShareEnd | None = None
    """How it ended; unset while it runs. Writer: agent."""
    blocked: ShareBlocked | None = None
    """Why replicas stay that should have left. Writer: agent."""
    holds: Annotated[str, Field(max_length=256)] | None = None
    """What a new object would lack that the one there knows. Writer: agent."""
    start: Count | None = None
    """The first ordinal of the object there. Writer: agent."""
    fields: Annotated[dict[str, FieldValue], Field(max_length=MOST_FIELDS)] | None = None
    """The values of spec.statusFields there, by name. Writer: agent."""
    kept: list[KeptObject] = atomic(MOST_KEPT)
    """Objects that stay though the share is gone. Writer: agent."""
    looked: Flag = False
    """Whether those of rules.kept that are gone were taken off `kept`; an agent of an earlier
    release knows none of them. Writer: agent."""
    drift: list[DriftedObject] = atomic(MOST_DRIFTED)
    """Objects of which somebody else changed fields. Writer: agent."""
    load_balancer: dict[str, Any] | None = None
    """The Service's status.loadBalancer there. Writer: agent."""
    reported: Annotated[str, Field(max_length=20, pattern=r"^[0-9]*$")] | None = None
    """The resourceVersion of the MemberReport whose capacity counts these pods. Writer: agent."""
    time: Timestamp | None = None
    """When this was written, by the clock of the agent. Writer: agent."""


class Assignment(Kind):
    """The share of a Workload on a member in mode Pull."""

    plural = "assignments"
    short = "asg"
    columns = (
        ("Workload", "string", ".spec.workload.name", 0),
        ("Order", "string", ".spec.order", 0),
        ("State", "string", ".status.state", 0),
        ("Ready", "integer", ".status.counts.ready", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Of", "string", ".spec.workload.namespace", 1),
        ("Message", "string", ".status.message", 1),
    )

    rules = (
        Rule(
            field="metadata.name",
            text="is the UID of the Workload",
            cel="self.metadata.name == self.spec.workload.uid",
            holds=lambda a: a.metadata.get("name", "") == a.spec.workload.uid,
            located=False,
        ),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["Assignment"] = "Assignment"
    spec: AssignmentSpec
    """The share."""
    status: AssignmentStatus | None = None
    """What became of it."""
