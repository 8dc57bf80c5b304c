"""The status of a WorkloadGroup: phase, numbers, condition and events. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from controller.features.workloadgroup.compiled import LONGEST_SECONDS, CompiledGroup, WorkloadGroup
from controller.features.workloadgroup.gate.gate import Gate, Standing
from controller.framework.statuswriter import MESSAGE_LIMIT, StatusEvent, changed
from crds.groups.gate import GateState
from crds.groups.workloadgroup import (
    MOST_WORKLOADS,
    WAITING,
    GroupCondition,
    GroupEventReason,
    GroupPhase,
    GroupScheduledReason,
)
from machinery.clock import timestamp
from machinery.types import conditions
from machinery.types.bounds import MOST_AMOUNT, MOST_UNITS

NAMED: Final = 3
"""Workloads that a message names."""
FIRST_SECONDS: Final = 10
"""Seconds of the back-off after the first failure; it doubles up to the longest."""
_IN_VAIN: Final = frozenset(
    {GroupScheduledReason.GROUP_DENIED.value, GroupScheduledReason.SCHEDULE_TIMEOUT.value}
)
"""Reasons that Workloads give for a failed try; the group has the same names for them."""
_GONE: Final = frozenset(
    {
        GroupScheduledReason.SCHEDULED,
        GroupScheduledReason.GROUP_INCOMPLETE,
        GroupScheduledReason.INVALID_GROUP,
    }
)
"""Reasons that are dropped once they do not hold."""
_SCHEDULED: Final = GroupCondition.SCHEDULED.value
_READY: Final = GroupCondition.READY.value
_GOOD: Final = (GroupPhase.RUNNING, GroupPhase.FINISHED)
_WORDS: Final = {
    GroupPhase.PENDING: "it has not been tried yet",
    GroupPhase.SCHEDULING: "clusters are looked for, the condition Scheduled says what is missing",
    GroupPhase.SCHEDULED: "its replicas have clusters and start there",
    GroupPhase.RUNNING: "at least minMember replicas run",
    GroupPhase.FINISHED: "at least minMember replicas ended well, and no other runs",
    GroupPhase.FAILED: "so many replicas failed that fewer than minMember are left",
}
_UNWRITTEN: Final = "lastFailureTime"
"""Written along with other changes, and no reason for a write: the queue knows it better."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """`workloads` name the group, `members` are looked at.

    `most` is `desired` with Workloads that run everywhere on all clusters. `holders` are the held
    replicas by Workload, given back at `until`.
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
        return sum(each.replicas for each in self.members)

    @property
    def could(self) -> int:
        return max(self.desired, self.most)

    @property
    def held(self) -> int:
        return sum((self.holders or {}).values())

    @property
    def refused(self) -> Standing | None:
        found = [each for each in self.members if not each.replicas and _in_vain(each)]
        return min(found, key=lambda each: each.name, default=None)

    @property
    def tried(self) -> bool:
        return bool(self.scheduled or self.held or self.last_failure or self.refused)


class Said(NamedTuple):
    reason: GroupScheduledReason
    message: str


@dataclass(frozen=True, slots=True)
class GroupResult:
    """`next_look` is when the status may change by itself."""

    fields: Mapping[str, Any]
    events: Sequence[StatusEvent]
    next_look: datetime | None = None


def look(
    stored: WorkloadGroup, group: CompiledGroup, gate: Gate, facts: GroupFacts, now: datetime
) -> GroupResult:
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
        "failures": _failures(group, gate),
        "retryTime": timestamp(retry) if retry else None,
        "conditions": _conditions(stored, said, phase, now),
        **_reached(stored, gate),
    }
    due = min((at for at in (retry, gate.due) if at is not None and at > now), default=None)
    news = [*_gate_events(group, gate, said, facts), *_events(stored, group, said, facts, phase)]
    return GroupResult(fields, news, due)


def _reached(stored: WorkloadGroup, gate: Gate) -> dict[str, Any]:
    """What the propagator's shards told of a release says nothing of another one."""
    before = stored.status
    same = before.gate == gate.state and before.decisions == gate.released
    return {"reached": {}} if before.reached and (gate.ran or not same) else {}


def differs(fields: Mapping[str, Any], stored: WorkloadGroup) -> bool:
    return any(name != _UNWRITTEN for name in changed(fields, stored.status))


def changes(fields: Mapping[str, Any], stored: WorkloadGroup) -> dict[str, Any]:
    """Return the merge patch; of large maps only the changed entries."""
    said = msgspec.to_builtins(stored.status)
    names = changed(fields, stored.status) if stored.status.phase else fields
    return {each: _delta(said.get(each), fields[each]) for each in names}


def _delta(before: Any, after: Any) -> Any:
    if not isinstance(after, Mapping):
        return after
    if not (isinstance(before, Mapping) and before and after):
        return after or None
    gone = dict.fromkeys(name for name in before if name not in after)
    new = {k: _delta(before.get(k), v) for k, v in after.items() if before.get(k) != v}
    return {**gone, **new}


def words_alone(fields: Mapping[str, Any], stored: WorkloadGroup) -> bool:
    if differs({k: v for k, v in fields.items() if k != "conditions"}, stored):
        return False
    pairs = [
        (each.get("status"), each.get("reason"))
        for each in (_condition(stored), conditions.find(fields, _SCHEDULED))
    ]
    return pairs[0] == pairs[1]


def phase_of(group: CompiledGroup, gate: Gate, facts: GroupFacts) -> GroupPhase:
    """Return the phase.

    Failed: the replicas that have not failed are too few. Finished: enough have ended well, and
    none of the others runs or may still run.
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
    """Return the most pressing condition; `due` is the next try."""
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
    return member.reason in _IN_VAIN


def _waits(group: CompiledGroup, gate: Gate, facts: GroupFacts, before: Said) -> Said:
    if facts.held:
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, _holding(group, facts))
    if facts.could < group.min_member:
        return Said(GroupScheduledReason.GROUP_INCOMPLETE, group.too_few(facts.could))
    if gate.obstacle:
        text = f"{_quorum(group, facts)}: {gate.obstacle}; what runs of it stays"
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, text)
    if (refused := facts.refused) is not None:
        text = f"{_quorum(group, facts)}: {refused.message}"
        return Said(GroupScheduledReason(refused.reason), text)
    if before.message and before.reason not in _GONE and facts.scheduled < group.min_member:
        return before
    return Said(GroupScheduledReason.WAITING_FOR_GROUP, _quorum(group, facts))


def _before(stored: WorkloadGroup) -> Said:
    said = _condition(stored)
    try:
        reason = GroupScheduledReason(str(said.get("reason")))
    except ValueError:
        return Said(GroupScheduledReason.WAITING_FOR_GROUP, "")
    return Said(reason, str(said.get("message") or ""))


def _condition(stored: WorkloadGroup) -> conditions.Condition:
    return conditions.among(stored.status.conditions, _SCHEDULED)


def _quorum(group: CompiledGroup, facts: GroupFacts) -> str:
    numbers = f"{facts.scheduled} of {facts.desired} replicas have a cluster"
    return f"{numbers}, minMember is {group.min_member}"


def _holding(group: CompiledGroup, facts: GroupFacts) -> str:
    holders = sorted((facts.holders or {}).items())
    named = ", ".join(f"{name} {replicas}" for name, replicas in holders[:NAMED])
    more = f" and {len(holders) - NAMED} more Workloads" if len(holders) > NAMED else ""
    short = max(group.min_member - facts.scheduled - facts.held, 0)
    until = f" until {timestamp(facts.until)}" if facts.until else ""
    missing = f"{short} more {'is' if short == 1 else 'are'} needed"
    return (
        f"{facts.held} of {facts.desired} replicas are held{until} ({named}{more}), {missing}, "
        f"as minMember is {group.min_member}"
    )


def _failed(gate: Gate, due: datetime | None) -> str:
    again = f"; it is tried again after {timestamp(due)}" if due else ""
    stays = " but what ran there before" if gate.retained else ""
    return f"{gate.failure}: everything of it is taken from its clusters{stays}{again}"


def _outcomes(facts: GroupFacts) -> tuple[int, int, int]:
    members = facts.members
    running, succeeded, failed = 0, 0, 0
    for each in members:
        running += each.running
        succeeded += each.succeeded
        failed += each.failed
    return running, succeeded, failed


def _numbers(stored: WorkloadGroup, gate: Gate, facts: GroupFacts) -> dict[str, int]:
    others = bool(facts.members) and not any(each.ours for each in facts.members)
    # The controller that decides on all members reports the replicas that it holds.
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
    """Return the times: each stands until all have lost their placements."""
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
    if gate.ran:
        return 0
    return min(max(group.failures, 0) + bool(gate.failure), MOST_UNITS)


def _retry(group: CompiledGroup, gate: Gate, now: datetime) -> datetime | None:
    """Return when the gang is tried again: later after each failure in a row."""
    if gate.ran or gate.state is GateState.OPEN:
        return None
    if not gate.failure:
        over = group.retry is not None and group.retry <= now
        return group.retry if over else group.rests_until(now)
    doublings = min(max(group.failures, 0), 16)
    wait = min(FIRST_SECONDS * 2**doublings, LONGEST_SECONDS)
    return now.replace(microsecond=0) + timedelta(seconds=wait + 1)  # whole seconds, rounded up


def _conditions(
    stored: WorkloadGroup, said: Said, phase: GroupPhase, now: datetime
) -> list[conditions.Condition]:
    before, generation = stored.status.conditions, stored.metadata.generation
    scheduled = conditions.renewed(
        _condition(stored),
        type_=_SCHEDULED,
        true=said.reason is GroupScheduledReason.SCHEDULED,
        reason=said.reason.value,
        message=said.message[:MESSAGE_LIMIT],
        now=now,
        generation=generation,
    )
    placed = scheduled["status"] == "True"
    ready = conditions.renewed(
        conditions.among(before, _READY),
        type_=_READY,
        true=placed and phase in _GOOD,
        reason=phase.value,
        message=_WORDS[phase],
        now=now,
        generation=generation,
    )
    after = {each.get("type"): each for each in before} | {_SCHEDULED: scheduled, _READY: ready}
    # Too few units are asked for while its Workloads are still being applied.
    few = said.reason is GroupScheduledReason.GROUP_INCOMPLETE
    ours = placed or few or phase is GroupPhase.FAILED
    cause = ready if ours else scheduled
    return conditions.with_progress(after.values(), waits=WAITING, cause=cause, now=now)


def _gate_events(
    group: CompiledGroup, gate: Gate, said: Said, facts: GroupFacts
) -> Iterator[StatusEvent]:
    if gate.state is GateState.OPEN and group.gate != GateState.OPEN:
        yield StatusEvent(
            GroupEventReason.SCHEDULED, f"{_quorum(group, facts)}: they go to their clusters"
        )
    elif gate.failure:
        yield StatusEvent(GroupEventReason.PROPAGATION_FAILED, said.message, warning=True)


def _events(
    stored: WorkloadGroup, group: CompiledGroup, said: Said, facts: GroupFacts, phase: GroupPhase
) -> Iterator[StatusEvent]:
    if facts.held and not stored.status.waiting:
        yield StatusEvent(GroupEventReason.WAITING_FOR_GROUP, said.message)
    reason, before = _TOLD.get(said.reason), _before(stored)
    if reason is not None and before.reason is not said.reason:
        yield StatusEvent(reason, said.message, warning=True)
    told = _PHASES.get(phase)
    if told is not None and stored.status.phase != phase.value:
        yield StatusEvent(told, f"{group} is {phase.value}", phase is GroupPhase.FAILED)


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
