"""Coscheduling: a gang is placed as one, held for its last few replicas, or not placed.

All members that can be decided are decided in one pass (`controller.framework.gathering`). With the
quorum everything that fits is placed. If at most a tenth of it is missing, the replicas wait, up to
the group's time-out. Otherwise the gang is denied for a moment, which a new member, an edit or a
changed cluster ends at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from controller.cache.placements import PlacementIndex
from controller.features.workloadgroup import estimate
from controller.features.workloadgroup.answers import GroupHandlers
from controller.features.workloadgroup.compiled import CompiledGroup, by_present_names, in_words
from controller.features.workloadgroup.fairness import (
    PATIENCE_SECONDS,
    YIELDS,
    Findings,
    GangTry,
    Holds,
    words,
)
from controller.features.workloadgroup.ledger import Groups, Member
from controller.features.workloadgroup.memory import Denial, GroupMemory
from controller.features.workloadgroup.reach import Filters, filters_of
from controller.features.workloadgroup.topology import (
    Within,
    attempts_of,
    no_domain,
    refuge,
    standing,
)
from controller.framework.events import (
    MEMBER_CLUSTER,
    WORKLOAD,
    Action,
    EventHint,
    namespace_of,
    on,
)
from controller.framework.explains import Shortage
from controller.framework.gathering import (
    PLACE,
    Attempt,
    Gathering,
    GroupDecision,
    Trial,
    TrialResult,
    Withdrawn,
)
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Unplaced
from controller.framework.runtime import framework as runtime
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import Handle, switched_off
from controller.framework.runtime.services import Route
from controller.framework.status import SUCCESS, Code, Refusal, Status, unschedulable
from controller.framework.waiting import WaitingWorkload, WaitingWorkloads
from controller.model.load import Loads, added
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.why import ChangeCause
from crds.groups.gate import GateState, within
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.clock import microtime, timestamp
from machinery.types.bounds import name_in_words
from machinery.types.metadata import Key

NAME = "Coscheduling"
DENIED_SECONDS = 3
CLUSTER_ACTIONS = (
    Action.ADDED | Action.LABELS | Action.TAINTS | Action.SPEC | Action.READY | Action.ROOM
)
"""Events of a cluster that end each denial, and requeue its gang."""
SLACK = timedelta(seconds=0.5)
"""The time-out runs on another clock than the one that tells times."""
_DENIED, _WAITING = ScheduledReason.GROUP_DENIED, ScheduledReason.WAITING_FOR_GROUP
_WITHDRAWN = ScheduledReason.GROUP_WITHDRAWN
_PASSING = frozenset({_DENIED, _WITHDRAWN, ScheduledReason.SCHEDULE_TIMEOUT})
"""Reasons that end by themselves."""
_MANY = 2**20
"""More clusters than there will ever be, to ask whether replicas could be enough at all."""
_SOON = 1.0
"""Seconds at least until another check, for a denial that ended between two answers."""


class CoschedulingArgs(Args):
    """How long gangs wait, in seconds.

    `denied_seconds`: until a refused gang is tried again. `patience_seconds`: a gang that has
    waited longer has its turn before later ones; 0 for never.
    """

    denied_seconds: Annotated[int, Field(strict=True, ge=1, le=900)] = DENIED_SECONDS
    patience_seconds: Annotated[int, Field(strict=True, ge=0, le=10**6)] = PATIENCE_SECONDS


class Coscheduling:
    """Gangs at QueueSort, PreFilter, Filter, PostFilter, Reserve, Permit and PostBind."""

    name = NAME
    ignored_during_execution = True

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        self.denied_seconds = args.denied_seconds
        self.patience_seconds = args.patience_seconds
        self.memory = GroupMemory(self._queue)
        self._handle = handle
        self._waiting: WaitingWorkloads | None = None
        self._passed: tuple[Key, Findings, datetime] | None = None
        self._estimates = handle.metrics.counter(
            "stowage_group_estimates", "Estimates of what a WorkloadGroup lacks, one an attempt"
        )

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        self._waiting = waiting

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        """Sort by priority, by age of the group or its last failed attempt, by name."""
        key = Groups.group_of(info)
        group = None if key is None else self._groups().get(key)
        if group is None:
            since, own = info.created, info.key
        else:
            failed = max(_bare(self.memory.last_failure(group.key)), _bare(group.last_failure))
            since, own = failed or group.created, group.key
        return (-info.priority, _bare(since), "/".join(own), info.key)

    # --- one pass for all -------------------------------------------------------------------------

    def gathering(
        self, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex, now: datetime
    ) -> Gathering | None:
        """Return the members to decide; None for no attempt."""
        if not info.groups:
            return None
        groups, key = bound.ledger(Groups), Groups.group_of(info)
        group = None if key is None else groups.get(key)
        if group is None or group.fault:
            return None
        status = self._held_back(group, groups, len(snapshot), now)
        if status is None and groups.started(group.key):
            return None
        denial = self.memory.denied(group.key, now)
        if status is not None and denial is not None and status is denial.status:
            return Gathering(key=group.key, members=(info.key,), refusal=status)
        if status is not None and not _has_to_give(info, group, groups, snapshot):
            return None
        members = self._members(info, groups.members(group.key))
        withdrawn = {} if status is None else _withdrawn(group, members, snapshot)
        if status is not None and not withdrawn:
            return None
        order = sorted(members, key=lambda k: (-members[k].workload.priority, k))
        about = self._try(group, snapshot, groups, now)
        if status is None:
            status = self._lacks(group, groups, snapshot, bound, now)
            withdrawn = withdrawn if status is None else _withdrawn(group, members, snapshot)
        else:
            about = replace(about, tries=False)
        return Gathering(
            key=group.key, members=tuple(order), refusal=status, withdrawn=withdrawn, about=about
        )

    def attempts(
        self,
        gathering: Gathering,
        infos: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Iterator[Attempt]:
        gang: GangTry = gathering.about
        kept = None if gang.behind is None else gang.behind.kept(snapshot)
        for each in attempts_of(gang.group, infos, snapshot, bound.ledger(Groups), kept):
            yield replace(each, told=(each.told, gang.behind))

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        snapshot: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        """Count the replicas with a cluster, whoever decided them, against the quorum."""
        gang: GangTry = gathering.about
        group, groups = gang.group, bound.ledger(Groups)
        members = groups.members(group.key)
        mine = {t.workload.key: members[t.workload.key] for t in tried if t.workload.key in members}
        before, new = _replicas(members, tried)
        found = groups.assigned(group.key) - before + new
        if found >= group.min_member:
            return PLACE
        left_out = [key for key in gathering.members if key not in mine]
        if not estimate.keeps_waiting(group, found):
            text, why = estimate.rejected(group, found, tried, left_out, self._denial(group))
            return _refused(group, mine, snapshot, _denied(text, why))
        since = self.memory.held_since(group.key, now) or now
        until = since + timedelta(seconds=group.timeout)
        if until - now <= SLACK or self.memory.in_vain(group.key, found, gang.seen):
            return _refused(group, mine, snapshot, self._timed_out(group))
        if (other := self.memory.turns.for_whom(gang, tried, self._holds())) is not None:
            why = f"{words(other, group.namespace)}: "
            why += f"{found} of {group.min_member} replicas would wait"
            status = _denied(f"{group} {why}", why, *other, detail=YIELDS)
            return _refused(group, mine, snapshot, status)
        text = estimate.waits(group, found, until)
        if new <= before and self._held(members):  # the others keep their hold
            return GroupDecision(TrialResult.REFUSE, unschedulable(NAME, text, reason=_WAITING))
        seconds = (until - now).total_seconds()
        status = Status(Code.WAIT, (text,), NAME, _WAITING, seconds)
        return GroupDecision(TrialResult.WAIT, status, late=f"{group} {estimate.timed_out(group)}")

    def concluded(
        self, gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        gang: GangTry | None = gathering.about
        key, reason = gathering.key, verdict.status.reason
        if gang is None:
            self.memory.ask(key)
            return
        text, outcome = "; ".join(verdict.status.reasons), verdict.outcome
        if reason is ScheduledReason.SCHEDULE_TIMEOUT and self.memory.held_since(key) is not None:
            self.memory.too_long(key, gang.seen)
        if outcome is TrialResult.WAIT:
            groups = self._groups()
            before, new = _replicas(groups.members(key), tried)
            self.memory.hold(key, now, groups.assigned(key) - before + new)
        elif outcome is TrialResult.PLACE or reason is not _WAITING:
            self.memory.not_held(key)
            self._answer(key, "" if outcome is TrialResult.PLACE else text)
        if outcome is TrialResult.REFUSE and gang.tries and reason is not _WAITING:
            self._deny(gang.group, gang.seen, verdict.status, now)
        if outcome is TrialResult.REFUSE and reason is _WAITING and tried:
            return  # the others keep their hold, so the turns stay as they are
        gang, holds, args = replace(gang, now=now), self._holds(), verdict.status.args
        ahead = (args[1], args[2]) if verdict.status.detail == YIELDS else None
        for other in self.memory.turns.concluded(gang, outcome, tried, holds, ahead):
            self._answer(other, words(key, other[0]))

    def complete(self, key: Key) -> None:
        """Release held members once the quorum has clusters."""
        # The feature calls this at each change of a group or of one of its Workloads; most hold
        # nothing.
        if self.memory.held_since(key) is None:
            return
        groups = self._groups()
        if groups.started(key):
            self.memory.not_held(key)
            self.memory.turns.given_back(key)
            self._answer(key, "")

    # --- what is remembered -----------------------------------------------------------------------

    def _deny(
        self,
        group: CompiledGroup,
        seen: Findings,
        status: Status,
        now: datetime,
    ) -> None:
        self.memory.fail(group.key, microtime(now))
        self.memory.deny(group.key, Denial(now, self.denied_seconds, seen, status))

    def _timed_out(self, group: CompiledGroup) -> Status:
        why = estimate.timed_out(group)
        return _denied(f"{group} {why}", why, reason=ScheduledReason.SCHEDULE_TIMEOUT)

    def _denial(self, group: CompiledGroup) -> str:
        return f"{group} is denied for {self.denied_seconds} s: "

    def _answer(self, key: Key, objection: str) -> None:
        for each in self._held(self._groups().members(key)):
            assert self._waiting is not None  # noqa: S101 - no member is held without one
            if objection:
                self._waiting.reject(each, NAME, objection)
            else:
                self._waiting.allow(each, NAME)

    def _queue(self, key: Key) -> None:
        # The first member may be another scheduler's, or not decidable; the first that comes serves
        # all.
        self._handle.look(tuple(self._groups().members(key)))

    def _waiting_members(self) -> Iterable[WaitingWorkload]:
        waiting = () if self._waiting is None else self._waiting.iterate()
        return (each for each in waiting if NAME in each.plugins)

    def _holds(self) -> Holds:
        found = defaultdict[Key, list[Loads]](list)
        for each in self._waiting_members():
            if (key := Groups.group_of(each.workload)) is not None:
                found[key].append(_taken(each))
        return {key: added(taken) for key, taken in found.items()}

    # --- what is known ----------------------------------------------------------------------------

    def _groups(self) -> Groups:
        return self._handle.index().ledger(Groups)

    def _seen(self, group: CompiledGroup, groups: Groups) -> Findings:
        return Findings(self.memory.epoch, group.uid, group.generation, groups.version(group.key))

    def _try(
        self,
        group: CompiledGroup,
        snapshot: Snapshot,
        groups: Groups,
        now: datetime,
    ) -> GangTry:
        gang = GangTry(
            group=group,
            infos=[member.workload for member in groups.members(group.key).values()],
            snapshot=snapshot,
            ledger=groups,
            now=now,
            seen=self._seen(group, groups),
            patience=self.patience_seconds,
            filters=self._filters,
        )
        return replace(gang, behind=self.memory.turns.behind(gang))

    def _held_back(
        self, group: CompiledGroup, groups: Groups, clusters: int, now: datetime
    ) -> Status | None:
        """Return why no attempt is made now; None also if no quorum is needed any more."""
        key = group.key
        if not self._handle.controls(NAME):
            text = f"{group} releases no replicas: {switched_off(NAME)}"
            return unschedulable(NAME, text, reason=_DENIED)
        if (number := len(groups.members(key))) > MOST_WORKLOADS:
            text = f"{group} has {number} Workloads, {MOST_WORKLOADS} at most: make several groups"
            invalid = ScheduledReason.INVALID_GROUP
            return unschedulable(NAME, text, reason=invalid, detail=estimate.TOO_MANY)
        if group.gate == GateState.CLOSED:
            text = (
                f"{group} is taken away from all clusters, as replicas failed before its quorum ran"
            )
            return unschedulable(NAME, text, reason=_WITHDRAWN)
        if groups.started(key):
            return None
        if (replicas := groups.desired(key, clusters)) < group.min_member:
            few = ScheduledReason.GROUP_INCOMPLETE
            return unschedulable(NAME, group.too_few(replicas), reason=few)
        if (retry := group.rests_until(now)) is not None:
            text = f"{group} failed before its quorum ran: it is tried again at {timestamp(retry)}"
            return unschedulable(NAME, text, reason=_WITHDRAWN)
        denial = self.memory.denied(key, now, self._seen(group, groups))
        return None if denial is None else denial.status

    def _members(self, info: WorkloadInfo, members: Mapping[Key, Member]) -> dict[Key, Member]:
        profiles, waiting = self._handle.configuration.profiles, self._waiting
        found = {
            key: member
            for key, member in members.items()
            if (not profiles or member.workload.scheduler_name in profiles)
            and (waiting is None or waiting.get(key) is None)
        }
        return {**found, info.key: members.get(info.key) or Member.of(info, info.present)}

    @property
    def _filters(self) -> Filters:
        return filters_of(self._handle.configuration.profiles)

    def _held(self, members: Iterable[Key]) -> list[Key]:
        return [key for key in members if self._is_held(key)]

    def _is_held(self, key: Key) -> bool:
        return self._waiting is not None and self._waiting.get(key) is not None

    def _lacks(
        self,
        group: CompiledGroup,
        groups: Groups,
        snapshot: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> Status | None:
        attempt = (group.key, self._seen(group, groups), now)
        if attempt == self._passed:  # made again, as the cache has changed meanwhile
            return None
        members = groups.members(group.key).values()
        self._estimates.inc()
        nowhere = no_domain(group, snapshot)
        why = nowhere or estimate.gap(group, members, snapshot, self._filters)
        if not why or self._patched(members, bound, now):
            self._passed = attempt
            return None
        detail = "" if nowhere else estimate.GAP
        return _denied(self._denial(group) + why, why, detail=detail)

    def _patched(self, members: Iterable[Member], bound: PlacementIndex, now: datetime) -> bool:
        """Whether overrides, or a rule that divides a member, may make its replicas smaller."""
        profiles = self._handle.configuration.profiles
        for info in (member.workload for member in members if member.open):
            if info.overridden is not None:
                return True
            profile = profiles.get(info.scheduler_name)
            if profile is not None and runtime.settled(profile, info, now, bound).divided:
                return True
        return False

    # --- each member by itself --------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            on(WORKLOAD_GROUPS.kind, Action.every(), about=_own_group),
            on(WORKLOAD, Action.every(), self._sibling, namespace_of),
            on(MEMBER_CLUSTER, CLUSTER_ACTIONS, _takes_units),
        )

    def routes(self) -> Sequence[Route]:
        now = self._handle.clock.now
        return GroupHandlers(
            ledger=self._groups, memory=lambda: self.memory, held=self._waiting_members, now=now
        ).routes()

    def cure(self, shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        return estimate.cure(shortage.workload, shortage.reason, refusal.code)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        if not info.groups or info.booked or NAME in state.data:
            return SUCCESS
        groups, key = bound.ledger(Groups), Groups.group_of(info)
        if key is None:
            return _ambiguous(info)
        group = groups.get(key)
        if group is None:
            return _not_found(key)
        if group.fault:
            text = f"{group}: {group.fault}; correct the group"
            return unschedulable(NAME, text, reason=ScheduledReason.INVALID_GROUP)
        status = self._held_back(group, groups, len(snapshot), self._handle.clock.now())
        if status is None and groups.started(key):
            if group.topology_key and not group.topology_required:
                state.tentative.add(NAME)  # beside its siblings first, then anywhere
            return SUCCESS
        lasting = group.gate == GateState.CLOSED or not self._handle.controls(NAME)
        if status is None or (status.reason in _PASSING and not lasting):
            self.memory.ask(key)
        if status is not None:
            return status
        # The reason not to try the group has ended since `gathering`: it is decided again at once.
        text = f"{group} is decided with all its Workloads together, in a moment"
        return unschedulable(NAME, text, reason=ScheduledReason.GROUP_DENIED)

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> FilterMask:
        """Refuse clusters outside of the tried domains, or where the gang stands."""
        if not info.groups:
            return NOTHING_REFUSED
        attempt = state.data.get(NAME)
        if isinstance(attempt, Attempt):
            domains, behind = attempt.told
        else:
            domains, behind = self._stands(state, info, snapshot, bound), None
        refused = [] if domains is None else domains.outside(snapshot)
        kept = [] if behind is None else [behind.outside(snapshot, info.namespace)]
        return FilterMask([*refused, *kept])

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, _unplaced: Unplaced
    ) -> Status:
        groups, key = self._groups(), Groups.group_of(info)
        group = None if key is None or NAME in state.data else groups.get(key)
        if group is None or not groups.started(group.key):
            return SUCCESS
        has = "has its" if groups.assigned(group.key) >= group.min_member else "has run with a"
        text = f"{group} {has} minMember of {group.min_member} without them"
        return Status(reasons=(text,), plugin=NAME)

    def reserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> Status:
        """Hold replicas again that were given back for a decision."""
        if (key := Groups.group_of(info)) is not None:
            self.memory.hold_on(key)
        return SUCCESS

    def unreserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        groups, now = self._groups(), self._handle.clock.now()
        if (key := Groups.group_of(info)) is None:
            return
        self.memory.turns.given_back(key)
        group, since = groups.get(key), self.memory.held_since(key, now)
        if since is None:
            return
        self.memory.give_back(key, now)
        if group is not None and now - since >= timedelta(seconds=group.timeout) - SLACK:
            seen = self._seen(group, groups)
            self.memory.too_long(key, seen)
            self.memory.not_held(key)
            self._deny(group, seen, self._timed_out(group), now)

    def permit(
        self, _state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> Status:
        if not info.groups or info.booked:
            return SUCCESS
        more, key = sum(placements.values()) > sum(info.present.values()), Groups.group_of(info)
        if more and key is not None and self._groups().get(key) is None:
            return _not_found(key)
        return SUCCESS

    def post_bind(
        self, _state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        key = Groups.group_of(info)
        if key is not None and any(placements.values()):
            self.memory.succeed(key)

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        told = state.data.get(NAME)
        if not isinstance(told, Gathering) or after == before:
            return None
        return ChangeCause.GROUP_WITHDRAWN, told.key[1]

    def settled(self, info: WorkloadInfo, _now: datetime, _bound: PlacementIndex) -> WorkloadInfo:
        return info

    def next_look(self, info: WorkloadInfo, now: datetime) -> float | None:
        """Return the seconds until this member comes back for its gang."""
        if (key := Groups.group_of(info)) is None:
            return None
        looks = [self.memory.turns.again(key, now)]
        group, denial = self._groups().get(key), self.memory.denied(key, now)
        retry = group.rests_until(now) if group is not None else None
        ends = [denial.until if denial is not None else now, retry]
        until = max(end for end in ends if end is not None)
        if self.memory.due(key, until, info.key):
            looks.append(max((until - now).total_seconds(), _SOON))
        return min((look for look in looks if look is not None), default=None)

    def _stands(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Within | None:
        groups, key = bound.ledger(Groups), Groups.group_of(info)
        group = None if key is None else groups.get(key)
        if group is None or NAME in state.without:
            return None
        return standing(group, snapshot, groups) or refuge(group, snapshot, groups)

    def _sibling(self, info: WorkloadInfo, old: Workload | None, new: Workload | None) -> bool:
        key, groups = Groups.group_of(info), self._groups()
        found = [each for each in (old, new) if each is not None and each.info is not None]
        if key is None or all(Groups.group_of(each.info) != key for each in found):
            return False
        if old is not None and new is not None and _same(old.info, new.info):
            return sum(new.placements.values()) > sum(old.placements.values())
        group = groups.get(key)
        stays = any(each is new and Groups.group_of(each.info) == key for each in found)
        if group is None or len(groups.members(key)) > MOST_WORKLOADS + (not stays):
            return False  # a member that leaves may still be counted
        return groups.started(key) or groups.desired(key, _MANY) >= group.min_member


def _same(old: WorkloadInfo, new: WorkloadInfo) -> bool:
    return old.hash == new.hash and old.groups == new.groups


def _own_group(info: WorkloadInfo) -> str | Key:
    return Groups.group_of(info) or info.namespace


def _takes_units(
    _info: WorkloadInfo, _old: MemberCluster | None, new: MemberCluster | None
) -> bool:
    open_ = new is not None and not new.spec.unschedulable and not new.metadata.deleting
    return new is not None and open_ and new.ready


def _ambiguous(info: WorkloadInfo) -> Status:
    *names, last = (name_in_words(each) for each in info.groups)
    text = f"labels name the WorkloadGroups {', '.join(names)} and {last}: "
    text += "a Workload is in one of them at most"
    return unschedulable(NAME, text, reason=ScheduledReason.AMBIGUOUS_GROUP)


def _not_found(key: Key) -> Status:
    text = f"WorkloadGroup not found: create {in_words(key)}, or take the label away"
    return unschedulable(NAME, text, reason=ScheduledReason.GROUP_NOT_FOUND)


def _bare(moment: str) -> str:
    """Return a time that compares as text."""
    return moment.rstrip("Z")


def _taken(each: WaitingWorkload) -> Loads:
    info = each.workload
    return {cluster: {info.load: n} for cluster, n in info.arriving(each.placements).items()}


def _replicas(members: Mapping[Key, Member], tried: Sequence[Trial]) -> tuple[int, int]:
    had = (members[each.workload.key] for each in tried if each.workload.key in members)
    return sum(member.assigned for member in had), sum(each.assigned for each in tried)


def _denied(
    text: str, why: str, *args: str, reason: ScheduledReason = _DENIED, detail: str = ""
) -> Status:
    return unschedulable(NAME, text, reason=reason, detail=detail, args=(why, *args))


def _refused(
    group: CompiledGroup, tried: Mapping[Key, Member], snapshot: Snapshot, status: Status
) -> GroupDecision:
    return GroupDecision(TrialResult.REFUSE, status, _withdrawn(group, tried, snapshot))


def _has_to_give(
    info: WorkloadInfo, group: CompiledGroup, groups: Groups, snapshot: Snapshot
) -> bool:
    # Nearly every refusal takes nothing back, and each of very many members is refused by itself,
    # so the members are not collected for this.
    unknown = info.present and info.key not in groups.members(group.key)
    return bool(unknown or _withdrawn(group, groups.placed(group.key), snapshot))


def _withdrawn(
    group: CompiledGroup, members: Mapping[Key, Member], snapshot: Snapshot
) -> Withdrawn:
    """Return the members whose placements are taken back, and what they keep."""
    group, found = by_present_names(group, snapshot), {}
    for key, member in members.items():
        info = member.workload
        if member.placements and _gives_back(group, info):
            kept = within(info.present, group.retained.get(info.uid, {}))
            if kept != {cluster: n for cluster, n in info.present.items() if n > 0}:
                found[key] = kept
    return found


def _gives_back(group: CompiledGroup, info: WorkloadInfo) -> bool:
    if group.gate == GateState.CLOSED:  # a quorum that has run stays, whichever writer closed it
        return not group.ran and (info.uid in group.released or not info.runs)
    if group.gate == GateState.OPEN:
        return info.uid not in group.released and not info.runs
    return info.uid in group.retained or not info.runs
