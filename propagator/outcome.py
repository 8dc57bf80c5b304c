"""A Workload's share of a cluster (DesiredShare), and how its last sync ended (Outcome)."""

from __future__ import annotations

from dataclasses import dataclass

from crds.workload import PropagatedReason
from machinery.errors import Forbidden, ServerError, TooManyRequests, TransportError
from propagator.members.health import verdict_of
from propagator.types.movement import Blocked
from propagator.types.workload import Workload


@dataclass(frozen=True, slots=True)
class DesiredShare:
    """Two shares differ if one of these fields does.

    A share of no replicas is one: its objects exist.
    """

    uid: str
    generation: int
    replicas: int
    placed: bool = True
    patch: str = ""
    """Digest of the pod template's patch; empty without one."""
    revision: str = ""
    """Empty without a rollout."""
    completions: int | None = None
    """Its part of the work; None if it is not divided."""

    @classmethod
    def of(cls, workload: Workload, cluster: str) -> DesiredShare:
        replicas = workload.shares.get(cluster, 0)
        placed = cluster in workload.placements
        patch = workload.overrides.of(cluster).digest if placed else ""
        revision = workload.revision_of(cluster)
        part = workload.part_of(cluster)
        generation = workload.metadata.generation
        return cls(workload.uid, generation, replicas, placed, patch, revision, part)


@dataclass(frozen=True, slots=True)
class Outcome:
    """No reason means that the desired share is written."""

    desired: DesiredShare
    reason: PropagatedReason | None = None
    message: str = ""
    keeps: int = 0
    """Replicas beyond the desired ones that stay until others are ready elsewhere."""
    blocked: Blocked | None = None
    """Why they stay."""
    lacks: int = 0
    """Replicas that wait until they are gone elsewhere."""
    written: bool = False
    """Whether the desired revision is completely written, whatever the replicas wait for."""
    found: str = ""
    """The present revision while the controller has not set one; empty if unknown."""

    @property
    def moves(self) -> bool:
        """Whether the share waits for other clusters."""
        return bool(self.keeps or self.lacks)


def outcome_of(member: str, fault: TransportError, desired: DesiredShare) -> Outcome:
    match fault:
        case Forbidden():
            return Outcome(desired, PropagatedReason.REJECTED, str(fault))
        case TooManyRequests():
            message = f"{member}: {fault}"
        case ServerError():
            message = f"{member}: its API server fails, it is asked again: {fault}"
        case _:
            message = verdict_of(fault).sentence(member)
    return Outcome(desired, PropagatedReason.CLUSTER_UNREACHABLE, message)
