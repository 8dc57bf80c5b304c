"""How much of what an agent tells of its member is believed.

An agent reports on itself, so a thief of its credential may draw replicas to a member by a lie.
With `spec.reported: Pinned` provider and version count as they were told first. Room that more than
doubles counts after DWELL_SECONDS, and less room at once. What is held back shows its old value,
and is told by ReportDiffers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from crds.membercluster import Reported
from machinery.types.bounds import NAME, clean
from machinery.types.quantities import exact
from propagator.types.cluster import MemberCluster

DWELL_SECONDS = 600.0
"""How long more than twice the room has to be told before it counts."""
MOST_GROWTH = 2
_PINNED = ("provider", "version")
_ROOM = ("nodeGroups", "capacity")


class Believed:
    """Of one member. `now` is a monotonic time."""

    def __init__(self) -> None:
        self._since = math.inf

    @property
    def waits(self) -> bool:
        """Whether time alone may make more count."""
        return self._since < math.inf

    def of(
        self, cluster: MemberCluster, told: Mapping[str, Any], now: float
    ) -> tuple[dict[str, Any], list[str]]:
        """Return what counts of `told`, and a sentence for each field that is held back."""
        known, differs = dict(told), list[str]()
        stored = cluster.status
        for name in _PINNED if cluster.spec.reported == Reported.PINNED else ():
            if (old := stored.get(name)) and told.get(name) and told[name] != old:
                known[name] = old
                said = clean(str(told[name]), NAME)
                differs.append(f"{name} is told as {said} and counts as {old}")
        if not self._grows(stored, told):
            self._since = math.inf
        else:
            self._since = min(self._since, now)
            if now - self._since < DWELL_SECONDS:
                known |= {name: stored[name] for name in _ROOM if name in stored}
                differs.append(
                    "more than twice the room is told: it counts once that has been so for "
                    f"{DWELL_SECONDS:.0f} s"
                )
        return known, differs

    @staticmethod
    def _grows(stored: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
        before, after = (_allocatable(each) for each in (stored, told))
        return any(0 < before[name] * MOST_GROWTH < after.get(name, 0) for name in before)


def _allocatable(status: Mapping[str, Any]) -> dict[str, float]:
    sums = (status.get("capacity") or {}).get("allocatable") or {}
    return {str(name): float(exact(str(value))) for name, value in sums.items()}
