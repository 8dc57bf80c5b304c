"""The record in a Workload's status of why it is where it is.

What was said of its last edit, what it was decided on, what its clusters were seen to run, the
steps of its shares, the changes of its placement: all of it has one writer, the controller. Steps
and changes are written with the placements and bounded there to 16 KiB; the schema only says how
long each part may be.
`controller.model.why` reads and writes them; the rules themselves are those of the planner.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.base import Count, DnsName, Instant, Int32, Int64, Model, Timestamp, atomic

Word = Annotated[str, Field(max_length=64)]
"""One word for programs."""
About = Annotated[str, Field(max_length=317)]
"""The subject of a rule or a cause: a domain, a subset, a cluster."""

DecisionId = Annotated[str, Field(max_length=64)]


class ChangeCause(StrEnum):
    """The cause of a change of placement."""

    PLACED = "Placed"
    """The Workload had no place before."""
    IMPORTED = "Imported"
    """Another control plane had placed it there (`stowage migrate`)."""
    SCALED = "Scaled"
    """Another number of replicas is wanted."""
    EDITED = "Edited"
    """Its rules, or what one of its replicas asks for, were edited."""
    CLUSTER_GONE = "ClusterGone"
    """A cluster that it used was taken out of the fleet."""
    CLUSTER_RENAMED = "ClusterRenamed"
    """A cluster that it uses has another name now; nothing was moved."""
    CLUSTER_ADDED = "ClusterAdded"
    """The Workload runs on every cluster that matches, and one more does."""
    QUOTA_GROWN = "QuotaGrown"
    """Replicas waited for a quota, and it lets more in."""
    ROOM_GAINED = "RoomGained"
    """Replicas waited for room, and there is some."""
    LIMIT_LEARNT = "LimitLearnt"
    """A cluster was seen to run fewer replicas than it was given."""
    LIMIT_LIFTED = "LimitLifted"
    """An observed limit of a cluster is doubted after a while, and more is tried."""
    RESCHEDULED = "Rescheduled"
    """A cluster left replicas without a node, and its subset of the spread takes none for now."""
    GROUP_WITHDRAWN = "GroupWithdrawn"
    """Its WorkloadGroup did not come together, or replicas failed before: all is taken back."""
    DRAINED = "Drained"
    """A cluster was drained: it has the taint stowage.dev/drain."""
    TAINTED = "Tainted"
    """A cluster has another taint of effect NoExecute that the Workload does not tolerate."""
    CLUSTER_LOST = "ClusterLost"
    """A cluster is unreachable for longer than the Workload tolerates."""
    NO_NODE = "NoNode"
    """No node of a cluster can run its replicas as they were edited."""
    UNHEALTHY = "Unhealthy"
    """Its replicas were ready on a cluster, and are not any more (movement.unhealthySeconds)."""
    OUT_OF_SERVICE = "OutOfService"
    """A person said that nothing runs on a cluster any more."""
    REBALANCED = "Rebalanced"
    """A plan anew was asked for (spec.movement.rebalanceAfter)."""
    RETURNED = "Returned"
    """A cluster may be used again, and has its replicas back."""
    MOVE_CANCELLED = "MoveCancelled"
    """The reason to leave a cluster went before its replicas did."""
    FLEET_CHANGED = "FleetChanged"
    """Something else in the fleet: a label, a taint, a Workload that it waits for."""


class DecisionReference(Model):
    """The input of the present placements; a restart moves nothing while it is the same."""

    hash: Annotated[str, Field(max_length=128)]
    """Of the part of the spec that placement reads."""
    time: Timestamp
    """When it was decided."""
    id: DecisionId | None = None
    """The decision that made the placements; the same in history."""


class ReviewVerdict(Model):
    """The controller's verdict on an edit, on a hub without the validating policy."""

    generation: Int64
    """The metadata.generation that it is about."""
    refusal: Annotated[str, Field(max_length=4096)] | None = None
    """Why it must not reach a member; nothing where it may."""


class ClusterLimit(Model):
    """The replicas that a cluster ran well, while it was asked for more."""

    cluster: DnsName
    """The MemberCluster's name."""
    replicas: Count
    """The most replicas that it is given."""
    until: Instant
    """When that is doubted, and more is tried."""
    hold_seconds: Count
    """For how long it was believed this time."""
    doubted: bool = False
    """Whether it is a guess, beyond what was seen: it was believed for its time, and raised."""


class PlacementRule(Model):
    """A rule that made a number, as data."""

    rule: Word
    """Which: Whole, Weight, Lower, DomainQuota, Room …"""
    numbers: Annotated[dict[str, Int64], Field(max_length=4)] = Field(default_factory=dict)
    """Its numbers: `number` in replicas, and with some rules `of`."""
    name: About | None = None
    """The domain, subset or bound that it belongs to."""


class PlacementStep(Model):
    """Replicas that came to a cluster in one decision, or left it."""

    units: Int32
    """How many; negative where they left."""
    time: Timestamp | None = None
    """When; nothing for what was placed before reasons were kept."""
    cause: Word | None = None
    """The cause: Placed, Scaled, Edited, ClusterGone …"""
    name: About | None = None
    """The subject of the cause."""
    because: list[PlacementRule] = atomic(3)
    """The rule that made the number."""


class PlacementReasons(Model):
    """How one cluster's share came about."""

    cluster: DnsName
    """The MemberCluster's name."""
    steps: list[PlacementStep] = atomic(8)
    """From the oldest on; their replicas add up to the share."""


class ReasonCount(Model):
    """Of the shares that are not told one by one, those that a rule made."""

    rule: Word
    """Which."""
    clusters: Count
    """How many shares."""
    units: Count
    """How many replicas they have."""


class PlacementMove(Model):
    """A cluster's share before and after a change."""

    cluster: DnsName
    """The MemberCluster's name."""
    # `from` is a word of Python.
    before: Annotated[Int32 | None, Field(alias="from")] = None
    """Its replicas before; nothing where it had no share."""
    now: Annotated[Int32 | None, Field(alias="to")] = None
    """Its replicas after; nothing where it has none any more."""
    because: list[PlacementRule] = atomic(3)
    """The rule that made the number."""


class UntoldMoves(Model):
    """The shares that a change moved beside those that it tells."""

    clusters: Count
    """How many."""
    came: Count = 0
    """Replicas that came to them."""
    went: Count = 0
    """Replicas that left them."""


class PlacementChange(Model):
    """One change of placement."""

    time: Timestamp
    """When it was decided."""
    cause: Word
    """The cause of the change."""
    name: About | None = None
    """The subject of the cause."""
    desired: Count = 0
    """Replicas wanted since."""
    assigned: Count = 0
    """Replicas that have a cluster since."""
    moves: list[PlacementMove] = atomic(20)
    """The shares that it changed, the greatest changes first."""
    more: UntoldMoves | None = None
    """The moves that are not listed."""
    id: DecisionId | None = None
    """The decision, as the audit log of the hub names it: `decision/<id>` in the user agent."""
