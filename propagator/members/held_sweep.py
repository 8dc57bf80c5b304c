"""The objects on a member of Workloads that the hub does not know, held until a person confirms.

`removal.brake` sets it on a session, and `hub.cluster_status` reports it in MemberCluster.status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds.membercluster import SweepHeldReason


@dataclass(frozen=True, slots=True, order=True)
class HeldWorkload:
    """The objects that one Workload left on the member."""

    namespace: str
    name: str
    uid: str
    objects: int
    claims: int
    """Those of the objects that are PersistentVolumeClaims, or with which some go."""

    def entry(self) -> Mapping[str, Any]:
        """Return the entry of `status.sweepHeld.workloads`."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "objects": self.objects,
            "claims": self.claims,
        }


@dataclass(frozen=True, slots=True)
class HeldSweep:
    """The removals that are held on a member; none, without a reason."""

    reason: SweepHeldReason | None = None
    message: str = ""
    count: int = 0
    workloads: tuple[HeldWorkload, ...] = ()
    """The first of the `count` Workloads."""


NOTHING_HELD = HeldSweep()
