"""What a WorkloadGroup says of itself: phase, numbers, condition, and what people are told. Pure.

Every number is counted anew from what is stored, and never carried on: whoever leads next says the
same. Why the last try was in vain the Workloads say themselves; where none of them does any more,
what stands there stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from controller.features.workloadgroup.compiled import (
    FAILED,
    LONGEST_SECONDS,
    TOO_FEW,
    CompiledGroup,
)
from controller.features.workloadgroup.gate.gate import Gate, Standing
from controller.features.workloadgroup.objects import WorkloadGroup
from crds.groups.gate import GateState
from crds.groups.workloadgroup import (
    MOST_WORKLOADS,
    GroupCondition,
    GroupEventReason,
    GroupPhase,
    GroupScheduledReason,
)
from machinery.clock import timestamp
from machinery.types import conditions
from machinery.types.bounds import MOST_AMOUNT, MOST_UNITS

MESSAGE_LIMIT: Final = 4096
NAMED: Final = 3
"""Workloads that a message names."""
FIRST_SECONDS: Final = 10
"""Of the back-off after a failure: it doubles from the first to the longest."""
_IN_VAIN: Final = frozenset(
    {GroupScheduledReason.GROUP_DENIED.value, GroupScheduledReason.SCHEDULE_TIMEOUT.value}
)
"""What Workloads of a group say of a try, by the names that the group has for it, too."""
_NO_TRY: Final = (TOO_FEW, FAILED)
"""In what they say while there is none."""
_SCHEDULED: Final = GroupCondition.SCHEDULED.value
_UNWRITTEN: Final = "lastFailureTime"
"""Told along with other news, and no news of its own: the queue knows it better."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known beside the object itself and its gate.

    Args:
        members: those that are looked at, at most MOST_WORKLOADS.
        workloads: all that name the group.
        desired: units that they want together.
        most: the same, where what every cluster runs in full is on all of them.
        holders: units that are held until more of them fit, by the Workload's name.
        until: when these are given back.
        last_failure: when the last try was in vain, as text.
    """

    members: Sequence[Standing] = ()
    workloads: int = 0
    desired: int = 0
    most: int = 0
    holders: Mapping[str, int] | None = None
    until: datetime | None = None
    last_failure: str = ""

    @property
    def scheduled(self) -> int:
        """Units that have a cluster, as it is stored."""
        return sum(each.units for each in self.members)

    @property
    def could(self) -> int:
        """Units that might ever have a cluster."""
        return max(self.desired, self.most)

    @property
    def held(self) -> int:
        """Units that are held."""
        return sum((self.holders or {}).values())

    @property
    def refused(self) -> Standing | None:
        """The first that says why the last try was in vain; None where nobody does."""
        found = [each for each in self.members if not each.units and _in_vain(each)]
        return min(found, key=lambda each: each.name, default=None)

    @property
    def tried(self) -> bool:
        """Whether there has been a try, as far as that is known."""
        return bool(self.scheduled or self.held or self.last_failure or self.refused)


class Said(NamedTuple):
    """The condition Scheduled."""

    reason: GroupScheduledReason
    message: str


class GroupEvent(NamedTuple):
    """What people are told of a group."""

    reason: GroupEventReason
    note: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The fields to write, what people are told with them, and when it may be otherwise."""

    fields: Mapping[str, Any]
    events: Sequence[GroupEvent]
    next_look: datetime | None = None


def look(
    stored: WorkloadGroup, group: CompiledGroup, gate: Gate, facts: GroupFacts, now: datetime
) -> GroupResult:
    """What the status shall say by now."""
    retry = _retry(group, gate, now)
    due = retry if retry is not None and retry > now else None
    said = _said(stored, group, gate, facts, due)
    phase = phase_of(group, gate, facts)
    fields = {
        "observedGeneration": stored.metadata.generation,
        "phase": phase.value,
        **_numbers(stored, gate, facts),
        **_times(stored, group, gate, facts, now),
        "gate": gate.state.value if gate.state else None,
        "decisions": gate.released,
        "retained": gate.retained,
        "released": None,
        "failures": _failures(group, gate),
        "retryTime": timestamp(retry) if retry else None,
        "conditions": _conditions(stored, said, now),
    }
    due = min((at for at in (retry, gate.due) if at is not None and at > now), default=None)
    news = [*_gate_events(group, gate, said, facts), *_events(stored, group, said, facts, phase)]
    return GroupResult(fields, news, due)


def differs(fields: Mapping[str, Any], stored: WorkloadGroup) -> bool:
    """Whether the group does not say all of it already."""
    return any(name != _UNWRITTEN for name in _changed(fields, stored))


def changes(fields: Mapping[str, Any], stored: WorkloadGroup) -> dict[str, Any]:
    """The merge patch that makes it say all of it, and of large maps their other entries alone.

    The first one says numbers that are 0 as well, and each takes away what an earlier release said,
    be it of a form that nobody can read.
    """
    said = msgspec.to_builtins(stored.status)
    names = _changed(fields, stored) if stored.status.phase else fields
    return {**{each: _delta(said.get(each), fields[each]) for each in names}, "released": None}


def _changed(fields: Mapping[str, Any], stored: WorkloadGroup) -> list[str]:
    said = msgspec.to_builtins(stored.status)
    return [name for name, value in fields.items() if (said.get(name) or None) != (value or None)]


def _delta(before: Any, after: Any) -> Any:
    if not isinstance(after, Mapping):
        return after
    if not (isinstance(before, Mapping) and before and after):
        return after or None
    gone = dict.fromkeys(name for name in before if name not in after)
    new = {k: _delta(before.get(k), v) for k, v in after.items() if before.get(k) != v}
    return {**gone, **new}


def words_alone(fields: Mapping[str, Any], stored: WorkloadGroup) -> bool:
    """Whether all that is new is the message of a condition that stays what it is."""
    if differs({k: v for k, v in fields.items() if k != "conditions"}, stored):
        return False
    pairs = [
        (each.get("status"), each.get("reason"))
        for each in (_condition(stored), conditions.find(fields, _SCHEDULED))
    ]
    return pairs[0] == pairs[1]


def phase_of(group: CompiledGroup, gate: Gate, facts: GroupFacts) -> GroupPhase:
    """How far it has come.

    It has failed when the units that have not failed are too few, whatever becomes of them. It has
    finished when enough have ended well and none of the others runs or may run yet.
    """
    running, succeeded, failed = _outcomes(facts)
    if failed and facts.could - failed < group.min_member and not group.fault:
        return GroupPhase.FAILED
    if gate.ran:
        ended = succeeded + failed >= facts.scheduled and not running
        done = ended and succeeded >= group.min_member
        return GroupPhase.FINISHED if done else GroupPhase.RUNNING
    if gate.state is GateState.OPEN:
        return GroupPhase.SCHEDULED
    tried = facts.tried or gate.state or group.failures or group.phase == GroupPhase.SCHEDULING
    return GroupPhase.SCHEDULING if tried else GroupPhase.PENDING


def _said(
    stored: WorkloadGroup, group: CompiledGroup, gate: Gate, facts: GroupFacts, due: datetime | None
) -> Said:
    """The condition, the most pressing first; `due` is when it is tried anew, if that comes yet."""
    if group.fault:
        return Said(GroupScheduledReason.INVALID_GROUP, group.fault)
    if facts.workloads > MOST_WORKLOADS:
        text = (
            f"{group} has {facts.workloads} Workloads, {MOST_WORKLOADS} at most: no more of them "
            "are released; take its label off some of them"
        )
        return Said(GroupScheduledReason.TOO_MANY_WORKLOADS, text)
    if gate.large:
        text = f"{group} is too large: {gate.large}; make several groups of it"
        return Said(GroupScheduledReason.TOO_LARGE, text)
    if gate.state is GateState.OPEN:
        return Said(GroupScheduledReason.SCHEDULED, _quorum(group, facts))
    if gate.failure:
        return Said(GroupScheduledReason.PROPAGATION_FAILED, _failed(gate, due))
    before, rests = _before(stored), due is not None or gate.state is GateState.CLOSED
    if rests and before.reason is GroupScheduledReason.PROPAGATION_FAILED:
        return before
    return _waits(group, gate, facts, before)


def _in_vain(member: Standing) -> bool:
    """Whether it says that a try has come to nothing."""
    return member.reason in _IN_VAIN and not any(text in member.message for text in _NO_TRY)


def _waits(group: CompiledGroup, gate: Gate, facts: GroupFacts, before: Said) -> Said:
    """Why it is not placed yet. What nobody knows any more stands as it was said."""
    if facts.held:
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, _holding(group, facts))
    if facts.could < group.min_member:
        return Said(GroupScheduledReason.GROUP_DENIED, group.too_few(facts.could))
    if gate.obstacle:
        text = f"{_quorum(group, facts)}: {gate.obstacle}; what runs of it stays"
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, text)
    if (refused := facts.refused) is not None:
        text = f"{_quorum(group, facts)}: {refused.message}"
        return Said(GroupScheduledReason(refused.reason), text)
    gone = (GroupScheduledReason.SCHEDULED, GroupScheduledReason.INVALID_GROUP)
    stands = before.message and before.reason not in gone and TOO_FEW not in before.message
    if stands and facts.scheduled < group.min_member:
        return before
    return Said(GroupScheduledReason.WAITING_FOR_GROUP, _quorum(group, facts))


def _before(stored: WorkloadGroup) -> Said:
    """What it says now; what makes no sense is that it waits."""
    said = _condition(stored)
    try:
        reason = GroupScheduledReason(str(said.get("reason")))
    except ValueError:
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, "")
    return Said(reason, str(said.get("message") or ""))


def _condition(stored: WorkloadGroup) -> conditions.Condition:
    return conditions.among(stored.status.conditions, _SCHEDULED)


def _quorum(group: CompiledGroup, facts: GroupFacts) -> str:
    numbers = f"{facts.scheduled} of {facts.desired} units have a cluster"
    return f"{numbers}, minMember is {group.min_member}"


def _holding(group: CompiledGroup, facts: GroupFacts) -> str:
    """Who holds what, how many are missing, and until when they wait for these."""
    holders = sorted((facts.holders or {}).items())
    named = ", ".join(f"{name} {units}" for name, units in holders[:NAMED])
    more = f" and {len(holders) - NAMED} more Workloads" if len(holders) > NAMED else ""
    short = max(group.min_member - facts.scheduled - facts.held, 0)
    until = f" until {timestamp(facts.until)}" if facts.until else ""
    missing = f"{short} more {'is' if short == 1 else 'are'} needed"
    return (
        f"{facts.held} of {facts.desired} units are held{until} ({named}{more}), {missing}, "
        f"as minMember is {group.min_member}"
    )


def _failed(gate: Gate, due: datetime | None) -> str:
    again = f"; it is tried again after {timestamp(due)}" if due else ""
    stays = " but what ran there before" if gate.retained else ""
    return f"{gate.failure}: everything of it is taken from its clusters{stays}{again}"


def _outcomes(facts: GroupFacts) -> tuple[int, int, int]:
    """Units that run, that ended well, that failed."""
    members = facts.members
    running, succeeded, failed = 0, 0, 0
    for each in members:
        running += each.running
        succeeded += each.succeeded
        failed += each.failed
    return running, succeeded, failed


def _numbers(stored: WorkloadGroup, gate: Gate, facts: GroupFacts) -> dict[str, int]:
    """Units held of a gang that another controller decides on are for that one to say."""
    others = bool(facts.members) and not any(each.ours for each in facts.members)
    held = stored.status.waiting if others and gate.state is None else facts.held
    running, succeeded, failed = _outcomes(facts)
    numbers = {
        "desired": facts.desired,
        "scheduled": facts.scheduled,
        "waiting": held,
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
    }
    told = {name: min(number, MOST_AMOUNT) for name, number in numbers.items()}
    return {"workloads": min(facts.workloads, MOST_UNITS), **told}


def _times(
    stored: WorkloadGroup, group: CompiledGroup, gate: Gate, facts: GroupFacts, now: datetime
) -> dict[str, str | None]:
    """Moments are said once and stand; when all have lost their placements, all begins anew."""
    status, at = stored.status, timestamp(now)
    over = group.ran and not gate.ran
    tried = facts.tried or gate.state is not None
    start = ("" if over else status.schedule_start_time) or (at if tried else None)
    last = max(status.last_failure_time, facts.last_failure)
    return {
        "scheduleStartTime": start,
        "quorumTime": (status.quorum_time or at) if gate.ran else None,
        _UNWRITTEN: (at if gate.failure else last) or None,
    }


def _failures(group: CompiledGroup, gate: Gate) -> int:
    """How often in a row it failed: none once it has run."""
    if gate.ran:
        return 0
    return min(max(group.failures, 0) + bool(gate.failure), MOST_UNITS)


def _retry(group: CompiledGroup, gate: Gate, now: datetime) -> datetime | None:
    """When it is tried anew: as it was said, or longer after each failure in a row."""
    if gate.ran or gate.state is GateState.OPEN:
        return None
    if not gate.failure:
        over = group.retry is not None and group.retry <= now
        return group.retry if over else group.rests_until(now)
    doublings = min(max(group.failures, 0), 16)
    wait = min(FIRST_SECONDS * 2**doublings, LONGEST_SECONDS)
    return now.replace(microsecond=0) + timedelta(seconds=wait + 1)  # whole seconds, and no less


def _conditions(stored: WorkloadGroup, said: Said, now: datetime) -> list[Any]:
    """Scheduled as it is now, those of others as they are."""
    ours = conditions.renewed(
        _condition(stored),
        type_=_SCHEDULED,
        true=said.reason is GroupScheduledReason.SCHEDULED,
        reason=said.reason.value,
        message=said.message[:MESSAGE_LIMIT],
        now=now,
        generation=stored.metadata.generation,
    )
    return [*(each for each in stored.status.conditions if each.get("type") != _SCHEDULED), ours]


def _gate_events(
    group: CompiledGroup, gate: Gate, said: Said, facts: GroupFacts
) -> Iterator[GroupEvent]:
    if gate.state is GateState.OPEN and group.gate != GateState.OPEN:
        yield GroupEvent(
            GroupEventReason.SCHEDULED, f"{_quorum(group, facts)}: they go to their clusters"
        )
    elif gate.failure:
        yield GroupEvent(GroupEventReason.PROPAGATION_FAILED, said.message, warning=True)


def _events(
    stored: WorkloadGroup, group: CompiledGroup, said: Said, facts: GroupFacts, phase: GroupPhase
) -> Iterator[GroupEvent]:
    """What has changed: of tries that end as the last one did nobody is told again."""
    if facts.held and not stored.status.waiting:
        yield GroupEvent(GroupEventReason.WAITING_FOR_GROUP, said.message)
    reason, before = _TOLD.get(said.reason), _before(stored)
    news = before.reason is not said.reason or TOO_FEW in before.message
    if reason is not None and news and TOO_FEW not in said.message:
        yield GroupEvent(reason, said.message, warning=True)
    told = _PHASES.get(phase)
    if told is not None and stored.status.phase != phase.value:
        yield GroupEvent(told, f"{group} is {phase.value}", phase is GroupPhase.FAILED)


_TOLD = {
    GroupScheduledReason.GROUP_DENIED: GroupEventReason.FAILED_SCHEDULING,
    GroupScheduledReason.SCHEDULE_TIMEOUT: GroupEventReason.SCHEDULE_TIMEOUT,
    GroupScheduledReason.INVALID_GROUP: GroupEventReason.INVALID_GROUP,
    GroupScheduledReason.TOO_MANY_WORKLOADS: GroupEventReason.TOO_MANY_WORKLOADS,
    GroupScheduledReason.TOO_LARGE: GroupEventReason.TOO_LARGE,
}
_PHASES = {
    GroupPhase.RUNNING: GroupEventReason.RUNNING,
    GroupPhase.FINISHED: GroupEventReason.FINISHED,
    GroupPhase.FAILED: GroupEventReason.FAILED,
}
