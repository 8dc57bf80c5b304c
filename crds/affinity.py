"""Where a Workload may be, and would rather be: affinity to clusters and to other Workloads.

The shapes are those of nodeAffinity and podAffinity, one level up: a node is a MemberCluster, a pod
is a Workload. What is decided once stays: a later change of labels moves nothing.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crds.base import ATOMIC, DnsLabel, DnsName, LabelKey, Model, Weight, atomic
from crds.labels import LabelSelector, SelectorTerm


class TargetCluster(Model):
    """One cluster by name."""

    name: DnsName
    """The MemberCluster's name."""
    namespace: DnsLabel | None = None
    """The namespace of the cluster's Secret; any when unset."""


class RequiredClusterTerms(Model):
    """The clusters that may be chosen at all."""

    cluster_selector_terms: Annotated[
        list[SelectorTerm], Field(min_length=1, max_length=32, json_schema_extra=ATOMIC)
    ]
    """Terms, ORed; within a term everything must hold."""


class PreferredClusterTerm(Model):
    """Clusters that are liked better, and how much."""

    weight: Weight
    """1 to 100; the weights of all terms that a cluster matches add up."""
    preference: SelectorTerm
    """The clusters meant."""


class ClusterAffinity(Model):
    """Rules on the labels of clusters. A relabelled cluster keeps what it holds."""

    required_during_scheduling_ignored_during_execution: RequiredClusterTerms | None = None
    """Clusters that do not match are never chosen."""
    preferred_during_scheduling_ignored_during_execution: list[PreferredClusterTerm] = atomic(32)
    """Clusters that match score higher."""


class WorkloadAffinityTerm(Model):
    """Workloads of this namespace, and how near is near."""

    label_selector: LabelSelector
    """Selects Workloads by their labels; an empty selector means all."""
    topology_key: LabelKey
    """Clusters that share this label's value are one domain; `stowage.dev/cluster` is one each."""


class PreferredWorkloadTerm(Model):
    """A term that is liked, and how much."""

    weight: Weight
    """1 to 100; the weights of all terms that hold add up."""
    workload_affinity_term: WorkloadAffinityTerm
    """The Workloads meant, and the domain."""


class WorkloadAffinity(Model):
    """Rules on where other Workloads are: beside them, or, as anti-affinity, away from them."""

    required_during_scheduling_ignored_during_execution: list[WorkloadAffinityTerm] = atomic(32)
    """All of them must hold."""
    preferred_during_scheduling_ignored_during_execution: list[PreferredWorkloadTerm] = atomic(32)
    """Each that holds raises the score, or lowers it for anti-affinity."""
