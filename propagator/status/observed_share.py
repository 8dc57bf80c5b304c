"""What a member shows of one share, and the facts of status.clusters that follow from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.fields.shares import ShareHealth
from machinery.clock import timestamp
from machinery.kinds.profile import Profile
from machinery.kinds.readiness import (
    Judged,
    Readiness,
    available_in,
    counts_of,
    crashed,
    done_of,
)
from propagator.members.health import Contact
from propagator.members.objects import ManagedObject, Refused
from propagator.members.pod_index import Availability, PodCounts
from propagator.outcome import DesiredShare, Outcome
from propagator.status.failover import Patience
from propagator.status.refusals import NOTHING_TOLD, ToldRefusal

MARK = "capacityVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedShare:
    """One cluster's present observation of one Workload. Unknown values are None."""

    name: str
    desired: DesiredShare
    leaving: bool
    elsewhere: bool = True
    """Whether the Workload is placed on any cluster."""
    contact: Contact
    trouble: str = ""
    outcome: Outcome | None = None
    """The outcome of this very desired share."""
    main: ManagedObject | None = None
    """The main object. None means that none exists, while the cluster serves."""
    pods: PodCounts | None = None
    former: int = 0
    """Replicas of objects there that the Workload names no more, which run units of it."""
    to_take_over: bool = False
    """Whether the main object there is that of a forgotten Workload of this name."""
    events: ToldRefusal = NOTHING_TOLD
    """What the Events of the main object tell of a refusal to make its pods."""
    kept_pods: int = 0
    """Pods that an edit left with the template of before."""
    ready_seconds: int = 0
    """How long a replica must have been ready to replace another one."""
    available: Availability | None = None
    """The pods with that; None if it is 0 or they are not observed."""
    last: Judged | None = None
    """The last state of a deleted object that did some of its work."""
    end: Mapping[str, Any] | None = None
    """The stored end of the share, or the one to store."""
    load_balancer: Mapping[str, Any] | None = None
    """The Service's status.loadBalancer; empty without one."""
    fields: Mapping[str, str] | None = None
    """The values of spec.statusFields; None if they are not observed."""
    patience: Patience | None = None
    """Of spec.movement.unhealthySeconds; None without it."""


def readiness_of(seen: ObservedShare, profile: Profile, before: Mapping[str, Any]) -> Readiness:
    readiness, pods = counts_of(judged_of(seen), seen.desired.replicas), seen.pods
    if pods is None or seen.main is None or (not pods.crashing and pods.crashing_in is None):
        return readiness
    # Another process has seen for how long they wait.
    known = before.get("health") == ShareHealth.DEGRADED
    return crashed(profile, readiness) if pods.crashing or known else readiness


def judged_of(seen: ObservedShare) -> Judged | None:
    return seen.main.judged if seen.main is not None else None


def facts_of(seen: ObservedShare, readiness: Readiness, *, known: bool) -> dict[str, Any]:
    """Return the facts of a serving cluster; None removes a fact.

    `known`: the desired share has been reconciled, and its outcome is known.
    """
    facts: dict[str, Any] = {"ready": readiness.ready, "updated": readiness.updated}
    facts["outdated"] = readiness.outdated or None
    facts["health"] = readiness.health.value if seen.main is not None else None
    facts["holds"] = (seen.main is not None and seen.main.judged.holds) or None
    facts["finished"] = readiness.finished
    # Unset instead of 0: most kinds never end, and a status has thousands of shares.
    facts["succeeded"] = readiness.succeeded or None
    facts["failed"] = readiness.failed or None
    if seen.main is not None or seen.last is not None or not seen.leaving:
        facts["completed"] = _completed(seen)  # of a placed share that is yet to be made: none
    if seen.pods is not None:
        facts |= _waiting(seen, seen.pods)
        if seen.pods.scheduled is not None:
            facts["scheduled"] = seen.pods.scheduled
            facts[MARK] = seen.pods.capacity_version
    if seen.load_balancer is not None:
        facts["loadBalancer"] = dict(seen.load_balancer) or None
    facts |= {} if seen.fields is None else {"fields": dict(seen.fields) or None}
    outcome = seen.outcome
    if outcome is not None:
        blocked = outcome.blocked
        facts["blocked"] = blocked and {"reason": blocked.reason.value, "message": blocked.message}
    # Also while replicas wait: other shards count only what runs the present generation, and two
    # that lower their shares at once would wait for each other.
    written = outcome is not None and (outcome.reason is None or outcome.written)
    if known and outcome and written and seen.main is not None:
        facts["observedGeneration"] = outcome.desired.generation
    if not seen.desired.revision:
        facts["revision"] = (outcome is not None and outcome.found) or None
    elif outcome is not None and outcome.written and seen.main is not None:
        facts["revision"] = outcome.desired.revision
    return facts


def _waiting(seen: ObservedShare, pods: PodCounts) -> dict[str, Any]:
    facts: dict[str, Any] = {"unschedulable": pods.unschedulable}
    if seen.events.unread:
        return facts
    since, refused = pods.oldest_unschedulable, refused_of(seen)
    if refused is not None:
        since = min(filter(None, (since, refused.since)))
    facts["refused"] = missing_pods(seen) if refused is not None else None
    facts["unschedulableSince"] = timestamp(since) if since else None
    return facts


def missing_pods(seen: ObservedShare) -> int:
    """Return the replicas that lack pods; 0 while that is unknown."""
    if seen.pods is None or seen.main is None:
        return 0
    lacking = seen.desired.replicas - seen.pods.current + seen.pods.in_part
    if lacking <= 0:  # as mostly
        return 0
    return max(lacking - counts_of(seen.main.judged, seen.desired.replicas).finished, 0)


def refused_of(seen: ObservedShare) -> Refused | None:
    told = seen.main.refused if seen.main is not None else None
    told = told or seen.events.refused
    return told if told is not None and missing_pods(seen) else None


def _completed(seen: ObservedShare) -> int | None:
    """Also of a deleted object."""
    judged = seen.main.judged if seen.main is not None else seen.last
    return (done_of(judged, seen.desired.completions) or None) if judged is not None else None


def available_of(
    seen: ObservedShare, profile: Profile, readiness: Readiness, before: Mapping[str, Any]
) -> int | None:
    """Return the replicas that have been ready for long enough; None if all count."""
    if not seen.ready_seconds:
        return None
    told = int(before.get("available") or 0)
    if seen.available is None:
        return min(told, readiness.ready)
    pods, all_pods = seen.available.pods, seen.pods.current if seen.pods is not None else 0
    proven = available_in(profile, judged_of(seen), readiness, pods=pods, seen=all_pods)
    pods += seen.available.unproven
    most = available_in(profile, judged_of(seen), readiness, pods=pods, seen=all_pods)
    return max(proven, min(told, most))


def current_of(pods: PodCounts, entry: Mapping[str, Any]) -> int:
    """0 if the other counts add up to it: a status has thousands of entries."""
    counted = entry["scheduled"] + entry["unschedulable"]
    return 0 if pods.current <= counted else pods.current
