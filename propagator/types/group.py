"""The gate of a WorkloadGroup as the propagator reads it.

Any user with the right may have written the status: an unknown gate counts as none, and the last of
two entries for one Workload counts.
"""

from __future__ import annotations

from functools import cached_property

from crds.groups.gate import GateState, GateStatus, takes_back
from machinery.types.metadata import Object


class WorkloadGroup(Object, frozen=True, dict=True):
    status: GateStatus = GateStatus()

    @property
    def open(self) -> bool:
        """Whether released placements may reach members."""
        return self.status.gate == GateState.OPEN

    @property
    def closed(self) -> bool:
        """Whether released replicas must leave the members."""
        return self.status.gate == GateState.CLOSED

    @property
    def ran(self) -> bool:
        """Whether the quorum has run once. Each Workload is then reconciled by itself."""
        return self.status.quorum_time is not None

    @cached_property
    def released(self) -> dict[str, str]:
        """Decisions by the Workloads' UIDs. Cached: there may be thousands."""
        return self.status.released_decisions()

    def retained(self, uid: str) -> dict[str, int]:
        """Return the replicas of a Workload that ran before its release, by cluster."""
        return self.status.retained.get(uid, {})

    def takes_back(self, uid: str) -> bool:
        return takes_back(self.released, uid)
