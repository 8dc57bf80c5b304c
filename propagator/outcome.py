"""What was asked of a cluster for a Workload, and what came of it.

An outcome speaks of exactly one wish. A Workload that was edited, scaled, or deleted and made anew
under its name since is another wish, of which nothing is known until it has been worked on.
"""

from __future__ import annotations

from dataclasses import dataclass

from crds.workload import PropagatedReason
from machinery.errors import Forbidden, ServerError, TooManyRequests, TransportError
from propagator.members.health import verdict_of
from propagator.types.workload import Workload


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a Workload is to be on one cluster, in as much as to tell one wish from the next.

    A share of no units is another wish than no share: its objects are there.
    """

    uid: str
    generation: int
    units: int
    placed: bool = True
    patch: str = ""
    """The digest of what is laid over its pod template; empty where nothing is."""

    @classmethod
    def of(cls, workload: Workload, cluster: str) -> Wish:
        """What that Workload asks of that cluster; no units where it is not placed there."""
        units = workload.placements.get(cluster, 0)
        placed = cluster in workload.placements
        patch = workload.overrides.of(cluster).digest if placed else ""
        return cls(workload.uid, workload.metadata.generation, units, placed, patch)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the last sync for that wish; no reason means that everything is written."""

    wish: Wish
    reason: PropagatedReason | None = None
    message: str = ""


def outcome_of(member: str, fault: TransportError, wish: Wish) -> Outcome:
    """What a fault says about a share: an answer of the member that is no, or none at all."""
    match fault:
        case Forbidden():
            return Outcome(wish, PropagatedReason.REJECTED, str(fault))
        case TooManyRequests():
            message = f"{member}: {fault}"
        case ServerError():
            message = f"{member}: its API server fails, it is asked again: {fault}"
        case _:
            message = verdict_of(fault).told(member)
    return Outcome(wish, PropagatedReason.CLUSTER_UNREACHABLE, message)
