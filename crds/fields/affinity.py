"""Where a Workload may be, would rather be, and how many of its replicas: affinity and division.

The shapes are those of nodeAffinity and podAffinity, one level up: a node is a MemberCluster, a pod
is a Workload. What is decided once stays: a later change of labels moves nothing. Weights and
spread constraints are bounds and wishes; the numbers are the controller's. They nest: the total,
then a domain, then a cluster.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from crds.base import (
    ATOMIC,
    Count,
    DnsLabel,
    DnsName,
    LabelKey,
    Model,
    Positive,
    Rule,
    Weight,
    atomic,
)
from crds.fields.labels import ClusterSelector, LabelSelector, SelectorTerm


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


class DistributionWeight(Model):
    """A static weight for the clusters that match, and bounds for each of their shares."""

    rules = (
        Rule(
            field="maxReplicas",
            text="must not be below minReplicas",
            cel="!has(self.minReplicas) || !has(self.maxReplicas) "
            "|| self.minReplicas <= self.maxReplicas",
            holds=lambda w: w.max_replicas is None or (w.min_replicas or 0) <= w.max_replicas,
        ),
    )

    cluster_selector: ClusterSelector
    """The clusters meant; an empty selector means all. The first entry that matches counts."""
    weight: Weight
    """1 to 100, relative to the other clusters' weights."""
    min_replicas: Count | None = None
    """No matching cluster's share is smaller, as far as there is room."""
    max_replicas: Count | None = None
    """No matching cluster's share is larger."""


class SpreadConstraint(Model):
    """Over how many domains of a topology key the shares go."""

    rules = (
        Rule(
            field="maxDomains",
            text="must not be below minDomains",
            cel="!has(self.minDomains) || !has(self.maxDomains) "
            "|| self.minDomains <= self.maxDomains",
            holds=lambda s: s.max_domains is None or (s.min_domains or 1) <= s.max_domains,
        ),
        Rule(
            field="minDomains",
            text="give minDomains, maxDomains or both",
            cel="has(self.minDomains) || has(self.maxDomains)",
            holds=lambda s: s.min_domains is not None or s.max_domains is not None,
        ),
    )

    topology_key: LabelKey
    """A label of MemberClusters; those that share its value are one domain."""
    min_domains: Positive | None = None
    """At least so many domains."""
    max_domains: Positive | None = None
    """At most so many domains."""
