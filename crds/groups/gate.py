"""The gate of a WorkloadGroup: what its status may say, and how it names a decision.

The controller releases a Workload at one decision, the propagator pushes that decision alone. So
both count the same digest of the same placements, by any writer, and read the gate by one struct.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class GateState(StrEnum):
    """status.gate. Without one nothing new is pushed, and nothing is removed."""

    OPEN = "Open"
    """Released placements may stand on members."""
    CLOSED = "Closed"
    """Released placements leave all members; placements that ran before stay."""


class Released(msgspec.Struct, frozen=True, gc=False):
    """An entry of status.released, which an earlier release wrote for status.decisions."""

    uid: str = ""
    decision: str = ""


class GateStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a WorkloadGroup's status that are its gate."""

    gate: str | None = None
    decisions: dict[str, str] = {}
    retained: dict[str, dict[str, int]] = {}
    reached: dict[str, str] = {}
    released: list[Released] = []
    quorum_time: str | None = None

    def released_decisions(self) -> dict[str, str]:
        """Return the released decisions by the Workloads' UIDs; of two for one, the last."""
        return self.decisions or {each.uid: each.decision for each in self.released}


def takes_back(released: Mapping[str, str], uid: str) -> bool:
    """Return whether a Workload leaves while the gate is closed: one that was released."""
    # An earlier release kept no list while the gate was closed, and took back all.
    return not released or uid in released


def within(placements: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Return these replicas by cluster, at most those in `most`; clusters of none are left out."""
    both = ((cluster, min(units, most.get(cluster, 0))) for cluster, units in placements.items())
    return {cluster: units for cluster, units in both if units > 0}


def decision_of(placements: Mapping[str, int]) -> str:
    """Return 16 hex digits that name replicas by cluster, in any order; a share of 0 counts."""
    text = json.dumps(sorted(placements.items()))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
