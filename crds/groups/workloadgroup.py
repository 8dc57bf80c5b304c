"""WorkloadGroup: Workloads that start together or not at all, over all clusters.

The spec is the user's; the whole status has one writer, the controller. Members name the group by a
label (`crds.groups.membership`), and placements stand in several Workloads that no write covers
together. So the status is also the gate (`crds.groups.gate`): the propagator pushes what is
released there, and nothing else of the group. `crds/workloadgroup.yaml` is generated from this
module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import (
    Condition,
    Count,
    Int64,
    Kind,
    LabelKey,
    Model,
    Positive,
    Resources,
    Rule,
    Timestamp,
    amounts,
    listmap,
)
from crds.groups.gate import GateState

MOST_WORKLOADS = 4096
"""Members of one group: so many can be released in an object that the hub can store."""
MOST_GATE_BYTES = 2**20
"""Of `decisions` and `retained` together: the hub stores objects of 1.5 MiB."""
MOST_SECONDS = 900
"""The longest that replicas may be held for members that are missing."""
MOST_NAME = 63
"""Characters of a group's name: Workloads give it as the value of a label."""


class TopologyMode(StrEnum):
    """The handling of a gang that no domain holds."""

    REQUIRED = "Required"
    """The gang waits."""
    PREFERRED = "Preferred"
    """The gang takes as few domains as can be."""


class GroupPhase(StrEnum):
    """status.phase: how far it has come. The last two are the end."""

    PENDING = "Pending"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


class GroupCondition(StrEnum):
    """The condition types of a WorkloadGroup."""

    SCHEDULED = "Scheduled"
    """Whether enough replicas of the gang have a cluster."""
    READY = "Ready"
    """Whether the gang runs, or has ended well; its reason is the phase."""


class GroupScheduledReason(StrEnum):
    """Reasons of Scheduled. SCHEDULED is the one that is good."""

    SCHEDULED = "Scheduled"
    """Enough replicas have a cluster."""
    WAITING_FOR_GROUP = "WaitingForGroup"
    """It is not decided yet, or replicas are held for those that are missing."""
    GROUP_INCOMPLETE = "GroupIncomplete"
    """Its Workloads ask for fewer replicas than minMember: nothing was tried."""
    GROUP_DENIED = "GroupDenied"
    """Too few replicas fit; nothing is held."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    """Replicas were held for as long as spec.scheduleTimeoutSeconds says, and were given back."""
    PROPAGATION_FAILED = "PropagationFailed"
    """A member took none, or replicas failed, before the quorum ran: everything is taken away."""
    INVALID_GROUP = "InvalidGroup"
    """The spec is one that admission refuses today."""
    TOO_MANY_WORKLOADS = "TooManyWorkloads"
    """More Workloads name the group than a gang may have: no more of them are released."""
    TOO_LARGE = "TooLarge"
    """The gate's status is more than the hub can store: nothing more is released."""


WAITING = frozenset(
    {
        GroupScheduledReason.WAITING_FOR_GROUP,
        GroupScheduledReason.GROUP_INCOMPLETE,
        GroupPhase.PENDING,
        GroupPhase.SCHEDULING,
        GroupPhase.SCHEDULED,
    }
)
"""Reasons of Scheduled, and of Ready, that pass by themselves; the others need a person."""


class GroupEventReason(StrEnum):
    """Reasons of the events on a WorkloadGroup."""

    SCHEDULED = "Scheduled"
    """Enough replicas have a cluster, and go there."""
    WAITING_FOR_GROUP = "WaitingForGroup"
    """Replicas are held until more of them fit."""
    FAILED_SCHEDULING = "FailedScheduling"
    """Too few replicas fit, or its Workloads ask for too few."""
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    """Replicas were held for as long as may be, and were given back."""
    PROPAGATION_FAILED = "PropagationFailed"
    """Everything is taken away, as replicas failed before the quorum ran."""
    INVALID_GROUP = "InvalidGroup"
    """The spec is one that admission refuses."""
    TOO_MANY_WORKLOADS = "TooManyWorkloads"
    """More Workloads name the group than a gang may have."""
    TOO_LARGE = "TooLarge"
    """The gate's status is more than the hub can store."""
    RUNNING = "Running"
    """The quorum runs."""
    FINISHED = "Finished"
    """All its Workloads have ended well."""
    FAILED = "Failed"
    """A Workload of it has failed."""


Total = Annotated[int, Field(strict=True, ge=0, json_schema_extra={"format": "int64"})]
"""Replicas of all members together, which may be more than one Workload can have."""
Seconds = Annotated[
    int, Field(strict=True, ge=1, le=MOST_SECONDS, json_schema_extra={"format": "int32"})
]


Digest = Annotated[str, Field(max_length=64)]
Shares = Annotated[dict[str, Count], Field(max_length=10_000)]
"""Replicas by cluster."""


def whole_map() -> Any:
    """A map, empty by default, that one writer owns: its keys are no fields that others manage."""
    return Field(default_factory=dict, json_schema_extra={"x-kubernetes-map-type": "atomic"})


class Topology(Model):
    """Keeps a gang inside one domain of clusters."""

    topology_key: LabelKey
    """The label of clusters that tells domains apart, such as topology.kubernetes.io/zone."""
    mode: TopologyMode = TopologyMode.REQUIRED
    """Required: all replicas in one domain, or none. Preferred: one if it can be, else few."""


class WorkloadGroupSpec(Model):
    """How many replicas must start together, and for how long they wait for each other."""

    rules = (amounts("minResources"),)

    min_member: Positive
    """Replicas that must fit, over all members and clusters, before any of them starts."""
    min_resources: Resources = Field(default_factory=dict)
    """The amounts that these need together; unset, the requests of the members' replicas."""
    schedule_timeout_seconds: Seconds | None = None
    """For how long replicas are held while a few are missing; 60 when unset."""
    topology: Topology | None = None
    """Keeps them in one zone, one region or one cluster."""


class WorkloadGroupStatus(Model):
    """How far the gang has come, and what of it may go to members."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    phase: GroupPhase | None = None
    """Pending, Scheduling, Scheduled, Running, Finished or Failed. Writer: controller."""
    workloads: Count | None = None
    """Workloads that name this group. Writer: controller."""
    desired: Total | None = None
    """Replicas wanted, over all of them. Writer: controller."""
    scheduled: Total | None = None
    """Replicas that have a cluster. Writer: controller."""
    waiting: Total | None = None
    """Replicas that are held until more of them fit. Writer: controller."""
    running: Total | None = None
    """Replicas that run. Writer: controller."""
    succeeded: Total | None = None
    """Replicas that ended well. Writer: controller."""
    failed: Total | None = None
    """Replicas that failed. Writer: controller."""
    schedule_start_time: Timestamp | None = None
    """When it was first tried. Writer: controller."""
    quorum_time: Timestamp | None = None
    """When minMember replicas first ran or had ended well: then on all stay. Writer: controller."""
    gate: GateState | None = None
    """Open: what is released may go to members. Closed: all leaves them. Writer: controller.

    The propagator honours it for placements of any writer.
    """
    decisions: Annotated[dict[str, Digest], Field(max_length=MOST_WORKLOADS)] = whole_map()
    """By the UID of each Workload that the gate has released, a digest of the placements. While the
    gate is Open it may go to members at these, while it is Closed it leaves them.

    Writer: controller.
    """
    retained: Annotated[dict[str, Shares], Field(max_length=MOST_WORKLOADS)] = whole_map()
    """By UID, the replicas on each cluster that ran before the gate released their Workload: a gate
    that closes leaves them. Writer: controller."""
    reached: Annotated[dict[str, Digest], Field(max_length=64)] = Field(default_factory=dict)
    """Where several shards of the propagator start the gang: by shard, a digest of the decisions
    and of the shard's term, once its clusters have answered. All start when all have. The
    controller empties it with a new gate or new decisions.

    Writer: propagator.
    """
    failures: Count | None = None
    """How often in a row it was taken away from members before it ran. Writer: controller."""
    retry_time: Timestamp | None = None
    """When it is tried again after that. Writer: controller."""
    last_failure_time: Timestamp | None = None
    """When an attempt last failed; the queue counts from then on. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Scheduled and Ready; Reconciling or Stalled while that is not True. Writer: controller."""


class WorkloadGroup(Kind):
    """Workloads that start together or not at all."""

    plural = "workloadgroups"
    short = "wg"
    columns = (
        ("Phase", "string", ".status.phase", 0),
        ("MinMember", "integer", ".spec.minMember", 0),
        ("Running", "integer", ".status.running", 0),
        ("Succeeded", "integer", ".status.succeeded", 0),
        ("Failed", "integer", ".status.failed", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Scheduled", "integer", ".status.scheduled", 1),
        ("Waiting", "integer", ".status.waiting", 1),
        ("Gate", "string", ".status.gate", 1),
    )

    rules = (
        Rule(
            field="metadata.name",
            text=f"at most {MOST_NAME} characters, as Workloads give it as the value of a label; "
            "take a shorter one",
            cel=f"size(self.metadata.name) <= {MOST_NAME}",
            holds=lambda g: len(g.metadata.get("name") or "") <= MOST_NAME,
            located=False,
        ),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["WorkloadGroup"] = "WorkloadGroup"
    spec: WorkloadGroupSpec
    """How many replicas must start together, and for how long they wait for each other."""
    status: WorkloadGroupStatus | None = None
    """How far the gang has come, and what of it may go to members."""
