"""Placements: the rules that a user gives, and the status that a decision writes.

Every kind that is decided as a Workload is has these fields, by the same names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from crds.base import Count, Int32, Int64, Model, atomic, listmap
from crds.fields.affinity import (
    ClusterAffinity,
    DistributionWeight,
    SpreadConstraint,
    TargetCluster,
    WorkloadAffinity,
)
from crds.fields.labels import ClusterSelector, Toleration
from crds.fields.shares import Placement, PluginsTold
from crds.fields.why import DecisionReference, PlacementChange, PlacementReasons, ReasonCount
from crds.names import DEFAULT_SCHEDULER


class Distribution(StrEnum):
    """How replicas become shares where no policy or spread says otherwise."""

    SINGLE = "Single"
    DIVIDED = "Divided"
    DUPLICATED = "Duplicated"


class Packing(StrEnum):
    """How Divided chooses among the clusters that could take a share."""

    PROPORTIONAL = "Proportional"
    FEWEST = "Fewest"


class PlacementRules(Model):
    """The scheduler that chooses the clusters, and its rules."""

    scheduler_name: Annotated[str, Field(max_length=253)] = DEFAULT_SCHEDULER
    """The scheduler that chooses the clusters; ours leaves a Workload of another name alone."""
    priority: Int32 = 0
    """Higher goes first in the queue."""
    distribution_weights: list[DistributionWeight] = atomic(64)
    """Static weights of Divided; without them it weighs by free capacity."""
    packing: Packing = Packing.PROPORTIONAL
    """Proportional to the weights, or the Fewest clusters that hold all replicas."""
    spread_constraints: list[SpreadConstraint] = listmap("topologyKey", most=8)
    """Over how many regions, zones or clusters the shares go."""
    target_cluster: TargetCluster | None = None
    """Only this cluster."""
    cluster_selector: ClusterSelector = Field(default_factory=ClusterSelector)
    """Labels that a cluster must have; also cloudProvider, clusterVersion, clusterName …

    Of these reserved keys expressions take In and NotIn. Labels alone are taken as matchLabels.
    """
    cluster_affinity: ClusterAffinity | None = None
    """Required and preferred rules on the labels of clusters."""
    workload_affinity: WorkloadAffinity | None = None
    """Beside which other Workloads."""
    workload_anti_affinity: WorkloadAffinity | None = None
    """Away from which other Workloads."""
    tolerations: list[Toleration] = atomic(64)
    """Taints of clusters that do not matter."""


class PlacementStatus(Model):
    """The decision, and its reasons."""

    observed_generation: Int64 | None = None
    """The metadata.generation that the last decision read. Writer: controller."""
    desired: Count | None = None
    """Replicas wanted, over all clusters. Writer: controller."""
    assigned: Count | None = None
    """Replicas that have a cluster; assigned + pending = desired. Writer: controller."""
    pending: Count | None = None
    """Replicas without a cluster. Writer: controller."""
    placements: list[Placement] = listmap("cluster", most=10000)
    """The shares. Writer: the scheduler that spec.schedulerName names; ours is the controller."""
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
    plugins: PluginsTold = Field(default_factory=dict)
    """The statuses of plugins of other packages, by name. Writer: controller, with placements."""
    decision: DecisionReference | None = None
    """The input of the placements. Writer: controller."""
