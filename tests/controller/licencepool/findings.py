"""The findings of `stowage status` on LicencePools without a free seat."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from stowage.report.findings import Finding, KindFindings, Report, Summary, tally


class PoolSummarySpec(msgspec.Struct):
    seats: int = 0


class PoolSummaryStatus(msgspec.Struct):
    taken: int = 0


class PoolSummary(Summary):
    spec: PoolSummarySpec = msgspec.field(default_factory=PoolSummarySpec)
    status: PoolSummaryStatus = msgspec.field(default_factory=PoolSummaryStatus)


def take(report: Report, pools: Iterable[PoolSummary], _now: datetime) -> None:
    """Count the pools, and list those that are full."""
    for each in pools:
        full = each.status.taken >= each.spec.seats
        tally(report.counts[FINDINGS.counts], "Full" if full else "Available")
        if full:
            text = f"{each.status.taken} of {each.spec.seats} seats are taken"
            report.findings[FINDINGS.name].append(
                Finding(each.name, "Full", message=text, help="more in its spec.seats")
            )


FINDINGS = KindFindings(
    type_=PoolSummary,
    take=take,
    name="pools",
    title="Licence pools without a free seat",
    counts="licencePools",
)
