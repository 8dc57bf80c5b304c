"""The gates of all gangs on the hub, checked before each write.

Each change of a group, placements or a cluster has the group reviewed, which wakes Workloads whose
verdict changed. Workloads of an unknown or stale group WAIT. The last step before a gang starts
reads its group from the hub.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from crds.groups.gate import GateStatus
from crds.names import LABEL_GROUP
from machinery import logs
from machinery.api.lanes import working_for
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.api.responses import decode
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.backoff import delay
from machinery.runtime.fair_queue import namespace_of
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.tasks import in_slices
from machinery.types.metadata import Key
from propagator.groups.rule import (
    WAIT_SILENTLY,
    GateAnswer,
    GateVerdict,
    WorkloadGroup,
    group_of,
    named,
    verdict_on,
)
from propagator.groups.starting import Contacts, Starting
from propagator.hub.registration import present_names
from propagator.hub.workloads import HubWorkloads
from propagator.members.context import ControllerContext
from propagator.shares import Column
from propagator.types.workload import Workload

LOG = logs.get(__name__)
GROUP_INDEX = "group"
"""By the groups that a Workload names, `namespace/name`."""
CHECK_SECONDS = 1.0
"""Seconds between checks whether groups are readable and clusters connect in time."""
SLICE = 10
"""Workloads between two pauses of a review: one may be on ten thousand clusters."""
REVIEWED_PER_SECOND = 10_000
"""Workloads reviewed per second. Each change of one reviews its whole group."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two reads of one group before its start."""
_REVIEWERS = 4
_READERS = 4
_group = msgspec.json.Decoder(WorkloadGroup)


class _Leaves(NamedTuple):
    """That a Workload must leave its clusters since its gate closed, even if it is open again."""

    group: Key
    clean: set[str]
    """The clusters that keep its objects, or have none any more."""


class Gates:
    """`wake` queues a Workload on all of its clusters."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        workloads: HubWorkloads,
        wake: Callable[[Workload], None],
    ) -> None:
        self._clock = context.clock
        self._clusters = context.clusters
        self._hub_workloads, self._workloads = workloads, workloads.informer
        self._wake = wake
        self._contacts = Contacts(context)
        # Of the Workload: the verdicts that were given since the last review.
        self._given = context.shares.column(set[GateVerdict])
        self._starting: dict[Key, Starting] = {}
        self._hub = context.hub
        # Thousands of gangs may start in one moment after each start of this process.
        self._starts: WorkQueue[Key] = WorkQueue(
            name="starts", clock=context.clock, flow=namespace_of, seats=_READERS
        )
        self._asked: dict[str, set[Key]] = {}
        """The groups that wait for a probe, by cluster."""
        self._shut: set[Key] = set()
        """The groups that were closed, and are not open again."""
        # Of the Workload: its version, and what the hub has said of its group since.
        self._confirmed: Column[tuple[str, GateStatus]] = context.shares.column()
        self._leaves: Column[_Leaves] = context.shares.column()  # of the Workload
        self._due: dict[Key, float] = {}
        self._obstacle: str | None = ""
        self._blocked = False  # an obstacle was the answer to a Workload since the last check
        self._queue: WorkQueue[Key] = WorkQueue(
            name="groups", clock=context.clock, flow=namespace_of, seats=_REVIEWERS
        )
        self.informer: Informer[WorkloadGroup] = Informer(
            context.hub, WORKLOAD_GROUPS, WorkloadGroup, clock=context.clock
        )
        self.informer.add_handler(self._group_changed)
        self._workloads.add_index(GROUP_INDEX, lambda each: ["/".join(k) for k in _groups(each)])
        self._workloads.add_handler(self._workload_changed)
        context.registry.on_change(self._member_changed)
        context.registry.on_facts(self._member_answered)

    def begin(self) -> None:
        """Answers from another term start no gang."""
        for key in self._starting:
            self._mark(key)
        self._starting.clear()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._poll())
            tasks.create_task(work(self._starts, self._confirm, workers=_READERS, log=LOG))
            tasks.create_task(self._work())

    def verdict(self, workload: Workload) -> GateVerdict:
        """Requires placements."""
        verdict = self._judge(workload)
        if workload.groups and self._hub_workloads.by_uid(workload.uid) is not None:
            self._given.at(workload.uid).add(verdict)
        return verdict

    def may_apply(self, workload: Workload) -> bool:
        return self.verdict(workload).answer is GateAnswer.APPLY

    def starting(self, workload: Workload) -> bool:
        """Whether the gang has released part of the Workload and has not run its quorum yet."""
        group = self._group_of(workload)
        if group is None or group.ran or self._unread() is not None:
            return False
        return group.open or bool(group.retained(workload.uid))

    async def confirms(self, workload: Workload) -> bool:
        """Whether the hub says of its group what the watch has shown. Raises TransportError.

        The watch of groups may be behind that of Workloads, and a gang that runs is not taken back.
        """
        group = self._group_of(workload)
        if group is None:
            return False
        seen = workload.metadata.resource_version, group.status
        if self._confirmed.get(workload.uid) != seen:
            try:
                now = await self._read(group.metadata.key)
            except NotFound:
                return False
            if now.metadata.uid != group.metadata.uid or now.status != group.status:
                return False
            self._confirmed.put(workload.uid, "", seen)
        return True

    def retains(self, workload: Workload, member: str) -> bool:
        """Whether replicas there ran before the gang released any."""
        group = self._group_of(workload)
        return group is not None and member in self._retained(workload, group)

    def _retained(self, workload: Workload, group: WorkloadGroup) -> Mapping[str, int]:
        """Return what ran before the gang did, by the present names of clusters."""
        found = group.retained(workload.uid)
        return named(found, present_names(self._clusters, found))

    def removal_pending(self, workload: Workload, member: str) -> bool:
        if self._unread() is not None:
            return False
        leaves = self._leaves_of(workload)
        pending = leaves is not None and member not in self._clean(leaves)
        return pending or self._left_behind(workload, member)

    def _clean(self, leaves: _Leaves) -> set[str]:
        return leaves.clean | set(present_names(self._clusters, leaves.clean).values())

    def _left_behind(self, workload: Workload, member: str) -> bool:
        """Whether replicas there are of an attempt that was taken back while it was no member.

        Nothing of a gang that has not run yet is kept, beyond what ran before it.
        """
        group = self._group_of(workload)
        if group is None or group.open or group.closed or group.ran or workload.placements:
            return False
        left = workload.uid in group.released
        return left and member not in self._retained(workload, group)

    def note_clean(self, workload: Workload, member: str) -> None:
        """What a closed gate required is removed there."""
        if (leaves := self._leaves_of(workload)) is not None:
            leaves.clean.add(member)

    def _leaves_of(self, workload: Workload) -> _Leaves | None:
        leaves = self._leaves.get(workload.uid)
        return leaves if leaves is not None and leaves.group == group_of(workload) else None

    def _judge(self, workload: Workload) -> GateVerdict:
        obstacle = self._unread() if workload.groups else None
        if obstacle is not None:
            self._blocked = True
            return GateVerdict(GateAnswer.WAIT, obstacle)
        group = self._group_of(workload)
        retained = group.retained(workload.uid) if group is not None else {}
        noted = {*retained, *workload.placements} if retained else ()
        verdict = verdict_on(workload, group, present_names(self._clusters, noted))
        if group is None or not _starts(group) or verdict.answer is not GateAnswer.APPLY:
            return verdict
        starting = self._starting.get(group.metadata.key)
        if starting is None:  # the review collects the gang's clusters first
            self._mark(group.metadata.key)
            return WAIT_SILENTLY
        return starting.verdict

    def _group_of(self, workload: Workload) -> WorkloadGroup | None:
        key = group_of(workload)
        return self.informer.get(key) if key is not None else None

    def _unread(self) -> str | None:
        """Return why groups are unknown, empty if that may pass; None while they are known."""
        fault = self.informer.last_error
        if isinstance(fault, NotFound):
            return (
                "the hub serves no WorkloadGroups: run `stowage install` on it again, or remove "
                f"the label {LABEL_GROUP}"
            )
        if self.informer.trusted:
            return None
        return f"WorkloadGroups cannot be read: {fault}" if fault is not None else ""

    # --- who has to be asked again ----------------------------------------------------------------

    def _group_changed(self, old: WorkloadGroup | None, new: WorkloadGroup | None) -> None:
        known = new or old
        if known is None or (old is not None and new is not None and old.status == new.status):
            return
        key = known.metadata.key
        if new is None or new.open or new.closed:
            self._shut.discard(key)
            for each in self._workloads.by_index(GROUP_INDEX, "/".join(key)):
                self._leaves.pop(each.uid)
                if new is not None and new.closed and group_of(each) == key:
                    self._have_leave(each, new)
        if new is not None and new.closed:
            self._shut.add(key)
        starting = self._starting.get(key)
        if starting and not (new and _starts(new) and starting.released == new.released):
            del self._starting[key]
        elif starting is not None and starting.awaited:  # the last of them may have told
            starting.ask_after = -math.inf
            self._conclude(key, starting)
        self._mark(key)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is None:
            return
        if not (known.groups or (old is not None and old.groups)):
            return
        self._come_and_go(old, new)
        if old is not None and new is not None and _stand_alike(old, new):
            return
        for each in (old, new):
            for key in _groups(each) if each is not None else ():
                # A group that is gone, and that no Workload names now, still has to be reviewed.
                unheld = each is old and key not in self.informer
                if self._starting.pop(key, None) is not None or unheld:
                    self._mark(key)

    def _come_and_go(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload that joins a closed group is removed too if the group had released it."""
        if old is not None and new is not None and group_of(old) == group_of(new):
            return
        if old is not None:
            self._leaves.pop(old.uid)  # its objects stay, even if it joins again
        group = self._group_of(new) if new is not None else None
        if new is None or group is None or group.metadata.key not in self._shut:
            return
        # Workloads that arrive during the first list do not join: they were members already.
        if group.closed or not self._workloads.synced:
            self._have_leave(new, group)

    def _have_leave(self, workload: Workload, group: WorkloadGroup) -> None:
        if workload.uid in group.released:
            retained = set(group.retained(workload.uid))
            self._leaves.put(workload.uid, "", _Leaves(group.metadata.key, retained))

    def _member_changed(self, name: str, key: Key | None) -> None:
        if key is not None:
            return
        self._contacts.lack(name)  # the time to connect counts from now, with or without a gang
        self._recheck_cluster(self._starting, name)

    def _member_answered(self, name: str) -> None:
        self._recheck_cluster(self._asked.pop(name, ()), name)

    def _recheck_cluster(self, groups: Iterable[Key], name: str) -> None:
        for group in groups:
            starting = self._starting.get(group)
            if starting is not None and name in starting.clusters:
                self._check_cluster(group, starting, name)
                self._conclude(group, starting)

    def _mark(self, group: Key) -> None:
        self._queue.add_after(group, self._due.get(group, 0.0) - self._clock.monotonic())

    async def _poll(self) -> None:
        await self._clusters.wait_synced()
        while True:
            obstacle, before = self._unread(), self._obstacle
            if obstacle != before or (self._blocked and obstacle is None):
                self._obstacle, self._blocked = obstacle, False
                self._mark_all()
            for group, starting in [*self._starting.items()]:
                waits = bool(starting.missing or starting.unseen or starting.awaited)
                async for name in in_slices([*starting.missing]):
                    self._check_cluster(group, starting, name)
                if waits:  # also if nothing is missing now: no event tells of another shard's
                    self._conclude(group, starting)
            await self._clock.sleep(CHECK_SECONDS)

    def _mark_all(self) -> None:
        asked = (self._hub_workloads.by_uid(uid) for uid, _ in self._given)
        for key in {key for each in asked if each is not None for key in _groups(each)}:
            self._mark(key)

    # --- one group --------------------------------------------------------------------------------

    async def _work(self) -> None:
        await self._clusters.wait_synced()
        await work(self._queue, self._review, workers=_REVIEWERS, log=LOG)

    async def _review(self, key: Key) -> None:
        group = self.informer.get(key)
        if group is not None and _starts(group) and key not in self._starting:
            await self._gather(group)
        members = self._workloads.by_index(GROUP_INDEX, "/".join(key))
        self._due[key] = self._clock.monotonic() + len(members) / REVIEWED_PER_SECOND
        async for member in in_slices(members, size=SLICE):
            workload = self._workloads.get(member.metadata.key)
            if workload is not None and workload.placements:
                self._correct(workload)
        if group is None and not members:
            self._due.pop(key, None)

    def _correct(self, workload: Workload) -> None:
        now = self._judge(workload)
        if (self._given.get(workload.uid) or {now}) != {now}:
            self._given.put(workload.uid, "", {now})
            self._wake(workload)

    async def _gather(self, group: WorkloadGroup) -> None:
        # The watch of groups may be ahead of that of Workloads. Until each released Workload is
        # seen with its decision, the gang's clusters are unknown, and the Workload's event collects
        # again.
        key, clusters = group.metadata.key, set[str]()
        starting = Starting(group.released, clusters, self._clock.monotonic())
        self._starting[key] = starting  # a change removes it, and queues the group
        members = self._workloads.by_index(GROUP_INDEX, "/".join(key))
        seen = 0
        async for workload in in_slices(members, size=SLICE):
            if group.released.get(workload.uid) == workload.decision:
                clusters.update(workload.placements)
                seen += 1
        starting.unseen = len(group.released) - seen
        if starting.unseen:
            return
        async for name in in_slices(clusters):
            self._check_cluster(key, starting, name)
        starting.known = True
        self._conclude(key, starting)

    def _check_cluster(self, group: Key, starting: Starting, name: str) -> None:
        lack = self._contacts.lack(name)
        starting.record(name, lack)
        if lack is None and not self._contacts.heard(name, starting.since):
            starting.unheard.add(name)
            self._asked.setdefault(name, set()).add(group)
        else:
            starting.unheard.discard(name)

    def _conclude(self, group: Key, starting: Starting) -> None:
        if not starting.reached:
            starting.confirmed = False
        elif not starting.confirmed:
            self._starts.add_after(group, starting.ask_after - self._clock.monotonic())
        before, starting.verdict = starting.verdict, self._contacts.verdict(starting, group)
        if starting.verdict != before:
            self._mark(group)

    async def _confirm(self, group: Key) -> None:
        starting = self._starting.get(group)
        if starting is None or starting.confirmed or not starting.reached:
            return
        stands, obstacle = False, ""
        try:
            stands = await self._stands(group, starting)
        except TransportError as fault:
            LOG.info("it cannot be read: %s", fault, extra={"object": "/".join(group)})
            obstacle = str(fault) if isinstance(fault, Forbidden) else ""
        if self._starting.get(group) is not starting:
            return  # another start has replaced this one, and has its own read
        starting.confirmed, starting.obstacle = stands, obstacle
        if not stands:
            starting.tries += 1
            pause = delay(starting.tries, base=FIRST_PAUSE, cap=LONGEST_PAUSE, jitter=random.random)
            starting.ask_after = self._clock.monotonic() + pause
        self._conclude(group, starting)

    async def _read(self, group: Key) -> WorkloadGroup:
        with working_for(group):
            answer = await self._hub.request("GET", WORKLOAD_GROUPS.path(*group))
        found: WorkloadGroup = decode(answer, _group)
        return found

    async def _stands(self, group: Key, starting: Starting) -> bool:
        """Whether the hub confirms the start, and each shard has told; this one tells.

        Raises TransportError.
        """
        namespace, name = group
        now = await self._read(group)
        if not (now.open and now.released == starting.released):
            return False
        starting.awaited = self._contacts.awaited(starting, now.status.reached)
        if (own := self._contacts.shard) in starting.awaited:
            reached = {str(own): self._contacts.reach(starting, own)}
            # On the version that was read: a gate that closed meanwhile has emptied it.
            at = {"resourceVersion": now.metadata.resource_version}
            patch = {"metadata": at, "status": {"reached": reached}}
            where: dict[str, Any] = {"namespace": namespace, "subresource": "status"}
            with working_for(group):
                await self._hub.merge_patch(WORKLOAD_GROUPS, name, patch, **where)
            starting.awaited.discard(own)
        return not starting.awaited


def _starts(group: WorkloadGroup) -> bool:
    return group.open and not group.ran


def _groups(workload: Workload) -> list[Key]:
    return [(workload.metadata.namespace, name) for name in workload.groups]


def _stand_alike(old: Workload, new: Workload) -> bool:
    return (
        old.uid == new.uid and old.groups == new.groups and dict(old.placements) == new.placements
    )
