"""The findings of `stowage status` on Reservations that wait, lack room, or end soon.

Nothing is computed that the controller has not written, but for the time at which one ends: its
creation plus its ttl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from controller.features.advice import unplaced
from controller.framework.findings import (
    Finding,
    KindFindings,
    Report,
    Summary,
    condition,
    seconds,
    tally,
    time,
    undecided,
    unready,
)
from controller.model.objects import Condition
from crds.names import DEFAULT_SCHEDULER
from machinery.types import durations, hostports, quantities

ADVICE: Mapping[str, str] = {
    "ClocksDiffer": "set the clock of the controller's node, or that of the hub's API servers",
    "NotHeld": "make way for its Workload NAME-hold as the message says, or set hold: Books",
    "Short": "nodes for that cluster, or fewer units there; its owners may find less than is held",
}
"""By the reason of Ready on a Reservation that needs a person; SCHEDULED has the others."""

SOON = timedelta(hours=1)
"""A Reservation is listed so long before its end."""
OVER = ("Succeeded", "Failed")
"""The phases of a Reservation that reserves nothing any more."""
_WORTH_TELLING = 0.005


class ReservationSummarySpec(msgspec.Struct, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER
    ttl: str = "24h"
    expires: str = ""


class ReservationSummaryStatus(msgspec.Struct):
    phase: str = ""
    allocatable: dict[str, str | int] = {}
    allocated: dict[str, str | int] = {}
    desired: int = 0
    pending: int = 0
    conditions: list[Condition] = []


class ReservationSummary(Summary):
    spec: ReservationSummarySpec = msgspec.field(default_factory=ReservationSummarySpec)
    status: ReservationSummaryStatus = msgspec.field(default_factory=ReservationSummaryStatus)


def ends(created: str, ttl: str, expires: str) -> datetime | None:
    """Return when a Reservation ends; None for never, or where its fields do not tell."""
    if expires:
        return time(expires)
    since = time(created)
    try:
        length = durations.parse(ttl)
        return since + length if since and length else None
    except (ValueError, OverflowError):
        return None


def take(report: Report, reservations: Iterable[ReservationSummary], now: datetime) -> None:
    """Count them by phase, and list the findings on those that are not over."""
    found = report.findings.setdefault(FINDINGS.name, [])
    counts = report.counts.setdefault(FINDINGS.counts, {})
    kept: dict[str, dict[str, int]] = {}
    for each in reservations:
        tally(counts, _phase(each))
        if each.status.phase in OVER:
            continue
        amounts = kept.setdefault(each.metadata.namespace, {})
        for resource, amount in _kept(each.status):
            amounts[resource] = amounts.get(resource, 0) + amount
        if not each.metadata.deleting:
            found += _findings(each, now)
    report.holds_most = _most(kept, report.offered)


def _kept(status: ReservationSummaryStatus) -> Iterator[tuple[str, int]]:
    """Return the amounts that it keeps free for its owners; pods and host ports are left out."""
    for resource, text in status.allocatable.items():
        if resource != "pods" and hostports.code(resource) is None:
            used = quantities.bounded(resource, status.allocated.get(resource, "0"))
            yield resource, max(quantities.bounded(resource, text) - used, 0)


def _most(kept: Mapping[str, Mapping[str, int]], offered: Mapping[str, int]) -> str:
    """Return `shop: cpu 12, 40% of what the clusters offer`: the namespace with the greatest share.

    The resource is the one of which that namespace keeps the greatest part. Empty where that is
    less than half a percent.
    """
    parts = [
        (amount / offered[resource], namespace, resource)
        for namespace, amounts in kept.items()
        for resource, amount in amounts.items()
        if amount and offered.get(resource)
    ]
    part, namespace, resource = max(parts, default=(0.0, "", ""))
    if part < _WORTH_TELLING:
        return ""
    amount = quantities.readable(resource, kept[namespace][resource])
    return f"{namespace}: {resource} {amount}, {part:.0%} of what the clusters offer"


def _phase(each: ReservationSummary) -> str:
    ours = each.spec.scheduler_name == DEFAULT_SCHEDULER
    return each.status.phase or ("Undecided" if ours else "LeftToOthers")


def _findings(each: ReservationSummary, now: datetime) -> Iterator[Finding]:
    waiting, ready = _waiting(each, now), condition(each.status.conditions, "Ready")
    if waiting:
        yield waiting
    if ready is not None and ready.reason in ADVICE:
        yield unready(each.name, ready, ADVICE[ready.reason])
    at = ends(each.metadata.creation_timestamp, each.spec.ttl, each.spec.expires)
    if at is not None and at - now <= SOON:
        yield Finding(each.name, "Expiring", message=_end(at, now))


def _waiting(each: ReservationSummary, now: datetime) -> Finding | None:
    said = condition(each.status.conditions, "Scheduled")
    if said is None:
        # The leader may write Pending before the first decision, so that the phase tells nothing.
        ours = each.spec.scheduler_name == DEFAULT_SCHEDULER
        return undecided(each, now) if ours else None
    if said.status == "True":
        return None
    return unplaced(each.name, said, f"{each.status.pending} of {each.status.desired}")


def _end(at: datetime, now: datetime) -> str:
    left = (at - now).total_seconds()
    if left <= 0:
        return f"is over since {seconds(-left)}"
    return f"holds its room for {seconds(left)} more"


FINDINGS = KindFindings(
    type_=ReservationSummary,
    take=take,
    name="reserved",
    title="Reservations that wait, lack room or end soon",
    counts="reservations",
)
