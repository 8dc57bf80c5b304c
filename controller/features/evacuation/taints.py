"""NoExecute taints of a spec, the one that stands for a loss, and the brake on losses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from controller.model.moving import BrakeConfiguration
from controller.model.objects import MemberCluster
from crds.fields.labels import TaintEffect
from crds.fields.why import ChangeCause
from crds.membercluster import ReadyReason
from crds.names import TAINT_DRAIN, TAINT_NOT_READY, TAINT_OUT_OF_SERVICE
from machinery.clock import stored_time
from machinery.types.api import EvacuationCause
from machinery.types.budget import amount
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
    """Whether the cluster, or its agent, is silent, or away."""
    return not cluster.ready and (cluster.away or cluster.reason in _SILENT)


def meant(cluster: MemberCluster) -> bool:
    """Whether an operator took the cluster out of use."""
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
    """Return how long a taint is tolerated; None for ever."""
    seconds = default
    for each in tolerations:
        if each.tolerates(taint):
            seconds = each.toleration_seconds
            break
    return None if seconds is None else min(timedelta(seconds=max(seconds, 0)), _LONGEST)


class Brake(NamedTuple):
    scope: str
    text: str


SCOPES = ("clusters", "domains")


def brake_of(clusters: Iterable[MemberCluster], configuration: BrakeConfiguration) -> Brake | None:
    domains, gone = {}, list[str]()
    for each in clusters:
        name = each.metadata.name
        domains[name] = each.labels.get(configuration.topology_key, "")
        if lost(each):
            gone.append(name)
    return braked(gone, domains, configuration)


def most_lost(registered: int, configuration: BrakeConfiguration) -> int:
    return max(amount(configuration.max_lost, registered, up=False), 1)


def braked(
    silent: Collection[str], domains: Mapping[str, str], configuration: BrakeConfiguration
) -> Brake | None:
    """`domains` has the topology key's value of every registered cluster."""
    if not silent:
        return None
    most = most_lost(len(domains), configuration)
    if len(silent) > most:
        text = (
            f"{len(silent)} of {len(domains)} clusters are lost, {most} at most "
            "(movement.brake.maxLost): nothing moves for it"
        )
        return Brake("clusters", text)
    counts = Counter(domains.values())
    gone = Counter(domains[name] for name in silent if name in domains)
    whole = [each for each, n in gone.items() if each and 2 * n > counts[each]]
    if len(whole) > configuration.max_lost_domains:
        named = ", ".join(sorted(whole)[:3])
        text = (
            f"more than half of the clusters are lost in {len(whole)} values of "
            f"{configuration.topology_key} ({named}), {configuration.max_lost_domains} at most "
            "(movement.brake.maxLostDomains): nothing moves for it"
        )
        return Brake("domains", text)
    return None
