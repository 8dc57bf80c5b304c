"""The wave machine's input from the hub's objects.

A malformed status raises ValidationError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from controller.cache.asread import current_names
from controller.features.rollout.machine import RolloutCluster, RolloutView
from controller.model.objects import ClusterShare, RolloutState, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot
from machinery.kinds.profile import Profile
from machinery.types.selectors import label_selector
from machinery.types.workload_api import Rollout, RolloutStatus


def view_of(workload: Workload, snapshot: Snapshot, now: datetime) -> RolloutView | None:
    """None without a rollout."""
    state: RolloutState | None = workload.info.rollout
    if state is None or state.spec is None:
        return None
    shares = {each.name: each for each in workload.status.clusters}
    held = workload.placements
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = {each.cluster for each in workload.status.leaving}.difference(held)
    clusters = []
    for name in sorted({*held, *left}):
        cluster = _placed(name, snapshot, waves, last, held.get(name))
        if name in shares:
            shown = _shown(shares[name], cluster.units, workload.info.profile)
            cluster = replace(cluster, **shown)
        clusters.append(cluster)
    spec = _pace(state.spec, workload.info)
    open_waves = _open_waves(waves, workload.info, snapshot)
    named = _named(state, snapshot)
    return RolloutView(spec, *named, clusters, now, open_waves=open_waves)


def placed_view(
    info: WorkloadInfo, placements: Mapping[str, int], snapshot: Snapshot
) -> RolloutView | None:
    """None without a rollout."""
    state = info.rollout
    if state is None or state.spec is None:
        return None
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = info.moving.leaving.keys() - placements.keys()
    clusters = [
        _placed(name, snapshot, waves, last, placements.get(name))
        for name in sorted({*placements, *left})
    ]
    return RolloutView(state.spec, *_named(state, snapshot), clusters)


def _named(
    state: RolloutState, snapshot: Snapshot
) -> tuple[RolloutStatus | None, Mapping[str, str]]:
    stored, exceptions = state.stored, state.exceptions
    updates = stored.updates if stored is not None else []
    if all(name in snapshot.row for name in [*exceptions, *(each.cluster for each in updates)]):
        return stored, exceptions
    now = current_names(snapshot.clusters, snapshot.row)
    if stored is not None:
        updates = [
            msgspec.structs.replace(each, cluster=now.get(each.cluster, each.cluster))
            for each in updates
        ]
        stored = msgspec.structs.replace(stored, updates=updates)
    return stored, {now.get(name, name): each for name, each in exceptions.items()}


def waves_of(spec: Rollout, snapshot: Snapshot) -> Ints:
    """Shape (n,): the first that selects it, or the rest."""
    waves = np.full(len(snapshot), len(spec.waves), dtype=np.int64)
    for at in reversed(range(len(spec.waves))):
        waves[snapshot.labelled(label_selector(spec.waves[at].cluster_selector))] = at
    return waves


def _open_waves(waves: Ints, info: WorkloadInfo, snapshot: Snapshot) -> frozenset[int]:
    taken = snapshot.chosen(info.cluster_selector)
    return frozenset(np.unique(waves[taken]).tolist())


def _placed(
    name: str, snapshot: Snapshot, waves: Ints, last: int, units: int | None
) -> RolloutCluster:
    row = snapshot.row.get(name)
    return RolloutCluster(
        name,
        wave=last if row is None else int(waves[row]),
        reachable=row is not None and bool(snapshot.ready[row]),
        leaving=units is None,
        units=units or 0,
    )


def _shown(share: ClusterShare, units: int, profile: Profile) -> Mapping[str, Any]:
    return {
        "revision": share.revision,
        "settled": _settled(share, units),
        "ready": min(share.updated, max(share.ready - share.outdated, 0), units),
        "note": share.message,
        # A kind without a count of units is taken to run what was written.
        "runs": share.ready > 0 or bool(share.revision and not profile.scales),
    }


def _settled(share: ClusterShare, units: int) -> bool:
    return share.replicas == units <= share.updated == share.ready and not share.outdated


def _pace(spec: Rollout, info: WorkloadInfo) -> Rollout:
    return msgspec.structs.replace(spec, min_ready_seconds=0) if info.profile.ready.exists else spec
