"""WorkloadGroups as the propagator reads them: the gate, and nothing else of the object.

The status was written by the controller, or by any user who may write it: an unknown gate counts as
none, and of two entries for one Workload the last counts.
"""

from __future__ import annotations

from functools import cached_property

from crds.groups.gate import GateState, GateStatus, takes_back
from machinery.types.metadata import Object


class WorkloadGroup(Object, frozen=True, dict=True):
    """Workloads that start together or not at all."""

    status: GateStatus = GateStatus()

    @property
    def open(self) -> bool:
        """Whether what is released may go to members."""
        return self.status.gate == GateState.OPEN

    @property
    def closed(self) -> bool:
        """Whether everything that was released has to leave them."""
        return self.status.gate == GateState.CLOSED

    @property
    def ran(self) -> bool:
        """Whether the quorum has run once: from then on each Workload is synced by itself."""
        return self.status.quorum_time is not None

    @cached_property
    def released(self) -> dict[str, str]:
        """The released decisions, by the Workloads' UIDs. Cached: there may be thousands."""
        return self.status.released_decisions()

    def retained(self, uid: str) -> dict[str, int]:
        """Return the replicas of a Workload, by cluster, that ran before it was released."""
        return self.status.retained.get(uid, {})

    def takes_back(self, uid: str) -> bool:
        return takes_back(self.released, uid)
