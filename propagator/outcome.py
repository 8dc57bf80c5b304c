"""A Workload's share of a cluster (DesiredShare), and how its last sync ended (Outcome).

An outcome belongs to exactly one desired share. A Workload that was edited, scaled, or deleted and
created again under its name is another desired share, whose outcome is unknown until it has been
synced.
"""

from __future__ import annotations

from dataclasses import dataclass

from crds.workload import PropagatedReason
from machinery.errors import Forbidden, ServerError, TooManyRequests, TransportError
from propagator.members.health import verdict_of
from propagator.types.movement import Blocked
from propagator.types.workload import Workload


@dataclass(frozen=True, slots=True)
class DesiredShare:
    """A Workload's share of one cluster, by the fields in which two shares differ.

    A share of no replicas is another desired share than no share: its objects exist.
    """

    uid: str
    generation: int
    replicas: int
    placed: bool = True
    patch: str = ""
    """The digest of the patch over the pod template; empty without one."""
    revision: str = ""
    """The revision that the cluster gets; empty without a rollout."""
    completions: int | None = None
    """Its part of the work that is divided; None where none is."""

    @classmethod
    def of(cls, workload: Workload, cluster: str) -> DesiredShare:
        """Return what the Workload asks of that cluster; no replicas where it is not placed."""
        replicas = workload.shares.get(cluster, 0)
        placed = cluster in workload.placements
        patch = workload.overrides.of(cluster).digest if placed else ""
        revision = workload.revision_of(cluster)
        part = workload.parts.get(cluster)
        generation = workload.metadata.generation
        return cls(workload.uid, generation, replicas, placed, patch, revision, part)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the last sync; no reason means that the desired share is written."""

    desired: DesiredShare
    reason: PropagatedReason | None = None
    message: str = ""
    keeps: int = 0
    """The replicas beyond the desired ones that stay until others are ready elsewhere."""
    blocked: Blocked | None = None
    """Why they stay."""
    lacks: int = 0
    """The replicas that wait until they are gone elsewhere."""
    written: bool = False
    """Whether all of the desired revision is written, whatever the number of replicas waits for."""
    found: str = ""
    """The revision that stands there while the controller has not said one; empty for unknown."""

    @property
    def moves(self) -> bool:
        """Whether the share waits for what other clusters do."""
        return bool(self.keeps or self.lacks)


def outcome_of(member: str, fault: TransportError, desired: DesiredShare) -> Outcome:
    """Return the outcome of a fault: an answer of the member that is no, or no answer at all."""
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
