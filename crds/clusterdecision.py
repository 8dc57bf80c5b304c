"""ClusterDecision: the clusters that a Workload was given, as the list that generators read.

The controller makes one for each Workload with spec.publish.clusterDecision, of its name and owned
by it, and writes all of it. A tool that only has to know clusters gets rights on this kind and
none on Workloads. Every value of an item is a string, as Argo CD's generator takes no other, and a
Workload without any cluster keeps an object with an empty list: to that generator an object that
is gone is an error, and none of its Applications would be deleted.
`crds/clusterdecision.yaml` is generated from this module.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from crds.base import ATOMIC, Condition, Int64, Kind, LabelKey, Model, atomic, listmap
from crds.fields.publishing import MOST_LABELS

MOST_ITEMS = 10000
REASON_LIMIT = 256
"""Characters of a reason in words, here and in a PlacementDecision."""


class DecisionCondition(StrEnum):
    """The condition types of a ClusterDecision."""

    READY = "Ready"
    """Whether `status.decisions` is the present decision."""


class DecisionReadyReason(StrEnum):
    """Reasons of Ready. PUBLISHED is the one that is good."""

    PUBLISHED = "Published"
    """The decision stands in the status."""
    TOO_LARGE = "TooLarge"
    """No object can hold so many items: the last ones that fitted stand there."""


DecisionItem = Annotated[
    dict[str, Annotated[str, Field(max_length=1024)]], Field(max_length=MOST_LABELS + 4)
]
"""`clusterName`, `replicas`, `rank`, `reason`, and `label.<key>` for each label that is told."""


class ClusterDecisionSpec(Model):
    """What is told. Writer: controller, from spec.publish of the Workload."""

    labels: list[LabelKey] = atomic(MOST_LABELS)
    """Labels of the clusters that each item tells, as `label.<key>`; empty where it has none."""


class ClusterDecisionStatus(Model):
    """The decision. Writer of every field: controller."""

    observed_generation: Int64 | None = None
    """The metadata.generation that this was said about. Writer: controller."""
    # There from the first moment: Argo CD's generator breaks down over a status without its list.
    decisions: list[DecisionItem] = Field([], max_length=MOST_ITEMS, json_schema_extra=ATOMIC)
    """The clusters that hold replicas, in the order of `rank`. Writer: controller."""
    conditions: list[Condition] = listmap("type", most=32)
    """Ready; Stalled while that is not True. Writer: controller."""


class ClusterDecision(Kind):
    """The clusters that the Workload of its name was given, for tools that know no Workloads."""

    plural = "clusterdecisions"
    short = "cd"
    columns = (
        # The clusters are no column: of a list a table shows the first entry alone.
        ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    )

    api_version: Literal["stowage.dev/v1alpha1"] = "stowage.dev/v1alpha1"
    kind: Literal["ClusterDecision"] = "ClusterDecision"
    spec: ClusterDecisionSpec
    """What is told."""
    status: ClusterDecisionStatus | None = None
    """The decision."""
