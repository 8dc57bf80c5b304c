"""The kinds of Open Cluster Management that are read, as far as they are.

A ManagedCluster and the MemberCluster that stands for it have one name.
"""

from __future__ import annotations

import msgspec

from machinery.api.resources import Resource
from machinery.types.metadata import Key, Object

GROUP = "cluster.open-cluster-management.io"
PLACEMENT_DECISIONS = Resource(GROUP, "v1beta1", "placementdecisions", "PlacementDecision")
SCORES = Resource(GROUP, "v1alpha1", "addonplacementscores", "AddOnPlacementScore")
LABEL_PLACEMENT = f"{GROUP}/placement"
"""On a PlacementDecision: the Placement that it is of."""


class ClusterDecision(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster that a Placement has chosen."""

    cluster_name: str = ""


class PlacementDecisionStatus(msgspec.Struct, frozen=True):
    """The clusters of one slice of a decision."""

    decisions: list[ClusterDecision] = []


class PlacementDecision(Object, frozen=True):
    """A slice of what a Placement has chosen; very many clusters come in several."""

    status: PlacementDecisionStatus = PlacementDecisionStatus()

    @property
    def placement(self) -> Key:
        """The namespace and name of its Placement; the name is empty where it is of none."""
        meta = self.metadata
        return meta.namespace, meta.labels.get(LABEL_PLACEMENT, "")

    @property
    def clusters(self) -> frozenset[str]:
        """The names of the chosen clusters."""
        return frozenset(each.cluster_name for each in self.status.decisions)


class Score(msgspec.Struct, frozen=True):
    """A score by its name: -100..100."""

    name: str = ""
    value: int = 0


class ScoresStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The scores of a cluster, and the moment after which they count no more."""

    scores: list[Score] = []
    valid_until: str = ""


class PlacementScores(Object, frozen=True):
    """An AddOnPlacementScore: its namespace has the name of the cluster."""

    status: ScoresStatus = ScoresStatus()
