"""Limits learnt from the replicas that clusters run, believed for a while and forgotten. Pure.

A cluster may report replicas that found no node, or that it refuses, against its reported room. The
replicas that it did run become its learnt limit, a bound for the planner. After the limit expires
it is doubted: a cluster that still cannot run more is believed for twice as long, one that can has
its limit doubled until there is none. After a limit of 0 a single replica is tried.

The loop of planning and learning ends: no cluster gets more than its limit (`Problem.settled`), so
each round but the last overcharges a cluster for the first time, at most n + 1 rounds. From the
second round on shares grow from the replicas that run, so no replica goes back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from controller.model.objects import Workload, WorkloadStatus
from controller.planner.problem import UNBOUNDED
from controller.planner.webster import Ints
from crds.fields.shares import ShareState
from machinery.clock import timestamp
from machinery.types.bounds import MOST_UNITS, between

FIRST_HOLD = timedelta(minutes=5)
LONGEST_HOLD = timedelta(hours=2)
FORGOTTEN = 2**19
"""A limit that was doubled up to this is dropped."""
_FIRST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(2970, 1, 1, tzinfo=UTC)
_UNREACHABLE = ShareState.UNREACHABLE.value


@dataclass(frozen=True, slots=True)
class ObservedLimit:
    """The replicas that a cluster was seen to run.

    Args:
        replicas: the most it is given.
        expires: when the limit is doubted.
        hold: for how long it was believed this time.
        doubted: the limit expired and was doubled since replicas were last seen without a node.
    """

    replicas: int
    expires: datetime
    hold: timedelta = FIRST_HOLD
    doubted: bool = False


def learn(
    limits: Mapping[str, ObservedLimit],
    *,
    present: Mapping[str, int],
    unschedulable: Mapping[str, int],
    now: datetime,
) -> dict[str, ObservedLimit]:
    """Return the limits after one look at the clusters; equal to `limits` where nothing is new.

    Args:
        limits: what is believed, by cluster.
        present: replicas that each cluster is asked to run. Only clusters that reported on just
            this number, so that an outdated report is not read as a success.
        unschedulable: of those, the replicas without a node; 0 where absent.
        now: the time of the look.
    """
    learnt = {}
    for cluster in {**limits, **present}:
        asked = present.get(cluster, 0)
        runs = max(asked - unschedulable.get(cluster, 0), 0)
        limit = _failed if runs < asked else _ran
        found = limit(limits.get(cluster), runs, now)
        if found is not None and found.replicas < FORGOTTEN:
            learnt[cluster] = found
    return learnt


def left(old: ObservedLimit | None, stays: int, now: datetime) -> ObservedLimit:
    """Return the limit of a cluster that runs replicas badly, which leave it."""
    return _failed(old, stays, now.replace(microsecond=0))


def as_bounds(limits: Mapping[str, ObservedLimit], row: Mapping[str, int]) -> Ints:
    learnt = np.full(len(row), UNBOUNDED, dtype=np.int64)
    for cluster, limit in limits.items():
        if cluster in row:
            learnt[row[cluster]] = limit.replicas
    return learnt


def next_expiry(limits: Mapping[str, ObservedLimit]) -> datetime | None:
    return min((limit.expires for limit in limits.values()), default=None)


def _failed(old: ObservedLimit | None, runs: int, now: datetime) -> ObservedLimit:
    if old is None:
        return ObservedLimit(runs, now + FIRST_HOLD)
    if old.replicas == runs and now < old.expires and not old.doubted:
        return old
    confirmed = old.doubted or now >= old.expires
    hold = min(old.hold * 2, LONGEST_HOLD) if confirmed else old.hold
    return ObservedLimit(runs, now + hold, hold)


def _ran(old: ObservedLimit | None, runs: int, now: datetime) -> ObservedLimit | None:
    if old is None:
        return None
    if now >= old.expires:
        replicas = max(2 * old.replicas, runs, 1)
        return ObservedLimit(replicas, now + old.hold, old.hold, doubted=True)
    return old if runs <= old.replicas else replace(old, replicas=runs)


@dataclass(frozen=True, slots=True)
class Shown:
    """How a cluster fares with its share: replicas asked of it, and replicas that run there.

    `since` is when the first of those without a node began to wait; None where none is without.
    """

    asked: int
    runs: int
    since: datetime | None

    def believed(self, patience: timedelta) -> datetime | None:
        """Return from when on its missing replicas count."""
        return self.since + patience if self.since is not None else None


def from_status(status: WorkloadStatus) -> dict[str, ObservedLimit]:
    return {
        each.cluster: ObservedLimit(
            between(0, each.replicas, UNBOUNDED),
            _utc(each.until),
            timedelta(seconds=between(0, each.hold_seconds, MOST_UNITS)),
            each.doubted,
        )
        for each in status.limits
    }


def to_status(limits: Mapping[str, ObservedLimit]) -> list[dict[str, Any]]:
    return [
        {
            "cluster": cluster,
            "replicas": limit.replicas,
            "until": timestamp(limit.expires),
            "holdSeconds": int(limit.hold.total_seconds()),
            "doubted": limit.doubted,
        }
        for cluster, limit in sorted(limits.items())
    ]


def shown(workload: Workload) -> dict[str, Shown]:
    placed, limited = workload.placements, {each.cluster for each in workload.status.limits}
    found = {}
    for share in workload.status.clusters:
        asked = placed.get(share.name)
        if asked is None or asked != share.replicas or share.state == _UNREACHABLE:
            continue
        # A pod that a rolling update adds beside those that run is not missing.
        missing = share.unschedulable + share.refused
        runs = between(0, max(share.scheduled, asked - missing), asked)
        if runs < asked and share.unschedulable_since is not None:
            found[share.name] = Shown(asked, runs, _utc(share.unschedulable_since))
        elif runs == asked == min(asked, share.scheduled) and share.name in limited:
            found[share.name] = Shown(asked, asked, None)
    return found


def waiting(workload: Workload) -> dict[str, datetime]:
    return {
        share.name: _utc(share.unschedulable_since)
        for share in workload.status.clusters
        if (share.unschedulable or share.refused)
        and share.unschedulable_since
        and share.state != _UNREACHABLE
    }


def _utc(moment: datetime) -> datetime:
    # A member reports the moment, and at the ends of the calendar nothing could be added to it.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(aware, _FIRST_MOMENT), _LAST_MOMENT).astimezone(UTC)
