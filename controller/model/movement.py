"""The section `movement` of the configuration, and the bounds of spec.movement. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from crds.fields.movement import (
    LEAST_UNHEALTHY_SECONDS,
    MOST_READY_SECONDS,
    MOST_UNHEALTHY_SECONDS,
)
from machinery.clock import parse_timestamp
from machinery.types.api import Movement
from machinery.types.bounds import quoted
from machinery.types.budget import amount

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


def refuse(movement: Movement) -> None:
    """Raise ValueError, naming the field, for values that every version of the schema refuses."""
    budgets = {"maxSurge": movement.max_surge, "maxUnavailable": movement.max_unavailable}
    for field, budget in budgets.items():
        if budget is not None:
            try:
                amount(budget, 0, up=True)
            except ValueError as e:
                raise ValueError(f"spec.movement.{field}: {e}") from e
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
