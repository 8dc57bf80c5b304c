"""NoExecute taints of a spec, and the one that stands for a loss. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from controller.model.objects import MemberCluster
from crds.fields.labels import TaintEffect
from crds.fields.why import ChangeCause
from crds.membercluster import ReadyReason
from crds.names import TAINT_DRAIN, TAINT_NOT_READY, TAINT_OUT_OF_SERVICE
from machinery.clock import stored_time
from machinery.types.api import EvacuationCause
from machinery.types.taints import Taint, Toleration

NO_EXECUTE = TaintEffect.NO_EXECUTE.value
NOT_READY = Taint(TAINT_NOT_READY, NO_EXECUTE)
_CAUSES = {
    TAINT_DRAIN: ChangeCause.DRAINED,
    TAINT_OUT_OF_SERVICE: ChangeCause.OUT_OF_SERVICE,
    TAINT_NOT_READY: ChangeCause.CLUSTER_LOST,
}
_SILENT = (ReadyReason.UNREACHABLE.value, ReadyReason.AGENT_SILENT.value)
_LONGEST = timedelta(days=366 * 70)


def cause_of(taint: Taint) -> ChangeCause:
    return _CAUSES.get(taint.key, ChangeCause.TAINTED)


def unreachable(cluster: MemberCluster) -> bool:
    """Whether the cluster, or its agent, is silent, or away. Other faults are no loss."""
    return not cluster.ready and (cluster.away or cluster.reason in _SILENT)


def meant(cluster: MemberCluster) -> bool:
    """Whether an operator took the cluster out of use: then it is not lost."""
    ours = (TAINT_DRAIN, TAINT_OUT_OF_SERVICE)
    return cluster.spec.unschedulable or any(t.key in ours for t in cluster.spec.taints)


def lost(cluster: MemberCluster) -> bool:
    return unreachable(cluster) and not meant(cluster)


def in_force(cluster: MemberCluster) -> dict[str, Taint]:
    found = {t.text: t for t in cluster.spec.taints if t.effect == NO_EXECUTE}
    if unreachable(cluster):
        found[NOT_READY.text] = NOT_READY
    return found


def noted(cluster: MemberCluster) -> Iterator[tuple[Taint, EvacuationCause, datetime]]:
    """Yield the taints in force that status.evacuation has, and since when."""
    evacuation, taints = cluster.status.evacuation, in_force(cluster)
    for cause in evacuation.causes if evacuation is not None else ():
        taint, since = taints.get(cause.name), stored_time(cause.since)
        if taint is not None and since is not None:
            yield taint, cause, since


def tolerated(
    taint: Taint, tolerations: Sequence[Toleration], default: int | None
) -> timedelta | None:
    """Return how long a taint is tolerated; None for ever.

    The first toleration that matches counts; without one, `default` seconds.
    """
    seconds = default
    for each in tolerations:
        if each.tolerates(taint):
            seconds = each.toleration_seconds
            break
    return None if seconds is None else min(timedelta(seconds=max(seconds, 0)), _LONGEST)
