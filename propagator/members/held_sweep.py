"""What a member holds for Workloads that the hub does not know, and that is not removed by itself.

`removal.brake` says so of a session, and `hub.cluster_status` tells it in MemberCluster.status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.membercluster import SweepHeldReason


@dataclass(frozen=True, slots=True, order=True)
class HeldWorkload:
    """What one Workload left on the member."""

    namespace: str
    name: str
    uid: str
    objects: int
    claims: int
    """PersistentVolumeClaims among them."""

    def entry(self) -> Mapping[str, Any]:
        """As `status.sweepHeld.workloads` has it."""
        told = {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        return {**told, "objects": self.objects, "claims": self.claims}


@dataclass(frozen=True, slots=True)
class HeldSweep:
    """What of a member is held; without a reason nothing is."""

    reason: SweepHeldReason | None = None
    message: str = ""
    count: int = 0
    workloads: tuple[HeldWorkload, ...] = ()
    """The first of them."""


NOTHING_HELD = HeldSweep()
