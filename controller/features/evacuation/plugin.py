"""TaintEviction and NodeRoom evict because of the cluster, Failover because of the application.

TaintEviction evicts for a NoExecute taint or a loss, as Kubernetes' taint-eviction-controller does
on nodes. Only causes in status.evacuation of the MemberCluster have an effect, so every reader
counts a toleration from the same moment.

NodeRoom evicts a share that no node of its cluster could ever run. Its pods must have waited for a
node for `PATIENCE_SECONDS`; then a whole Workload moves. The size of a node is taken as the most
free on one, or the average allocatable if greater.

Failover needs spec.movement.unhealthySeconds. The propagator counts for how long a share is
unhealthy, of a revision that was ready there (`propagator.status.failover`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.features.evacuation import taints
from controller.features.evacuation.fleet import FleetMoves
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.explains import Shortage
from controller.framework.interface import (
    NOTHING_REFUSED,
    CycleState,
    Descheduling,
    Eviction,
    FilterMask,
)
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import Handle
from controller.framework.status import SUCCESS, Refusal, Status
from controller.model.moving import NEVER
from controller.model.objects import MemberCluster
from controller.model.place import Part
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask, sums
from controller.snapshot.snapshot import Snapshot
from crds.fields.movement import MovingReason
from crds.fields.why import ChangeCause
from crds.membercluster import EvacuatingReason, MemberClusterCondition
from crds.names import TAINT_OUT_OF_SERVICE
from machinery.types import hostports, quantities
from machinery.types.budget import amount
from machinery.types.taints import Taint

NAME = "TaintEviction"
_NONE = Descheduling()
_DWELLS = "Dwells"


class TaintEviction:
    name = NAME
    ignored_during_execution = True

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self.handle = handle
        self.judged: Callable[[str], bool] = lambda _cluster: True
        """Whether this term has judged the cluster. A dry run trusts the stored status."""

    def events_to_register(self) -> Sequence[EventHint]:
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.READY | Action.TAINTS),)

    def pre_filter(
        self,
        state: CycleState,
        _info: WorkloadInfo,
        snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Status:
        """Try first without the clusters that dwell."""
        if NAME not in state.without and _dwelling(snapshot).any():
            state.tentative.add(NAME)
        return SUCCESS

    def filter(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        if NAME not in state.tentative:
            return NOTHING_REFUSED
        return FilterMask([(_dwelling(snapshot), "was lost a short while ago", _DWELLS)])

    def cure(self, _shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        if refusal.code == _DWELLS:
            return "the end of its dwell (status.evacuation.dwellsUntil of the MemberCluster)"
        return "a cluster that need not be left (spec.taints of the MemberCluster)"

    def deschedule(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Descheduling:
        displaced = info.moving.displaced
        if not (displaced or info.moving.rebalance_due or snapshot.evacuating.any()):
            return _NONE
        evictions = {}
        for cluster in {**info.present, **info.moving.leaving}:
            row = snapshot.row.get(cluster)
            if row is not None and snapshot.evacuating[row]:
                eviction = self._eviction(info, snapshot.clusters[row])
                if eviction is not None:
                    evictions[cluster] = eviction
        returns = {}
        for cluster in displaced:
            row = snapshot.row.get(cluster)
            if row is not None and _takes_back(snapshot.clusters[row]):
                returns[cluster] = now
        return Descheduling(evictions, returns, self._budget(bound.ledger(FleetMoves)))

    def evicts(self, info: WorkloadInfo, cluster: MemberCluster) -> bool:
        return any(
            self._tolerated(taint, info) is not None for taint in taints.in_force(cluster).values()
        )

    def _tolerated(self, taint: Taint, info: WorkloadInfo) -> timedelta | None:
        default: int | None = 0
        if taint == taints.NOT_READY:
            seconds = self.handle.configuration.movement.not_ready_toleration_seconds
            default = None if seconds == NEVER else seconds
        return taints.tolerated(taint, info.tolerations, default)

    def _eviction(self, info: WorkloadInfo, cluster: MemberCluster) -> Eviction | None:
        lost, found = not cluster.ready, list[Eviction]()
        fenced = any(t.key == TAINT_OUT_OF_SERVICE for t, _, _ in taints.noted(cluster))
        for taint, cause, since in taints.noted(cluster):
            tolerated = self._tolerated(taint, info)
            # The operator's taint out-of-service needs no further delay.
            if tolerated is None or (fenced and taint == taints.NOT_READY):
                continue
            why, due = taints.cause_of(taint), since + tolerated
            about = partial(Eviction, why.value, cause.name, lost=lost)
            if taint == taints.NOT_READY and not self.judged(cluster.metadata.name):
                found.append(about())
            elif taint == taints.NOT_READY and (held := _held(cluster)) is not None:
                found.append(about(reason=held[0], note=held[1]))
            elif lost and not fenced and info.moving.at_most_once:
                note = f"its replicas run at most once, and {_fencing(cluster)}"
                reason = MovingReason.AWAITING_FENCING.value
                found.append(about(reason=reason, note=note))
            else:
                found.append(about(due=due))
        return min(found, key=_order, default=None)

    def _budget(self, moves: FleetMoves) -> Callable[[str], tuple[int, str] | None]:
        most_of = self.handle.configuration.movement.max_moving

        def budget(_cause: str) -> tuple[int, str] | None:
            most = max(amount(most_of, moves.placed, up=False), 1)
            text = (
                f"{moves.moving} of at most {most} replicas of the fleet move (movement.maxMoving)"
            )
            return max(most - moves.moving, 0), text

        return budget


def _fencing(cluster: MemberCluster) -> str:
    name = cluster.metadata.name
    unjoin = f"run `stowage unjoin {name} --force`"
    if cluster.away:
        return (
            f"there is no MemberCluster {name}: register the cluster again, or, once nothing runs "
            f"there, {unjoin}"
        )
    return (
        f"{name} does not answer: once nothing runs there, taint it "
        f"{TAINT_OUT_OF_SERVICE}:NoExecute, or {unjoin}"
    )


def _order(eviction: Eviction) -> tuple[bool, float]:
    due = eviction.due
    return due is None, 0.0 if due is None else due.timestamp()


def _held(cluster: MemberCluster) -> tuple[str, str] | None:
    """Return why a loss moves nothing now, as Moving's reason and text."""
    said = cluster.condition(MemberClusterCondition.EVACUATING.value)
    if said is None or said.reason not in HELD:
        return None
    return HELD[said.reason], said.message


HELD = {
    EvacuatingReason.BRAKED.value: MovingReason.BRAKED.value,
    EvacuatingReason.BLIND.value: "",
}


def _takes_back(cluster: MemberCluster) -> bool:
    usable = cluster.ready and not cluster.metadata.deleting and not cluster.spec.unschedulable
    return usable and not cluster.evacuating and not taints.in_force(cluster)


def _dwelling(snapshot: Snapshot) -> Mask:
    def dwells() -> Mask:
        mask = snapshot.evacuating.copy()
        for row in np.flatnonzero(mask).tolist():
            evacuation = snapshot.clusters[row].status.evacuation
            mask[row] = evacuation is not None and bool(evacuation.dwells_until)
        return mask

    return snapshot.kept.fixed((NAME, "dwells"), dwells)


PATIENCE_SECONDS = 60
"""As in `controller.plugins.distribution`: autoscaling takes time."""


class NodeRoom:
    name = "NodeRoom"

    def deschedule(
        self, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex, _now: datetime
    ) -> Descheduling:
        edited = info.decided[-1] != info.shape
        if not (edited or info.waits) or info.overridden is not None or not info.counted:
            return _NONE  # the overridden replica is unknown before PreFilter
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
                note=_note(cluster, [each for each, rows in lacking.items() if rows[row]]),
            )
        return Descheduling(found) if found else _NONE


def _unfit(info: WorkloadInfo, snapshot: Snapshot) -> tuple[Mask, dict[tuple[str, int], Mask]]:
    groups, size = snapshot.groups, len(snapshot)
    nodes = sums(groups.cluster, groups.count, size)
    known = snapshot.ready & ~snapshot.virtual & (nodes > 0)
    closed, lacking = np.zeros(size, dtype=np.bool_), dict[tuple[str, int], Mask]()
    one = Part("", 1, tuple(sorted(info.request.items())), info.place)
    for part in info.place.parts or (one,):
        there = groups.open_to(part.place) & (groups.count > 0)
        closed |= known & (snapshot.nodes(part.place) == 0)
        for resource, needs in part.request:
            if hostports.code(resource) is not None or resource == "pods":
                continue
            most = np.zeros(size, dtype=np.int64)
            np.maximum.at(most, groups.cluster, np.where(there, groups.room(resource), 0))
            if (offered := snapshot.allocatable.get(resource)) is not None:
                most = np.maximum(most, offered // np.maximum(nodes, 1))
            lacking[resource, needs] = known & (most < needs)
    return closed, lacking


def _note(cluster: str, lacking: Sequence[tuple[str, int]]) -> str:
    if not lacking:
        return f"no node of {cluster} has labels and taints that its pods match and tolerate"
    amounts = (f"{quantities.render(resource, needs)} {resource}" for resource, needs in lacking)
    return f"no node of {cluster} has {' and '.join(amounts)}"


_LEFT = "Left"


class Failover:
    name = "Failover"
    ignored_during_execution = True

    def events_to_register(self) -> Sequence[EventHint]:
        return ()  # a limit ends by time

    def filter(
        self, _state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Divided keeps others to their limits."""
        if not info.limits or not info.whole:
            return NOTHING_REFUSED
        left = [name for name, limit in info.limits.items() if not limit.replicas]
        mask = np.zeros(len(snapshot), dtype=np.bool_)
        mask[snapshot.rows(left)] = True
        return FilterMask([(mask, "was left a short while ago, as it was unhealthy there", _LEFT)])

    def cure(self, _shortage: Shortage, _refusal: Refusal, _rows: Mask) -> str:
        return "the end of that time (status.limits of the Workload)"

    def deschedule(
        self, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex, now: datetime
    ) -> Descheduling:
        unhealthy = {c: over for c, over in info.moving.unhealthy.items() if info.present.get(c)}
        leave = [cluster for cluster, over in unhealthy.items() if over]
        if not leave or info.everywhere:
            return _NONE
        sick, all_ = len(unhealthy), sum(map(bool, info.present.values()))
        if all_ > 1 and 2 * sick > all_:
            note = f"it is unhealthy on {sick} of {all_} clusters, so a move would heal nothing"
            reason = MovingReason.UNHEALTHY_EVERYWHERE.value
            held = Eviction(ChangeCause.UNHEALTHY.value, reason=reason, note=note)
            return Descheduling(dict.fromkeys(leave, held))
        goes = Eviction(ChangeCause.UNHEALTHY.value, due=now)
        return Descheduling(dict.fromkeys(leave, goes))
