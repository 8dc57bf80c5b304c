"""The moves of a Workload: budgets, leaving shares, displaced shares, and what configures them.

`MovingState` is part of the `WorkloadInfo`; all Workloads at rest share one empty value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.model.objects import ClusterShare, Workload
from crds.fields.movement import (
    LEAST_UNHEALTHY_SECONDS,
    MOST_READY_SECONDS,
    MOST_UNHEALTHY_SECONDS,
)
from crds.fields.shares import BlockedReason, ShareState
from machinery.clock import parse_timestamp, stored_time
from machinery.types.api import Movement
from machinery.types.bounds import MOST_UNITS, between, quoted
from machinery.types.budget import amount
from machinery.types.workload_api import DisplacedShare, LeavingShare

NEVER = -1
"""Seconds of a toleration without an end."""


@dataclass(frozen=True, slots=True)
class BrakeConfiguration:
    """How many clusters may be lost before no automatic move begins."""

    max_lost: int | str = "50%"
    """A number or percents of the registered clusters; one may always be lost."""
    topology_key: str = "topology.kubernetes.io/region"
    max_lost_domains: int = 1
    """Domains of the topology key that may have lost more than half of their clusters."""


@dataclass(frozen=True, slots=True)
class MovementConfiguration:
    not_ready_toleration_seconds: int = 300
    """Seconds for which a Workload without a toleration stays on a lost cluster."""
    dwell_seconds: int = 600
    """Seconds for which a cluster must be ready again before new or returning units go there."""
    max_moving: int | str = "10%"
    """Units that moves have placed and that are not ready yet, over the fleet; at least 1."""
    brake: BrakeConfiguration = BrakeConfiguration()


def refuse_movement(movement: Movement) -> None:
    """Raise ValueError, naming the field, for values that every version of the schema refuses."""
    budgets = {"maxSurge": movement.max_surge, "maxUnavailable": movement.max_unavailable}
    for name, budget in budgets.items():
        if budget is not None:
            try:
                amount(budget, 0, up=True)
            except ValueError as e:
                raise ValueError(f"spec.movement.{name}: {e}") from e
    if not 0 <= movement.min_ready_seconds <= MOST_READY_SECONDS:
        told = f"{quoted(movement.min_ready_seconds)} is not from 0 to {MOST_READY_SECONDS}"
        raise ValueError(f"spec.movement.minReadySeconds: {told}")
    seconds, least = movement.unhealthy_seconds, LEAST_UNHEALTHY_SECONDS
    if seconds is not None and not least <= seconds <= MOST_UNHEALTHY_SECONDS:
        told = f"{quoted(seconds)} is not from {least} to {MOST_UNHEALTHY_SECONDS}"
        raise ValueError(f"spec.movement.unhealthySeconds: {told}")
    if movement.rebalance_after:
        try:
            parse_timestamp(movement.rebalance_after)
        except (ValueError, OverflowError) as e:
            told = f"{quoted(movement.rebalance_after)} is no moment"
            raise ValueError(f"spec.movement.rebalanceAfter: {told}") from e


SURGE, UNAVAILABLE = "25%", 0
"""The default budgets."""
ONCE_SURGE = 0
"""The default surge of a kind whose units must not run twice."""


@dataclass(frozen=True, slots=True)
class MovingState:
    """The budgets as written, and the moves that are under way.

    Args:
        spec: spec.movement.
        once: the kind is one whose units must not run twice.
        leaving: status.leaving, by cluster.
        displaced: status.displaced, by cluster.
        rebalanced: status.rebalanced.
        ready: the ready replicas of each share, for at least `minReadySeconds`; only while
            replicas leave.
        away: the clusters of shares that do not answer; only while replicas leave.
        surplus: replicas that a cluster reports beyond its placement, by cluster.
        kept: those of the surplus that stay until others are ready, or placed. Their room is the
            Workload's own: otherwise replicas that wait for room would wait for it for ever.
        unhealthy: whether a cluster where it is unhealthy has been so for `unhealthySeconds`, and
            answers.
    """

    spec: Movement = field(default_factory=Movement)
    once: bool = False
    leaving: Mapping[str, LeavingShare] = field(default_factory=dict)
    displaced: Mapping[str, DisplacedShare] = field(default_factory=dict)
    rebalanced: str = ""
    ready: Mapping[str, int] = field(default_factory=dict)
    away: frozenset[str] = frozenset()
    surplus: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    unhealthy: Mapping[str, bool] = field(default_factory=dict)

    def surge(self, desired: int) -> int:
        given = self.spec.max_surge
        if given is None:
            given = ONCE_SURGE if self.once else SURGE
        return amount(given, desired, up=True)

    def unavailable(self, desired: int) -> int:
        given, least = self.spec.max_unavailable, int(self.at_most_once)
        return max(amount(UNAVAILABLE if given is None else given, desired, up=False), least)

    @property
    def at_most_once(self) -> bool:
        """Whatever number is wanted: a scale to 0 in the middle of a move changes nothing."""
        return self.surge(100) == 0

    def under_way(self, present: Mapping[str, int]) -> int:
        missing = sum(self.lacking(present, self.ready).values())
        gone = dict.fromkeys((True, False), 0)
        for name, share in self.leaving.items():
            gone[name in self.away] += max(share.replicas - self.surplus.get(name, 0), 0)
        return sum(self.surplus.values()) + gone[True] + min(gone[False], missing)

    def lacking(self, placements: Mapping[str, int], ready: Mapping[str, int]) -> dict[str, int]:
        left = [name for name, over in self.unhealthy.items() if over and name in self.leaving]
        if left:
            placements = {name: n for name, n in placements.items() if name not in left}
        return lacking(placements, ready)

    @property
    def rebalance_due(self) -> datetime | None:
        """None without a pending request."""
        asked = self.spec.rebalance_after
        return None if not asked or asked == self.rebalanced else stored_time(asked)

    def rebalance_asked(self, now: datetime) -> bool:
        due = self.rebalance_due
        return due is not None and due <= now


UNREACHABLE, LEAVING = ShareState.UNREACHABLE.value, ShareState.LEAVING.value
NOT_READY_ELSEWHERE = BlockedReason.NOT_READY_ELSEWHERE.value
AT_REST = MovingState()
AT_REST_ONCE = MovingState(once=True)


def moving_state(workload: Workload, present: Mapping[str, int], *, once: bool) -> MovingState:
    spec, status = workload.spec, workload.status
    leaving = {each.cluster: each for each in status.leaving}
    displaced = {each.cluster: each for each in status.displaced}
    surplus = _surplus(workload, present)
    if not (leaving or displaced or surplus or status.rebalanced or spec.movement != AT_REST.spec):
        return AT_REST_ONCE if once else AT_REST
    shares = status.clusters if leaving else ()
    kept = {each.name for each in status.clusters if _waits_for_others(each, leaving)}
    return MovingState(
        spec.movement,
        once,
        leaving,
        displaced,
        status.rebalanced,
        ready_by_cluster(shares, spec.movement),
        frozenset(each.name for each in shares if each.state == UNREACHABLE),
        surplus,
        {name: replicas for name, replicas in surplus.items() if name in kept},
        _unhealthy(workload),
    )


def _unhealthy(workload: Workload) -> dict[str, bool]:
    most, found = workload.spec.movement.unhealthy_seconds, dict[str, bool]()
    for share in workload.status.clusters if most is not None else ():
        told, silent = share.failover, share.state == UNREACHABLE
        if told is not None and most is not None and (told.since or (silent and told.seconds)):
            found[share.name] = told.seconds >= most and not silent
    return found


def _waits_for_others(share: ClusterShare, leaving: Collection[str]) -> bool:
    if share.blocked is not None:
        return share.blocked.reason == NOT_READY_ELSEWHERE
    return share.state == LEAVING and share.name not in leaving


def lacking(placements: Mapping[str, int], ready: Mapping[str, int]) -> dict[str, int]:
    return {
        cluster: less
        for cluster, replicas in placements.items()
        if (less := replicas - ready.get(cluster, 0)) > 0
    }


def ready_by_cluster(shares: Iterable[ClusterShare], spec: Movement) -> dict[str, int]:
    return {share.name: ready_of(share, spec) for share in shares}


def ready_of(share: ClusterShare, spec: Movement) -> int:
    counted = share.ready
    if spec.min_ready_seconds:
        counted = min(share.available or 0, share.ready)
    return between(0, counted, MOST_UNITS)


def _surplus(workload: Workload, present: Mapping[str, int]) -> dict[str, int]:
    found = {}
    for share in workload.status.clusters:
        # The last report of a lost cluster does not tell its present replicas.
        if share.state == UNREACHABLE:
            continue
        stands = max(share.current, share.scheduled + share.unschedulable)
        more = between(0, stands, MOST_UNITS) - present.get(share.name, 0)
        if more > 0:
            found[share.name] = more
    return found
