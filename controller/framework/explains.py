"""Explanations of plugins, made on demand: what would lift a refusal, and status fields."""

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
"""Names that a sentence lists. It counts the others."""


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
    """An obstacle or a remedy.

    `number` counts clusters, or replicas for the remedies Room and Quota. `name` is the plugin,
    object or resource.
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
    """Replicas of a Workload that found no cluster. Arrays have one entry per cluster.

    Args:
        state: that of the pass, with the plan if replicas were divided.
        feasible: refused by no plugin.
        held: the replicas on each cluster.
        room: the replicas that fit on each cluster in all.
        why: returns the rules that made a row's number.
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
    """Cached, because several plugins read it."""

    @property
    def tight(self) -> Mask:
        mask: Mask = self.held >= self.room
        return mask

    def made_by(self, kind: RuleKind) -> Mask:
        """Return the clusters whose number a rule of that kind contributed to."""
        if not self._kinds:
            rows = np.flatnonzero(self.held).tolist()
            self._kinds.update({row: {each.kind for each in self.why(row)} for row in rows})
        mask = np.zeros(len(self.snapshot), dtype=np.bool_)
        mask[[row for row, kinds in self._kinds.items() if kind in kinds]] = True
        return mask

    def names(self, rows: Mask) -> list[str]:
        return self.snapshot.names_of(rows)

    def space(self, rows: Mask) -> str:
        """Return `, with room for 4`; empty if room is not counted or there is none."""
        info = self.workload
        fits = room(info, self.snapshot, variants=variants_of(self.state))[rows]
        if not info.counted or not info.request or (fits >= UNLIMITED).any() or not fits.any():
            return ""
        if not (info.whole or info.everywhere):
            return f", with room for {int(fits.sum())}"
        return f", with room for {int(fits.max())}" + (" at the most" if len(fits) > 1 else "")


@dataclass(frozen=True, slots=True)
class Stop:
    """A bound that keeps feasible clusters from taking more replicas."""

    kind: NoteKind
    rows: Mask
    text: str


@dataclass(frozen=True, slots=True)
class PassView:
    """The input of plugins at one moment. `feasible` is None before Filter."""

    workload: WorkloadInfo
    snapshot: Snapshot
    feasible: Mask | None = None


class Explainer(Plugin, Protocol):
    """A plugin with explanations. Each method is optional, see `method_of`."""

    def cure(self, shortage: Shortage, refusal: Refusal, rows: Mask) -> str:
        """Return the change that lifts this refusal, as a noun phrase.

        Reads `code` and `args`, never the text. Empty if it does not help by itself.
        """
        ...

    def remedies(self, shortage: Shortage) -> Sequence[Note]:
        """Return remedies other than lifting a refusal, such as a larger quota."""
        ...

    def stops(self, shortage: Shortage) -> Sequence[Stop]:
        """Return the bounds that keep feasible clusters from taking more.

        The first one for a cluster counts. More room does not help a stopped cluster.
        """
        ...

    def where(self, shortage: Shortage, rows: Mask) -> str:
        """Return what the clusters belong to, such as regions, to be put in brackets."""
        ...

    def shortfall(
        self, info: WorkloadInfo, field: Candidates, plan: Apportionment
    ) -> Sequence[str]:
        """Return phrases for the condition, such as `2 clusters are at the maxReplicas of …`.

        Called at Assign if replicas stay pending.
        """
        ...

    def changes(self, before: PassView, after: PassView) -> Sequence[str]:
        """Return a hook's changes without a subject, such as `gave back 2 cpu on member-a`."""
        ...

    def cause(
        self, before: Mapping[str, int], after: Mapping[str, int], state: CycleState
    ) -> tuple[str, str] | None:
        """Return the cause of this change of shares: a word (`Rescheduled`) and its object."""
        ...


P = ParamSpec("P")
R = TypeVar("R")


def method_of(plugin: Plugin, method: Callable[Concatenate[Any, P], R]) -> Callable[P, R] | None:
    return getattr(plugin, method.__name__, None)


@runtime_checkable
class TellsStatus(Plugin, Protocol):
    """A plugin of Stowage with fields in the Workload's status."""

    def status_fields(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """Return the fields by their JSON names; None removes one.

        Pure, with the same result after a restart. After a change of its input the plugin calls
        `Handle.look`.
        """
        ...


@runtime_checkable
class TellsOwnStatus(Plugin, Protocol):
    """A plugin of any package with a field in `status.plugins`."""

    def own_status(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Mapping[str, Any]:
        """Return an object of JSON values, at most 4 KiB; empty for none. Pure."""
        ...


def either(names: Sequence[str], word: str = "or") -> str:
    """Return `a`, `a or b`, `a, b or c`, or `a, b or 4 others`."""
    if len(names) > NAMED:
        shown = ", ".join(names[: NAMED - 1])
        return f"{shown} {word} {len(names) - NAMED + 1} others"
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def clusters(rows: Mask, one: str = "", many: str = "") -> str:
    number = int(rows.sum())
    return f"1 cluster {one}".rstrip() if number == 1 else f"{number} clusters {many}".rstrip()


def full(field: Candidates, plan: Apportionment) -> Mask:
    """Return the feasible clusters with a weight whose room the plan fills."""
    meant = field.feasible & (plan.asked.weight > 0)
    mask: Mask = meant & (plan.shares >= plan.asked.room)
    return mask
