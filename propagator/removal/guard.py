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

from dataclasses import dataclass

from machinery.tasks import in_slices
from machinery.types.metadata import Key
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import main_object, owned
from propagator.members.pods import main_of
from propagator.members.readiness import readiness_of
from propagator.types.workload import Workload

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


class Guard:
    def __init__(self, context: ControllerContext) -> None:
        self._registry = context.registry
        self._waiting: dict[Key, set[str]] = {}

    def waiting(self, key: Key) -> set[str]:
        """Return the members on which a share of the Workload keeps more than it should."""
        return self._waiting.get(key, set())

    async def kept(self, workload: Workload, member: str) -> Kept | None:
        """Return what the share on that member keeps beyond its placement; None for nothing."""
        kept = await self._kept(workload, member)
        if kept is not None:
            self._waiting.setdefault(workload.metadata.key, set()).add(member)
        elif (members := self._waiting.get(workload.metadata.key)) is not None:
            members.discard(member)
            if not members:
                del self._waiting[workload.metadata.key]
        return kept

    def forget(self, key: Key) -> None:
        """Drop the state of a Workload that is gone."""
        self._waiting.pop(key, None)

    async def _kept(self, workload: Workload, member: str) -> Kept | None:
        target = workload.shares.get(member, 0)
        present, ready = self._seen(workload, member)
        if present <= target:
            return None
        goal = max(sum(workload.placements.values()), workload.wanted - workload.status.pending)
        elsewhere = 0
        async for name in in_slices(sorted(workload.shares)):
            if name != member:
                _, there = self._seen(workload, name)
                elsewhere += min(there, workload.shares[name])
        keeps = least(
            target=target,
            present=present,
            ready=ready,
            elsewhere=elsewhere,
            goal=goal,
            ordered=workload.template_kind in ORDERED,
        )
        return Kept(keeps, elsewhere, goal) if keeps > target else None

    def _seen(self, workload: Workload, member: str) -> tuple[int, int]:
        """Return the replicas that a member's object asks for, and those that are ready."""
        session = self._registry.get(member)
        if session is None or session.contact is not Contact.SERVING:
            return 0, 0
        main = main_object(main_of(workload), owned(session, workload.uid))
        if main is None or main.replicas is None:
            return 0, 0
        return main.replicas, readiness_of(workload.template_kind, main, main.replicas).ready


def least(
    *, target: int, present: int, ready: int, elsewhere: int, goal: int, ordered: bool
) -> int:
    """Return the replicas that a share keeps, from `target` to `present`.

    Args:
        target: the replicas that it is to have.
        present: the replicas that its object asks for now, more than `target`.
        ready: those of them that are ready.
        elsewhere: the ready replicas of all other shares, each at most what it is to have.
        goal: the replicas of the Workload that are to be ready.
        ordered: the highest ordinals go first, ready or not.
    """
    needed = min(max(goal - elsewhere, 0), ready, present)
    if needed <= target:
        return target
    return present if ordered and ready < present else needed
