"""How much of what an agent tells of its member is believed.

An agent reports on itself, so a thief of its credential may draw replicas to a member by a lie.
With `spec.reported: Pinned` provider and version count as they were told first. Room that more than
doubles within DWELL_SECONDS, in one step or in many, counts after that time, and less room at once.
Room is what the nodes offer, or what their groups have free where that is more. What is held back
shows its old value, and is told by ReportDiffers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
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
        self._base: Mapping[str, Fraction] = {}
        """The room before it last grew."""
        self._grew = -math.inf

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
        if self._holds(_room(stored), _room(told), now):
            for name in _ROOM:
                known.pop(name, None)
            known |= {name: stored[name] for name in _ROOM if name in stored}
            differs.append(
                "more than twice the room is told: it counts once that has been so for "
                f"{DWELL_SECONDS:.0f} s"
            )
        return known, differs

    def _holds(
        self, stored: Mapping[str, Fraction], told: Mapping[str, Fraction], now: float
    ) -> bool:
        base = self._base if now - self._grew < DWELL_SECONDS else stored
        if _more(told, base, MOST_GROWTH):
            self._since = min(self._since, now)
            if now - self._since < DWELL_SECONDS:
                return True
            base = told
        self._since = math.inf
        if _more(told, stored):
            self._base, self._grew = base, now
        return False


def _more(room: Mapping[str, Fraction], than: Mapping[str, Fraction], times: int = 1) -> bool:
    return any(0 < than[name] * times < room.get(name, 0) for name in than)


def _room(status: Mapping[str, Any]) -> dict[str, Fraction]:
    free: defaultdict[str, Fraction] = defaultdict(Fraction)
    for group in status.get("nodeGroups") or ():
        for name, value in (group.get("free") or {}).items():
            free[name] += group["count"] * exact(str(value))
    sums = (status.get("capacity") or {}).get("allocatable") or {}
    offered = {str(name): exact(str(value)) for name, value in sums.items()}
    return {name: max(offered.get(name, free[name]), free[name]) for name in {*offered, *free}}
