"""Gauges of the fleet as the leader sees it, computed when the metrics are asked for.

They are read from what the informers and the snapshot hold, so that no change of a Workload costs
more for being counted. A standby holds the same and tells nothing, so that sums over the instances
are right. No label names a Workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from controller.model.objects import Workload
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason, WorkloadCondition, WorkloadState
from machinery import metrics

UNKNOWN = "Unknown"
"""The reason of a Workload that is not decided yet, or whose status has a reason of no release."""
# Plain words: an enum costs each Workload several times as much.
_REASONS = frozenset((*(each.value for each in ScheduledReason), UNKNOWN))
_STATES = frozenset(each.value for each in WorkloadState)
_SCHEDULED, _PENDING = WorkloadCondition.SCHEDULED.value, WorkloadState.PENDING.value
UNIT_STATES = ("desired", "assigned", "pending", "ready")
RESOURCES = {"cpu": 1000, "memory": 1, "ephemeral-storage": 1, "pods": 1}
"""The resources of the gauges, and the parts of one: members may list any number of others."""

WORKLOADS = metrics.GaugeFunc(
    "stowage_workloads",
    "Workloads by state and by the reason of their condition Scheduled",
    ("state", "reason"),
    zero=[(state, reason) for state in WorkloadState for reason in (*ScheduledReason, UNKNOWN)],
)
UNITS = metrics.GaugeFunc(
    "stowage_units", "Units of all Workloads", ("state",), zero=[(each,) for each in UNIT_STATES]
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


def begin(
    *, workloads: Callable[[], Collection[Workload]], snapshot: Callable[[], Snapshot]
) -> None:
    """Tell of these Workloads and clusters from now on."""
    WORKLOADS.set_function(lambda: _by_reason(workloads()))
    UNITS.set_function(lambda: _units(workloads()))
    READY.set_function(lambda: _ready(snapshot()))
    CAPACITY.set_function(lambda: _sums(snapshot().allocatable))
    REQUESTED.set_function(lambda: _sums(snapshot().requested))


def end() -> None:
    """Tell of nothing any more."""
    for gauge in _GAUGES:
        gauge.set_function(None)


def _by_reason(workloads: Collection[Workload]) -> metrics.Samples:
    return Counter(map(_state_and_reason, workloads))


def _state_and_reason(workload: Workload) -> tuple[str, str]:
    # Whoever may write a status may write anything there: a label takes the words that we know.
    status, reason = workload.status, UNKNOWN
    for condition in status.conditions:
        if condition.get("type") == _SCHEDULED:
            reason = condition.get("reason", UNKNOWN)
            break
    known = isinstance(reason, str) and reason in _REASONS
    return status.state if status.state in _STATES else _PENDING, reason if known else UNKNOWN


def _units(workloads: Collection[Workload]) -> metrics.Samples:
    desired = assigned = pending = ready = 0
    for workload in workloads:
        status = workload.status
        desired += status.desired or 0
        assigned += status.assigned or 0
        pending += status.pending or 0
        ready += sum(share.ready for share in status.clusters)
    counts = (desired, assigned, pending, ready)
    return {(state,): n for state, n in zip(UNIT_STATES, counts, strict=True)}


def _ready(snapshot: Snapshot) -> metrics.Samples:
    pairs = zip(snapshot.names, snapshot.ready.tolist(), strict=True)
    return {(name,): float(ready) for name, ready in pairs}


def _sums(columns: Mapping[str, Ints]) -> metrics.Samples:
    known = ((each, parts) for each, parts in RESOURCES.items() if each in columns)
    # Cells without a number are negative; the sum of floats does not overflow.
    return {
        (each,): float(columns[each].clip(min=0).sum(dtype=float)) / parts for each, parts in known
    }
