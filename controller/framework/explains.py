"""Explanations of plugins: what would lift a refusal, and what a plugin tells in the status.

Plugins are asked for words on demand, never in a pass. A refusal of a plugin that does not explain
itself is quoted with the plugin's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.interface import Candidates, CycleState, Plugin
from controller.framework.room import room, variants_of
from controller.framework.status import Refusal
from controller.model.unit import WorkloadInfo
from controller.planner.plan import Apportionment
from controller.planner.reasons import Reasons, RuleKind
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.nodegroups import UNLIMITED
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason

NAMED = 3
"""A sentence lists up to this many names, and counts the others."""


class NoteKind(Enum):
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
    """One obstacle or remedy. `number` counts clusters; replicas for the remedies Room and Quota.

    `name` is the plugin, object or resource that it is about.
    """

    kind: NoteKind
    number: int
    name: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "number": self.number,
            "name": self.name,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Replicas of a Workload that found no cluster.

    `reason` is that of the condition, `state` is what the plugins of the pass left, with the plan
    where replicas were divided. Arrays have one entry a cluster: `feasible` are those that nothing
    refuses, `held` the replicas that they hold, `room` those that they can hold in all. `why`
    returns what made a row's number.
    """

    workload: WorkloadInfo
    snapshot: Snapshot
    pending: int
    reason: ScheduledReason
    state: CycleState
    feasible: Mask
    held: Ints
    room: Ints
    why: Reasons
    _kinds: dict[int, set[RuleKind]] = field(default_factory=dict, repr=False, compare=False)
    """The rules behind each number, cached: several plugins ask about all clusters."""

    @property
    def tight(self) -> Mask:
        """The clusters that hold as many replicas as they can."""
        mask: Mask = self.held >= self.room
        return mask

    def made_by(self, kind: RuleKind) -> Mask:
        """Return the clusters whose number that rule had a part in."""
        if not self._kinds:
            rows = np.flatnonzero(self.held).tolist()
            self._kinds.update({row: {each.kind for each in self.why(row)} for row in rows})
        mask = np.zeros(len(self.snapshot), dtype=np.bool_)
        mask[[row for row, kinds in self._kinds.items() if kind in kinds]] = True
        return mask

    def names(self, rows: Mask) -> list[str]:
        return sorted(self.snapshot.names[row] for row in np.flatnonzero(rows).tolist())

    def space(self, rows: Mask) -> str:
        """Return `, with room for 4`: the replicas that clusters could take, where counted."""
        info = self.workload
        fits = room(info, self.snapshot, variants=variants_of(self.state))[rows]
        if not info.counted or not info.request or (fits >= UNLIMITED).any() or not fits.any():
            return ""
        if not (info.whole or info.everywhere):
            return f", with room for {int(fits.sum())}"
        return f", with room for {int(fits.max())}" + (" at the most" if len(fits) > 1 else "")


@dataclass(frozen=True, slots=True)
class Stop:
    """A bound that keeps clusters that nothing refuses from taking more replicas."""

    kind: NoteKind
    rows: Mask
    text: str


@dataclass(frozen=True, slots=True)
class PassView:
    """The view of plugins at one moment; `feasible` is None until clusters are filtered."""

    workload: WorkloadInfo
    snapshot: Snapshot
    feasible: Mask | None = None


class Explainer(Plugin, Protocol):
    """A plugin with words of its own. Each method is optional, see `method_of`."""

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Return what to change so that the plugin no longer refuses these clusters so.

        By `code` and `args` of the refusal, which are the plugin's own, and never by its text. A
        noun phrase; empty where that would not help by itself. Without the method the plugin is
        quoted with its name.
        """
        ...

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """Return what would help beside lifting a refusal, such as a larger quota, by itself.

        Nothing where the plugin is not what replicas lack.
        """
        ...

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        """Return the bounds that keep clusters that nothing refuses from taking more replicas.

        Of all that hold for a cluster the first counts; plugins are asked in their order at Assign.
        More room does not help a cluster that a plugin stops.
        """
        ...

    def where(self, shortage: Shortage, rows: Mask) -> str:
        """Return the larger things that clusters belong to, such as regions; empty for none.

        The text stands in brackets behind the clusters' names.
        """
        ...

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """Return phrases for the condition, such as `2 clusters are at the maxReplicas of …`.

        Called in the pass at Assign, where replicas stay without a cluster, with the arguments of
        `bound`: what the plugin's bounds keep out of the plan.
        """
        ...

    def changes(self, before: PassView, after: PassView) -> Sequence[str]:
        """Return a hook's changes without a subject: `gave back 2 cpu on member-a`.

        Without the method the two views are compared.
        """
        ...

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        """Return the cause of this change of shares, as one word (`Rescheduled`) and its object.

        Called right before the write, where nothing of the Workload itself was edited; None where
        another cause moved the replicas.
        """
        ...


P = ParamSpec("P")
R = TypeVar("R")


def method_of(plugin: Plugin, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R] | None:
    """Return that method of an `Explainer`, as the plugin has it; None where it has none."""
    return getattr(plugin, method.__name__, None)


@runtime_checkable
class TellsStatus(Plugin, Protocol):
    """A plugin that comes with Stowage, for which the Workload's status has fields."""

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """Return the fields by their JSON names, as they shall be stored; None removes one.

        A pure function of its arguments: after a restart it returns the same. When a change of one
        of them changes the result, the plugin calls `Handle.look` to have the status written.
        """
        ...


@runtime_checkable
class TellsOwnStatus(Plugin, Protocol):
    """A plugin of any package with something to tell below `status.plugins.<its name>`."""

    def own_status(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """Return an object of JSON values, of 4 KiB at most; an empty one for nothing.

        Pure like `TellsStatus.status_fields`, and written with the placements. An answer that is
        too large, or no JSON, is logged as the plugin's fault, and nothing of it is written.
        """
        ...


def either(names: Sequence[str], word: str = "or") -> str:
    """Return `a`, `a or b`, `a, b or c`; beyond `NAMED` some names and how many others."""
    if len(names) > NAMED:
        shown = ", ".join(names[: NAMED - 1])
        return f"{shown} {word} {len(names) - NAMED + 1} others"
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def clusters(rows: Mask, one: str = "", many: str = "") -> str:
    """Return `1 cluster is`, `3 clusters are`: the number of rows, with a verb in either form."""
    number = int(rows.sum())
    return f"1 cluster {one}".rstrip() if number == 1 else f"{number} clusters {many}".rstrip()


def full(field: Candidates, plan: Apportionment) -> Mask:
    """Return the clusters that might take replicas by their weight and whose room a plan fills."""
    meant = field.feasible & (plan.asked.weight > 0)
    mask: Mask = meant & (plan.shares >= plan.asked.room)
    return mask
