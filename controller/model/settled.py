"""From what the clusters report of a divided Workload to the limits that its next plan keeps to.

`controller.model.learning` is the rule. This module says when a report is believed: units count as
having no node only once they have waited for `patience`, because a cluster that grows by itself
needs a while.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from controller.model.learning import learn, next_expiry
from controller.model.unit import WorkloadInfo


def settled(unit: WorkloadInfo, now: datetime, patience: timedelta) -> WorkloadInfo:
    """Return the Workload with what its clusters have shown by now; itself where nothing is new."""
    now = now.replace(microsecond=0)  # the resolution of the status
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


def next_look(unit: WorkloadInfo, now: datetime, patience: timedelta) -> float | None:
    """Return the seconds until `settled` may say something new without a report; None for never."""
    waits = [each.believed(patience) for each in unit.shown.values()]
    moments = [next_expiry(unit.limits), *(at for at in waits if at is not None and at > now)]
    known = [(at - now).total_seconds() for at in moments if at is not None]
    return max(min(known), 1.0) if known else None
