"""WorkloadSpread: ordered subsets of clusters for one Workload's replicas, with caps and patches.

The spec is the user's; the whole status has one writer, the controller. A subset is filled before
the next one, and emptied after it. What only other objects can tell (a second spread on the same
Workload, a patch that does not fit its pods) is a condition, not a refusal.
`crds/workloadspread.yaml` is generated from this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from crds.base import (
    PERCENT,
    Condition,
    Count,
    DnsName,
    Flag,
    Int32,
    Int64,
    Kind,
    LabelValue,
    Model,
    Rule,
    Timestamp,
    Transition,
    atomic,
    listmap,
)
from crds.fields.affinity import PreferredClusterTerm
from crds.fields.labels import (
    RESERVED_TEXT,
    USERS_LABELS,
    SelectorTerm,
    Toleration,
    cel_reserved,
    reserved,
)
from crds.names import API_VERSION

MOST_SUBSETS = 32
MOST_CRITICAL_SECONDS = 295
"""For how long replicas may wait in all subsets but the last together.

A subset that left replicas without a node takes none for 300 seconds; one that moves on must have
reached the last subset before the first one is tried again.
"""

_MOST_UNITS = 2**31 - 1


class StrategyType(StrEnum):
    """Whether a subset is filled without regard to the room of its clusters."""

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"


class SpreadCondition(StrEnum):
    """The condition types of a WorkloadSpread."""

    READY = "Ready"
    """Whether the spread counts."""


class SpreadReadyReason(StrEnum):
    """Reasons of Ready. VALID is the one that is good."""

    VALID = "Valid"
    """The spec can be used, and its Workload is there."""
    INVALID_SPREAD = "InvalidSpread"
    """The spec is one that admission refuses today."""
    INVALID_PATCH = "InvalidPatch"
    """A patch that does not fit the pods of the Workload."""
    TARGET_NOT_FOUND = "TargetNotFound"
    """The Workload of `spec.targetRef` does not exist."""
    TARGET_TAKEN = "TargetTaken"
    """An older WorkloadSpread has the same Workload."""


WAITING = frozenset({SpreadReadyReason.TARGET_NOT_FOUND})
"""Reasons of Ready that pass by themselves; the others need a person."""


class SubsetCondition(StrEnum):
    """The condition types of a subset."""

    SCHEDULABLE = "Schedulable"
    """Whether replicas may go to the subset."""


class SchedulableReason(StrEnum):
    """Reasons of Schedulable. SUFFICIENT is the one that is good."""

    SUFFICIENT = "Sufficient"
    """Its clusters take replicas."""
    POD_UNSCHEDULABLE = "PodUnschedulable"
    """Pods there found no node in time: the subset takes no new replica for a while."""


class SpreadEventReason(StrEnum):
    """Reasons of the events on a WorkloadSpread."""

    CREATE_FAILED = "CreateFailed"
    """Replicas of a subset were not made in time."""
    DELETE_FAILED = "DeleteFailed"
    """Replicas of a subset did not go in time."""
    RESCHEDULED = "Rescheduled"
    """Replicas without a node went to other subsets."""
    RECOVER_SCHEDULABLE = "RecoverSchedulable"
    """The subset takes replicas again."""


# --- rules: each once in CEL, for the API server, and once in Python ------------------------------


def _percent(most: int | str | None) -> int | None:
    return int(most[:-1]) if isinstance(most, str) and re.fullmatch(PERCENT, most) else None


def _cap_fits(subset: Any) -> bool:
    most = subset.max_replicas
    known = most if isinstance(most, int) else _percent(most)
    return most is None or (known is not None and 0 <= known <= _MOST_UNITS)


def _one_type(spec: Any) -> bool:
    return len({type(s.max_replicas) for s in spec.subsets if s.max_replicas is not None}) < 2


def _percents_add_up(spec: Any) -> bool:
    percents = [_percent(s.max_replicas) or 0 for s in spec.subsets]
    if spec.subsets[-1].max_replicas is None:
        return sum(percents) <= 100
    return not isinstance(spec.subsets[-1].max_replicas, str) or sum(percents) == 100


def _refuge_is_open(spec: Any) -> bool:
    adaptive = spec.schedule_strategy.type is StrategyType.ADAPTIVE
    return not adaptive or spec.subsets[-1].max_replicas is None


def _in_time(spec: Any) -> bool:
    adaptive = spec.schedule_strategy.adaptive
    seconds = adaptive.reschedule_critical_seconds if adaptive else None
    return seconds is None or seconds * (len(spec.subsets) - 1) <= MOST_CRITICAL_SECONDS


def _same_terms(subset: Any) -> bool:
    node, cluster = subset.required_node_selector_term, subset.required_cluster_selector_term
    return node is None or cluster is None or bool(node.manifest() == cluster.manifest())


def _unreserved(keys: Iterable[str], own: tuple[str, ...] = ()) -> bool:
    return not any(reserved(key) and key not in own for key in keys)


_LAST = "self.subsets[size(self.subsets) - 1]"
_TYPED = "self.subsets.exists(s, has(s.maxReplicas) && type(s.maxReplicas) == {})"
_SUM = (
    "self.subsets.map(s, has(s.maxReplicas) && type(s.maxReplicas) == string"
    f" && s.maxReplicas.matches('{PERCENT}'), int(s.maxReplicas.replace('%', ''))).sum()"
)

MaxReplicas = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[str, Field(strict=True, max_length=16)],
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 16,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
Nullable = {"nullable": True}


class TargetReference(Model):
    """The Workload whose replicas are spread."""

    rules = (
        Rule(
            field="kind",
            text=f"must be Workload, of {API_VERSION}: put the Deployment, StatefulSet, Job or "
            "custom object into a Workload, and name that one",
            cel=f"self.apiVersion == '{API_VERSION}' && self.kind == 'Workload'",
            holds=lambda t: (t.api_version, t.kind) == (API_VERSION, "Workload"),
        ),
    )

    api_version: Annotated[str, Field(max_length=317)]
    """stowage.dev/v1alpha1."""
    kind: Annotated[str, Field(max_length=63)]
    """Workload."""
    name: DnsName
    """The Workload's name, in this namespace."""


class PatchMetadata(Model):
    """Labels and annotations of the pods; null takes one away."""

    rules = (
        Rule(
            field="labels",
            text=RESERVED_TEXT,
            cel=f"!has(self.labels) || !self.labels.exists(k, {cel_reserved('k')}"
            f" && !(k in {list(USERS_LABELS)}))",
            holds=lambda m: _unreserved(m.labels, USERS_LABELS),
        ),
        Rule(
            field="annotations",
            text=RESERVED_TEXT,
            cel=f"!has(self.annotations) || !self.annotations.exists(k, {cel_reserved('k')})",
            holds=lambda m: _unreserved(m.annotations),
        ),
    )

    labels: Annotated[
        dict[str, Annotated[LabelValue | None, Field(json_schema_extra=Nullable)]],
        Field(max_length=64),
    ] = Field(default_factory=dict)
    """Labels that the pods get."""
    annotations: Annotated[
        dict[str, Annotated[str | None, Field(json_schema_extra=Nullable)]], Field(max_length=64)
    ] = Field(default_factory=dict)
    """Annotations that the pods get."""


class Patch(Model):
    """A strategic merge patch of the pod template of a subset."""

    metadata: PatchMetadata | None = None
    """Labels and annotations."""
    spec: Annotated[dict[str, Any], Field(max_length=64)] | None = None
    """Fields of the pods' spec; containers, volumes and variables are found by their names."""


class Subset(Model):
    """Some of the clusters, and how many replicas they take together."""

    rules = (
        Rule(
            field="maxReplicas",
            text="must be a number of units that is not negative, or whole percents of them "
            'between "0%" and "100%"',
            cel="!has(self.maxReplicas) || (type(self.maxReplicas) == int"
            f" ? self.maxReplicas >= 0 && self.maxReplicas <= {_MOST_UNITS}"
            f" : type(self.maxReplicas) == string && self.maxReplicas.matches('{PERCENT}'))",
            holds=_cap_fits,
        ),
        Rule(
            field="requiredClusterSelectorTerm",
            text="is another name of requiredNodeSelectorTerm: give one of the two, or the same "
            "for both",
            cel="!has(self.requiredClusterSelectorTerm) || !has(self.requiredNodeSelectorTerm)"
            " || dyn(self.requiredClusterSelectorTerm) == dyn(self.requiredNodeSelectorTerm)",
            holds=_same_terms,
        ),
    )

    name: Annotated[LabelValue, Field(min_length=1)]
    """Its name."""
    required_node_selector_term: SelectorTerm | None = None
    """Which MemberClusters, by their labels; without it, all of them."""
    required_cluster_selector_term: SelectorTerm | None = None
    """Another name of requiredNodeSelectorTerm."""
    preferred_node_selector_terms: list[PreferredClusterTerm] = atomic(32)
    """Clusters of the subset that are filled before its others."""
    tolerations: list[Toleration] = atomic(32)
    """Taints of clusters that do not matter to replicas of this subset."""
    max_replicas: MaxReplicas | None = None
    """How many replicas it takes: a number, percents of the Workload's, rounded up, or no limit."""
    patch: Patch | None = None
    """A patch of the pods of this subset."""


class Adaptive(Model):
    """How Adaptive finds out that a subset cannot run its replicas."""

    reschedule_critical_seconds: Count | None = None
    """How long replicas may be without a node before they go to a later subset; 30 when unset."""
    disable_simulation_schedule: Flag = False
    """Do not look at the room of clusters beforehand: only the seconds above move replicas."""


class ScheduleStrategy(Model):
    """Whether a subset is filled without regard to the room of its clusters."""

    type: StrategyType = StrategyType.FIXED
    """Fixed: up to its cap, though replicas wait there. Adaptive: as far as clusters have room."""
    adaptive: Adaptive | None = None
    """For Adaptive alone."""


class WorkloadSpreadSpec(Model):
    """The Workload, and the subsets in their order."""

    rules = (
        Rule(
            field="subsets",
            text="maxReplicas must be of one type: numbers in all subsets, or percents in all",
            cel=f"!({_TYPED.format('int')} && {_TYPED.format('string')})",
            holds=_one_type,
        ),
        Rule(
            field="subsets",
            text="the percents of maxReplicas must add up to 100%, or to less where the last "
            "subset has none and takes the rest",
            cel=f"!has({_LAST}.maxReplicas) ? {_SUM} <= 100"
            f" : type({_LAST}.maxReplicas) != string || {_SUM} == 100",
            holds=_percents_add_up,
        ),
        Rule(
            field="subsets",
            text="the last subset must have no maxReplicas where scheduleStrategy.type is "
            "Adaptive, as units that find no room go there; remove it, or add a subset",
            cel=f"self.scheduleStrategy.type != 'Adaptive' || !has({_LAST}.maxReplicas)",
            holds=_refuge_is_open,
        ),
        Rule(
            field="scheduleStrategy.adaptive.rescheduleCriticalSeconds",
            text="times the number of subsets before the last must not be above "
            f"{MOST_CRITICAL_SECONDS} seconds, so that units reach the last subset "
            "before the first one is tried again; lower it",
            cel="!has(self.scheduleStrategy.adaptive)"
            " || !has(self.scheduleStrategy.adaptive.rescheduleCriticalSeconds)"
            " || self.scheduleStrategy.adaptive.rescheduleCriticalSeconds"
            f" * (size(self.subsets) - 1) <= {MOST_CRITICAL_SECONDS}",
            holds=_in_time,
        ),
    )
    transitions = (
        Transition(
            field="targetRef",
            text="cannot be changed; make a new WorkloadSpread for the other Workload",
            cel="self.targetRef == oldSelf.targetRef",
            holds=lambda new, old: new.target_ref == old.target_ref,
        ),
    )

    target_ref: TargetReference
    """The Workload, of this namespace. It cannot be changed."""
    subsets: Annotated[
        list[Subset],
        Field(
            min_length=1,
            max_length=MOST_SUBSETS,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ]
    """The subsets; an earlier one is filled first and emptied last."""
    schedule_strategy: ScheduleStrategy = Field(
        default_factory=ScheduleStrategy, json_schema_extra={"default": {}}
    )
    """Fixed when unset."""


Moments = Annotated[dict[str, Timestamp], Field(max_length=10000)]


class SubsetStatus(Model):
    """The state of a subset."""

    name: Annotated[LabelValue, Field(min_length=1)]
    """The subset."""
    replicas: Count = 0
    """Replicas placed there that have not ended."""
    missing_replicas: Annotated[
        int, Field(strict=True, ge=-1, le=_MOST_UNITS, json_schema_extra={"format": "int32"})
    ] = 0
    """How many more it takes; -1 where it has no limit."""
    creating_pods: Moments = Field(default_factory=dict)
    """Replicas that no member has shown yet, and since when: `<cluster>/<first>-<last>`."""
    deleting_pods: Moments = Field(default_factory=dict)
    """Replicas that are gone from here and still end on a member, and since when."""
    stuck_pods: Moments = Field(default_factory=dict)
    """Of these, those that a member did not end in time: they count until they are gone."""
    deletion_cost: Int32 = 0
    """Of its replicas: who has the lowest goes first when there shall be fewer."""
    conditions: list[Condition] = listmap("type", most=8)
    """Schedulable: False while it takes no replica, as some found no node there."""


class WorkloadSpreadStatus(Model):
    """The state of the subsets. Writer of every field: controller."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Ready; Reconciling or Stalled while that is not True. Writer: controller."""
    subset_statuses: list[SubsetStatus] = atomic(MOST_SUBSETS)
    """The subsets, in their order. Writer: controller."""
    summary: Annotated[str, Field(max_length=4096)] | None = None
    """The SUBSETS column: normal=80/100,elastic=0. Writer: controller."""


class WorkloadSpread(Kind):
    """Ordered subsets of clusters for the replicas of a Workload."""

    plural = "workloadspreads"
    short = "ws"
    columns = (
        ("Target", "string", ".spec.targetRef.name", 0),
        ("Subsets", "string", ".status.summary", 0),
        ("Strategy", "string", ".spec.scheduleStrategy.type", 0),
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["WorkloadSpread"] = "WorkloadSpread"
    spec: WorkloadSpreadSpec
    """The Workload, and the subsets in their order."""
    status: WorkloadSpreadStatus | None = None
    """The state of the subsets."""
