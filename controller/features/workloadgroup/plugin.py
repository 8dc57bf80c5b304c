"""The plugin Coscheduling: a gang is placed as one, held for its last few replicas, or not placed.

`controller.features.workloadgroup.together` decides on whole gangs. This module holds the plugin
points of the passes that this takes, and answers members that come alone: before their group can be
tried, and, once its quorum has clusters, as further replicas. A Workload without a group is never
touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from controller.cache.placements import PlacementIndex
from controller.features.workloadgroup import estimate
from controller.features.workloadgroup.answers import GroupHandlers
from controller.features.workloadgroup.compiled import in_words
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.rivals import PATIENCE_SECONDS
from controller.features.workloadgroup.together import NAME, SLACK, GroupAttempt, Together
from controller.features.workloadgroup.topology import Within, refuge, standing
from controller.framework.events import (
    MEMBER_CLUSTER,
    WORKLOAD,
    Action,
    EventHint,
    namespace_of,
    on,
)
from controller.framework.explains import Shortage
from controller.framework.gathering import Attempt, Gathering
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask, Unplaced
from controller.framework.runtime.arguments import Args
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route
from controller.framework.status import SUCCESS, Refusal, Status, unschedulable
from controller.framework.waiting import WaitingWorkload
from controller.model.objects import MemberCluster, Workload
from controller.model.unit import WorkloadInfo
from controller.snapshot.columns import Mask
from controller.snapshot.snapshot import Snapshot
from crds.fields.why import ChangeCause
from crds.groups.gate import GateState
from crds.groups.workloadgroup import MOST_WORKLOADS
from crds.workload import ScheduledReason
from machinery.api.resources import WORKLOAD_GROUPS
from machinery.types.bounds import name_in_words
from machinery.types.metadata import Key

__all__ = ["NAME", "Coscheduling", "CoschedulingArgs"]

DENIED_SECONDS = 3
_MANY = 2**20
"""More clusters than there will ever be, to ask whether replicas could be enough at all."""
_PASSING = frozenset(
    {
        ScheduledReason.GROUP_DENIED,
        ScheduledReason.GROUP_WITHDRAWN,
        ScheduledReason.SCHEDULE_TIMEOUT,
    }
)
"""Reasons that end by themselves."""
_SOON = 1.0
"""The least seconds until another check, for a denial that ended between two answers."""


class CoschedulingArgs(Args):
    """How long gangs wait, in seconds.

    `denied_seconds`: a gang that could not be placed is not tried again for so long.
    `patience_seconds`: a gang that has waited longer has its turn before later ones; 0 for never.
    """

    denied_seconds: Annotated[int, Field(strict=True, ge=1, le=900)] = DENIED_SECONDS
    patience_seconds: Annotated[int, Field(strict=True, ge=0, le=10**6)] = PATIENCE_SECONDS


class Coscheduling(Together):
    """Gangs at QueueSort, PreFilter, Filter, PostFilter, Reserve, Permit and PostBind.

    In a process the feature gives every instance the same `memory`.
    """

    ignored_during_execution = True

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(handle=handle, denied=args.denied_seconds, patience=args.patience_seconds)

    def events_to_register(self) -> Sequence[EventHint]:
        """Return events of the group, of siblings that help, and of open clusters."""
        cluster = (
            Action.ADDED | Action.LABELS | Action.TAINTS | Action.SPEC | Action.READY | Action.ROOM
        )
        return (
            on(WORKLOAD_GROUPS.kind, Action.every(), about=_own_group),
            on(WORKLOAD, Action.every(), self._sibling, namespace_of),
            on(MEMBER_CLUSTER, cluster, _takes_units),
        )

    def routes(self) -> Sequence[Route]:
        now = self._handle.clock.now
        return GroupHandlers(
            ledger=self._groups, memory=lambda: self.memory, held=self._waiting_members, now=now
        ).routes()

    def cure(self, shortage: Shortage, refusal: Refusal, _rows: Mask) -> str:
        return estimate.cure(shortage.workload, shortage.reason, refusal.code)

    def _waiting_members(self) -> Iterable[WaitingWorkload]:
        waiting = () if self._waiting is None else self._waiting.iterate()
        return (each for each in waiting if NAME in each.plugins)

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, bound: PlacementIndex
    ) -> Status:
        """Pass Workloads without a group, members decided together, and those after the quorum."""
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
        """Return the clusters outside of the domains that are tried, or where the gang stands."""
        if not info.groups:
            return NOTHING_REFUSED
        attempt = state.data.get(NAME)
        if isinstance(attempt, Attempt) and isinstance(attempt.told, GroupAttempt):
            within, behind = attempt.told.within, attempt.told.behind
        else:
            within, behind = self._stands(state, info, snapshot, bound), None
        refused = [] if within is None else within.outside(snapshot)
        kept = [] if behind is None else [behind.outside(snapshot, info.namespace)]
        return FilterMask([*refused, *kept])

    def post_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, _unplaced: Unplaced
    ) -> Status:
        """Say for replicas beyond the quorum that the others need not wait for them."""
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
        """Hold replicas again that were given back for a decision which then changed nothing."""
        if (key := Groups.group_of(info)) is not None:
            self.memory.hold_on(key)
            self.memory.turns.hold_on(key, info.key)
        return SUCCESS

    def unreserve(
        self, _state: CycleState, info: WorkloadInfo, _placements: Mapping[str, int]
    ) -> None:
        """Give held replicas back: for a new decision, or because their time is over."""
        groups, now = self._groups(), self._handle.clock.now()
        if (key := Groups.group_of(info)) is None:
            return
        self.memory.turns.given_back(key, info.key, self._is_held)
        self._look_at_news()
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
        """Refuse further replicas of a Workload whose group is gone; `judge` decides on waits."""
        if not info.groups or info.booked:
            return SUCCESS
        more, key = sum(placements.values()) > sum(info.present.values()), Groups.group_of(info)
        if more and key is not None and self._groups().get(key) is None:
            return _not_found(key)
        return SUCCESS

    def post_bind(
        self, _state: CycleState, info: WorkloadInfo, placements: Mapping[str, int]
    ) -> None:
        """Record that replicas are written, so that earlier failures are past."""
        key = Groups.group_of(info)
        if key is not None and any(placements.values()):
            self.memory.succeed(key)

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        """Return the cause of shares that a gang must give back."""
        told = state.data.get(NAME)
        if not isinstance(told, Gathering) or after == before:
            return None
        return ChangeCause.GROUP_WITHDRAWN, told.key[1]

    def settled(self, info: WorkloadInfo, _now: datetime, _bound: PlacementIndex) -> WorkloadInfo:
        return info

    def next_look(self, info: WorkloadInfo, now: datetime) -> float | None:
        """Return the seconds until this member comes back for all members of its gang.

        The member comes back at the end of a denial or a back-off, or of another gang's turn; None
        where another member comes, or none needs to.
        """
        if (key := Groups.group_of(info)) is None:
            return None
        looks = [self.memory.turns.again(key, now)]
        self._look_at_news()
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
        """Return the domains that a placed gang keeps to."""
        groups, key = bound.ledger(Groups), Groups.group_of(info)
        group = None if key is None else groups.get(key)
        if group is None or NAME in state.without:
            return None
        return standing(group, snapshot, groups) or refuge(group, snapshot, groups)

    def _sibling(self, info: WorkloadInfo, old: Workload | None, new: Workload | None) -> bool:
        """Return whether another member comes, changes or gets replicas, and they can be enough."""
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
    """Return whether a Workload has changed in nothing but its shares."""
    return old.hash == new.hash and old.groups == new.groups


def _own_group(info: WorkloadInfo) -> str | Key:
    """Return the group for `about`, or the whole namespace where the labels name several groups."""
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
