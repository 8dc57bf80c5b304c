"""How replicas may become shares: static weights with bounds, and over how many domains.

These are bounds and wishes; the numbers are the controller's. They nest: the total, then a domain,
then a cluster.
"""

from __future__ import annotations

from crds.base import Count, LabelKey, Model, Positive, Rule, Weight
from crds.labels import LabelSelector


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

    cluster_selector: LabelSelector
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
