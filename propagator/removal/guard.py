"""The last guard of what runs: replicas that a share keeps though its decision wants fewer.

A share is lowered only as far as replicas that are ready on other members stand in for those that
go, as the members' own watches show it now: whoever wrote the placements, and however old they are.
No time-out lowers a share. A member that does not answer stands in for nothing. A share that keeps
more than it should is lowered step by step, as replicas elsewhere become ready. The deletion of a
Workload, a scale to 0 and a gate that closes do not come here: they remove at once.

Each member is judged as if all others had just what they are to have, so that two members that
lower their shares at the same moment do not both count on the other's replicas.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from machinery.tasks import in_slices
from machinery.types.metadata import Key
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import main_object, owned
from propagator.members.pods import Main, main_of
from propagator.members.readiness import readiness_of
from propagator.types.workload import Workload

COUNT_SECONDS = 0.5
"""A count of ready replicas is believed for so long, unless a member tells of the Workload."""
ORDERED = frozenset({"StatefulSet"})
"""Kinds that lose the highest ordinal first, whether its pod is ready or not."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The replicas that a share keeps, and what it waits for."""

    replicas: int
    ready_elsewhere: int
    goal: int

    def sentence(self, member: str, target: int) -> str:
        return (
            f"{member}: {self.replicas - target} replicas beyond {target} stay until others are "
            f"ready: {self.ready_elsewhere} of {self.goal} are ready on other clusters"
        )


@dataclass(slots=True)
class _Count:
    """The ready replicas of all shares of a Workload of that version, for a short while."""

    version: str
    until: float
    ready: int = 0


class Guard:
    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.registry
        self._clock = context.clock
        # Each member that lowers its share asks, and a Workload may have ten thousand shares.
        self._ready: dict[Key, _Count] = {}
        self._counting = asyncio.Lock()
        context.registry.on_change(self._member_changed)

    async def kept(self, workload: Workload, member: str) -> Kept | None:
        """Return what the share on that member keeps beyond its placement; None for nothing."""
        target, main = workload.shares.get(member, 0), main_of(workload)
        if self._seen(main, member)[0] <= target:
            return None
        ready_in_all = await self._ready_in_all(workload, main)
        present, ready = self._seen(main, member)
        elsewhere = ready_in_all - min(ready, target)
        goal = max(sum(workload.placements.values()), workload.wanted - workload.status.pending)
        keeps = least(
            target=target,
            present=present,
            ready=ready,
            elsewhere=elsewhere,
            goal=goal,
            ordered=main.kind in ORDERED,
        )
        return Kept(keeps, elsewhere, goal) if keeps > target else None

    def forget(self, key: Key) -> None:
        """Drop the state of a Workload that is gone."""
        self._ready.pop(key, None)

    def _member_changed(self, _member: str, key: Key | None) -> None:
        # That a member stopped answering shows only seconds later: COUNT_SECONDS covers that.
        if key is not None:
            self._ready.pop(key, None)

    async def _ready_in_all(self, workload: Workload, main: Main) -> int:
        """Return the ready replicas of all shares, each at most what it is to have."""
        key, version = workload.metadata.key, workload.metadata.resource_version
        async with self._counting:  # else each of the members that wait would count as well
            known, now = self._ready.get(key), self._clock.monotonic()
            if known is not None and known.version == version and now < known.until:
                return known.ready
            self._ready[key] = count = _Count(version, now + COUNT_SECONDS)
            async for name in in_slices(workload.shares):
                count.ready += min(self._seen(main, name)[1], workload.shares[name])
            return count.ready

    def _seen(self, main: Main, member: str) -> tuple[int, int]:
        """Return the replicas that a member's object asks for, and those that are ready."""
        session = self._registry.get(member)
        if session is None or session.contact is not Contact.SERVING:
            return 0, 0
        found = main_object(main, owned(session, main.uid))
        if found is None or found.replicas is None:
            return 0, 0
        return found.replicas, readiness_of(main.kind, found, found.replicas).ready


def least(
    *, target: int, present: int, ready: int, elsewhere: int, goal: int, ordered: bool
) -> int:
    """Return the replicas that a share keeps, from `target` to `present`.

    Args:
        target: the replicas that it is to have.
        present: the replicas that its object asks for now.
        ready: those of them that are ready.
        elsewhere: the ready replicas of all other shares, each at most what it is to have.
        goal: the replicas of the Workload that are to be ready.
        ordered: the highest ordinals go first, ready or not.
    """
    needed = min(max(goal - elsewhere, 0), ready, present)
    if needed <= target:
        return target
    return present if ordered and ready < present else needed
