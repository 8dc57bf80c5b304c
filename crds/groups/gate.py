"""The gate of a WorkloadGroup: what its status may say, and how it names a decision.

The controller releases a Workload at one decision, the propagator pushes that decision alone. So
both count the same digest of the same placements, whoever wrote them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum


class GateState(StrEnum):
    """status.gate. Without one nothing new is pushed, and nothing is removed."""

    OPEN = "Open"
    """Those that are released may stand on members, as far as they are."""
    CLOSED = "Closed"
    """What it had released leaves all members; what ran there before stays."""


def within(placements: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Of these units by cluster those that are in `most` as well; clusters of none left out."""
    both = ((cluster, min(units, most.get(cluster, 0))) for cluster, units in placements.items())
    return {cluster: units for cluster, units in both if units > 0}


def decision_of(placements: Mapping[str, int]) -> str:
    """16 hex digits that name these units by cluster, in whatever order; a share of none counts."""
    text = json.dumps(sorted(placements.items()))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
