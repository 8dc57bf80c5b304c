"""Objects on a member whose Workloads the hub does not know, held until an operator confirms.

`removal.brake` sets it on a session; `hub.cluster_status` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from crds.membercluster import SweepHeldReason


class HeldWorkload(NamedTuple):
    namespace: str
    name: str
    uid: str
    objects: int
    claims: int
    """Those that are PersistentVolumeClaims, or that some are deleted with."""


@dataclass(frozen=True, slots=True)
class HeldSweep:
    """The removals held on a member; none without a reason."""

    reason: SweepHeldReason | None = None
    message: str = ""
    count: int = 0
    workloads: tuple[HeldWorkload, ...] = ()

    def entry(self) -> Mapping[str, Any] | None:
        """Return `sweepHeld` of a status; None where nothing is held."""
        if self.reason is None:
            return None
        return {"count": self.count, "workloads": [each._asdict() for each in self.workloads]}


NOTHING_HELD = HeldSweep()
