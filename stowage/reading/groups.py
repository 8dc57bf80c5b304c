"""The findings of `stowage status` on WorkloadGroups that wait, were withdrawn, or failed.

A gang is one finding, however many Workloads it has. Nothing is computed that the controller has
not written.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from machinery.types.metadata import Meta
from stowage.reading import words
from stowage.reading.advice import GROUPS, UNKNOWN, incomplete, of_group
from stowage.reading.fleet import (
    PATIENCE_SECONDS,
    Condition,
    Finding,
    Report,
    condition,
    overdue,
    tally,
)

OVER = ("Finished",)
"""The phases without a finding."""


class _Spec(msgspec.Struct, rename="camel"):
    min_member: int = 0


class _GroupStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    scheduled: int = 0
    waiting: int = 0
    gate: str = ""
    failures: int = 0
    retry_time: str = ""
    last_failure_time: str = ""
    conditions: list[Condition] = []


class GroupSummary(msgspec.Struct):
    metadata: Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


def take_groups(report: Report, groups: Iterable[GroupSummary], now: datetime) -> None:
    """Count the groups by phase, and list the findings on those that are not over."""
    for each in groups:
        tally(report.workload_groups, each.status.phase or "Undecided")
        if each.status.phase in OVER or each.metadata.deleting:
            continue
        matter = _failed(each) or _waiting(each, now)
        report.groups += [matter] if matter else []


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
        help=GROUPS["Failed"],
        urgent=True,
    )


def _waiting(each: GroupSummary, now: datetime) -> Finding | None:
    said, created = condition(each.status.conditions, "Scheduled"), each.metadata.creation_timestamp
    if said is None:
        if not overdue(created, PATIENCE_SECONDS, now):
            return None
        asks = "is the controller running?"
        return Finding(each.name, "Undecided", created, message=asks, help=UNKNOWN, urgent=True)
    if said.status == "True":
        return None
    since = said.last_transition_time
    waits = said.reason == "WaitingForGroup" or incomplete(said.reason, said.message)
    patient = waits and (each.status.waiting > 0 or not overdue(since, PATIENCE_SECONDS, now))
    again = _again(each, now)
    return Finding(
        each.name,
        said.reason,
        since=since,
        units=_units(each),
        message=f"{said.message}; {again}" if again else said.message,
        help="" if patient else of_group(said.reason, said.message),
        urgent=not patient,
    )


def _again(each: GroupSummary, now: datetime) -> str:
    """Return when a withdrawn group is tried again; empty where its condition says so."""
    said = condition(each.status.conditions, "Scheduled")
    if said is not None and "tried again" in said.message:
        return ""
    at = words.time(each.status.retry_time)
    left = (at - now).total_seconds() if at else 0.0
    if left >= 1:
        return f"tried again in {words.seconds(left)}"
    return "tried again when all is gone" if each.status.gate == "Closed" else ""


def _units(each: GroupSummary) -> str:
    """Return the units that have a cluster or are held, of those that are needed."""
    return f"{each.status.scheduled + each.status.waiting} of {each.spec.min_member}"
