"""The findings of `stowage status` on WorkloadGroups that wait, were withdrawn, or failed.

A gang is one finding, however many Workloads it has. Nothing is computed that the controller has
not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controller.framework.findings import (
    PATIENCE_SECONDS,
    UNKNOWN,
    Finding,
    KindFindings,
    Report,
    Summary,
    condition,
    overdue,
    seconds,
    tally,
    time,
    undecided,
)
from controller.model.objects import Condition

ADVICE: Mapping[str, str] = {
    "WaitingForGroup": "room for the units that are missing, or a smaller minMember;"
    " see stowage explain wg/NAME",
    "GroupIncomplete": "the Workloads that are missing, more replicas, or a smaller minMember",
    "GroupDenied": "room for minMember units, smaller requests or a smaller minMember;"
    " see stowage explain wg/NAME",
    "ScheduleTimeout": "room for the units that were missing, or a smaller minMember;"
    " see stowage explain wg/NAME",
    "PropagationFailed": "mend what the message names; all of it is tried again by itself",
    "InvalidGroup": "mend the field that is named",
    "TooLarge": "several groups of it, or Workloads that run on fewer clusters",
    "TooManyWorkloads": "fewer Workloads with its label, each with more replicas",
    "Failed": "see why units failed; then make its failed Workloads anew",
}
"""By the reason of Scheduled on a WorkloadGroup, and by its phase Failed."""

WITH_GROUP = frozenset(
    {
        "WaitingForGroup",
        "GroupIncomplete",
        "GroupDenied",
        "GroupWithdrawn",
        "ScheduleTimeout",
        "InvalidGroup",
    }
)
"""Reasons on a Workload that repeat its WorkloadGroup's; a listed group gives the advice."""
OVER = ("Finished",)
"""The phases without a finding."""


class GroupSummarySpec(msgspec.Struct, rename="camel"):
    min_member: int = 0


class GroupSummaryStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    scheduled: int = 0
    waiting: int = 0
    gate: str = ""
    failures: int = 0
    retry_time: str = ""
    last_failure_time: str = ""
    conditions: list[Condition] = []


class GroupSummary(Summary):
    spec: GroupSummarySpec = msgspec.field(default_factory=GroupSummarySpec)
    status: GroupSummaryStatus = msgspec.field(default_factory=GroupSummaryStatus)


def take(report: Report, groups: Iterable[GroupSummary], now: datetime) -> None:
    """Count the groups by phase, and list the findings on those that are not over."""
    found = report.findings.setdefault(FINDINGS.name, [])
    counts = report.counts.setdefault(FINDINGS.counts, {})
    for each in groups:
        tally(counts, each.status.phase or "Undecided")
        if each.status.phase in OVER or each.metadata.deleting:
            continue
        finding = _failed(each) or _waiting(each, now)
        found += [finding] if finding else []


def _failed(each: GroupSummary) -> Finding | None:
    if each.status.phase != "Failed":
        return None
    said = condition(each.status.conditions, "Scheduled")
    return Finding(
        each.name,
        "Failed",
        since=each.status.last_failure_time or (said.last_transition_time if said else ""),
        units=_units(each),
        message="so many units failed that those it needs cannot run any more",
        help=ADVICE["Failed"],
        urgent=True,
    )


def _waiting(each: GroupSummary, now: datetime) -> Finding | None:
    said = condition(each.status.conditions, "Scheduled")
    if said is None:
        return undecided(each, now)
    if said.status == "True":
        return None
    since = said.last_transition_time
    waits = said.reason in ("WaitingForGroup", "GroupIncomplete")
    patient = waits and (each.status.waiting > 0 or not overdue(since, PATIENCE_SECONDS, now))
    again = _again(each, now)
    return Finding(
        each.name,
        said.reason,
        since=since,
        units=_units(each),
        message=f"{said.message}; {again}" if again else said.message,
        help="" if patient else ADVICE.get(said.reason, UNKNOWN),
        urgent=not patient,
    )


def _again(each: GroupSummary, now: datetime) -> str:
    """Return when a withdrawn group is tried again; empty where its condition says so."""
    said = condition(each.status.conditions, "Scheduled")
    at = time(each.status.retry_time)
    left = (at - now).total_seconds() if at else 0.0
    if left >= 1:
        told = said is not None and said.reason == "PropagationFailed"
        return "" if told else f"tried again in {seconds(left)}"
    return "tried again when all is gone" if each.status.gate == "Closed" else ""


def _units(each: GroupSummary) -> str:
    """Return the units that have a cluster or are held, of those that are needed."""
    return f"{each.status.scheduled + each.status.waiting} of {each.spec.min_member}"


FINDINGS = KindFindings(
    type_=GroupSummary,
    take=take,
    name="groups",
    title="Groups that wait, were taken away or have failed",
    counts="workloadGroups",
    before=True,
)
