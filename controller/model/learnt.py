"""The limits in a Workload's status, and what its clusters report of their shares.

A report about another number of units than the decided one is outdated, and says nothing. Limits
are written in the status together with the decision that keeps to them, so that the next process,
plan and explain know what this process has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.model.learning import ObservedLimit
from controller.model.objects import Workload, WorkloadStatus
from controller.planner.problem import UNBOUNDED
from crds.fields.shares import ShareState
from machinery.clock import timestamp
from machinery.types.bounds import MOST_UNITS, between

_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(2970, 1, 1, tzinfo=UTC)
_UNREACHABLE = ShareState.UNREACHABLE.value


@dataclass(frozen=True, slots=True)
class Shown:
    """How a cluster fares with its share: units asked of it, and units that run there.

    `since` is when the first of those without a node began to wait; None where none is without.
    """

    asked: int
    runs: int
    since: datetime | None

    def believed(self, patience: timedelta) -> datetime | None:
        """Return from when on its missing units count; None where none is missing."""
        return self.since + patience if self.since is not None else None


def stored(status: WorkloadStatus) -> dict[str, ObservedLimit]:
    """Return the limits in the status, by cluster."""
    return {
        each.cluster: ObservedLimit(
            between(0, each.replicas, UNBOUNDED),
            _utc(each.until),
            timedelta(seconds=between(0, each.hold_seconds, MOST_UNITS)),
            each.doubted,
        )
        for each in status.limits
    }


def told(limits: Mapping[str, ObservedLimit]) -> list[dict[str, Any]]:
    """Return the limits in the form of the status, sorted by cluster."""
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
    """Return the reports of clusters that have a limit, or units without a node."""
    placed, limited = workload.placements, {each.cluster for each in workload.status.limits}
    found = {}
    for share in workload.status.clusters:
        asked = placed.get(share.name)
        if asked is None or asked != share.replicas or share.state == _UNREACHABLE:
            continue
        # A pod that a rolling update adds beside those that run is not missing.
        runs = between(0, max(share.scheduled, asked - share.unschedulable), asked)
        if runs < asked and share.unschedulable_since is not None:
            found[share.name] = Shown(asked, runs, _utc(share.unschedulable_since))
        elif runs == asked == min(asked, share.scheduled) and share.name in limited:
            found[share.name] = Shown(asked, asked, None)
    return found


def _utc(moment: datetime) -> datetime:
    """Return the moment in UTC, within the years from 1970 to 2970."""
    # A member reports the moment, and at the ends of the calendar nothing could be added to it.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(aware, _FIRST_MOMENT), _LAST_MOMENT).astimezone(UTC)
