"""What the wave machine reads of a Workload and of its clusters, from the hub's objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
import numpy as np

from controller.cache.renames import current_names
from controller.features.rollout.machine import RolloutCluster, RolloutView
from controller.model.objects import ClusterShare, Workload
from controller.model.rollout import Rollout, RolloutState, RolloutStatus
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints
from controller.snapshot.snapshot import Snapshot

_NOTHING = ClusterShare("")


def view_of(workload: Workload, snapshot: Snapshot, now: datetime) -> RolloutView | None:
    """Return what a look at a Workload's rollout reads; None for one without.

    Raises ValidationError for a stored status of another form.
    """
    state: RolloutState | None = workload.info.rollout
    if state is None or state.spec is None:
        return None
    shares = {each.name: each for each in workload.status.clusters}
    held, last = workload.placements, len(state.spec.waves)
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = {each.cluster for each in workload.status.leaving}.difference(held)
    clusters = [
        _seen(name, snapshot, waves, last, held.get(name), shares.get(name, _NOTHING))
        for name in sorted({*held, *left})
    ]
    spec = _pace(state.spec, workload.info)
    return RolloutView(spec, *_named(state, snapshot), clusters, now)


def placed_view(
    info: WorkloadInfo, placements: Mapping[str, int], snapshot: Snapshot
) -> RolloutView | None:
    """Return what a decision reads of a rollout; None for a Workload without.

    Raises ValidationError for a stored status of another form.
    """
    state = info.rollout
    if state is None or state.spec is None:
        return None
    waves, last = waves_of(state.spec, snapshot), len(state.spec.waves)
    left = info.moving.leaving.keys() - placements.keys()
    clusters = [
        _seen(name, snapshot, waves, last, placements.get(name), _NOTHING)
        for name in sorted({*placements, *left})
    ]
    return RolloutView(state.spec, *_named(state, snapshot), clusters)


def _named(state: RolloutState, snapshot: Snapshot) -> tuple[RolloutStatus | None, dict[str, str]]:
    """Return what is stored, with the names that the clusters have now."""
    stored, exceptions = state.stored(), state.exceptions()
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
    """Return the index of each cluster's wave: the first that takes it, or that of the last."""
    waves = np.full(len(snapshot), len(spec.waves), dtype=np.int64)
    for at in reversed(range(len(spec.waves))):
        waves[snapshot.selected(spec.waves[at].cluster_selector)] = at
    return waves


def _seen(
    name: str, snapshot: Snapshot, waves: Ints, last: int, units: int | None, share: ClusterShare
) -> RolloutCluster:
    row = snapshot.row.get(name)
    ready = min(share.updated, share.ready)
    return RolloutCluster(
        name,
        wave=last if row is None else int(waves[row]),
        reachable=row is not None and bool(snapshot.ready[row]),
        leaving=units is None,
        revision=share.revision,
        settled=share.updated == share.ready == share.replicas == units,
        units=units or 0,
        ready=min(ready, units or 0),
        note=share.message,
    )


def _pace(spec: Rollout, info: WorkloadInfo) -> Rollout:
    """Return the pace as the kind has it: what runs only now and then is not seen to run."""
    return msgspec.structs.replace(spec, min_ready_seconds=0) if info.kind == "CronJob" else spec
