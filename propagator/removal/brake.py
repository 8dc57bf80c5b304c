"""The brake on the sweep: many objects at once, or any after the hub was set back, wait.

A hub that was restored from a backup knows no Workload that was made since, and `orphans` would
sweep their objects. So the brake first counts all that would go from the member, and what went
recently. More than a tenth of its Workloads, and more than ten, is held; the same rule counts over
all members together. Objects with data are always held. An operator releases them by naming the
Workloads that may go (the annotation `stowage.dev/sweep`, which `stowage sweep` sets).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

from crds.membercluster import MOST_HELD, MemberClusterCondition, SweepHeldReason
from crds.names import ANNOTATION_SWEEP
from machinery import logs
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.errors import Forbidden, NotFound
from machinery.kinds.table import profile_of
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import in_slices
from machinery.types import conditions
from machinery.types.metadata import Key
from propagator.hub.workloads import HubWorkloads
from propagator.members.connection import Link
from propagator.members.context import ControllerContext
from propagator.members.held_sweep import NOTHING_HELD, HeldSweep, HeldWorkload
from propagator.members.inventory import owned
from propagator.members.objects import (
    ManagedObject,
    hub_of,
    hub_version_of,
    owners,
    version_number,
)
from propagator.members.pulled import PullSession
from propagator.members.restored import Backup, set_back_name
from propagator.members.session import MemberSession
from propagator.removal.rule import HOLDING_DATA
from propagator.types.cluster import MemberCluster

LOG = logs.get(__name__)
FEW = 10
"""Workloads that may go from a member at once, whatever their share of it."""
SHARE = 10
"""One in so many of the member's Workloads may go at once."""
AT_ONCE_SECONDS = 600.0
"""Seconds within which removals count as one: kinds are listed one by one."""
FRESH_SECONDS = 1.0
"""Seconds for which a count of all that a member holds is valid."""
LEAVING_SECONDS = 5.0
"""Seconds until what a person lets go is counted again: nothing tells of its end."""
_OWNER = re.compile(r"[\w-]{1,128}/[a-z0-9-]{1,63}/[a-z0-9.-]{1,253}", re.ASCII)
_WORKERS = 4
_NAMED = 5
"""Workloads that the message of the condition names."""
_WHY = {
    SweepHeldReason.HUB_RESTORED: "the hub was restored from a backup: ",
    SweepHeldReason.HUB_WENT_BACK: "the hub was set back, as from a backup: ",
    SweepHeldReason.KIND_MADE_ANEW: "Stowage was installed anew on the hub since: ",
}


def reason_to_hold(
    *,
    going: int,
    present: int,
    went_back: bool,
    held: bool,
    older: bool = False,
    restored: bool = False,
) -> SweepHeldReason | None:
    """Return why objects without a Workload stay on a member, or None. Pure.

    `going` counts the Workloads whose objects would go, or went recently, of the `present` ones.
    `held`: the sweep was held before, and no operator has released it. `older`: something is older
    than the hub's kind Workload. `restored`: `stowage restore` made the hub's objects.
    """
    if restored:
        return SweepHeldReason.HUB_RESTORED
    if went_back:
        return SweepHeldReason.HUB_WENT_BACK
    if older:
        return SweepHeldReason.KIND_MADE_ANEW
    return SweepHeldReason.TOO_MANY if held or much(going, present) else None


def much(going: int, of: int) -> bool:
    """Whether `going` of `of` Workloads need an operator's approval. Pure."""
    return going > FEW and going * SHARE > of


class _Count(NamedTuple):
    member: str
    at: float
    left: Mapping[str, HeldWorkload]
    """Workloads that the hub does not know, whose objects carry its mark, by UID."""
    made: Mapping[str, str]
    """When the first of these objects was made, by the Workload's UID."""
    present: int
    """All Workloads of this hub with an object on the member."""


@dataclass(slots=True)
class _Sweep:
    """What goes from one member. It ends with the session."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: _Count | None = None
    let_go: dict[str, float] = field(default_factory=dict)
    """The monotonic time, by the Workload's UID."""
    declined: set[str] = field(default_factory=set)
    judged: bool = False
    """Whether it was counted since the hub went back, or since this process began."""


class SweepBrake:
    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        searched: Callable[[Link], bool],
    ) -> None:
        self._searched = searched
        self._hub = context.hub
        self._registry = context.registry
        self._clusters = context.clusters
        self._clock = context.clock
        self._fresh = context.fresh
        self._workloads = workloads
        self._identity = context.identity
        self._restored = context.restored
        self._membership = context.membership
        self._behind = False
        """Whether the hub's versions have not passed yet what this process has seen."""
        self._set_back = False
        """Whether this process has seen the hub go back."""
        self._sweeps: WeakKeyDictionary[MemberSession, _Sweep] = WeakKeyDictionary()
        self._queue: WorkQueue[str] = WorkQueue(name="sweeps", clock=context.clock)
        context.clusters.add_handler(self._cluster_changed)
        context.registry.on_change(self._member_changed)

    async def run(self) -> None:
        """Check members that became ready, or whose permission changed, until cancelled."""
        await work(self._queue, self._recount, workers=_WORKERS, log=LOG)

    def searched(self, member: str) -> None:
        self._queue.add(member)

    async def allows(self, session: MemberSession, uid: str) -> bool:
        """Whether the objects of that Workload, which the hub does not know, may go now.

        The Workload's key is queued when that changes. Raises TransportError.
        """
        if await self._lets_go(session, uid):
            return True
        self._sweep(session).declined.add(uid)
        return False

    async def _lets_go(self, session: MemberSession, uid: str) -> bool:
        if not self._sees_all(session):
            self._queue.add_after(session.name, FRESH_SECONDS)
            return False
        now, sweep = self._clock.monotonic(), self._sweep(session)
        async with sweep.lock:
            count = sweep.count
            if count is None or now - count.at > FRESH_SECONDS or uid not in count.left:
                count = await self._count(session)
        free = uid in _free(session, count.left)
        if not (free or uid in self._confirmed(session.name)):
            return False
        sweep.let_go[uid] = now
        return True

    def swept(self, session: MemberSession) -> None:
        self._queue.add_after(session.name, FRESH_SECONDS)

    async def _recount(self, member: str) -> float | None:
        session = self._registry.get(member)
        if session is None or not session.ready:
            return None
        if session.link is not None and not self._searched(session.link):
            return None  # the end of the census queues the member again
        if not self._fresh() or not self._sees_all(session):
            return FRESH_SECONDS
        sweep = self._sweep(session)
        async with sweep.lock:
            count = await self._count(session)
        confirmed = self._confirmed(member)
        free = _free(session, count.left) | (count.left.keys() & confirmed)
        declined = sweep.declined & count.left.keys()
        for uid in declined.intersection(free):
            self._registry.wake(member, (count.left[uid].namespace, count.left[uid].name))
        sweep.declined = declined.difference(free)
        if confirmed & count.left.keys():
            return LEAVING_SECONDS
        await self._end_permission(member)
        return None

    def _sees_all(self, session: MemberSession) -> bool:
        """Whether the watches show all that is ours there: a part of it gives no proportion.

        An agent tells of nothing before it has seen all.
        """
        link = session.link
        if link is None:
            return isinstance(session, PullSession) and session.ready
        listed = all(informer.trusted or informer.last_error for informer in link.watches)
        return listed and self._searched(link)

    async def _count(self, session: MemberSession) -> _Count:
        """Count all that would go, and set on the session whether the sweep is held."""
        hub = await self._identity.uid()
        sweep = self._sweep(session)
        count = sweep.count = await self._left_behind(session, hub)
        confirmed = self._confirmed(session.name)
        going = count.left.keys() - confirmed
        if not going:
            session.hold_sweep(NOTHING_HELD)
            sweep.judged = True
            await self._settle(session.link, hub)
            return count
        gone = self._recent(sweep) - count.left.keys() - confirmed
        oldest = min(count.made[uid] for uid in going)
        went_back = await self._hub_went_back(session) or session.went_back_to is not None
        reason = reason_to_hold(
            going=len(going) + len(gone),
            present=count.present + len(gone),
            # Another shard may have seen it, or a process before this one.
            went_back=went_back or oldest < self._membership.set_back,
            held=self._held_before(session),
            older=oldest < await self._workloads.kind_since(),
            restored=await self._was_restored(),
        )
        held = [count.left[uid] for uid in going]
        if reason is None and self._fleet_loses_much():
            reason = SweepHeldReason.TOO_MANY
        if reason is None and any(each.claims for each in held):
            reason, held = SweepHeldReason.HOLDS_DATA, [each for each in held if each.claims]
        session.hold_sweep(_held(session.name, reason, held) if reason else NOTHING_HELD)
        await self._settle(session.link, hub)
        return count

    async def former_hubs(self) -> set[str]:
        """Return the UID of the hub that this one was restored from, if it was."""
        return {await self._restored.former()} - {""}

    async def _was_restored(self) -> bool:
        try:
            return await self._restored.noted() is not None
        except Forbidden:  # rights of a release that restored nothing
            return False

    async def _settle(self, link: Link | None, hub: str) -> None:
        if link is None:
            return
        back = link.went_back_to
        if back is not None:
            backup = Backup(set_back_name(hub, back), hub, back)
            for informer in link.watches:
                async for found in in_slices(informer.values()):
                    uids = owners(found.metadata).keys()
                    if any(map(self._workloads.known, uids)) and backup.younger(found, ""):
                        return
        link.settled()

    def _fleet_loses_much(self) -> bool:
        """Whether too many Workloads would go from all members together.

        The proportion is that of shares: a Workload may have one on each member.
        """
        going, shares, present = set[str](), 0, 0
        for sweep in self._sweeps.values():
            if (count := sweep.count) is None:
                continue
            confirmed = self._confirmed(count.member)
            gone = self._recent(sweep) - count.left.keys() - confirmed
            leaves = (count.left.keys() - confirmed) | gone
            going |= leaves
            shares, present = shares + len(leaves), present + count.present + len(gone)
        return len(going) > FEW and shares * SHARE > present

    async def _left_behind(self, session: MemberSession, hub: str) -> _Count:
        if isinstance(session, PullSession):
            return await self._told_behind(session)
        hubs, asked = {hub} - {""}, False
        left, made, present = {}, {}, 0
        async for uid in in_slices(list(session.owners)):
            if self._workloads.known(uid):
                present += 1
                continue
            found = [each for _, each in owned(session, uid)]
            if not asked and {hub_of(each) for each in found} - hubs - {""}:
                hubs, asked = hubs | await self.former_hubs(), True
            theirs = [each for each in found if left_behind(each, uid, hubs)]
            if theirs:
                namespace, name = min(owners(each.metadata)[uid] for each in theirs)
                claims = sum(map(holds_data, theirs))
                left[uid] = HeldWorkload(namespace, name, uid, len(theirs), claims)
                made[uid] = min(each.metadata.creation_timestamp for each in theirs)
        return _Count(session.name, self._clock.monotonic(), left, made, present + len(left))

    async def _told_behind(self, session: PullSession) -> _Count:
        """As an agent tells it; what it was ordered to remove counts until it has told the end."""
        left, made, present = {}, {}, 0
        async for uid, key in in_slices(list(session.owners.items())):
            if self._workloads.known(uid):
                present += 1
            elif (found := session.assignment(uid)) is not None:
                left[uid] = HeldWorkload(*key, uid, 0, 0)
                made[uid] = found.metadata.creation_timestamp
            elif is_owner(uid, key):
                told = session.unassigned[uid]
                left[uid] = HeldWorkload(*key, uid, told.objects, told.claims)
                made[uid] = told.made
        return _Count(session.name, self._clock.monotonic(), left, made, present + len(left))

    async def _newest(self, session: MemberSession) -> int:
        """Return the newest version of this hub that an object there was written for."""
        hub, there = await self._identity.uid(), 0
        if isinstance(session, PullSession):
            told = (version_number(each.version) or 0 for each in session.unassigned.values())
            return max(told, default=0)
        for informer in session.link.watches if session.link is not None else ():
            async for found in in_slices(informer.values()):
                if hub_of(found) == hub:
                    there = max(there, hub_version_of(found))
        return there

    async def _hub_went_back(self, session: MemberSession) -> bool:
        sweep, there = self._sweep(session), await self._newest(session)
        # Seen before the request: while it is in flight the hub goes on, and so does what we see.
        seen = self._workloads.newest
        now = await self._workloads.version()
        if now is None:
            return self._behind
        if seen > now and not self._behind:
            self._set_back = True
            for each in self._sweeps.values():
                each.judged = False
            for name in self._registry.names():
                self._queue.add(name)
            LOG.warning(
                "the hub is at resourceVersion %d, and was at %d before: it was set back, and no "
                "sweep is done by itself until it has passed that",
                now,
                seen,
            )
        self._behind = seen > now
        was_back = session.link is not None and session.link.hub_went_back
        first = (self._set_back or was_back) and not sweep.judged
        sweep.judged = True
        # What a member says counts for that member alone, so that `_behind` stays as it is.
        return self._behind or first or there > now

    def _held_before(self, session: MemberSession) -> bool:
        if session.held is not None:
            return session.held.reason not in (None, SweepHeldReason.HOLDS_DATA)
        cluster = self._clusters.get(("", session.name))
        if cluster is None:
            return False
        said = conditions.find(cluster.status, MemberClusterCondition.SWEEP_HELD)
        return said.get("status") == "True" and said.get("reason") != SweepHeldReason.HOLDS_DATA

    def _sweep(self, session: MemberSession) -> _Sweep:
        return self._sweeps.setdefault(session, _Sweep())

    def _recent(self, sweep: _Sweep) -> set[str]:
        since = self._clock.monotonic() - AT_ONCE_SECONDS
        sweep.let_go = {uid: at for uid, at in sweep.let_go.items() if at >= since}
        return set(sweep.let_go)

    def _confirmed(self, member: str) -> frozenset[str]:
        cluster = self._clusters.get(("", member))
        return _named(cluster) if cluster is not None else frozenset()

    async def _end_permission(self, member: str) -> None:
        cluster = self._clusters.get(("", member))
        if cluster is None or ANNOTATION_SWEEP not in cluster.metadata.annotations:
            return
        named = {"uid": cluster.metadata.uid, "resourceVersion": cluster.metadata.resource_version}
        metadata = {**named, "annotations": {ANNOTATION_SWEEP: None}}
        with suppress(NotFound):
            await self._hub.merge_patch(MEMBER_CLUSTERS, member, {"metadata": metadata})

    def _member_changed(self, member: str, key: Key | None) -> None:
        if key is None:
            self._queue.add(member)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None and _named(new) != (_named(old) if old is not None else frozenset()):
            self._queue.add(new.name)


def left_behind(
    found: ManagedObject, uid: str, hubs: Collection[str], key: Key | None = None
) -> bool:
    """Whether one of these hubs wrote the object for that very Workload."""
    owner = owners(found.metadata).get(uid)
    if owner is None or key not in (None, owner) or hub_of(found) not in hubs:
        return False
    return is_owner(uid, owner)


def is_owner(uid: str, key: Key) -> bool:
    """Whether that can be the UID and the key of a Workload."""
    return _OWNER.fullmatch(f"{uid}/{'/'.join(key)}") is not None


def holds_data(found: ManagedObject) -> bool:
    """Whether claims go with the object: its own, or those that it was made with."""
    if found.kind in HOLDING_DATA:
        return True
    return profile_of(found.api_version, found.kind).holds_data


def _free(session: MemberSession, left: Mapping[str, HeldWorkload]) -> set[str]:
    held = session.held
    if held is None or held.reason not in (None, SweepHeldReason.HOLDS_DATA):
        return set()
    return {uid for uid, each in left.items() if not each.claims}


def _named(cluster: MemberCluster) -> frozenset[str]:
    listed = cluster.metadata.annotations.get(ANNOTATION_SWEEP, "")
    return frozenset(uid.strip() for uid in listed.split(",")) - {""}


def _held(member: str, reason: SweepHeldReason, going: Sequence[HeldWorkload]) -> HeldSweep:
    ranked = tuple(sorted(going))
    names = ", ".join(f"{each.namespace}/{each.name}" for each in ranked[:_NAMED])
    more = f" and {len(ranked) - _NAMED} more" if len(ranked) > _NAMED else ""
    claims = sum(each.claims for each in ranked)
    data = f", {claims} objects with PersistentVolumeClaims among it" if claims else ""
    why = _WHY.get(reason, "")
    message = (
        f"{why}the hub does not know {len(ranked)} of the Workloads that {member} runs something "
        f"of{data}: it stays until they are restored, or a person lets it go by `stowage sweep "
        f"{member} --confirm`: {names}{more}"
    )
    return HeldSweep(reason, message, len(ranked), ranked[:MOST_HELD])
