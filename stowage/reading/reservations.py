"""The findings of `stowage status` on Reservations that wait, lack room, or end soon.

Nothing is computed that the controller has not written, but for the time at which one ends: its
creation plus its ttl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from crds.names import DEFAULT_SCHEDULER
from machinery.types import durations, hostports, quantities
from machinery.types.metadata import Meta
from stowage.reading import words
from stowage.reading.advice import PATIENT, RESERVATIONS, SCHEDULED, UNKNOWN
from stowage.reading.fleet import (
    PATIENCE_SECONDS,
    Condition,
    Finding,
    Report,
    condition,
    overdue,
    tally,
)

SOON = timedelta(hours=1)
"""A Reservation is listed so long before its end."""
OVER = ("Succeeded", "Failed")
"""The phases of a Reservation that reserves nothing any more."""


class ReservationSummarySpec(msgspec.Struct, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER
    ttl: str = "24h"
    expires: str = ""


class ReservationSummaryStatus(msgspec.Struct):
    phase: str = ""
    allocatable: dict[str, str] = {}
    allocated: dict[str, str] = {}
    desired: int = 0
    pending: int = 0
    conditions: list[Condition] = []


class ReservationSummary(msgspec.Struct):
    metadata: Meta
    spec: ReservationSummarySpec = msgspec.field(default_factory=ReservationSummarySpec)
    status: ReservationSummaryStatus = msgspec.field(default_factory=ReservationSummaryStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


def ends(created: str, ttl: str, expires: str) -> datetime | None:
    """Return when a Reservation ends; None for never, or where its fields do not tell."""
    if expires:
        return words.time(expires)
    since = words.time(created)
    try:
        length = durations.parse(ttl)
        return since + length if since and length else None
    except (ValueError, OverflowError):
        return None


def take_reservations(
    report: Report, reservations: Iterable[ReservationSummary], now: datetime
) -> None:
    """Count them by phase, and list the findings on those that are not over.

    `report.offered` must be complete.
    """
    kept: dict[str, dict[str, int]] = {}
    for each in reservations:
        tally(report.reservations, _phase(each))
        if each.status.phase in OVER:
            continue
        amounts = kept.setdefault(each.metadata.namespace, {})
        for resource, amount in _kept(each.status):
            amounts[resource] = amounts.get(resource, 0) + amount
        if not each.metadata.deleting:
            report.reserved += _matters(each, now)
    report.holds_most = _most(kept, report.offered)


def _kept(status: ReservationSummaryStatus) -> Iterator[tuple[str, int]]:
    """Return the amounts that it keeps free for its owners; pods and host ports are left out."""
    for resource, text in status.allocatable.items():
        if resource != "pods" and hostports.code(resource) is None:
            used = quantities.bounded(resource, status.allocated.get(resource, "0"))
            yield resource, max(quantities.bounded(resource, text) - used, 0)


def _most(kept: Mapping[str, Mapping[str, int]], offered: Mapping[str, int]) -> str:
    """Return `shop: cpu 12, 40% of what the clusters offer`: the namespace with the greatest share.

    The resource is the one of which that namespace keeps the greatest part. Empty where nothing is
    kept.
    """
    parts = [
        (amount / offered[resource], namespace, resource)
        for namespace, amounts in kept.items()
        for resource, amount in amounts.items()
        if amount and offered.get(resource)
    ]
    if not parts:
        return ""
    part, namespace, resource = max(parts)
    amount = quantities.readable(resource, kept[namespace][resource])
    return f"{namespace}: {resource} {amount}, {part:.0%} of what the clusters offer"


def _phase(each: ReservationSummary) -> str:
    ours = each.spec.scheduler_name == DEFAULT_SCHEDULER
    return each.status.phase or ("Undecided" if ours else "LeftToOthers")


def _matters(each: ReservationSummary, now: datetime) -> Iterator[Finding]:
    waiting, ready = _waiting(each, now), condition(each.status.conditions, "Ready")
    if waiting:
        yield waiting
    if ready is not None and ready.reason in RESERVATIONS:
        yield Finding(
            each.name,
            ready.reason,
            since=ready.last_transition_time,
            message=ready.message,
            help=RESERVATIONS[ready.reason],
            urgent=True,
        )
    at = ends(each.metadata.creation_timestamp, each.spec.ttl, each.spec.expires)
    if at is not None and at - now <= SOON:
        yield Finding(each.name, "Expiring", message=_end(at, now))


def _waiting(each: ReservationSummary, now: datetime) -> Finding | None:
    said, created = condition(each.status.conditions, "Scheduled"), each.metadata.creation_timestamp
    if said is None:
        if _phase(each) != "Undecided" or not overdue(created, PATIENCE_SECONDS, now):
            return None
        asks = "is the controller running?"
        return Finding(each.name, "Undecided", created, message=asks, help=UNKNOWN, urgent=True)
    if said.status == "True":
        return None
    return Finding(
        each.name,
        said.reason,
        since=said.last_transition_time,
        units=f"{each.status.pending} of {each.status.desired}",
        message=said.message,
        help=SCHEDULED.get(said.reason, UNKNOWN),
        urgent=said.reason not in PATIENT,
    )


def _end(at: datetime, now: datetime) -> str:
    left = (at - now).total_seconds()
    if left <= 0:
        return f"is over since {words.seconds(-left)}"
    return f"holds its room for {words.seconds(left)} more"
