"""NodeRoom: a share whose cluster has no node that could ever run one of its replicas.

Room is what is free now; a node that is full today has room tomorrow. A replica that was edited
beyond every node of its cluster never gets one there, while its old pods run on, or after these are
gone. Its share stays until pods have waited for a node for `PATIENCE_SECONDS`. Then a Workload that
is whole moves to a cluster with room, as from a tainted one. Shares of a divided one follow from
what clusters were seen to run (`controller.model.observedlimits`).

How large a node is, is not known: it has what the largest one has free, or what the nodes offer on
average, whichever is more. That may be too little where nodes differ, so that nothing moves before
pods were seen to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.interface import Descheduling, Eviction
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.saturating import sums
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause
from machinery.types import hostports, quantities

NAME = "NodeRoom"
PATIENCE_SECONDS = 60
"""As `controller.plugins.divided`: a cluster that scales its own nodes needs a while."""
_NONE = Descheduling()


class NodeRoom:
    """Evictions of shares that no node of their cluster can run."""

    name = NAME

    def deschedule(
        self, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex, _now: datetime
    ) -> Descheduling:
        """Return the shares that cannot run where they are, due once pods have waited for long."""
        edited = info.decided[-1] != info.shape
        if not (edited or info.waits) or info.overridden is not None or not info.counted:
            return _NONE  # what overrides make of a replica is not known before PreFilter
        at = info.present if edited else info.waits
        shares = {c: snapshot.row[c] for c in at if info.present.get(c) and c in snapshot.row}
        if not shares:
            return _NONE
        closed, lacking = _unfit(info, snapshot)
        unfit = np.any([closed, *lacking.values()], axis=0)
        found = {}
        for cluster, row in shares.items():
            if not unfit[row] or snapshot.clusters[row].spec.max_allocatable:
                continue
            since = info.waits.get(cluster)
            found[cluster] = Eviction(
                ChangeCause.NO_NODE.value,
                due=since + timedelta(seconds=PATIENCE_SECONDS) if since and info.whole else None,
                reason=MovingReason.NO_ROOM.value,
                note=_note(cluster, info, [r for r, rows in lacking.items() if rows[row]]),
            )
        return Descheduling(found) if found else _NONE


def _unfit(info: WorkloadInfo, snapshot: Snapshot) -> tuple[Mask, dict[str, Mask]]:
    """Return the clusters without a node that lets the pods in, and those that lack a resource."""
    groups, size = snapshot.groups, len(snapshot)
    nodes = sums(groups.cluster, groups.count, size)
    known = snapshot.ready & ~snapshot.virtual & (nodes > 0)
    there, lacking = groups.open_to(info.place) & (groups.count > 0), dict[str, Mask]()
    for resource, amount in sorted(info.request.items()):
        if hostports.code(resource) is not None or resource == "pods":
            continue
        most = np.zeros(size, dtype=np.int64)
        np.maximum.at(most, groups.cluster, np.where(there, groups.room(resource), 0))
        if (offered := snapshot.allocatable.get(resource)) is not None:
            most = np.maximum(most, offered // np.maximum(nodes, 1))
        lacking[resource] = known & (most < amount)
    return known & (snapshot.nodes(info.place) == 0), lacking


def _note(cluster: str, info: WorkloadInfo, lacking: Sequence[str]) -> str:
    if not lacking:
        return f"no node of {cluster} has labels and taints that its pods match and tolerate"
    amounts = (f"{quantities.render(r, info.request[r])} {r}" for r in lacking)
    return f"no node of {cluster} has {' and '.join(amounts)}"
