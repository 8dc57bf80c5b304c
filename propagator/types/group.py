"""WorkloadGroups as the propagator reads them: the gate, and nothing else of the object.

The status was written by the controller, or by any user who may write it: an unknown gate counts as
none, and of two entries for one Workload the last counts.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from crds.groups.gate import GateState
from machinery.types.metadata import Object


class Released(msgspec.Struct, frozen=True, gc=False):
    """A Workload that may be on members, at one decision, in the form of an earlier release."""

    uid: str = ""
    decision: str = ""


class GroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    gate: str | None = None
    decisions: dict[str, str] = {}
    retained: dict[str, dict[str, int]] = {}
    released: list[Released] = []
    quorum_time: str | None = None


class WorkloadGroup(Object, frozen=True, dict=True):
    """Workloads that start together or not at all."""

    status: GroupStatus = GroupStatus()

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
        listed = self.status.decisions
        return listed or {each.uid: each.decision for each in self.status.released}

    def retained(self, uid: str) -> dict[str, int]:
        """Return the replicas of a Workload, by cluster, that ran before it was released."""
        return self.status.retained.get(uid, {})

    def takes_back(self, uid: str) -> bool:
        """Whether a Workload leaves while the gate is closed: one that was released."""
        # An earlier release kept no such list while the gate was closed, and took back all.
        return not self.released or uid in self.released
