"""WorkloadGroups in the output of `stowage plan`: which start, wait or are refused, and why.

Each group is a row below the Workloads, with the reason and the advice of a refusal.
`stowage.planning.gang_outcomes` finds the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from machinery.types.bounds import NAME, clean
from machinery.types.metadata import Key
from stowage.console import output
from stowage.planning.words import shares

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
            "placements": _listed(self.placements),
            "found": _listed(self.found),
            "message": self.message,
        }


def _listed(placements: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"cluster": c, "replicas": n} for c, n in placements.items()]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group; `least` is its minMember, None where it does not exist, `held` the waiting units."""

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
    """Return a row for each group, and below it the reason and the advice of a refusal."""
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
    """Yield the reason of a refusal and the advice."""
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
