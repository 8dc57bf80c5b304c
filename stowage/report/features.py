"""The findings of `stowage status` on Reservations, WorkloadGroups, WorkloadSpreads and quotas.

Only the end of a Reservation is computed here: its creation plus its ttl. A gang is one finding,
however many Workloads it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import msgspec

from controller.model.objects import Condition
from crds.names import DEFAULT_SCHEDULER, REQUESTS
from machinery.api import resources
from machinery.types import durations, hostports, quantities
from stowage.console.words import seconds, time
from stowage.report import advice
from stowage.report.findings import (
    PATIENCE_SECONDS,
    Finding,
    KindFindings,
    Report,
    Summary,
    condition,
    overdue,
    tally,
    undecided,
    unplaced,
    unready,
)

# --- Reservations ---------------------------------------------------------------------------------

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


def _take_reservations(
    report: Report, reservations: Iterable[ReservationSummary], now: datetime
) -> None:
    found = report.findings.setdefault(RESERVATIONS.name, [])
    counts = report.counts.setdefault(RESERVATIONS.counts, {})
    kept: dict[str, dict[str, int]] = {}
    for each in reservations:
        tally(counts, _phase(each))
        if each.status.phase in OVER:
            continue
        amounts = kept.setdefault(each.metadata.namespace, {})
        for resource, amount in _kept(each.status):
            amounts[resource] = amounts.get(resource, 0) + amount
        if not each.metadata.deleting:
            found += _of_reservation(each, now)
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


def _of_reservation(each: ReservationSummary, now: datetime) -> Iterator[Finding]:
    waiting, ready = _unplaced(each, now), condition(each.status.conditions, "Ready")
    if waiting:
        yield waiting
    if ready is not None and ready.reason in advice.RESERVATIONS:
        yield unready(each.name, ready, advice.RESERVATIONS[ready.reason])
    at = ends(each.metadata.creation_timestamp, each.spec.ttl, each.spec.expires)
    if at is not None and at - now <= SOON:
        yield Finding(each.name, "Expiring", message=_end(at, now))


def _unplaced(each: ReservationSummary, now: datetime) -> Finding | None:
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


RESERVATIONS = KindFindings(
    type_=ReservationSummary,
    take=_take_reservations,
    name="reserved",
    title="Reservations that wait, lack room or end soon",
    counts="reservations",
)


# --- WorkloadGroups -------------------------------------------------------------------------------


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


def _take_groups(report: Report, groups: Iterable[GroupSummary], now: datetime) -> None:
    found = report.findings.setdefault(GROUPS.name, [])
    counts = report.counts.setdefault(GROUPS.counts, {})
    for each in groups:
        tally(counts, each.status.phase or "Undecided")
        if each.status.phase == "Finished" or each.metadata.deleting:
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
        message="so many replicas failed that those it needs cannot run any more",
        help=advice.GROUPS["Failed"],
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
        help="" if patient else advice.GROUPS.get(said.reason, advice.UNKNOWN),
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
    return f"{each.status.scheduled + each.status.waiting} of {each.spec.min_member}"


GROUPS = KindFindings(
    type_=GroupSummary,
    take=_take_groups,
    name="groups",
    title="Groups that wait, were taken away or have failed",
    counts="workloadGroups",
    before=True,
)


# --- WorkloadSpreads ------------------------------------------------------------------------------


class SubsetSummary(msgspec.Struct):
    name: str = ""
    replicas: int = 0
    conditions: list[Condition] = []


class SpreadSummaryStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    subset_statuses: list[SubsetSummary] = []


class SpreadSummary(Summary):
    status: SpreadSummaryStatus = msgspec.field(default_factory=SpreadSummaryStatus)


def _take_spreads(report: Report, spreads: Iterable[SpreadSummary], _now: datetime) -> None:
    """List spreads that are not followed, which needs a person, and subsets that take no unit."""
    found = report.findings.setdefault(SPREADS.name, [])
    for each in spreads:
        if each.metadata.deleting:
            continue
        said = _false(each.status.conditions, "Ready")
        if said is not None:
            found.append(unready(each.name, said, advice.SPREADS.get(said.reason, advice.UNKNOWN)))
        for subset in each.status.subset_statuses:
            mark = _false(subset.conditions, "Schedulable")
            if mark is not None:
                found.append(_marked(each, subset, mark))


def _false(conditions: Iterable[Condition], kind: str) -> Condition | None:
    found = condition(conditions, kind)
    return found if found is not None and found.status == "False" else None


def _marked(spread: SpreadSummary, subset: SubsetSummary, said: Condition) -> Finding:
    # not urgent: the controller tries the subset again after a while
    what = f"subset {subset.name} takes no replica for now"
    return Finding(
        spread.name,
        said.reason,
        since=said.last_transition_time,
        units=str(subset.replicas),
        message=f"{what}: {said.message}" if said.message else what,
    )


SPREADS = KindFindings(
    type_=SpreadSummary,
    take=_take_spreads,
    name="spreads",
    title="Spreads that are not followed, and subsets that take no replica",
)


# --- WorkloadQuotas -------------------------------------------------------------------------------

_EXCEEDED = "QuotaExceeded"


class QuotaSummarySpec(msgspec.Struct):
    hard: dict[str, str | int] = {}


class QuotaSummaryStatus(msgspec.Struct):
    used: dict[str, str | int] = {}
    conditions: list[Condition] = []


class QuotaSummary(Summary):
    spec: QuotaSummarySpec = msgspec.field(default_factory=QuotaSummarySpec)
    status: QuotaSummaryStatus = msgspec.field(default_factory=QuotaSummaryStatus)

    @property
    def holds(self) -> bool:
        """Whether it bounds anybody: one that cannot be followed does not."""
        ready = condition(self.status.conditions, "Ready")
        return ready is None or ready.status != "False"

    def full(self) -> list[str]:
        """Return the amounts that are used up, as `requests.cpu 200 of 200`."""
        found = []
        for name, hard in sorted(self.spec.hard.items()):
            resource, used = name.removeprefix(REQUESTS), self.status.used.get(name)
            if used is not None and quantities.bounded(resource, used) >= quantities.bounded(
                resource, hard
            ):
                found.append(f"{name} {used} of {hard}")
        return found


def _take_quotas(report: Report, quotas: Iterable[QuotaSummary], _now: datetime) -> None:
    """List the quotas that are full or keep units out.

    The advice on what waits for a quota moves to the quotas of its namespace: to those that are
    full, and to all where none is.
    """
    found = report.findings.setdefault(QUOTAS.name, [])
    listed = (*report.pending, *chain.from_iterable(report.findings.values()))
    waiting = [each for each in listed if each.state == _EXCEEDED]
    every = list(quotas)
    crowded = {each.metadata.namespace for each in every if each.holds and each.full()}
    for quota in every:
        ready, namespace = condition(quota.status.conditions, "Ready"), quota.metadata.namespace
        keeps = quota.holds and (bool(quota.full()) or namespace not in crowded)
        kept = [e for e in waiting if keeps and e.name.startswith(f"{namespace}/")]
        for each in kept:
            each.help, each.urgent = "", False
        full = quota.full()
        if ready is not None and ready.status == "False":
            text, helping = ready.message, "mend the field that is named: it bounds nobody"
            found.append(Finding(quota.name, ready.reason, message=text, help=helping, urgent=True))
        elif full or kept:
            units = sum(int(each.units.partition(" ")[0]) for each in kept if each.units)
            told = [f"{', '.join(full)} used"] if full else []
            told += ["1 object waits for it"] if len(kept) == 1 else []
            told += [f"{len(kept)} objects wait for it"] if len(kept) > 1 else []
            helping = "more in its spec.hard, fewer replicas, or fewer Reservations"
            found.append(
                Finding(
                    quota.name,
                    "KeepsOut" if kept else "Full",
                    units=f"{units} pending" if units else "",
                    message="; ".join(told),
                    help=helping if kept else "",
                )
            )


QUOTAS = KindFindings(
    type_=QuotaSummary,
    take=_take_quotas,
    name="quotas",
    title="Quotas that are full or keep replicas out",
    after=True,
)


LISTED: tuple[tuple[resources.Resource, KindFindings[Any]], ...] = (
    (resources.WORKLOAD_SPREADS, SPREADS),
    (resources.WORKLOAD_GROUPS, GROUPS),
    (resources.RESERVATIONS, RESERVATIONS),
    (resources.WORKLOAD_QUOTAS, QUOTAS),
)
"""The kinds that `stowage status` lists, in their order."""
