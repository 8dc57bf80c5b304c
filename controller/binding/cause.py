"""The cause of a change of placement, told from what the status said before and what is so now.

The queue merges the events that woke a Workload while it waited, so the last event is not the cause
of a change. The status says what the present shares were decided on: a part of it that differs is
the cause; where none does, what the replicas waited for has come.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.explain.steps import Occasion
from controller.framework.calling import answers
from controller.framework.calling.guard import PluginError, ask
from controller.framework.explains import Explainer, method_of
from controller.model.learning import ObservedLimit
from controller.model.learnt import stored
from controller.model.objects import Workload
from controller.scheduling.decision import Decision
from crds.fields.why import ChangeCause
from crds.workload import ScheduledReason, WorkloadCondition
from machinery import logs
from machinery.clock import timestamp

LOG = logs.get(__name__)
WORD_LIMIT, ABOUT_LIMIT = 64, 317
"""The schema's limits on a plugin's own cause."""

_WAITED_FOR = {
    ScheduledReason.REPLICAS_REACHED.value: ChangeCause.QUOTA_GROWN,
    ScheduledReason.INSUFFICIENT_CAPACITY.value: ChangeCause.ROOM_GAINED,
}


def occasion(decision: Decision, workload: Workload) -> Occasion:
    cause, name = _cause(decision, workload)
    return Occasion(timestamp(decision.time), str(cause), name)


def _cause(decision: Decision, workload: Workload) -> tuple[str, str]:
    unit, fleet = decision.unit, decision.fleet
    present = workload.placements
    if not present:
        return ChangeCause.PLACED, ""
    if renamed := [c for c in present if c not in fleet.row and c not in unit.present]:
        return ChangeCause.CLUSTER_RENAMED, renamed[0]
    gone = [c for c in present if c not in fleet.row or fleet.deleting[fleet.row[c]]]
    if gone and not decision.placements.keys() >= set(gone):
        return ChangeCause.CLUSTER_GONE, gone[0]
    constraints, demand, shape = unit.decided
    if constraints and (constraints, shape) != (unit.constraints, unit.shape):
        return ChangeCause.EDITED, ""
    if demand and demand != unit.demand:
        scaled = workload.status.desired != decision.desired
        return (ChangeCause.SCALED if scaled else ChangeCause.EDITED), ""
    added = [c for c in decision.placements if c not in present]
    if unit.everywhere and added:
        return ChangeCause.CLUSTER_ADDED, added[0]
    if (said := _by_plugins(decision, present)) is not None:
        return said
    return _learnt(stored(workload.status), unit.limits) or (_waited_for(workload), "")


def _by_plugins(decision: Decision, present: Mapping[str, int]) -> tuple[str, str] | None:
    """Return the cause that a plugin moved the replicas for, if one says so."""
    for plugin in decision.plugins.values():
        if (cause := method_of(plugin, Explainer.cause)) is None:
            continue
        try:
            shown = (present, decision.placements, decision.cycle_state)
            said = ask(plugin, "Cause", answers.a_cause, cause, *shown)
            if said is not None:
                return said[0][:WORD_LIMIT], said[1][:ABOUT_LIMIT]
        except PluginError as e:
            about = {"object": "/".join(decision.unit.key)}
            LOG.error("%s", e, extra=about)  # noqa: TRY400 - it says where
    return None


def _learnt(
    before: Mapping[str, ObservedLimit], after: Mapping[str, ObservedLimit]
) -> tuple[ChangeCause, str] | None:
    """Return a limit that is lower than before, or one that is higher or gone."""
    for cluster, limit in sorted(after.items()):
        if cluster not in before or limit.units < before[cluster].units:
            return ChangeCause.LIMIT_LEARNT, cluster
    for cluster, limit in sorted(before.items()):
        if cluster not in after or after[cluster].units > limit.units:
            return ChangeCause.LIMIT_LIFTED, cluster
    return None


def _waited_for(workload: Workload) -> ChangeCause:
    """Return the cause that lifts what the condition Scheduled said was lacking."""
    for condition in workload.status.conditions:
        if condition["type"] == WorkloadCondition.SCHEDULED.value:
            reason = condition.get("reason", "")
            return _WAITED_FOR.get(reason, ChangeCause.FLEET_CHANGED)
    return ChangeCause.FLEET_CHANGED
