"""The findings of `stowage status` on WorkloadQuotas that are full or keep units out.

Nothing is computed that the controller has not written: the used amounts stand in the quota's
status, the units kept out in the condition of each Workload and Reservation.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import chain

import msgspec

from controller.framework.findings import (
    Finding,
    KindFindings,
    Report,
    Summary,
    condition,
)
from controller.model.objects import Condition
from crds.names import REQUESTS
from machinery.types import quantities

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


def take(report: Report, quotas: Iterable[QuotaSummary], _now: datetime) -> None:
    """List the quotas that are full or keep units out.

    The advice on what waits for a quota moves to the quotas of its namespace: to those that are
    full, and to all where none is.
    """
    found = report.findings.setdefault(FINDINGS.name, [])
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
                    urgent=bool(kept),
                )
            )


FINDINGS = KindFindings(
    type_=QuotaSummary,
    take=take,
    name="quotas",
    title="Quotas that are full or keep units out",
    after=True,
)
