"""Which members of a gang are decided together, with what result, and what the next decision needs.

With the quorum everything that fits is placed; where at most a tenth of it is missing, the replicas
are held as waiting Workloads for as long as the group says; else nothing is placed, and the gang is
denied for a moment, which a new member, an edit of the group or a cluster that changes ends at
once.

Members of another scheduler, held members, and members that are refused themselves take no part:
their shares count, and replicas that they lack do not come. A caller that does not lead changes
nothing but the notes of refused members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from controller.cache.placements import PlacementIndex
from controller.features.workloadgroup import estimate
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.features.workloadgroup.ledger import Groups, Member
from controller.features.workloadgroup.memory import Denial, Findings, GroupMemory
from controller.features.workloadgroup.reach import Filters, filters_of
from controller.features.workloadgroup.rivals import Behind, GroupUnderDecision, words
from controller.features.workloadgroup.topology import Within, attempts_of, no_domain
from controller.framework.gathering import (
    PLACE,
    Attempt,
    Gathering,
    GroupDecision,
    Trial,
    TrialResult,
    Withdrawn,
)
from controller.framework.runtime import framework as runtime
from controller.framework.runtime.handle import Handle, switched_off
from controller.framework.status import Code, Status, unschedulable
from controller.framework.waiting import WaitingWorkloads
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.groups.gate import GateState, within
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason
from machinery.clock import microtime, timestamp
from machinery.types.metadata import Key

NAME = "Coscheduling"
SLACK = timedelta(seconds=0.5)
"""The time-out runs on another clock than the one that tells times."""
_DENIED, _WAITING = ScheduledReason.GROUP_DENIED, ScheduledReason.WAITING_FOR_GROUP
_WITHDRAWN = ScheduledReason.GROUP_WITHDRAWN


@dataclass(frozen=True, slots=True)
class About:
    """The subject of a gathering: the gang, the state for a denial, and the gang that has the turn.

    `tries` says that an attempt is due: a refusal of it denies the gang.
    """

    asked: GroupUnderDecision
    seen: Findings
    behind: Behind | None = None
    tries: bool = True


@dataclass(frozen=True, slots=True)
class GroupAttempt:
    """The facts that Filter reads in an attempt: the domains to try, and whose turn it is."""

    within: Within | None
    behind: Behind | None


class Together:
    """Coscheduling of whole gangs; see `controller.framework.gathering.GroupScheduling`."""

    name = NAME

    def __init__(self, *, handle: Handle, denied: int, patience: int) -> None:
        self.denied_seconds = denied
        self.patience_seconds = patience
        self.memory = GroupMemory()
        self._handle = handle
        self._waiting: WaitingWorkloads | None = None
        self._passed: tuple[Key, Findings, datetime] | None = None
        self._estimates = handle.metrics.counter(
            "stowage_group_estimates", "Estimates of what a WorkloadGroup lacks, one an attempt"
        )

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        """Keep the map in which decisions with held replicas wait."""
        self._waiting = waiting

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        """Sort by priority descending, age of the group or else of the Workload, and its name.

        A group that could not be placed counts from its failure on, so that it keeps no other
        waiting.
        """
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
        """Return all members that this process decides and that are not held; None for no attempt.

        A member that comes during a denial is refused by itself, with the message of the denial.
        """
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
        if status is not None and not _has_to_give(info, group, groups):
            return None
        members = self._members(info, groups.members(group.key))
        withdrawn = {} if status is None else _withdrawn(group, members)
        if status is not None and not withdrawn:
            return None
        order = sorted(members, key=lambda k: (-members[k].workload.priority, k))
        about = self._about(group, members[order[0]].workload, snapshot, groups, now)
        if status is None:
            status = self._lacks(group, groups, snapshot, bound, now)
            withdrawn = withdrawn if status is None else _withdrawn(group, members)
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
        """Yield attempts in one domain, in few, or anywhere, off clusters kept for others."""
        about: About = gathering.about
        kept = None if about.behind is None else about.behind.kept(snapshot)
        for each in attempts_of(about.asked.group, infos, snapshot, bound.ledger(Groups), kept):
            yield replace(each, told=GroupAttempt(each.told, about.behind))

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        _snapshot: Snapshot,
        bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        """Count the found replicas and those of members that took no part against the quorum."""
        about: About = gathering.about
        group, groups = about.asked.group, bound.ledger(Groups)
        members = groups.members(group.key)
        mine = {t.workload.key: members[t.workload.key] for t in tried if t.workload.key in members}
        before, new = _replicas(members, tried)
        found = groups.assigned(group.key) - before + new
        if found >= group.min_member:
            return PLACE
        left_out = [key for key in gathering.members if key not in mine]
        if not estimate.keeps_waiting(group, found):
            text, why = estimate.rejected(group, found, tried, left_out, self._denial(group))
            return _refused(group, mine, _denied(text, why))
        since = self.memory.held_since(group.key, now) or now
        until = since + timedelta(seconds=group.timeout)
        if until - now <= SLACK or self.memory.in_vain(group.key, found, about.seen):
            return _refused(group, mine, self._timed_out(group))
        if (other := self.memory.turns.for_whom(about.asked, tried)) is not None:
            why = f"{words(other, group.namespace)}: "
            why += f"{found} of {group.min_member} units would wait"
            return _refused(group, mine, _denied(f"{group} {why}", why))
        text = estimate.waits(group, found, until)
        if new <= before and self._held(members):  # the others keep their hold
            return GroupDecision(TrialResult.REFUSE, unschedulable(NAME, text, reason=_WAITING))
        seconds = (until - now).total_seconds()
        status = Status(Code.WAIT, (text,), NAME, _WAITING, seconds)
        return GroupDecision(TrialResult.WAIT, status, late=f"{group} {estimate.timed_out(group)}")

    def concluded(
        self, gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        """Remember the decision, answer held members, and ask later gangs to give way."""
        about: About | None = gathering.about
        key, reason = gathering.key, verdict.status.reason
        if about is None:
            self.memory.ask(key)
            return
        text, outcome = "; ".join(verdict.status.reasons), verdict.outcome
        if reason is ScheduledReason.SCHEDULE_TIMEOUT and self.memory.held_since(key) is not None:
            self.memory.too_long(key, about.seen)
        if outcome is TrialResult.WAIT:
            groups = self._groups()
            before, new = _replicas(groups.members(key), tried)
            self.memory.hold(key, now, groups.assigned(key) - before + new)
        elif outcome is TrialResult.PLACE or reason is not _WAITING:
            self.memory.not_held(key)
            self._answer(key, "" if outcome is TrialResult.PLACE else text)
        if outcome is TrialResult.REFUSE and about.tries and reason is not _WAITING:
            self._deny(about.asked.group, about.seen, verdict.status, now)
        if outcome is TrialResult.REFUSE and reason is _WAITING and tried:
            return  # the others keep their hold, so the turns stay as they are
        later = self.memory.turns.concluded(
            replace(about.asked, now=now, behind=about.behind),
            outcome,
            tried,
            for_room=about.tries,
            held=self._is_held,
        )
        for other in later:
            self._answer(other, words(key, other[0]))
        self._look_at_news()

    def complete(self, key: Key) -> None:
        """Release held members once the quorum has clusters, whichever scheduler placed it."""
        # The feature calls this at each change of a group or of one of its Workloads; most hold
        # nothing.
        if self.memory.held_since(key) is None:
            return
        groups = self._groups()
        if groups.started(key):
            self.memory.not_held(key)
            self.memory.turns.written(key)
            self._answer(key, "")

    # --- what is remembered -----------------------------------------------------------------------

    def _deny(
        self,
        group: CompiledGroup,
        seen: Findings,
        status: Status,
        now: datetime,
    ) -> None:
        denial = Denial(now, self.denied_seconds, "; ".join(status.args), seen, status)
        self.memory.fail(group.key, microtime(now))
        self.memory.deny(group.key, denial)

    def _timed_out(self, group: CompiledGroup) -> Status:
        why = estimate.timed_out(group)
        return _denied(f"{group} {why}", why, ScheduledReason.SCHEDULE_TIMEOUT)

    def _denial(self, group: CompiledGroup) -> str:
        return f"{group} is denied for {self.denied_seconds} s: "

    def _answer(self, key: Key, objection: str) -> None:
        """Allow held members to be written, or reject them with an objection."""
        for each in self._held(self._groups().members(key)):
            assert self._waiting is not None  # noqa: S101 - no member is held without one
            if objection:
                self._waiting.reject(each, NAME, objection)
            else:
                self._waiting.allow(each, NAME)

    def _look_at_news(self) -> None:
        """Queue all members of groups for which another gang made way."""
        for key in self.memory.turns.news():
            self.memory.lift(key)
            # The first member may be another scheduler's, or not decidable; the first that comes
            # serves all.
            self._handle.look(tuple(self._groups().members(key)))

    # --- what is known ----------------------------------------------------------------------------

    def _groups(self) -> Groups:
        return self._handle.index().ledger(Groups)

    def _seen(self, group: CompiledGroup, groups: Groups) -> Findings:
        return Findings(self.memory.epoch, group.uid, group.generation, groups.version(group.key))

    def _about(
        self,
        group: CompiledGroup,
        first: WorkloadInfo,
        snapshot: Snapshot,
        groups: Groups,
        now: datetime,
    ) -> About:
        asked = GroupUnderDecision(
            group=group,
            infos=[member.workload for member in groups.members(group.key).values()],
            order=self.rank(first),
            snapshot=snapshot,
            ledger=groups,
            now=now,
            patience=self.patience_seconds,
            filters=self._filters,
        )
        return About(asked, self._seen(group, groups), self.memory.turns.behind(asked))

    def _held_back(
        self, group: CompiledGroup, groups: Groups, clusters: int, now: datetime
    ) -> Status | None:
        """Return why no attempt is made now; None also where no quorum is needed any more."""
        key = group.key
        if not self._handle.controls(NAME):
            text = f"{group} releases no units: {switched_off(NAME)}"
            return unschedulable(NAME, text, reason=_DENIED)
        if (number := len(groups.members(key))) > MOST_WORKLOADS:
            text = f"{group} has {number} Workloads, {MOST_WORKLOADS} at most: make several groups"
            invalid = ScheduledReason.INVALID_GROUP
            return unschedulable(NAME, text, reason=invalid, detail=estimate.TOO_MANY)
        if group.gate == GateState.CLOSED:
            text = f"{group} is taken away from all clusters, as units failed before its quorum ran"
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
        """Return the members of our schedulers that are not held, and the given one in any case."""
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
        """Return why an attempt would be in vain, by columns alone."""
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
        """Return whether another rule divides a member's replicas: they may ask for less then."""
        profiles = self._handle.configuration.profiles
        for info in (member.workload for member in members if member.open):
            profile = profiles.get(info.scheduler_name)
            if profile is not None and runtime.settled(profile, info, now, bound).divided:
                return True
        return False


def _bare(moment: str) -> str:
    """Return a time that compares as text: with a fraction of a second it is later than without."""
    return moment.rstrip("Z")


def _replicas(members: Mapping[Key, Member], tried: Sequence[Trial]) -> tuple[int, int]:
    """Return the replicas of the tried members before, and after the attempt."""
    had = (members[each.workload.key] for each in tried if each.workload.key in members)
    return sum(member.assigned for member in had), sum(each.assigned for each in tried)


def _denied(text: str, why: str, reason: ScheduledReason = _DENIED, *, detail: str = "") -> Status:
    """Return a refusal of the gang; `why` is what its text says of the group."""
    return unschedulable(NAME, text, reason=reason, detail=detail, args=(why,))


def _refused(group: CompiledGroup, tried: Mapping[Key, Member], status: Status) -> GroupDecision:
    return GroupDecision(TrialResult.REFUSE, status, _withdrawn(group, tried))


def _has_to_give(info: WorkloadInfo, group: CompiledGroup, groups: Groups) -> bool:
    """Return whether a refusal may take anything back."""
    # Nearly every refusal takes nothing back, and each of very many members is refused by itself,
    # so the members are not collected for this.
    unknown = info.present and info.key not in groups.members(group.key)
    return bool(unknown or _withdrawn(group, groups.placed(group.key)))


def _withdrawn(group: CompiledGroup, members: Mapping[Key, Member]) -> Withdrawn:
    """Return the members whose placements are taken back, and the earlier replicas that they keep.

    A closed gate takes back the placements that it had released; without a gate, placements since
    then are taken back. A Workload with replicas on clusters without a release ran before the group
    existed, and keeps them; one without replicas there gives up its place.
    """
    found = {}
    for key, member in members.items():
        info = member.workload
        if member.placements and _gives_back(group, info):
            kept = within(info.present, group.retained.get(info.uid, {}))
            if kept != {cluster: n for cluster, n in info.present.items() if n > 0}:
                found[key] = kept
    return found


def _gives_back(group: CompiledGroup, info: WorkloadInfo) -> bool:
    if group.gate == GateState.CLOSED:  # a quorum that has run stays, whichever writer closed it
        return not group.ran and (group.takes_back(info.uid) or not info.runs)
    if group.gate == GateState.OPEN:
        return info.uid not in group.released and not info.runs
    return info.uid in group.retained or not info.runs
