"""WorkloadGroups in a plan: which start, wait or are refused, why, and what would help.

The outcome is that of the plugin's `Conclusion` on the last attempt and of the controller's ledger,
so members that another scheduler decides count like all others. A refusal names the units that are
missing, their requests, the clusters where only room is lacking, and the units that fit now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controller.features.workloadgroup.compiled import CompiledGroup, named
from controller.features.workloadgroup.estimate import GAP
from controller.features.workloadgroup.ledger import Groups, Member
from controller.framework.explains import either
from controller.framework.gathering import Trial, TrialResult
from controller.scheduling.decision import Decision
from controller.scheduling.sets import Batch, Conclusion
from crds.groups.gate import GateState
from crds.workload import ScheduledReason
from machinery.types import quantities
from machinery.types.bounds import NAME, clean
from machinery.types.metadata import Key, Object
from stowage.console import output
from stowage.console.words import count, listed, shares
from stowage.simulation.rehearsal import Rehearsal

KIND = "WorkloadGroup"
PLACED, WAITS, REFUSED = "placed", "waits", "refused"
COLUMNS = ("group", "needs", "placed", "wanted", "workloads", "outcome")
SHOWN = 20
"""Members in the table, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class GangMember:
    """A member: the units it wants, its shares, and the shares found in the last attempt."""

    name: str
    desired: int
    placements: Mapping[str, int]
    found: Mapping[str, int]
    message: str = ""

    @property
    def assigned(self) -> int:
        return sum(self.placements.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "desired": self.desired,
            "assigned": self.assigned,
            "placements": listed(self.placements),
            "found": listed(self.found),
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group; `least` is its minMember, None without the object, `held` the waiting units."""

    key: Key
    least: int | None
    outcome: str
    members: Sequence[GangMember]
    held: int = 0
    reason: str = ""
    message: str = ""
    helps: Sequence[str] = ()

    @property
    def desired(self) -> int:
        return sum(each.desired for each in self.members)

    @property
    def assigned(self) -> int:
        return sum(each.assigned for each in self.members)

    def to_dict(self) -> dict[str, Any]:
        return {
            "namespace": self.key[0],
            "name": self.key[1],
            "kind": KIND,
            "min": self.least,
            "desired": self.desired,
            "assigned": self.assigned,
            "held": self.held,
            "outcome": self.outcome,
            "reason": self.reason,
            "message": self.message,
            "helps": list(self.helps),
            "workloads": [each.to_dict() for each in self.members],
        }

    @property
    def title(self) -> str:
        return f"{self.key[0]}/wg/{clean(self.key[1], NAME)}"


def table(groups: Sequence[GroupPlan]) -> str:
    return output.table([_row(each) for each in groups], COLUMNS, below=map(reasons, groups))


def _row(group: GroupPlan) -> dict[str, Any]:
    held = f" ({group.held} held)" if group.held else ""
    return {
        "group": group.title,
        "needs": "?" if group.least is None else group.least,
        "placed": group.assigned,
        "wanted": group.desired,
        "workloads": len(group.members),
        "outcome": f"{group.outcome}{held}",
    }


def reasons(group: GroupPlan) -> Iterator[str]:
    if group.reason:
        yield f"{group.reason}: {clean(group.message)}"
    for text in group.helps:
        yield f"what helps: {text}"


def members(group: GroupPlan, *, everything: bool) -> str:
    """Return a row for each member, those that lack units first."""
    ranked = sorted(group.members, key=lambda each: each.assigned >= each.desired)
    shown = ranked if everything else ranked[:SHOWN]
    rows = [
        {
            "workload": each.name,
            "units": each.desired,
            "placed": shares(each.placements),
            "found": shares(each.found),
            "why": each.message,
        }
        for each in shown
    ]
    tried = any(each.found for each in group.members)
    columns = ("workload", "units", "placed", *(("found",) if tried else ()), "why")
    return output.table(rows, columns) + output.left_out(len(ranked) - len(shown))


_IN_GENERAL: Mapping[str, str] = {
    GAP: "that much more where its Workloads may go, smaller requests, or a smaller minMember",
    ScheduledReason.GROUP_NOT_FOUND: "a WorkloadGroup of that name, or no label that names it",
    ScheduledReason.GROUP_WITHDRAWN: "nothing but time, once what it names in its own condition is"
    " mended",
}
"""The advice without an attempt, by the code of the refusal or by the reason."""
_OF_GROUP = frozenset(
    {
        ScheduledReason.GROUP_DENIED,
        ScheduledReason.GROUP_INCOMPLETE,
        ScheduledReason.GROUP_WITHDRAWN,
        ScheduledReason.GROUP_NOT_FOUND,
        ScheduledReason.INVALID_GROUP,
        ScheduledReason.SCHEDULE_TIMEOUT,
    }
)
"""Reasons that a member has from its group."""
_WAITS = frozenset({ScheduledReason.WAITING_FOR_GROUP, ScheduledReason.GROUP_INCOMPLETE})
"""Reasons of a group that waits; with any other it is refused."""
HELPED = 5
"""Members with missing units that the advice names."""


@dataclass(frozen=True, slots=True)
class _Told:
    """The state of a group after a plan."""

    key: Key
    group: CompiledGroup | None
    """None where the WorkloadGroup does not exist."""
    members: Sequence[Member]
    """By name, without those that are being deleted."""
    theirs: Collection[Key]
    """The members that another scheduler decides."""
    assigned: int
    wanted: int
    started: bool
    """Whether no quorum is asked for any more."""
    decided: Sequence[Decision]
    batch: Batch | None
    """The last decisions that a plugin made on the members together, if any."""

    @property
    def conclusion(self) -> Conclusion | None:
        return self.batch.conclusion if self.batch is not None else None

    @property
    def tried(self) -> Sequence[Trial]:
        return self.conclusion.tried if self.conclusion is not None else ()


def judged(
    rehearsal: Rehearsal, key: Key, stored: Object | None, decided: Mapping[Key, Decision]
) -> GroupPlan:
    """Return the outcome of a group, once `decided` is decided.

    Members that another scheduler decides count with the units that they have.
    """
    books = rehearsal.ledger(Groups)
    own = {each: decided[each] for each in sorted(books.members(key)) if each in decided}
    books = books.overlay({each: (made.workload, made.placements) for each, made in own.items()})
    members = books.members(key)
    there = sorted(each for each in members if not rehearsal.placed[each].metadata.deleting)
    told = _Told(
        key=key,
        group=books.get(key),
        members=[members[each] for each in there],
        theirs={each for each in there if rehearsal.info(each) is None},
        assigned=books.assigned(key),
        wanted=books.desired(key, rehearsal.clusters),
        started=books.started(key),
        decided=[*own.values()],
        batch=rehearsal.judged.get(key),
    )
    least, tried = _least(stored), {each.workload.key: each for each in told.tried}
    found = [_found(each, tried.get(each.workload.key), told.theirs) for each in told.members]
    if _stands(told):
        left = [_left_over(each, own.get((key[0], each.name))) for each in found]
        return GroupPlan(key, least, PLACED, left)
    reason, message, code = _why(told)
    waits = reason in _WAITS
    held = 0
    if told.conclusion is not None and told.conclusion.verdict.outcome is TrialResult.WAIT:
        held = sum(each.assigned for each in told.tried)
    return GroupPlan(
        key,
        least,
        WAITS if waits else REFUSED,
        found,
        held=held,
        reason=reason.value,
        message=message,
        helps=[*_helps(told, reason, code)],
    )


def _stands(told: _Told) -> bool:
    """Whether its quorum has its clusters or has run, and its gate does not withdraw it."""
    group = told.group
    if group is None or group.fault or (group.gate == GateState.CLOSED and not group.ran):
        return False
    if told.conclusion is not None and told.conclusion.verdict.outcome is TrialResult.PLACE:
        return True
    return told.started


def _left_over(member: GangMember, decision: Decision | None) -> GangMember:
    """Return a member of a group that stands; missing units have a reason of their own."""
    lacks = decision is not None and member.assigned < member.desired
    message = decision.message if decision is not None and lacks else ""
    return replace(member, found={}, message=member.message or message)


def _why(told: _Told) -> tuple[ScheduledReason, str, str]:
    """Return reason, message and code: the plugin's for the batch, else of group or member."""
    if told.conclusion is not None:
        status = told.conclusion.verdict.status
        return status.reason, status.refusal.text, status.detail
    if not told.members:
        return ScheduledReason.GROUP_INCOMPLETE, "no Workload names it", ""
    if too_few := _too_few(told):
        return ScheduledReason.GROUP_INCOMPLETE, too_few, ""
    refused = sorted((d for d in told.decided if not d.scheduled), key=_of_group, reverse=True)
    for each in refused:
        whole = each.refusals[0] if each.refusals and not each.masks else None
        if whole is None:
            return each.reason, each.message, ""
        return each.reason, whole.text or each.message, whole.code
    if told.group is None:
        return ScheduledReason.GROUP_NOT_FOUND, f"{named(told.key)} is not there", ""
    if told.group.fault:
        return ScheduledReason.INVALID_GROUP, f"{told.group}: {told.group.fault}", ""
    numbers = f"{told.assigned} of {told.wanted} replicas have a cluster"
    text = f"{numbers}, minMember is {told.group.min_member}"
    return ScheduledReason.WAITING_FOR_GROUP, text, ""


def _of_group(decision: Decision) -> bool:
    return decision.reason in _OF_GROUP


def _too_few(told: _Told) -> str:
    """Return the controller's message if its Workloads want fewer units than it needs."""
    group = told.group
    if group is None or group.fault or group.gate == GateState.CLOSED:
        return ""
    if told.wanted >= group.min_member:
        return ""
    return group.too_few(told.wanted)


def _least(stored: Object | None) -> int | None:
    """Return minMember; None for a group that does not exist or cannot be read."""
    if stored is None:
        return None
    spec = msgspec.to_builtins(stored).get("spec")
    least = spec.get("minMember") if isinstance(spec, Mapping) else None
    return least if isinstance(least, int) else None


def _found(member: Member, tried: Trial | None, theirs: Collection[Key]) -> GangMember:
    info, placements = member.workload, member.placements
    if tried is None:
        desired = max(info.replicas, member.assigned)
        lacks = member.assigned < desired
        message = f"left to scheduler {info.scheduler_name}" if info.key in theirs else ""
        return GangMember(info.name, desired, placements, {}, message if lacks else "")
    lacks = tried.assigned < tried.desired
    message = tried.message if lacks else ""
    return GangMember(info.name, tried.desired, placements, tried.placements, message)


def _helps(told: _Told, reason: ScheduledReason, code: str) -> Iterator[str]:
    """Yield changes each of which would, by itself, let the quorum in."""
    if told.group is not None and told.group.min_member > told.wanted:
        more = count(told.group.min_member - told.wanted, "more replica")
        met = f"; minMember: {told.wanted} is met now" if told.wanted else ""
        yield f"{more} in its Workloads, or one more Workload{met}"
        return
    known = [*_more_units(told)]
    yield from known or filter(None, [_IN_GENERAL.get(code) or _IN_GENERAL.get(reason)])
    if told.group is not None:
        yield from _left_to_others(told)


def _more_units(told: _Told) -> Iterator[str]:
    """Yield where members that were tried lack room, and how many units fit."""
    if told.group is None or told.batch is None or not told.tried:
        return
    had, now = {each.workload.key: each.assigned for each in told.members}, 0
    for each in told.tried:
        now += each.assigned - had.get(each.workload.key, 0)
    found, names = told.assigned + now, told.batch.decisions[0].snapshot.names
    lacking = [each for each in told.tried if each.assigned < each.desired]
    short = [(each, where) for each in lacking if (where := _where(each, names))]
    for each, where in short[:HELPED]:
        yield _more(each, where, told.group.min_member - found)
    if found:
        yield f"minMember: {found}, as many as find a cluster now"


def _left_to_others(told: _Told) -> Iterator[str]:
    lacking = [each for each in told.members if each.workload.key in told.theirs and each.open]
    for each in lacking[:HELPED]:
        units, scheduler = count(each.open, "more replica"), each.workload.scheduler_name
        yield f"{units} of {each.workload.name}, which is left to scheduler {scheduler}"


def _where(tried: Trial, names: Sequence[str]) -> list[str]:
    """Return the clusters that have room, or lack nothing but room."""
    rows = (tried.feasible | tried.crowded).nonzero()[0].tolist()
    return sorted(names[row] for row in rows)


def _more(tried: Trial, where: Sequence[str], missing: int) -> str:
    """Return the requests of the missing units of a member, or the quota that stops them."""
    units = min(tried.desired - tried.assigned, missing)
    if tried.reason is ScheduledReason.REPLICAS_REACHED:
        return (
            f"a quota for {count(units, 'more replica')} of {tried.workload.name}: {tried.message}"
        )
    asks = [
        f"{name} {quantities.readable(name, amount)}"
        for name, amount in sorted(tried.workload.request.items())
        if amount and name != "pods"
    ]
    each = " each" if units > 1 else ""
    needs = "needs" if units == 1 else "need"
    of = f"{count(units, 'more replica')} of {tried.workload.name} {needs}"
    return f"{of} {' and '.join(asks) or 'a place'}{each} on {either(where)}"
