"""What becomes of the WorkloadGroups of a plan: who starts, who waits, who gets nothing, and why.

Read from what the plugin made of the gang in the last pass on it (`Conclusion`), so that a plan
tells of a gang what the controller would. Beside a refusal stands what would help: whose units are
missing, what each of them asks for, where only room is lacking, and how many fit now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from controller.framework.explains import either
from controller.framework.gathering import Outcome, Tried
from controller.model.unit import Unit
from controller.scheduling.decision import Decision
from controller.scheduling.sets import Batch, Conclusion
from crds.workload import ScheduledReason
from machinery.types import quantities
from machinery.types.metadata import Key, Object
from stowage.console import output
from stowage.planning.words import count, shares

KIND = "WorkloadGroup"
PLACED, WAITS, REFUSED = "placed", "waits", "refused"
COLUMNS = ("group", "needs", "placed", "wanted", "workloads", "outcome")
_IN_GENERAL: Mapping[str, str] = {
    "resource gap": "that much more where its Workloads may go, smaller requests, or a smaller"
    " minMember",
    "WorkloadGroup not found": "a WorkloadGroup of that name, or no label that names it",
}
"""Where nobody was tried, so that no more can be told: by what the message says."""
SHOWN = 20
"""Members in the table, unless all are asked for."""
HELPED = 5
"""Members whose missing units are told one by one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A member: what it wants, what it would have, and what it found in the last attempt."""

    name: str
    desired: int
    placements: Mapping[str, int]
    found: Mapping[str, int]
    message: str = ""

    @property
    def assigned(self) -> int:
        """Units that would have a cluster."""
        return sum(self.placements.values())

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "desired": self.desired,
            "assigned": self.assigned,
            "placements": _listed(self.placements),
            "found": _listed(self.found),
            "message": self.message,
        }


def _listed(placements: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"cluster": c, "replicas": n} for c, n in placements.items()]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group: `least` units are needed, None where nobody has made it; `held` would wait."""

    key: Key
    least: int | None
    outcome: str
    members: Sequence[Found]
    held: int = 0
    reason: str = ""
    message: str = ""
    helps: Sequence[str] = ()

    @property
    def desired(self) -> int:
        """Units that are wanted."""
        return sum(each.desired for each in self.members)

    @property
    def assigned(self) -> int:
        """Units that would have a cluster."""
        return sum(each.assigned for each in self.members)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
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
        """As people read it."""
        return f"{self.key[0]}/wg/{self.key[1]}"


def judged(
    key: Key,
    stored: Object | None,
    units: Sequence[Unit],
    decided: Sequence[Decision],
    batch: Batch | None,
) -> GroupPlan:
    """What becomes of a group, whose members these are with the shares that they would have.

    `decided` are the decisions on them, `batch` those that a plugin has judged together, if any.
    """
    least, conclusion = _least(stored), batch.conclusion if batch else None
    tried = {each.unit.key: each for each in conclusion.tried} if conclusion else {}
    members = [_found(unit, tried.get(unit.key)) for unit in units]
    if least is not None and sum(each.assigned for each in members) >= least:
        return GroupPlan(key, least, PLACED, [replace(each, found={}) for each in members])
    reason, message = _why(decided, conclusion)
    held = 0
    if conclusion is not None and conclusion.verdict.outcome is Outcome.WAIT:
        held = sum(each.assigned for each in conclusion.tried)
    return GroupPlan(
        key,
        least,
        WAITS if reason is ScheduledReason.WAITING_FOR_GROUP else REFUSED,
        members,
        held=held,
        reason=reason.value,
        message=message,
        helps=[*_helps(least, units, batch)]
        or [words for said, words in _IN_GENERAL.items() if said in message],
    )


def _why(decided: Sequence[Decision], conclusion: Conclusion | None) -> tuple[ScheduledReason, str]:
    """What its members say, or the plugin of all of them."""
    if conclusion is not None:
        status = conclusion.verdict.status
        return status.reason, "; ".join(status.reasons)
    for each in decided:
        if not each.scheduled:
            refused = each.refusals[0].text if each.refusals and not each.masks else ""
            return each.reason, refused or each.message
    return ScheduledReason.WAITING_FOR_GROUP, "no Workload that is decided here names it"


def _least(stored: Object | None) -> int | None:
    """minMember, as far as somebody has made the group and it can be read."""
    if stored is None:
        return None
    spec = msgspec.to_builtins(stored).get("spec")
    least = spec.get("minMember") if isinstance(spec, Mapping) else None
    return least if isinstance(least, int) else None


def _found(unit: Unit, tried: Tried | None) -> Found:
    """`present` are the shares after the plan."""
    if tried is None:
        return Found(unit.name, max(unit.replicas, sum(unit.present.values())), unit.present, {})
    lacks = tried.assigned < tried.desired
    message = tried.message if lacks else ""
    return Found(unit.name, tried.desired, unit.present, tried.placements, message)


def _helps(least: int | None, units: Sequence[Unit], batch: Batch | None) -> Iterator[str]:
    """What would, each by itself, let the quorum in; nothing where nobody was tried."""
    tried = batch.conclusion.tried if batch and batch.conclusion else ()
    wanted = sum(unit.replicas for unit in units)
    if least is not None and wanted < least and not any(unit.everywhere for unit in units):
        more = count(least - wanted, "more unit")
        yield f"{more} in its Workloads, or one more Workload; minMember: {wanted} is met now"
        return
    if least is None or batch is None or not tried:
        return
    found = sum(each.assigned for each in tried)
    names = batch.decisions[0].fleet.names
    lacking = [(t, where) for t in tried if t.assigned < t.desired and (where := _where(t, names))]
    for each, where in lacking[:HELPED]:
        yield _more_room(each, where, least - found)
    if found:
        yield f"minMember: {found}, as many as find a cluster now"


def _where(tried: Tried, names: Sequence[str]) -> list[str]:
    """The clusters that nothing but a lack of room keeps from it."""
    rows = (tried.feasible | tried.crowded).nonzero()[0].tolist()
    return sorted(names[row] for row in rows)


def _more_room(tried: Tried, where: Sequence[str], missing: int) -> str:
    units = min(tried.desired - tried.assigned, missing)
    asks = [
        f"{name} {quantities.readable(name, amount)}"
        for name, amount in sorted(tried.unit.request.items())
        if amount and name != "pods"
    ]
    each = " each" if units > 1 else ""
    needs = "needs" if units == 1 else "need"
    of = f"{count(units, 'more unit')} of {tried.unit.name} {needs}"
    return f"{of} {' and '.join(asks) or 'a place'}{each} on {either(where)}"


def table(groups: Sequence[GroupPlan]) -> str:
    """A row for each, and below it why it waits or is refused, and what would help."""
    head, *rows = output.table([_row(each) for each in groups], COLUMNS).splitlines()
    lines = [head]
    for row, each in zip(rows, groups, strict=True):
        lines += [row, *(f"  {line}" for line in reasons(each))]
    return "\n".join(lines)


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
    """Why nothing of it is placed, and what would help."""
    if group.reason:
        yield f"{group.reason}: {group.message}"
    for text in group.helps:
        yield f"what helps: {text}"


def members(group: GroupPlan, *, everything: bool) -> str:
    """A row for each member, those that lack units first: where they are, or would find a place."""
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
    left = len(ranked) - len(shown)
    more = f"\n… {left} more (--all shows them)" if left else ""
    return output.table(rows, columns) + more
