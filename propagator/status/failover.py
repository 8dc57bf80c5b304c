"""Whether a share is unhealthy, and for how long, for spec.movement.unhealthySeconds. Pure.

It is so only while its cluster answers, and only of a revision that was ready there. The clock is
the one field `since` in the status, put off by the time for which the cluster was silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from crds.fields.shares import ShareHealth, ShareState
from machinery.clock import stored_time, timestamp
from machinery.kinds.readiness import Readiness
from machinery.types.bounds import MOST_UNITS, between


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long a share of that revision may be unhealthy, and as of when it is known."""

    seconds: int
    revision: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Record:
    """status.clusters[].failover as it is read; of another revision nothing is known."""

    replicas: int = 0
    since: datetime | None = None
    seconds: int = 0

    @classmethod
    def of(cls, stored: Any, revision: str) -> Record | None:
        if not isinstance(stored, Mapping) or stored.get("revision") != revision:
            return None
        return cls(
            between(0, int(stored.get("replicas") or 0), MOST_UNITS),
            stored_time(str(stored.get("since") or "")),
            between(0, int(stored.get("seconds") or 0), MOST_UNITS),
        )

    def told(self, revision: str) -> dict[str, Any]:
        since = {"since": timestamp(self.since)} if self.since is not None else {}
        return {"revision": revision, "replicas": self.replicas, **since, "seconds": self.seconds}

    def counted(self, now: datetime) -> int:
        if self.since is None:
            return self.seconds
        return between(0, int((now - self.since).total_seconds()), MOST_UNITS)

    def stopped(self, now: datetime) -> Record:
        return Record(self.replicas, None, self.counted(now))

    def running(self, patience: Patience) -> Record:
        now = patience.now.replace(microsecond=0)  # the resolution of the status
        since = self.since if self.since is not None else now - timedelta(seconds=self.seconds)
        counted = Record(self.replicas, since).counted(now)
        over = self.seconds < patience.seconds <= counted
        return Record(self.replicas, since, counted if over else self.seconds)


def of_silent(patience: Patience, stored: Any) -> dict[str, Any] | None:
    record = Record.of(stored, patience.revision)
    return record.stopped(patience.now).told(patience.revision) if record is not None else None


def of_seen(
    patience: Patience,
    stored: Any,
    readiness: Readiness,
    *,
    asked: int,
    available: int | None,
    state: ShareState,
    written: bool,
) -> dict[str, Any] | None:
    """Return the record of a share that is observed; None while nothing of it was ready.

    Args:
        patience: of the share.
        stored: that of the last report.
        readiness: its present counts.
        asked: the replicas of the share.
        available: those that have been ready for spec.movement.minReadySeconds; None if all count.
        state: of the share.
        written: whether all of the revision is known to be on the member.
    """
    record, revision = Record.of(stored, patience.revision), patience.revision
    proven = available is None or available >= asked
    bad = readiness.health is ShareHealth.DEGRADED
    runs = state is ShareState.RUNNING and written and not readiness.outdated and not bad
    if runs and asked and proven:
        return Record(asked).told(revision)
    if record is None:
        return None
    record = Record(min(record.replicas, asked), record.since, record.seconds)
    if not readiness.observed:
        return record.told(revision)
    if readiness.outdated or readiness.health is ShareHealth.SUSPENDED:
        return Record(record.replicas).told(revision)  # it is being replaced, or rests
    if bad or readiness.ready < record.replicas:
        return record.running(patience).told(revision)
    # Replicas that fall again before they have proven themselves go on with the same clock.
    enough = available is None or available >= record.replicas
    kept = Record(record.replicas) if enough else record.stopped(patience.now)
    return kept.told(revision)


def over_in(patience: Patience, told: Mapping[str, Any] | None) -> float | None:
    """Return the seconds until the clock of a record is over; None if it stands, or is told."""
    record = Record.of(told, patience.revision)
    if record is None or record.since is None or record.seconds >= patience.seconds:
        return None
    end = record.since + timedelta(seconds=patience.seconds)
    return max((end - patience.now).total_seconds(), 0.0)
