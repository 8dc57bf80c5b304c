"""Gauges of the fleet, as the leader sees it. No label names a Workload.

A standby exports nothing, so sums over instances are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from controller.model.objects import Workload
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason, WorkloadCondition, WorkloadState
from machinery import metrics

UNKNOWN = "Unknown"
"""The reason of an undecided Workload, or in place of an unknown one."""
# Plain strings: an enum costs each Workload several times as much.
_REASONS = frozenset((*(each.value for each in ScheduledReason), UNKNOWN))
_STATES = frozenset(each.value for each in WorkloadState)
_SCHEDULED, _PENDING = WorkloadCondition.SCHEDULED.value, WorkloadState.PENDING.value
UNIT_STATES = ("desired", "assigned", "pending", "ready")
RESOURCES = {"cpu": 1000, "memory": 1, "ephemeral-storage": 1, "pods": 1}
"""In parts per unit. Members may report any others."""

WORKLOADS = metrics.GaugeFunc(
    "stowage_workloads",
    "Workloads by state and by the reason of their condition Scheduled",
    ("state", "reason"),
    zero=[(state, reason) for state in WorkloadState for reason in (*ScheduledReason, UNKNOWN)],
)
UNITS = metrics.GaugeFunc(
    "stowage_units", "Replicas of all Workloads", ("state",), zero=[(each,) for each in UNIT_STATES]
)
READY = metrics.GaugeFunc(
    "stowage_cluster_ready", "1 while a MemberCluster is Ready, 0 otherwise", ("member_cluster",)
)
CAPACITY = metrics.GaugeFunc(
    "stowage_cluster_capacity",
    "What the nodes of all clusters offer to pods, in cores, bytes and pods",
    ("resource",),
    zero=[(each,) for each in RESOURCES],
)
REQUESTED = metrics.GaugeFunc(
    "stowage_cluster_requested",
    "What the pods of all clusters request, in cores, bytes and pods",
    ("resource",),
    zero=[(each,) for each in RESOURCES],
)
_GAUGES = (WORKLOADS, UNITS, READY, CAPACITY, REQUESTED)


class WorkloadCounts:
    """A handler of the informer; `ours` are counted."""

    def __init__(self, ours: Callable[[Workload], bool]) -> None:
        self._ours = ours
        self.by_reason: Counter[tuple[str, ...]] = Counter()
        self.units: Counter[tuple[str, ...]] = Counter()

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Versions of a key must arrive without a gap."""
        for workload, sign in ((old, -1), (new, 1)):
            if workload is not None and self._ours(workload):
                self.by_reason[_state_and_reason(workload)] += sign
                for state, units in zip(UNIT_STATES, _units(workload), strict=True):
                    self.units[state,] += sign * units


def begin(*, counts: WorkloadCounts, snapshot: Callable[[], Snapshot]) -> None:
    WORKLOADS.set_function(lambda: counts.by_reason)
    UNITS.set_function(lambda: counts.units)
    READY.set_function(lambda: _ready(snapshot()))
    CAPACITY.set_function(lambda: _sums(snapshot().allocatable))
    REQUESTED.set_function(lambda: _sums(snapshot().requested))


def end() -> None:
    for gauge in _GAUGES:
        gauge.set_function(None)


def _state_and_reason(workload: Workload) -> tuple[str, str]:
    # Any writer of the status may store other strings. Labels take known ones only.
    status, reason = workload.status, UNKNOWN
    for condition in status.conditions:
        if condition.get("type") == _SCHEDULED:
            reason = condition.get("reason", UNKNOWN)
            break
    known = isinstance(reason, str) and reason in _REASONS
    return status.state if status.state in _STATES else _PENDING, reason if known else UNKNOWN


def _units(workload: Workload) -> tuple[int, int, int, int]:
    status = workload.status
    ready = sum(share.ready for share in status.clusters)
    return status.desired or 0, status.assigned or 0, status.pending or 0, ready


def _ready(snapshot: Snapshot) -> metrics.Samples:
    pairs = zip(snapshot.names, snapshot.ready.tolist(), strict=True)
    return {(name,): float(ready) for name, ready in pairs}


def _sums(columns: Mapping[str, Ints]) -> metrics.Samples:
    known = ((each, parts) for each, parts in RESOURCES.items() if each in columns)
    # Unknown cells are negative. A sum of floats does not overflow.
    return {
        (each,): float(columns[each].clip(min=0).sum(dtype=float)) / parts for each, parts in known
    }
