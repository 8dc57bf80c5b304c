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


class GateStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a WorkloadGroup's status that are its gate."""

    gate: str | None = None
    decisions: dict[str, str] = {}
    retained: dict[str, dict[str, int]] = {}
    reached: dict[str, str] = {}
    quorum_time: str | None = None


def within(placements: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Return these replicas by cluster, at most those in `most`; clusters of none are left out."""
    both = ((cluster, min(units, most.get(cluster, 0))) for cluster, units in placements.items())
    return {cluster: units for cluster, units in both if units > 0}


def decision_of(placements: Mapping[str, int]) -> str:
    """Return 16 hex digits that name replicas by cluster, in any order; a share of 0 counts."""
    text = json.dumps(sorted(placements.items()))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
