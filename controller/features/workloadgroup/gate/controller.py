"""The books of all WorkloadGroups: what their statuses say, and with that the gate of each.

A status follows what is stored: the group, its Workloads with their placements, and what their
clusters report. So nothing is claimed here, and nothing is lost with a leader: whoever reads the
same objects goes on from there, and a restart in which nothing changed writes nothing. What opens,
closes or extends a gate is written at once; numbers of one group are written once a second at most,
and words that alone have changed once in ten.

Its Workloads are decided again whenever a group comes, changes or loses its gate, when one that
failed may be tried again, and while they must be emptied.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from controller.features.workloadgroup.compiled import CompiledGroup, compile_group
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
from controller.features.workloadgroup.objects import WorkloadGroup
from controller.framework.runtime.feature import Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import StatusWriter, too_large
from controller.model.objects import Workload
from crds.groups.gate import GateState
from crds.groups.workloadgroup import MOST_GATE_BYTES, MOST_WORKLOADS
from crds.names import API_VERSION
from machinery.api.resources import WORKLOAD_GROUPS, WORKLOADS
from machinery.errors import TransportError
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.informer import Informer
from machinery.tasks import in_slices
from machinery.types.metadata import Key

CALM_SECONDS = 1.0
"""Between two looks at a group because of its numbers."""
MEMBER_SECONDS = 0.00005
"""For each of its Workloads so long between two looks at a group, whatever happens to them."""
WORDS_SECONDS = 10.0
"""Between two writes of a group in which nothing but words has changed."""
WRITING_SECONDS = 10.0
"""So long the gate stays shut for decisions on their way to the hub of which none arrives."""
FRESH_SECONDS = 5.0
"""So long a failure must have been told that may be one of an earlier try."""
SOON_SECONDS = 0.25
"""Until the next look at a group whose gate was put off."""
EMPTY_SECONDS = 2.0
"""So often members of a closed gang are decided again while they have placements."""
LEAST_WAIT = 0.1
"""Seconds until the next look at least: two clocks measure them, and never agree in full."""
LONGEST_WAIT = 3600.0
"""Seconds after which the time is looked at again, as the wall clock may have been set."""
SLICE_COST = 4000
"""Shares, and twenty for each Workload, that are read in one go: some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a Workload, for as long as the informer keeps this version of it."""

    workload: Workload
    standing: Standing
    units: Mapping[str, int]


@dataclass(slots=True)
class _GateWatch:
    """What is remembered of a group from look to look.

    Since when none of the decisions on their way to the hub has arrived, how few there were, and
    since when a failure is told, on the monotonic clock, as the last look and the last write; when
    its Workloads are to be decided again, and whether that is now. `most` are the bytes that its
    gate may take.
    """

    writing: float | None = None
    left: int = 0
    failing: float | None = None
    looked: float | None = None
    written: float | None = None
    most: int = MOST_GATE_BYTES
    due: datetime | None = None
    wake: bool = False


@dataclass(frozen=True, slots=True)
class _GroupDraft:
    """What is being said of a group, whether that is a write, and seconds until another look."""

    uid: str
    gate: Gate
    look: GroupResult
    written: bool
    soon: float | None


class GroupController:
    """The groups of a hub, for one term of leadership: the book of their status writer."""

    def __init__(self, term: Term, *, ledger: Groups, memory: GroupMemory, handle: Handle) -> None:
        self._stored: Informer[WorkloadGroup] = term.informer(WORKLOAD_GROUPS)
        self._workloads: Informer[Workload] = term.informer(WORKLOADS)
        self._ledger = ledger
        self._memory = memory
        self._handle = handle
        self._clock = term.clock
        self._recorder = term.recorder
        self._known: dict[Key, _Known] = {}
        self._watched: defaultdict[Key, _GateWatch] = defaultdict(_GateWatch)
        self._drafted: dict[Key, _GroupDraft] = {}
        self._writer = StatusWriter(
            term.client,
            WORKLOAD_GROUPS,
            WorkloadGroup,
            self,
            store=self._stored,
            clock=term.clock,
            check=term.check,
        )

    async def run(self) -> None:
        """Write, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writer.run())
            tasks.create_task(self._begin())

    async def _begin(self) -> None:
        """Look at all of them, a few at a time: what the last leader left undone is done now.

        Of what was placed and not released yet somebody may have gone meanwhile, of which nobody
        hears any more: those that are left are decided again.
        """
        async for stored in in_slices(list(self._stored.values())):
            key, said = stored.metadata.key, stored.status
            if self._ledger.placed(key) and not (said.gate or said.quorum_time):
                self._watched[key].wake = True
            self._writer.add(key)

    def look(self, key: Key, *, at_once: bool = False) -> None:
        """Something about a group has changed; `at_once` where its gate may be another one.

        Labels may name groups that there are not, without an end of names: nothing is kept of them.
        """
        if self._ledger.get(key) is None:
            return
        gap = len(self._ledger.members(key)) * MEMBER_SECONDS if at_once else CALM_SECONDS
        looked = self._watched[key].looked
        since = gap if looked is None else self._clock.monotonic() - looked
        self._writer.add(key, after=max(gap - since, 0.0))

    def wake(self, key: Key) -> None:
        """Its Workloads may be decided otherwise now: once for many changes of it."""
        if self._ledger.get(key) is not None:
            self._watched[key].wake = True
            self.look(key, at_once=True)

    def forget(self, key: Key) -> None:
        """A group is gone."""
        self._watched.pop(key, None)

    def saw(self, key: Key, group: Key | None) -> None:
        """A Workload came, changed or went; `group` is the one that it names."""
        before = self._known.get(key)
        if group is None or self._workloads.get(key) is None:
            self._known.pop(key, None)
            return
        after = self._read(key)
        old, new = (None if each is None else each.standing for each in (before, after))
        if old != new:
            self.look(group, at_once=old is None or new is None or _moved(old, new))

    # The book of the writer.

    async def prepare(self, stored: WorkloadGroup) -> None:
        """Have its Workloads decided where that is due, and read them, which may take a while."""
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

    def draft(self, stored: WorkloadGroup) -> Mapping[str, Any] | None:
        """The status as everything stored has it now."""
        key, now, at = stored.metadata.key, self._clock.now(), self._clock.monotonic()
        known = self._ledger.get(key)
        if known is None or known.uid != stored.metadata.uid:
            return None
        group, watch = compile_group(stored), self._watched[key]
        watch.looked = at
        read = list(self._members(stored))
        facts = self._facts(group, read, now)
        gate = gate_of(group, facts.members, now, self._doubts(key, read, facts, at))
        look = status.look(stored, group, gate, facts, now)
        written = status.differs(look.fields, stored)
        soon = SOON_SECONDS if gate.waits else None
        if written and watch.written is not None and status.words_alone(look.fields, stored):
            rest = WORDS_SECONDS - (at - watch.written)
            written, soon = rest <= 0, rest if rest > 0 else soon
        if written and self._anew(stored, group, gate, facts, now):
            written, soon = False, SOON_SECONDS
        self._mind(watch, gate, look, facts, now)
        self._drafted[key] = _GroupDraft(group.uid, gate, look, written, soon)
        return status.changes(look.fields, stored) if written else None

    def landed(self, key: Key) -> float | None:
        """It stands there: people are told."""
        draft = self._drafted.pop(key, None)
        if draft is None or self._ledger.get(key) is None:  # one that went meanwhile is forgotten
            return None
        if draft.written:
            self._watched[key].written = self._clock.monotonic()
            self._tell(key, draft)
        return self._next(key, draft)

    def missed(self, key: Key) -> None:
        """Who wrote meanwhile is read by now, and the next draft stands on that."""
        self._drafted.pop(key, None)

    def shorter(self, key: Key, error: TransportError) -> bool:
        """Where it is too large nothing more is released, and that is told in a short one."""
        draft = self._drafted.get(key)
        if draft is None or draft.gate.large or not too_large(error):
            return False
        self._watched[key].most = draft.gate.size - 1
        return True

    def given_up(self, key: Key, error: TransportError | None) -> None:
        """Nobody waits for it."""
        self._drafted.pop(key, None)

    def _tell(self, key: Key, draft: _GroupDraft) -> None:
        about = ObjectRef(API_VERSION, WORKLOAD_GROUPS.kind, *key, draft.uid)
        for event in draft.look.events:
            self._recorder.event(
                about,
                type="Warning" if event.warning else "Normal",
                reason=event.reason.value,
                note=event.note,
                action="Grouping",
            )

    def _next(self, key: Key, draft: _GroupDraft) -> float | None:
        """Seconds until its status may be otherwise, or its Workloads are to be decided again."""
        now = self._clock.now()
        due = (draft.look.next_look, self._watched[key].due)
        waits = [(each - now).total_seconds() for each in due if each is not None]
        waits += [draft.soon] if draft.soon is not None else []
        return min(max(min(waits), LEAST_WAIT), LONGEST_WAIT) if waits else None

    def _anew(
        self,
        stored: WorkloadGroup,
        group: CompiledGroup,
        gate: Gate,
        facts: GroupFacts,
        now: datetime,
    ) -> bool:
        """Whether it holds less merely because it is being decided anew: told once that is over."""
        if group.fault or facts.could < group.min_member:
            return False
        less = facts.held < stored.status.waiting and (gate.state or "") == stored.status.gate
        return less and self._memory.loose(group.key, now)

    def _mind(
        self, watch: _GateWatch, gate: Gate, look: GroupResult, facts: GroupFacts, now: datetime
    ) -> None:
        """When its Workloads are to be decided again: as long as they must be emptied, soon."""
        if gate.state is GateState.CLOSED:
            if any(each.ours and each.units for each in facts.members):
                watch.due = watch.due or now + timedelta(seconds=EMPTY_SECONDS)
        elif gate.state is None and look.next_look is not None:
            watch.due = look.next_look

    def _facts(self, group: CompiledGroup, read: Sequence[_Known], now: datetime) -> GroupFacts:
        """What there is to say, as it is stored and as this term knows it."""
        key = group.key
        since = self._memory.held_since(key, now)
        held = self._on_their_way(key, read) if since is not None else {}
        members = [each.standing for each in read]
        scheduled = sum(each.units for each in members) + sum(held.values())
        return GroupFacts(
            members=members,
            workloads=len(self._ledger.members(key)),
            # What every cluster runs in full is wanted once for each cluster that it has.
            desired=max(self._ledger.desired(key), scheduled),
            most=self._ledger.desired(key, len(self._handle.fleet())),
            holders=held,
            until=since + timedelta(seconds=group.timeout) if since is not None else None,
            last_failure=self._memory.last_failure(key),
        )

    def _on_their_way(self, key: Key, read: Iterable[_Known]) -> dict[str, int]:
        """Units that are decided and not stored, by the Workload's name; 0 of what only moves."""
        decided = self._ledger.members(key)
        found = {}
        for each in read:
            member = decided.get(each.workload.metadata.key)
            if member is not None and member.placements != each.units:
                found[each.standing.name] = max(member.assigned - each.standing.units, 0)
        return found

    def _doubts(
        self, key: Key, read: Iterable[_Known], facts: GroupFacts, at: float
    ) -> Unconfirmed:
        """What may be otherwise in a moment: for so long only, as nobody may wait for ever."""
        watch = self._watched[key]
        left = 0 if facts.held else len(self._on_their_way(key, read))
        if watch.writing is None or left < watch.left:  # they are written one after the other
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
        """Those that count, as they are stored."""
        for key in self._chosen(stored):
            found = self._read(key)
            if found is not None:
                yield found

    def _chosen(self, stored: WorkloadGroup) -> Iterable[Key]:
        """Its members; of too many those that are released already, and then those known first."""
        key = stored.metadata.key
        members = self._ledger.members(key)
        if len(members) <= MOST_WORKLOADS:
            return members
        released = compile_group(stored).released
        first = {k: None for k, each in members.items() if each.unit.uid in released}
        others = (each for each in members if each not in first)
        return islice(chain(first, others), MOST_WORKLOADS)

    def _read(self, key: Key) -> _Known | None:
        """A Workload as it is stored; None for one that is gone, or going."""
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.deleting:
            self._known.pop(key, None)
            return None
        found = self._known.get(key)
        if found is None or found.workload is not workload:
            ours = workload.spec.scheduler_name in self._handle.configuration.profiles
            units = {cluster: n for cluster, n in workload.placements.items() if n > 0}
            standing = standing_of(workload, ours=ours)
            found = self._known[key] = _Known(workload, standing, units)
        return found


def _moved(old: Standing, new: Standing) -> bool:
    """Whether more than numbers and words is another one, so that the gate may be, too."""
    return replace(old, **_NO_MATTER) != replace(new, **_NO_MATTER)


_NO_MATTER: Mapping[str, Any] = {
    "running": 0,
    "succeeded": 0,
    "failed": 0,
    "reason": "",
    "message": "",
    "seen": {},
}
