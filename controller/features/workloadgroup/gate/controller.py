"""Keeps the statuses of all WorkloadGroups, and with them their gates; the leader runs it.

A change of the gate is written at once, numbers once a second, a message alone once in ten.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from controller.cache.asread import renamed
from controller.features.workloadgroup.compiled import (
    CompiledGroup,
    WorkloadGroup,
    by_present_names,
    compile_group,
)
from controller.features.workloadgroup.gate import status
from controller.features.workloadgroup.gate.gate import (
    Gate,
    Standing,
    Unconfirmed,
    gate_of,
    standing_of,
)
from controller.features.workloadgroup.gate.status import GroupFacts, GroupResult
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.memory import GroupMemory
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import Workload
from controller.snapshot.snapshot import Snapshot
from crds.groups.gate import GateState
from crds.groups.workloadgroup import MOST_GATE_BYTES, MOST_WORKLOADS
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import TooLarge, TransportError
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

CALM_SECONDS = 1.0
"""Seconds between two checks of a group because of its numbers."""
MEMBER_SECONDS = 0.00005
"""Seconds per Workload of a group between two checks of it, whatever happens to them."""
WORDS_SECONDS = 10.0
"""Seconds between two writes of a group in which only the message has changed."""
WRITING_SECONDS = 10.0
"""Seconds for which the gate waits for decisions on their way to the hub of which none arrives."""
FRESH_SECONDS = 5.0
"""Seconds for which a failure must stand that may be one of an earlier try."""
SOON_SECONDS = 0.25
"""Seconds until the next check of a group whose gate was put off."""
EMPTY_SECONDS = 2.0
"""Seconds between decisions on members of a closed gang while they have placements."""
SLICE_COST = 4000
"""Shares, and twenty for each Workload, that are read in one go: some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Valid while the informer keeps this version of the Workload."""

    workload: Workload
    standing: Standing
    replicas: Mapping[str, int]


@dataclass(slots=True)
class _GateWatch:
    """The memory of a group between two checks; moments without a type are monotonic.

    `writing` is since when no decision has arrived, of at least `left`; `failing` since when a
    failure stands. Its Workloads are decided again at `due`, or now (`wake`). `most` are the bytes
    of its gate.
    """

    writing: float | None = None
    left: int = 0
    failing: float | None = None
    looked: float | None = None
    most: int = MOST_GATE_BYTES
    due: datetime | None = None
    wake: bool = False


class GroupController(StatusWriter[WorkloadGroup]):
    """A draft carries its gate."""

    action = "Grouping"

    def __init__(self, term: Term, *, ledger: Groups, memory: GroupMemory, handle: Handle) -> None:
        super().__init__(term, WORKLOAD_GROUPS, WorkloadGroup)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._ledger = ledger
        self._memory = memory
        self._handle = handle
        self._known: dict[Key, _Known] = {}
        self._watched: defaultdict[Key, _GateWatch] = defaultdict(_GateWatch)

    def resync(self, stored: WorkloadGroup) -> None:
        key, said = stored.metadata.key, stored.status
        # A member of a gang that is placed and not released may have gone meanwhile, and no event
        # tells of it now: the others are decided again.
        if self._ledger.placed(key) and not (said.gate or said.quorum_time):
            self._watched[key].wake = True
        self.add(key)

    def look(self, key: Key, *, at_once: bool = False) -> None:
        """Queue a check of a group; `at_once` if its gate may change."""
        # Labels may name any number of groups that do not exist: nothing is kept for these.
        if self._ledger.get(key) is None:
            return
        gap = len(self._ledger.members(key)) * MEMBER_SECONDS if at_once else CALM_SECONDS
        looked = self._watched[key].looked
        since = gap if looked is None else self._clock.monotonic() - looked
        self.add(key, after=max(gap - since, 0.0))

    def wake(self, key: Key) -> None:
        if self._ledger.get(key) is not None:
            self._watched[key].wake = True
            self.look(key, at_once=True)

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._watched.pop(key, None)

    def saw(self, key: Key, group: Key | None) -> None:
        """Read a Workload that came, changed or went, of that group."""
        before = self._known.get(key)
        if group is None or self._workloads.get(key) is None:
            self._known.pop(key, None)
            return
        after = self._read(key)
        old, new = (None if each is None else each.standing for each in (before, after))
        if old != new:
            self.look(group, at_once=old is None or new is None or _moved(old, new))

    async def prepare(self, stored: WorkloadGroup) -> None:
        key = stored.metadata.key
        watch = self._watched[key]
        if watch.wake or (watch.due is not None and self._clock.now() >= watch.due):
            watch.wake, watch.due = False, None
            self._handle.look(tuple(self._ledger.members(key)))
        cost = 0
        for member in tuple(self._chosen(stored)):
            before = self._known.get(member)
            found = self._read(member)
            if found is not None and found is not before:
                cost += 20 + len(found.workload.status.clusters)
            if cost > SLICE_COST:
                cost = 0
                await asyncio.sleep(0)

    def draft(self, stored: WorkloadGroup) -> Result | None:
        key, now, at = stored.metadata.key, self._clock.now(), self._clock.monotonic()
        known = self._ledger.get(key)
        if known is None or known.uid != stored.metadata.uid:
            return None
        watch = self._watched[key]
        watch.looked = at
        read = list(self._members(stored))
        group, read = _by_present_names(compile_group(stored), read, self._handle.snapshot())
        facts = self._facts(group, read, now)
        gate = gate_of(group, facts.members, now, self._doubts(key, read, facts, at))
        look = status.look(stored, group, gate, facts, now)
        written = status.differs(look.fields, stored)
        again = self._memory.loose(key, now)
        soon = SOON_SECONDS if gate.waits or again else None
        if written and status.words_alone(look.fields, stored):
            rest = self.rest(key, WORDS_SECONDS)
            written, soon = rest <= 0, rest if rest > 0 else soon
        if again and _less(stored, group, gate, facts):
            written = False
        self._plan_decisions(watch, gate, look, facts, now)
        waits = [] if soon is None else [soon]
        due = (look.next_look, watch.due)
        waits += [(each - now).total_seconds() for each in due if each is not None]
        return Result(
            fields=status.changes(look.fields, stored) if written else None,
            events=look.events if written else (),
            requeue_after=min(waits, default=None),
            anyway=True,  # compared above, without the fields that are no reason for a write
            carry=gate,
        )

    def shorter(self, key: Key, result: Result, error: TransportError) -> bool:
        """Release nothing more if the status is too large."""
        gate: Gate = result.carry
        if gate.large or not isinstance(error, TooLarge):
            return False
        self._watched[key].most = gate.size - 1
        return True

    def _plan_decisions(
        self, watch: _GateWatch, gate: Gate, look: GroupResult, facts: GroupFacts, now: datetime
    ) -> None:
        if gate.state is GateState.CLOSED:
            if any(each.ours and each.replicas for each in facts.members):
                watch.due = watch.due or now + timedelta(seconds=EMPTY_SECONDS)
        elif gate.state is None and look.next_look is not None:
            watch.due = look.next_look

    def _facts(self, group: CompiledGroup, read: Sequence[_Known], now: datetime) -> GroupFacts:
        key = group.key
        since = self._memory.held_since(key, now)
        held = self._on_their_way(key, read) if since is not None else {}
        members = [each.standing for each in read]
        scheduled = sum(each.replicas for each in members) + sum(held.values())
        return GroupFacts(
            members=members,
            workloads=len(self._ledger.members(key)),
            # A Workload that runs everywhere is wanted once for each cluster that it has.
            desired=max(self._ledger.desired(key), scheduled),
            most=self._ledger.desired(key, len(self._handle.snapshot())),
            holders=held,
            until=since + timedelta(seconds=group.timeout) if since is not None else None,
            last_failure=self._memory.last_failure(key),
        )

    def _on_their_way(self, key: Key, read: Iterable[_Known]) -> dict[str, int]:
        """Return replicas that are decided and not stored, by Workload."""
        decided = self._ledger.members(key)
        found = {}
        for each in read:
            member = decided.get(each.workload.metadata.key)
            if member is not None and member.placements != each.replicas:
                found[each.standing.name] = max(member.assigned - each.standing.replicas, 0)
        return found

    def _doubts(
        self, key: Key, read: Iterable[_Known], facts: GroupFacts, at: float
    ) -> Unconfirmed:
        """Return the facts that may change in a moment; bounded in time."""
        watch = self._watched[key]
        left = 0 if facts.held else len(self._on_their_way(key, read))
        if watch.writing is None or left < watch.left:  # decisions are written one by one
            watch.left, watch.writing = left, at
        failing = any(each.trouble for each in facts.members)
        watch.writing = watch.writing if left else None
        watch.failing = at if watch.failing is None else watch.failing
        watch.failing = watch.failing if failing else None
        return Unconfirmed(
            writing=watch.writing is not None and at - watch.writing < WRITING_SECONDS,
            fresh=watch.failing is not None and at - watch.failing < FRESH_SECONDS,
            most=watch.most,
        )

    def _members(self, stored: WorkloadGroup) -> Iterator[_Known]:
        for key in self._chosen(stored):
            found = self._read(key)
            if found is not None:
                yield found

    def _chosen(self, stored: WorkloadGroup) -> Iterable[Key]:
        """Return its members; of too many, the released ones first."""
        key = stored.metadata.key
        members = self._ledger.members(key)
        if len(members) <= MOST_WORKLOADS:
            return members
        released = compile_group(stored).released
        first = {k: None for k, each in members.items() if each.workload.uid in released}
        others = (each for each in members if each not in first)
        return islice(chain(first, others), MOST_WORKLOADS)

    def _read(self, key: Key) -> _Known | None:
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.deleting:
            self._known.pop(key, None)
            return None
        found = self._known.get(key)
        if found is None or found.workload is not workload:
            ours = workload.spec.scheduler_name in self._handle.configuration.profiles
            replicas = {cluster: n for cluster, n in workload.placements.items() if n > 0}
            standing = standing_of(workload, ours=ours)
            found = self._known[key] = _Known(workload, standing, replicas)
        return found


def _by_present_names(
    group: CompiledGroup, members: list[_Known], snapshot: Snapshot
) -> tuple[CompiledGroup, list[_Known]]:
    """What the gate keeps is named as before a rename until it is written, and so are shares."""
    if not group.retained:
        return group, members
    names = {name for each in members for name in (*each.standing.shares, *each.standing.there)}
    group = by_present_names(group, snapshot)
    if not (now := renamed(names, snapshot.clusters, snapshot.row)):
        return group, members
    return group, [replace(each, standing=each.standing.by(now)) for each in members]


def _less(stored: WorkloadGroup, group: CompiledGroup, gate: Gate, facts: GroupFacts) -> bool:
    """Whether the group only holds less than its status says.

    Such a status is put off while the group is being decided again.
    """
    if group.fault or facts.could < group.min_member:
        return False
    return (gate.state or "") == (stored.status.gate or "") and facts.held < stored.status.waiting


def _moved(old: Standing, new: Standing) -> bool:
    """Whether the gate may change: more than numbers and messages differ."""
    return replace(old, **_NO_MATTER) != replace(new, **_NO_MATTER)


_NO_MATTER: Mapping[str, Any] = {
    "running": 0,
    "succeeded": 0,
    "failed": 0,
    "reason": "",
    "message": "",
    "seen": {},
}
