"""What a plugin says of itself: what would lift its refusals, and what it tells in the status.

Words are asked for when somebody wants to know, never in a pass. A plugin that does not answer is
named with what it said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.interface import Candidates, CycleState, Plugin
from controller.framework.room import room, variants_of
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.reasons import Reasons, RuleKind
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

NAMED = 3
"""Names that a sentence tells; of more it tells the number."""


class NoteKind(Enum):
    """What a note is about."""

    REFUSED = "Refused"
    NO_ROOM = "NoRoom"
    NO_CLUSTER = "NoCluster"
    LIFT = "Lift"
    ROOM = "Room"
    BOUND = "Bound"
    QUOTA = "Quota"
    SEVERAL = "Several"


@dataclass(frozen=True, slots=True)
class Note:
    """One obstacle or remedy. `number` counts clusters, for the remedies Room and Quota units.

    `name` is the plugin, object or resource that it is about.
    """

    kind: NoteKind
    number: int
    name: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The note as JSON values."""
        return {
            "kind": self.kind.value,
            "number": self.number,
            "name": self.name,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Units of a Workload that found no cluster.

    `reason` is that of the condition, `state` is what the plugins of the pass left, the plan among
    it where units were divided. Arrays have one entry a cluster: `feasible` are those that nothing
    refuses, `held` the units that they hold, `room` those that they can hold in all. `why` says of
    a row what made its number.
    """

    unit: WorkloadInfo
    fleet: Snapshot
    pending: int
    reason: ScheduledReason
    state: CycleState
    feasible: Mask
    held: Ints
    room: Ints
    why: Reasons
    _kinds: dict[int, set[RuleKind]] = field(default_factory=dict, repr=False, compare=False)
    """What made each number, once somebody has asked: several plugins do, of all clusters."""

    @property
    def tight(self) -> Mask:
        """The clusters that hold as many units as they can."""
        mask: Mask = self.held >= self.room
        return mask

    def made_by(self, kind: RuleKind) -> Mask:
        """The clusters whose number that rule had a part in."""
        if not self._kinds:
            rows = np.flatnonzero(self.held).tolist()
            self._kinds.update({row: {each.kind for each in self.why(row)} for row in rows})
        mask = np.zeros(len(self.fleet), dtype=np.bool_)
        mask[[row for row, kinds in self._kinds.items() if kind in kinds]] = True
        return mask

    def names(self, rows: Mask) -> list[str]:
        """Clusters by name."""
        return sorted(self.fleet.names[row] for row in np.flatnonzero(rows).tolist())

    def space(self, rows: Mask) -> str:
        """`, with room for 4`: what clusters could take, where that is counted."""
        unit = self.unit
        fits = room(unit, self.fleet, variants=variants_of(self.state))[rows]
        if not unit.counted or not unit.request or (fits >= UNLIMITED).any():
            return ""
        if not (unit.whole or unit.everywhere):
            return f", with room for {int(fits.sum())}"
        return f", with room for {int(fits.max())}" + (" at the most" if len(fits) > 1 else "")


@dataclass(frozen=True, slots=True)
class Stop:
    """What keeps clusters that nothing refuses from taking more units: which, and in words."""

    kind: NoteKind
    rows: Mask
    text: str


@runtime_checkable
class Explains(Plugin, Protocol):
    """A plugin that knows what lifts its refusals."""

    def cure(self, shortage: Shortage, text: str, rows: Mask) -> str:
        """What to change so that it says `text` of these clusters no longer: a noun phrase.

        Empty where that would not help by itself.
        """
        ...


@dataclass(frozen=True, slots=True)
class PassView:
    """What plugins see at one moment of a pass; `feasible` is None until clusters are filtered."""

    unit: WorkloadInfo
    fleet: Snapshot
    feasible: Mask | None = None


@runtime_checkable
class TellsChanges(Plugin, Protocol):
    """A hook that has words of its own for what it changed; without, the two are compared."""

    def changes(self, before: PassView, after: PassView) -> Sequence[str]:
        """Sentences without a subject: `gave back 2 cpu of a reservation on member-a`."""
        ...


@runtime_checkable
class Remedies(Plugin, Protocol):
    """A plugin that knows of help beside lifting a refusal, such as a larger quota."""

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """What would help by itself; nothing where the plugin is not what units lack."""
        ...


@runtime_checkable
class TellsShortfall(Plugin, Protocol):
    """A plugin at Assign that says in the condition what its bounds keep out of a plan."""

    def shortfall(
        self, unit: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """Phrases for the message, such as `2 clusters are at the maxReplicas of …`.

        Asked in the pass, where units stay without a cluster, with what `bound` was asked with.
        """
        ...


@runtime_checkable
class Stops(Plugin, Protocol):
    """A plugin that knows why clusters that nothing refuses take no more units."""

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        """Its bounds that hold; of all that hold for a cluster the first counts.

        Plugins are asked in the order in which they stand at Assign. More room does not help a
        cluster that one of them stops.
        """
        ...


@runtime_checkable
class TellsWhere(Plugin, Protocol):
    """A plugin that knows what clusters belong to, by which people look for them."""

    def where(self, shortage: Shortage, rows: Mask) -> str:
        """What stands in brackets behind their names; empty where there is nothing to say."""
        ...


@runtime_checkable
class TellsCause(Plugin, Protocol):
    """A plugin that moves units for a reason of its own."""

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        """What set the change of these shares off, as one word (`Rescheduled`) and about what.

        Asked right before the write, where nothing of the Workload itself was edited; None where
        it was not this plugin.
        """
        ...


@runtime_checkable
class TellsStatus(Plugin, Protocol):
    """A plugin that comes with Stowage, for which the Workload's status has fields."""

    def status_fields(
        self,
        unit: WorkloadInfo,
        placements: Mapping[str, int],
        fleet: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """The fields by their JSON names, as they shall stand there; None takes one away.

        A pure function of these four: asked again after a restart, it says the same. Whenever one
        of the four changes so that it says something else, `Handle.look` has the status written.
        """
        ...


@runtime_checkable
class TellsOwnStatus(Plugin, Protocol):
    """A plugin with something to tell below `status.plugins.<its name>`; any package's may."""

    def own_status(
        self,
        unit: WorkloadInfo,
        placements: Mapping[str, int],
        fleet: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """An object of JSON values, of 4 KiB at most; an empty one where there is nothing to tell.

        Pure like `TellsStatus.status_fields`, and written with the placements. What is too large,
        or no JSON, is logged as the plugin's fault, and then nothing of it is told.
        """
        ...


def either(names: Sequence[str], word: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`; of more the first ones and how many others."""
    if len(names) > NAMED:
        shown = ", ".join(names[: NAMED - 1])
        return f"{shown} {word} {len(names) - NAMED + 1} others"
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def clusters(rows: Mask, one: str = "", many: str = "") -> str:
    """`1 cluster is`, `3 clusters are`: how many these are, with a verb in either number."""
    number = int(rows.sum())
    return f"1 cluster {one}".rstrip() if number == 1 else f"{number} clusters {many}".rstrip()


def full(field: Candidates, plan: Apportionment) -> Mask:
    """The clusters that might take units by their weight and have no room for more in a plan."""
    meant = field.feasible & (plan.asked.weight > 0)
    mask: Mask = meant & (plan.shares >= plan.asked.room)
    return mask
