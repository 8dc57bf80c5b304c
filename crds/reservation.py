"""Reservation: room on clusters that is held until its owners come, and is theirs alone.

The spec is the user's; the whole status has one writer, the controller. It is placed as a Workload
is, by the same rules and with the same record of it; which Workloads are inside stands in their own
status (`Workload.status.reservations`). `crds/reservation.yaml` is generated from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from crds.base import (
    ATOMIC,
    Condition,
    Count,
    DnsLabel,
    DnsName,
    Flag,
    Kind,
    LabelMap,
    Model,
    Moment,
    Positive,
    Quantity,
    Resources,
    Rule,
    Transition,
    amounts,
    atomic,
    listmap,
)
from crds.fields.labels import (
    RESERVED_TEXT,
    USERS_LABELS,
    LabelSelector,
    cel_reserved,
    reserved,
)
from crds.fields.placing import Distribution, PlacementRules, PlacementStatus
from crds.fields.template import Open
from crds.names import API_VERSION

MOST_OWNERS = 32
MOST_CONTAINERS = 32
MOST_NAMED_OWNERS = 100

TTL = r"^(0|([0-9]{1,6}(\.[0-9]{1,3})?(ms|s|m|h))+)$"
"""Durations as Kubernetes writes them. So few digits that no sum of them leaves the calendar."""


class Hold(StrEnum):
    """The process that keeps the room free."""

    BOOKS = "Books"
    MEMBER = "Member"


class ReservationPhase(StrEnum):
    """status.phase: how far it has come. The last two are the end: it holds nothing any more."""

    PENDING = "Pending"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ReservationCondition(StrEnum):
    """The condition types of a Reservation; the first one is that of every placement."""

    SCHEDULED = "Scheduled"
    """Whether its room has a cluster."""
    READY = "Ready"
    """Whether owners can use it."""


class ReservationReadyReason(StrEnum):
    """Reasons of Ready. AVAILABLE and SUCCEEDED are those that are good."""

    AVAILABLE = "Available"
    """The room is held, and owners may take it."""
    PENDING = "Pending"
    """No replica has a cluster."""
    SHORT = "Short"
    """A cluster has less free than is held there."""
    NOT_HELD = "NotHeld"
    """Pods should keep it on its clusters, and cannot."""
    CLOCKS_DIFFER = "ClocksDiffer"
    """The reservation should have ended, but the controller's clock and the hub's do not agree."""
    EXPIRED = "Expired"
    """Its time is over; nothing is held."""
    CLUSTER_LOST = "ClusterLost"
    """Its clusters are gone, and no other one has room for it."""
    SUCCEEDED = "Succeeded"
    """The reservation serves only once, and did."""


class ReservationEventReason(StrEnum):
    """Reasons of Events on a Reservation, beside those of every placement."""

    ALLOCATED = "Allocated"
    """A Workload uses it, or more of it than before."""
    SHORT = "Short"
    """A cluster has less free than is held there."""
    NOT_HELD = "NotHeld"
    """Pods should keep it on its clusters, and cannot."""
    CLOCKS_DIFFER = "ClocksDiffer"
    """It should have ended, but the controller's clock and the hub's do not agree."""
    EXPIRED = "Expired"
    """Its time is over; nothing is held."""
    CLUSTER_LOST = "ClusterLost"
    """Its clusters are gone, and no other one has room for it."""
    SUCCEEDED = "Succeeded"
    """It serves only once, and did."""


# --- rules: each once in CEL, for the API server, and once in Python ------------------------------


def _own_labels(labels: Mapping[str, str]) -> bool:
    return not any(reserved(key) and key not in USERS_LABELS for key in labels)


def _one_namespace(owner: Any) -> bool:
    named = {each.namespace for each in (owner.object, owner.controller) if each is not None}
    return len(named - {None}) < 2


class PodResources(Open):
    """The requests of a container."""

    rules = (amounts("requests"), amounts("limits"))

    requests: Annotated[dict[str, Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """Amounts that are held for it."""
    limits: Annotated[dict[str, Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """A limit without a request is the request."""


class Container(Open):
    """One of a replica's containers; of it, what it asks for is read."""

    resources: PodResources | None = None
    """The requests."""


Containers = Annotated[list[Container], Field(max_length=MOST_CONTAINERS, json_schema_extra=ATOMIC)]


class PodSpec(Open):
    """The requests of a replica, and its nodes; the fields of a pod's spec that are read."""

    rules = (amounts("overhead"),)

    containers: Annotated[
        list[Container],
        Field(min_length=1, max_length=MOST_CONTAINERS, json_schema_extra=ATOMIC),
    ]
    """Its containers; their requests add up."""
    init_containers: Containers = Field(default_factory=list)
    """Containers before these, and sidecars."""
    resources: PodResources | None = None
    """The requests of the pod as a whole."""
    overhead: Annotated[dict[str, Quantity], Field(max_length=32)] = Field(default_factory=dict)
    """The overhead of running the pod."""
    node_selector: LabelMap = Field(default_factory=dict)
    """Labels that a node must have."""


class PodMeta(Open):
    """metadata of a replica."""

    rules = (
        Rule(
            field="labels",
            text=RESERVED_TEXT,
            cel=f"!has(self.labels) || !self.labels.exists(k, {cel_reserved('k')}"
            f" && !(k in {list(USERS_LABELS)}))",
            holds=lambda m: _own_labels(m.labels),
        ),
    )

    labels: LabelMap = Field(default_factory=dict)
    """Labels that it is known by, to rules and policies."""


class PodTemplate(Model):
    """A replica: a pod that asks for as much."""

    metadata: PodMeta | None = None
    """Its labels."""
    spec: PodSpec
    """The requests."""


class OwnerObject(Model):
    """A Workload by its name."""

    rules = (
        Rule(
            field="kind",
            text=f"must be Workload, of {API_VERSION}; an object that a Workload brings along, "
            "or that owns Workloads, is named by controller",
            cel=f"self.kind == 'Workload' && (!has(self.apiVersion) || self.apiVersion =="
            f" '{API_VERSION}')",
            holds=lambda o: o.kind == "Workload" and o.api_version in (None, API_VERSION),
        ),
    )

    api_version: Annotated[str, Field(max_length=317)] | None = None
    """stowage.dev/v1alpha1."""
    kind: Annotated[str, Field(max_length=63)] = "Workload"
    """Workload."""
    namespace: DnsLabel | None = None
    """Its namespace; the Reservation's own when unset."""
    name: DnsName
    """Its name."""
    uid: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Its UID; any when unset."""


class OwnerController(Model):
    """The controller of a Workload: its controlling owner, or the object of its template."""

    api_version: Annotated[str, Field(min_length=1, max_length=317)] | None = None
    """Group and version, such as apps/v1; any when unset."""
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """The kind, such as Deployment."""
    namespace: DnsLabel | None = None
    """The Workload's namespace; the Reservation's own when unset."""
    name: DnsName
    """Its name."""
    uid: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Its UID; any when unset."""


class Owner(Model):
    """Workloads that the room is for: all that is given must hold."""

    rules = (
        Rule(
            field="object",
            text="give object, controller or labelSelector: an empty owner is nobody",
            cel="has(self.object) || has(self.controller) || has(self.labelSelector)",
            holds=lambda o: any((o.object, o.controller, o.label_selector)),
        ),
        Rule(
            field="controller",
            text="must name the same namespace as object: a Workload is in one alone",
            cel="!has(self.object) || !has(self.controller) || !has(self.object.__namespace__)"
            " || !has(self.controller.__namespace__)"
            " || self.object.__namespace__ == self.controller.__namespace__",
            holds=_one_namespace,
        ),
    )

    object: OwnerObject | None = None
    """A Workload by its name."""
    controller: OwnerController | None = None
    """The controller of a Workload, or the object that it carries."""
    label_selector: LabelSelector | None = None
    """Workloads by their labels or those of their replicas; an empty selector means all."""


class ReservationSpec(PlacementRules):
    """The room that is held, its owners, and its time."""

    rules = (
        Rule(
            field="spreadConstraints",
            text="minDomains above 1 never holds where all units go to one cluster: remove it, or "
            "set spec.distribution to Divided or Duplicated",
            cel="self.distribution != 'Single' || !has(self.spreadConstraints)"
            " || self.spreadConstraints.all(c, !has(c.minDomains) || c.minDomains <= 1)",
            holds=lambda s: (
                s.distribution is not Distribution.SINGLE
                or all((c.min_domains or 1) <= 1 for c in s.spread_constraints)
            ),
        ),
    )
    transitions = (
        Transition(
            field="template",
            text="cannot be changed; make a new Reservation for units that ask for something else",
            cel="self.template == oldSelf.template",
            holds=lambda new, old: new.template == old.template,
        ),
    )

    template: PodTemplate
    """A replica of what is held. It cannot be changed."""
    replicas: Positive = 1
    """How many replicas are held."""
    distribution: Distribution = Distribution.DIVIDED
    """Divided: split. Single: all on the best cluster. Duplicated: all on each that matches."""
    owners: Annotated[
        list[Owner], Field(min_length=1, max_length=MOST_OWNERS, json_schema_extra=ATOMIC)
    ]
    """Whom it is held for, ORed: Workloads of this namespace, of others in stowage-system alone."""
    allocate_once: Flag = True
    """Its first owner is its last: what that one does not take is free for everybody."""
    ttl: Annotated[str, Field(max_length=32, pattern=TTL)] = "24h"
    """For how long after its creation it is held, such as 24h; 0 means for ever."""
    expires: Moment | None = None
    """Until when it is held; wins over ttl."""
    hold: Hold = Hold.BOOKS
    """Books: other Workloads are kept out. Member: placeholder pods keep everybody out."""


class CurrentOwner(Model):
    """A Workload that is inside."""

    kind: Literal["Workload"] = "Workload"
    """Workload."""
    namespace: DnsLabel
    """Its namespace."""
    name: DnsName
    """Its name."""
    uid: Annotated[str, Field(max_length=128)]
    """Its UID."""
    cluster: DnsName
    """Where."""
    replicas: Count
    """How many of its replicas there."""


class ReservationStatus(PlacementStatus):
    """The state of the reservation. Writer of every field: controller."""

    phase: ReservationPhase | None = None
    """How far it has come. Writer: controller."""
    cluster_name: Annotated[str, Field(max_length=4096)] | None = None
    """Its cluster, or the names of them joined by commas. Writer: controller."""
    allocatable: Resources = Field(default_factory=dict)
    """The reserved amounts, over all clusters. Writer: controller."""
    allocated: Resources = Field(default_factory=dict)
    """The used amounts. Writer: controller."""
    current_owners: list[CurrentOwner] = atomic(MOST_NAMED_OWNERS)
    """The Workloads inside; of more than the list holds, the first by name. Writer: controller."""
    owners: Count | None = None
    """How many Workloads are inside. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Scheduled, Failed and Ready; Reconciling or Stalled while that is not True.

    Writer: controller.
    """


class Reservation(Kind):
    """Room on clusters that is held for its owners."""

    plural = "reservations"
    short = "rsv"
    columns = (
        ("Phase", "string", ".status.phase", 0),
        ("Cluster", "string", ".status.clusterName", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Allocated", "string", ".status.allocated", 1),
        ("Owners", "integer", ".status.owners", 1),
        ("Expires", "string", ".spec['expires','ttl']", 1),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["Reservation"] = "Reservation"
    spec: ReservationSpec
    """The room that is held, its owners, and its time."""
    status: ReservationStatus | None = None
    """The state of the reservation."""
