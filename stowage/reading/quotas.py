"""The findings of `stowage status` on WorkloadQuotas that are full or keep units out.

Nothing is computed that the controller has not written: the used amounts stand in the quota's
status, the units kept out in the condition of each Workload and Reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from crds.names import REQUESTS
from machinery.types import quantities
from machinery.types.metadata import Meta
from stowage.planning.words import count
from stowage.reading.fleet import Condition, Finding, Report, condition

_EXCEEDED = "QuotaExceeded"


class QuotaSummarySpec(msgspec.Struct):
    hard: dict[str, str | int] = {}


class QuotaSummaryStatus(msgspec.Struct):
    used: dict[str, str | int] = {}
    conditions: list[Condition] = []


class QuotaSummary(msgspec.Struct):
    metadata: Meta
    spec: QuotaSummarySpec = msgspec.field(default_factory=QuotaSummarySpec)
    status: QuotaSummaryStatus = msgspec.field(default_factory=QuotaSummaryStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

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


def take_quotas(report: Report, quotas: Sequence[QuotaSummary]) -> None:
    """List the quotas that are full or keep units out.

    `report.pending` and `report.reserved` must be complete: the advice of the findings there that
    name a quota moves to the quota.
    """
    waiting = [each for each in (*report.pending, *report.reserved) if each.state == _EXCEEDED]
    for quota in quotas:
        ready = condition(quota.status.conditions, "Ready")
        kept = list(_kept_by(quota, waiting))
        for each in kept:
            each.help, each.urgent = "", False
        full = quota.full()
        if ready is not None and ready.status == "False":
            text, helping = ready.message, "mend the field that is named: it bounds nobody"
            report.quotas.append(
                Finding(quota.name, ready.reason, message=text, help=helping, urgent=True)
            )
        elif full or kept:
            units = sum(int(each.units.partition(" ")[0]) for each in kept if each.units)
            state = "KeepsOut" if kept else "Full"
            told = [f"{', '.join(full)} used"] if full else []
            told += [f"{count(len(kept), 'object')} waits for it"] if len(kept) == 1 else []
            told += [f"{len(kept)} objects wait for it"] if len(kept) > 1 else []
            report.quotas.append(
                Finding(
                    quota.name,
                    state,
                    units=f"{units} pending" if units else "",
                    message="; ".join(told),
                    help="more in its spec.hard, fewer replicas, or fewer Reservations"
                    if kept
                    else "",
                    urgent=bool(kept),
                )
            )


def _kept_by(quota: QuotaSummary, waiting: Iterable[Finding]) -> Iterable[Finding]:
    """Return the findings of its namespace whose condition names this quota."""
    named = f"WorkloadQuota {quota.metadata.name}:"
    for each in waiting:
        if each.name.startswith(f"{quota.metadata.namespace}/") and named in each.message:
            yield each
