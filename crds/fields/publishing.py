"""What becomes of a decision beside the status: who delivers it, and where others may read it."""

from __future__ import annotations

from enum import StrEnum

from crds.base import Flag, LabelKey, Model, atomic

MOST_LABELS = 16
"""Labels of a cluster that an item of a ClusterDecision tells."""


class Delivery(StrEnum):
    """Who brings a Workload's objects to the clusters that were chosen for it."""

    PUSH = "Push"
    """The propagator."""
    NONE = "None"
    """Another tool: the controller decides and counts, and no member gets a write for it."""


class PublishedReason(StrEnum):
    """Reasons of Published. PUBLISHED is the one that is good."""

    PUBLISHED = "Published"
    """The decision stands where `spec.publish` wants it."""
    ALREADY_EXISTS = "AlreadyExists"
    """An object of that name belongs to somebody else, and is left alone."""
    NOT_SERVED = "NotServed"
    """The hub has no PlacementDecisions, or the configuration does not switch them on."""
    REFUSED = "Refused"
    """The hub does not take the object; the message has its words."""
    TOO_LARGE = "TooLarge"
    """No object can hold so many items: the last ones that fitted stand there."""


class Publish(Model):
    """Where the decision stands beside the status. Both kinds go with the Workload."""

    cluster_decision: Flag = False
    """A ClusterDecision of the Workload's name."""
    placement_decision: Flag = False
    """PlacementDecisions of SIG Multicluster (KEP-5313), of at most 100 clusters each.

    They need `placementDecisions: true` in the controller's configuration.
    """
    labels: list[LabelKey] = atomic(MOST_LABELS)
    """Labels of the clusters that each item of the ClusterDecision tells, as `label.<key>`."""
