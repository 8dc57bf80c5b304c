"""The meaning of a gang's gate for one of its Workloads: apply, wait, or remove. Pure.

The group's status alone decides, whatever wrote the placements. Until its quorum has run once, a
gang starts on all of its clusters or on none. An unknown gate counts as none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from crds.groups.gate import GateState, GateStatus
from crds.names import LABEL_GROUP
from crds.workload import PropagatedReason
from machinery.types.bounds import name_in_words
from machinery.types.metadata import Key, Object
from propagator.types.workload import Workload


class WorkloadGroup(Object, frozen=True, dict=True):
    status: GateStatus = GateStatus()

    @property
    def open(self) -> bool:
        """Whether released placements may reach members."""
        return self.status.gate == GateState.OPEN

    @property
    def closed(self) -> bool:
        """Whether released replicas must leave the members."""
        return self.status.gate == GateState.CLOSED

    @property
    def ran(self) -> bool:
        """Whether the quorum has run once."""
        return self.status.quorum_time is not None

    @property
    def released(self) -> dict[str, str]:
        """Decisions by the Workloads' UIDs."""
        return self.status.decisions

    def retained(self, uid: str) -> dict[str, int]:
        return self.status.retained.get(uid, {})


class GateAnswer(Enum):
    APPLY = "apply"
    """Reconcile it like a Workload without a group."""
    WAIT = "wait"
    """Write nothing and remove nothing."""
    REMOVE = "remove"
    """Remove everything, except on the clusters in `keeps`."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """An empty message keeps the last report. `keeps` are clusters that keep their objects."""

    answer: GateAnswer
    message: str = ""
    reason: PropagatedReason = PropagatedReason.WAITING_FOR_GROUP
    keeps: frozenset[str] = frozenset()


_NO_NAMES: Mapping[str, str] = MappingProxyType({})
APPLY = GateVerdict(GateAnswer.APPLY)
WAIT_SILENTLY = GateVerdict(GateAnswer.WAIT)
"""Not enough is known yet: the event that brings more has the group reviewed."""


def verdict_on(
    workload: Workload, group: WorkloadGroup | None, present: Mapping[str, str] = _NO_NAMES
) -> GateVerdict:
    """`present` are the present names of clusters by former ones."""
    names = workload.groups
    if not names:
        return APPLY
    if len(names) > 1:
        listed = ", ".join(name_in_words(each) for each in names)
        return _wait(
            f"its labels name several WorkloadGroups ({listed}), and it can be in one "
            "only: remove the others"
        )
    label = label_of((workload.metadata.namespace, names[0]))
    if group is None:
        return _wait(f"{label} not found: create it, or remove the label {LABEL_GROUP}")
    retained = named(group.retained(workload.uid), present)
    placed = named(workload.placements, present)
    if retained and not group.open and _no_more_than(retained, placed):
        return APPLY
    if group.closed and workload.uid not in group.released:
        return _wait(f"{label} has not released this Workload, and takes nothing of it back")
    if group.closed:
        what = "what it had released" if retained else "all of its replicas"
        message = f"{label} took {what} back from the clusters, to try again"
        return GateVerdict(GateAnswer.REMOVE, message, keeps=frozenset(retained))
    if not group.open:
        return _wait(f"{label} has not released any of its replicas yet: it waits for its quorum")
    return _released(workload, group, label)


def named(shares: Mapping[str, int], present: Mapping[str, str]) -> dict[str, int]:
    """Return the shares by the present names of their clusters."""
    found = Counter[str]()
    for cluster, replicas in shares.items():
        found[present.get(cluster, cluster)] += replicas
    return found


def _no_more_than(retained: Mapping[str, int], placed: Mapping[str, int]) -> bool:
    return bool(placed) and all(
        replicas <= retained.get(cluster, 0) for cluster, replicas in placed.items()
    )


def group_of(workload: Workload) -> Key | None:
    """Return None unless the Workload names exactly one."""
    names = workload.groups
    return (workload.metadata.namespace, names[0]) if len(names) == 1 else None


def label_of(group: Key) -> str:
    return f"WorkloadGroup {group[0]}/{name_in_words(group[1])}"


def _released(workload: Workload, group: WorkloadGroup, label: str) -> GateVerdict:
    decision = group.released.get(workload.uid)
    if decision is None:
        return _wait(f"{label} has not released this Workload yet")
    if decision != workload.decision:
        return _wait(f"{label} has released other placements, and not the present ones yet")
    return APPLY


def _wait(message: str) -> GateVerdict:
    return GateVerdict(GateAnswer.WAIT, message)
