"""The advice of `stowage status` on objects that wait for a cluster, Workloads and Reservations.

A line for each reason of the condition Scheduled: the first thing to try. `stowage explain` finds
what would really help.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.framework.findings import UNKNOWN, Finding
from controller.model.objects import Condition

SCHEDULED: Mapping[str, str] = {
    "FailedToSchedule": "a cluster that its rules match, or rules that match one",
    "ReplicasReached": "more in its WorkloadPolicy or WorkloadSpread, or fewer replicas",
    "InsufficientCapacity": "room on a cluster that it matches, smaller requests, fewer replicas",
    "QuotaExceeded": "more in the WorkloadQuota that is named, fewer replicas or smaller requests",
    "PolicyNotFound": "apply the WorkloadPolicy that its label names",
    "InvalidPolicy": "mend its WorkloadPolicy",
    "AmbiguousPolicy": "leave one of its labels that name a WorkloadPolicy",
    "InvalidSpread": "mend the field of its WorkloadSpread that is named",
    "GroupNotFound": "apply the WorkloadGroup that its label names",
    "GroupDenied": "see its WorkloadGroup: stowage explain wg/NAME",
    "GroupIncomplete": "see its WorkloadGroup: stowage explain wg/NAME",
    "GroupWithdrawn": "see its WorkloadGroup: stowage explain wg/NAME",
    "ScheduleTimeout": "see its WorkloadGroup: stowage explain wg/NAME",
    "WaitingForGroup": "the rest of its WorkloadGroup",
    "AmbiguousGroup": "leave one of its labels that name a WorkloadGroup",
    "InvalidGroup": "mend the field of its WorkloadGroup that is named, or make several of one with"
    " too many Workloads",
    "InvalidWorkload": "mend the field that is named",
    "WaitingOnPermit": "nothing: a plugin lets it go, or its time runs out",
    "PluginError": "mend the plugin that is named, or disable it",
}
"""The advice by the reason of Scheduled on a Workload, or another object that is placed."""
PATIENT = frozenset({"WaitingOnPermit"})
"""Reasons of Scheduled that a plugin ends: no person is needed for them."""


def unplaced(name: str, said: Condition, units: str) -> Finding:
    """Return the finding of an object with units that have no cluster."""
    return Finding(
        name,
        said.reason,
        since=said.last_transition_time,
        units=units,
        message=said.message,
        help=SCHEDULED.get(said.reason, UNKNOWN),
        urgent=said.reason not in PATIENT,
    )
