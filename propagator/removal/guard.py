"""The last guard of what runs: replicas that a share keeps though its decision wants fewer.

A share is lowered only as far as ready replicas on other members stand in for those that go, as the
watches show it now, whoever wrote the placements. `spec.movement` says for how long they must have
been ready and how many may lack. No time-out lowers a share. A member that does not answer stands
in for nothing, nor does a replica that a rollout replaces. At most the target of every other share
counts. Disruption budgets bound each step. A deletion, a scale to 0 and a gate that closes remove
without this. A share that is not seen is not lowered: that nothing shows does not mean that nothing
runs.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from crds.fields.shares import BlockedReason
from crds.fields.why import ChangeCause
from machinery.errors import Unreachable
from machinery.kinds.readiness import available_in, counts_of
from machinery.tasks import in_slices
from machinery.types.metadata import Key
from propagator.hub.workload_metadata import record_of
from propagator.members.context import ControllerContext
from propagator.members.health import Contact
from propagator.members.inventory import OwnedObjects, main_object, owned
from propagator.members.pods import Main, main_of
from propagator.members.pulled import PullSession
from propagator.members.views import Live, Told
from propagator.removal.at_most_once import AtMostOnce
from propagator.removal.disruptions import Disruptions
from propagator.types.cluster import MemberCluster
from propagator.types.movement import Blocked
from propagator.types.workload import Workload

COUNT_SECONDS = 0.5
"""Seconds for which a count of ready replicas is used, unless a member reports a change."""


@dataclass(frozen=True, slots=True)
class Kept:
    replicas: int
    ready_elsewhere: int
    goal: int
    budget: str = ""
    """The text of a disruption budget, if it is what keeps them."""
    replaced: int = 0
    """Further ready replicas elsewhere, which a rollout replaces."""

    def sentence(self, member: str, target: int) -> str:
        until = f": {self.budget}" if self.budget else f" until others are ready: {self._waits}"
        return f"{member}: {self.replicas - target} replicas beyond {target} stay{until}"

    @property
    def blocked(self) -> Blocked:
        if self.budget:
            return Blocked(BlockedReason.DISRUPTION_BUDGET, self.budget)
        return Blocked(BlockedReason.NOT_READY_ELSEWHERE, self._waits)

    @property
    def _waits(self) -> str:
        said = f"{self.ready_elsewhere} of {self.goal} are ready on other clusters"
        return f"{said}, beside {self.replaced} that a rollout replaces" if self.replaced else said


class _Seen(NamedTuple):
    present: int = 0
    """The replicas that its object asks for."""
    ready: int = 0
    standing_in: int = 0
    """The ready ones that stand in for others."""
    replaced: int = 0
    """The ready ones that a rollout replaces."""
    changes_in: float = math.inf
    """Seconds until more of them do, if nothing happens."""


_NOTHING = _Seen()


@dataclass(slots=True)
class _Count:
    """The replicas of all shares of a Workload of that version that stand in for others."""

    version: str
    until: float
    standing_in: int = 0
    of_agents: dict[str, int] = field(default_factory=dict)
    """Those that agents tell, by member; none where the last order is not carried out."""
    replaced: int = 0


class Guard:
    def __init__(
        self, context: ControllerContext, *, inventory: OwnedObjects, once: AtMostOnce
    ) -> None:
        self._inventory = inventory
        self._registry = context.registry
        self._views = context.views
        self._clusters = context.clusters
        self._clock = context.clock
        # Each member that lowers its share asks, and a Workload may have ten thousand shares.
        self._ready: dict[Key, _Count] = {}
        self._counting = asyncio.Lock()
        self._disruptions = Disruptions(context)
        self._once = once
        # `leaving` names a share no more once its successors are ready, but it still leaves.
        self._causes = context.shares.column(str)
        context.registry.on_change(self._member_changed)
        context.clusters.add_handler(self._cluster_changed)

    async def kept(self, workload: Workload, member: str) -> Kept | None:
        """Return what the share on that member keeps beyond its placement, or None.

        Raises Unreachable if the member stopped answering, or shows the kind no more.
        """
        self.note(workload, member)
        target, main = workload.shares.get(member, 0), main_of(workload)
        if self._own(workload, main, member).present <= target:
            self._disruptions.raised(member, workload.metadata.key, target)
            self._lets_go(workload, member)
            return None
        counted = await self._count(workload, main)
        own = self._own(workload, main, member)
        here = counted.of_agents.get(member, min(own.standing_in, target))
        elsewhere = counted.standing_in - here
        goal = max(sum(workload.placements.values()), workload.wanted - workload.status.pending)

        def keeping(later: int) -> int:
            return least(
                target=target,
                present=own.present,
                ready=own.ready,
                elsewhere=elsewhere + later,
                goal=goal - workload.unavailable,
                ordered=main.profile.ordered,
            )

        keeps = keeping(0)
        if keeps > target:  # else no other member is looked at
            keeps = keeping(self._going_later(workload, main, member))
        last = member not in workload.placements and elsewhere >= goal
        keeps, why = self._by_budgets(workload, member, main, own.present, keeps, last=last)
        left = self._once.left(workload, member)
        if left is not None and left < keeps:
            keeps, why = left, ""  # what runs twice goes at once
        if keeps <= target:
            self._lets_go(workload, member)
            return None
        return Kept(keeps, elsewhere, goal, why, max(counted.replaced - own.replaced, 0))

    def _going_later(self, workload: Workload, main: Main, member: str) -> int:
        """Return the ready replicas that leave members which are lowered later: by name."""
        if not workload.at_most_once:
            return 0
        sent = record_of(workload).names(self._views.names)
        later = (n for n in {*workload.placements, *workload.leaving, *sent} if n > member)
        beyond = ((self._seen(workload, main, n).ready, workload.shares.get(n, 0)) for n in later)
        return sum(max(ready - target, 0) for ready, target in beyond)

    def note(self, workload: Workload, member: str) -> None:
        cause = workload.causes.get(member)
        if cause is not None:
            self._causes.put(workload.uid, member, cause)

    def _lets_go(self, workload: Workload, member: str) -> None:
        self._disruptions.keeps_nothing(workload, member)
        if member not in workload.causes:
            self._causes.pop(workload.uid, member)

    def _by_budgets(
        self, workload: Workload, member: str, main: Main, present: int, keeps: int, *, last: bool
    ) -> tuple[int, str]:
        session = self._registry.get(member)
        if session is None or keeps >= present or not self._under_budgets(workload, member):
            return keeps, ""
        found = main_object(main, owned(session, main.uid))
        labels = (found.pod_labels if found is not None else None) or ()
        allowed = self._disruptions.allowed(
            session,
            workload,
            main,
            present=present,
            keeps=keeps,
            carried=not last,
            labels=labels,
        )
        return allowed.keeps, allowed.why

    def _under_budgets(self, workload: Workload, member: str) -> bool:
        cause = self._causes.get(workload.uid, member)
        if cause is None and not _told_of_budget(workload, member):
            return False
        cluster = self._clusters.get(("", member))
        if cause in (None, ChangeCause.DRAINED) and cluster is not None and cluster.forced_drain:
            return False
        return cause != ChangeCause.CLUSTER_LOST

    def forced(self, workload: Workload, member: str) -> bool:
        """Whether replicas leave that member whatever its disruption budgets say."""
        return not self._under_budgets(workload, member)

    def _member_changed(self, member: str, key: Key | None) -> None:
        # That a member stopped answering shows only seconds later: COUNT_SECONDS covers that.
        if key is not None:
            self._ready.pop(key, None)
            self._disruptions.look(member, key)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if old is not None and new is not None and old.spec.taints != new.spec.taints:
            self._disruptions.wake(new.name)

    async def _count(self, workload: Workload, main: Main) -> _Count:
        key, version = workload.metadata.key, workload.metadata.resource_version
        async with self._counting:  # else each of the members that wait would count as well
            known, now = self._ready.get(key), self._clock.monotonic()
            if known is not None and known.version == version and now < known.until:
                return known
            self._ready = {k: each for k, each in self._ready.items() if now < each.until}
            self._ready[key] = count = _Count(version, now + COUNT_SECONDS)
            async for name in in_slices(workload.shares):
                seen = self._seen(workload, main, name)
                standing_in = min(seen.standing_in, workload.shares[name])
                if self._views.pulled(name) is not None:
                    count.of_agents[name] = standing_in
                count.standing_in += standing_in
                count.replaced += seen.replaced
                count.until = min(count.until, now + seen.changes_in)
            return count

    def standing_in(self, workload: Workload, member: str) -> int:
        """Return the replicas of the present main object on a member that stand in for others.

        One of a kind without a number stands in for all that are placed there.
        """
        main, view = main_of(workload), self._views.of(workload, member)
        if isinstance(view, Told):
            return self._seen(workload, main, member).standing_in
        session = view.session if isinstance(view, Live) else None
        found = main_object(main, owned(session, main.uid)) if session is not None else None
        if found is None or found.replicas is not None:
            return self._seen(workload, main, member).standing_in
        target = max(workload.shares.get(member, 0), 1)
        return target if counts_of(found.judged, target).lasting else 0

    def _own(self, workload: Workload, main: Main, member: str) -> _Seen:
        session = self._registry.get(member)
        if session is None or session.contact is not Contact.SERVING:
            raise Unreachable("it stopped answering while its share was looked at")
        pulls = isinstance(session, PullSession)
        if not (pulls or self._inventory.asked(session, workload, main.kind)):
            raise Unreachable(f"its objects of the kind {main.kind} are being listed anew")
        return self._seen(workload, main, member, own=True)

    def _seen(self, workload: Workload, main: Main, member: str, *, own: bool = False) -> _Seen:
        view = (self._views.own if own else self._views.of)(workload, member)
        if isinstance(view, Told):
            return _told(view, workload.spec.movement.ready_seconds)
        if not isinstance(view, Live) or not view.serves:
            return _NOTHING
        session = view.session
        found = main_object(main, owned(session, main.uid))
        if found is None or (found.replicas is None and own):
            return _NOTHING
        if found.replicas is None:  # of a kind that nobody has described: all of it or none
            known = counts_of(found.judged, workload.shares.get(member, 0))
            return _Seen(0, known.ready, known.lasting)
        readiness = counts_of(found.judged, found.replicas)
        lasting = readiness.lasting
        replaced = readiness.ready - lasting
        seconds = workload.spec.movement.ready_seconds
        if not seconds:
            return _Seen(found.replicas, readiness.ready, lasting, replaced)
        seen, counts = session.availability(main, seconds), session.pod_counts(main)
        if seen is None or counts is None:  # what is not seen stands in for nothing
            return _Seen(found.replicas, readiness.ready)
        available = available_in(
            main.profile, found.judged, readiness, pods=seen.pods, seen=counts.current
        )
        changes_in = math.inf if seen.more_in is None else seen.more_in
        standing_in = min(available, lasting)
        return _Seen(found.replicas, readiness.ready, standing_in, replaced, changes_in)


def _told(view: Told, ready_seconds: int) -> _Seen:
    lasting = view.lasting
    standing_in = min(view.available, lasting) if ready_seconds else lasting
    return _Seen(view.asked, view.ready, standing_in, view.ready - lasting)


def _told_of_budget(workload: Workload, member: str) -> bool:
    """Whether a budget kept the share as last reported: a new process has not seen its cause."""
    shares = (each for each in workload.status.clusters if each.get("name") == member)
    told = next((each.get("blocked") or {} for each in shares), {})
    return bool(told.get("reason") == BlockedReason.DISRUPTION_BUDGET.value)


def least(
    *, target: int, present: int, ready: int, elsewhere: int, goal: int, ordered: bool
) -> int:
    """Return the replicas that a share keeps, from `target` to `present`.

    Args:
        target: the replicas that it should have.
        present: the replicas that its object asks for now.
        ready: those of them that are ready.
        elsewhere: those of all other shares that stand in, of each at most its target.
        goal: the replicas of the Workload that have to stay ready; nothing is kept for 0 or less.
        ordered: the highest ordinals go first, ready or not.
    """
    needed = min(max(goal - elsewhere, 0), ready, present)
    if needed <= target:
        return target
    return present if ordered and ready < present else needed
