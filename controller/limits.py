"""From what the propagator reports of a divided Workload to the limits that its next plan keeps to.

`controller.apportion.settle` is the rule; here stands when a report is taken for true. Units count
as having no node only once they have waited for `patience`, because a cluster that grows by itself
needs a while; a report that speaks of another number than the one that was decided is on its way,
and says nothing. Limits are written in the status together with the decision that keeps to them, so
that the next process, and whoever plans or explains, knows what this one has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from controller.apportion.settle import Limit, learn, next_expiry
from controller.model import Workload, WorkloadStatus
from crds.workload import ShareState
from machinery.clock import timestamp

if TYPE_CHECKING:
    from controller.unit import Unit

_UNREACHABLE = ShareState.UNREACHABLE.value


@dataclass(frozen=True, slots=True)
class Shown:
    """How a cluster fares with its share: units asked of it, units that run, or wait for no node.

    `since` is when the first of those that have no node began to wait; None where none does.
    """

    asked: int
    runs: int
    since: datetime | None

    def believed(self, patience: timedelta) -> datetime | None:
        """From when on its missing units count; None where none is missing."""
        return self.since + patience if self.since is not None else None


def stored(status: WorkloadStatus) -> dict[str, Limit]:
    """The limits that the status tells, by cluster."""
    return {
        each.cluster: Limit(
            each.replicas,
            each.until.astimezone(UTC),
            timedelta(seconds=each.hold_seconds),
            each.doubted,
        )
        for each in status.limits
    }


def told(limits: Mapping[str, Limit]) -> list[dict[str, Any]]:
    """The limits as the status tells them, by name."""
    return [
        {
            "cluster": cluster,
            "replicas": limit.units,
            "until": timestamp(limit.expires),
            "holdSeconds": int(limit.hold.total_seconds()),
            "doubted": limit.doubted,
        }
        for cluster, limit in sorted(limits.items())
    ]


def shown(workload: Workload) -> dict[str, Shown]:
    """The clusters that say something about limits: those with one, or with units without a node.

    A pod that a rolling update adds beside those that run is not missing.
    """
    placed, limited = workload.placements, {each.cluster for each in workload.status.limits}
    found = {}
    for share in workload.status.clusters:
        asked = placed.get(share.name)
        if asked is None or asked != share.replicas or share.state == _UNREACHABLE:
            continue
        runs = min(asked, max(share.scheduled, asked - share.unschedulable))
        if runs < asked and share.unschedulable_since is not None:
            found[share.name] = Shown(asked, runs, share.unschedulable_since.astimezone(UTC))
        elif runs == asked == min(asked, share.scheduled) and share.name in limited:
            found[share.name] = Shown(asked, asked, None)
    return found


def settled(unit: Unit, now: datetime, patience: timedelta) -> Unit:
    """The unit with what its clusters have shown by now; itself where that is nothing new."""
    now = now.replace(microsecond=0)  # as the status tells it
    due = {
        cluster: each
        for cluster, each in unit.shown.items()
        if (at := each.believed(patience)) is None or at <= now
    }
    limits = learn(
        unit.limits,
        present={cluster: each.asked for cluster, each in due.items()},
        unschedulable={cluster: each.asked - each.runs for cluster, each in due.items()},
        now=now,
    )
    return unit if limits == unit.limits else replace(unit, limits=limits)


def next_look(unit: Unit, now: datetime, patience: timedelta) -> float | None:
    """Seconds until `settled` may say something new though nothing is reported; None for never."""
    waits = [each.believed(patience) for each in unit.shown.values()]
    moments = [next_expiry(unit.limits), *(at for at in waits if at is not None and at > now)]
    known = [(at - now).total_seconds() for at in moments if at is not None]
    return max(min(known), 1.0) if known else None
