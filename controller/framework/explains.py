"""What a plugin says of itself: what would lift its refusals, and what it tells in the status.

Words are asked for when somebody wants to know, never in a pass. A plugin that does not answer is
named with what it said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from controller.cache.columns import Mask
from controller.cache.placements import Index
from controller.cache.snapshot import Fleet
from controller.framework.interface import CycleState, Plugin
from controller.model.unit import Unit
from crds.workload import ScheduledReason

NAMED = 3
"""Names that a sentence tells; of more it tells the number."""


class Kind(Enum):
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

    kind: Kind
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


@dataclass(frozen=True, slots=True)
class Shortage:
    """Units of a Workload that found no cluster.

    `reason` is that of the condition, `full` are the domains that hold their number, `state` is
    what the plugins of the pass left.
    """

    unit: Unit
    fleet: Fleet
    pending: int
    reason: ScheduledReason
    full: tuple[str, ...] = ()
    state: CycleState = field(default_factory=CycleState)


@runtime_checkable
class Explains(Protocol):
    """A plugin that knows what lifts its refusals."""

    def cure(self, shortage: Shortage, text: str, rows: Mask) -> str:
        """What to change so that it says `text` of these clusters no longer: a noun phrase.

        Empty where that would not help by itself.
        """
        ...


@runtime_checkable
class Remedies(Protocol):
    """A plugin that knows of help beside lifting a refusal, such as a larger quota."""

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """What would help by itself; nothing where the plugin is not what units lack."""
        ...


@runtime_checkable
class TellsStatus(Plugin, Protocol):
    """A plugin whose kind has fields in the Workload's status, such as `policyRef`."""

    def status_fields(
        self, unit: Unit, placements: Mapping[str, int], fleet: Fleet, bound: Index
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
        self, unit: Unit, placements: Mapping[str, int], fleet: Fleet, bound: Index
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
