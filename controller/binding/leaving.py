"""Which replicas still stand where a Workload is placed no more, until their successors are ready.

`status.leaving` is written with the placements: a move is a step of both in one write. Replicas
leave a cluster as others become ready, by what the propagator reports. A smaller number of wanted
replicas moves nothing, so those that are too many go at once. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec

from controller.explain.steps import Occasion
from controller.model.objects import LeavingShare, Workload
from controller.model.placed import is_workload
from controller.model.unit import WorkloadInfo
from crds.fields.placing import Distribution

MOST_LEAVING = 1000
"""The most shares that a status names; each takes about 110 bytes beside those of placements."""


def leaving_of(
    workload: Workload,
    info: WorkloadInfo,
    placements: Mapping[str, int],
    *,
    clusters: Container[str],
    occasion: Callable[[], Occasion],
) -> list[LeavingShare]:
    """Return the shares that leave from now on, by cluster.

    Args:
        workload: the object as stored, with the placements and `leaving` of before.
        info: the Workload of the decision.
        placements: those of the decision.
        clusters: the clusters that exist.
        occasion: what set this change of the placements off; asked where a share begins to leave.
    """
    if not placements or not is_workload(workload.metadata.key) or not _moves_by_replicas(info):
        return []
    if not workload.status.leaving and dict(placements) == workload.placements:
        return []
    before = {each.cluster: each for each in workload.status.leaving if each.cluster in clusters}
    standing = {name: n for name, n in workload.placements.items() if name in clusters}
    for each in before.values():
        standing[each.cluster] = standing.get(each.cluster, 0) + each.replicas
    excess = {
        cluster: more
        for cluster, replicas in standing.items()
        if (more := replicas - placements.get(cluster, 0)) > 0
    }
    if not excess:
        return []
    ready = {share.name: share.ready for share in workload.status.clusters}
    missing = sum(max(n - ready.get(cluster, 0), 0) for cluster, n in placements.items())
    grown = sum(max(n - standing.get(cluster, 0), 0) for cluster, n in placements.items())
    stay = min(missing, grown + sum(each.replicas for each in before.values()))
    if stay and info.distribution == Distribution.SINGLE and not info.divided:
        stay = sum(excess.values())  # a copy goes as a whole
    found = []
    # Those that have been leaving go on standing before others begin to.
    for cluster in sorted(excess, key=lambda each: (each not in before, each)):
        replicas = min(excess[cluster], stay)
        stay -= replicas
        if replicas:
            found.append(_share(cluster, replicas, before.get(cluster), occasion))
    # The rest of very many stays as well, by the guard of the propagator; but a status is bounded.
    return sorted(found[:MOST_LEAVING], key=lambda each: each.cluster)


def _share(
    cluster: str, replicas: int, before: LeavingShare | None, occasion: Callable[[], Occasion]
) -> LeavingShare:
    if before is not None:
        return msgspec.structs.replace(before, replicas=replicas)
    now = occasion()
    return LeavingShare(cluster, replicas, str(now.cause), now.name, now.time)


def _moves_by_replicas(info: WorkloadInfo) -> bool:
    """Whether replicas of one cluster stand in for those of another.

    Copies of a duplicated Workload do not. What a gang releases is its placements alone.
    """
    duplicated = info.distribution == Distribution.DUPLICATED and not info.divided
    return info.counted and not duplicated and not info.groups
