"""Room in replicas of one Workload: how many each cluster can hold, and must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from controller.framework.interface import CycleState, PlacementLimit, Variant
from controller.model.place import Place
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Ints
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot
from machinery.types import hostports


def limit(state: CycleState, most: PlacementLimit) -> None:
    """Bound the replicas on all clusters together. The lowest limit holds.

    A limit includes the present replicas: it removes none.
    """
    if state.limit is None or most.units < state.limit.units:
        state.limit = most


def limit_of(state: CycleState) -> PlacementLimit | None:
    return state.limit


def within(state: CycleState, replicas: int) -> int:
    """Return `replicas`, or as many as the limit allows."""
    said = limit_of(state)
    return replicas if said is None else min(replicas, said.units)


def vary(state: CycleState, variants: Sequence[Variant]) -> None:
    """The variant added last wins on a cluster with several."""
    state.variants = (*variants, *state.variants)


def variants_of(state: CycleState) -> Sequence[Variant]:
    return state.variants


def cap(state: CycleState, most: Callable[[Snapshot], Ints]) -> None:
    """Bound the replicas on each cluster, including present ones, shape (n,).

    The lowest cap holds. `most` gets the snapshot as hooks left it.
    """
    state.caps = (*state.caps, most)
    state.room = None


def without_room(state: CycleState) -> CycleState:
    return replace(state, room=None)


def by_variant(
    variants: Sequence[Variant],
    info: WorkloadInfo,
    snapshot: Snapshot,
    value: Callable[[WorkloadInfo | Variant], Ints],
) -> Ints:
    """Return a column, shape (n,): the variant's value, or the Workload's."""
    column = value(info)
    for variant in reversed(variants):
        column = np.where(variant.rows(snapshot), value(variant), column)
    return column


def needed(info: WorkloadInfo) -> int:
    """Return the replicas that one cluster must have room for."""
    if not info.counted:
        return 0
    whole = info.whole or info.everywhere
    return info.replicas if whole else min(info.replicas, 1)


def room_of(state: CycleState, info: WorkloadInfo, snapshot: Snapshot) -> Ints:
    """Return the room in all resources, cached for this replica and snapshot."""
    known = state.room
    if known is None or known[0] is not info or known[1] is not snapshot:
        known = state.room = (info, snapshot, _capped(state, info, snapshot))
    return known[2]


def _capped(state: CycleState, info: WorkloadInfo, snapshot: Snapshot) -> Ints:
    fits = room(info, snapshot, variants=variants_of(state))
    for most in state.caps:
        fits = np.minimum(fits, most(snapshot))
    return fits


def room(
    info: WorkloadInfo,
    snapshot: Snapshot,
    *,
    only: str | None = None,
    placed: Callable[[Place], Place] = lambda place: place,
    variants: Sequence[Variant] = (),
) -> Ints:
    """Return the replicas that fit on each cluster, including present and kept ones, shape (n,).

    `only` counts one resource. Replicas that exclude each other are bounded by the nodes that
    `placed` returns. Caps do not count, see `room_of`.
    """
    if not info.counted:
        return np.full(len(snapshot), UNLIMITED, dtype=np.int64)

    def nodes(of: WorkloadInfo | Variant) -> Ints:
        if not any(hostports.is_apart(r) for r in of.request if only in (None, r)):
            return np.full(len(snapshot), UNLIMITED, dtype=np.int64)
        return snapshot.nodes(placed(of.place))

    def fitting(of: WorkloadInfo | Variant) -> Ints:
        asked = {r: n for r, n in of.request.items() if only in (None, r)}
        return snapshot.fitting(asked, placed(of.place))

    fits = by_variant(variants, info, snapshot, fitting)
    present = {snapshot.row[c]: n for c, n in info.present.items() if c in snapshot.row}
    for row, replicas in present.items():
        fits[row] += replicas
    for name, replicas in info.moving.kept.items():
        if name in snapshot.row:
            fits[snapshot.row[name]] += replicas
    if any(map(hostports.is_apart, info.request)) or any(
        hostports.is_apart(r) for each in variants for r in each.request
    ):
        most = by_variant(variants, info, snapshot, nodes)
        for row, replicas in present.items():  # a lost node moves nothing
            most[row] = max(most[row], replicas)
        np.minimum(fits, most, out=fits)
    return fits


def lacking_for_more(info: WorkloadInfo, snapshot: Snapshot, held: Ints) -> Ints:
    """Return the component that finds no node for one more than `held`, shape (n,); -1 if none."""
    if not info.place.parts:
        return np.full(len(snapshot), -1, dtype=np.int64)
    more = held + 1
    for there in (info.present, info.moving.kept):
        for name, replicas in there.items():
            if name in snapshot.row:
                more[snapshot.row[name]] -= replicas
    return snapshot.lacking(info.place, np.maximum(more, 1))


def no_room_for_more(info: WorkloadInfo, component: int) -> str:
    if component < 0:
        return "no room for more"
    part = info.place.parts[component]
    return f"no room for {part.count} {part.name} of another replica"


def resources_of(state: CycleState, info: WorkloadInfo) -> list[str]:
    return sorted({*info.request, *(r for each in variants_of(state) for r in each.request)})
