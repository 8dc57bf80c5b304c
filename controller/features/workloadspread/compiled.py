"""A WorkloadSpread, ready to be decided on, its subsets over a snapshot, and the ledger of spreads.

An invalid spread has a `fault` and no subsets: its target keeps its shares and gets nothing new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from controller.cache.ledger import PlacementsByWorkload
from controller.framework.runtime.feature import checked_spec
from controller.model.unit import WorkloadInfo
from controller.planner.problem import UNBOUNDED
from controller.planner.subsets import Subsets
from controller.snapshot.columns import Ints, Mask
from controller.snapshot.snapshot import Snapshot
from crds.workloadspread import StrategyType
from machinery.types import conditions
from machinery.types.api import (
    Adaptive,
    PreferredClusterTerm,
    ScheduleStrategy,
    Subset,
    WorkloadSpreadSpec,
    WorkloadSpreadStatus,
)
from machinery.types.bounds import quoted
from machinery.types.metadata import Key, Object
from machinery.types.selectors import SelectorTerm
from machinery.types.taints import Toleration

MARK_SECONDS: Final = 300
"""Seconds for which a subset whose replicas found no node takes no new one."""
_SLACK_SECONDS: Final = 5
"""Every subset but the last may be tried in turn before the first mark is over, less this."""
_CRITICAL_SECONDS: Final = 30


class WorkloadSpread(Object, frozen=True):
    spec: Any = msgspec.field(default_factory=dict)
    status: WorkloadSpreadStatus = WorkloadSpreadStatus()


@dataclass(frozen=True, slots=True)
class CompiledSubset:
    """It takes `most` replicas, or `percent`, or all. Without `required` every cluster is in it."""

    name: str
    required: SelectorTerm | None
    preferred: tuple[PreferredClusterTerm, ...]
    tolerations: tuple[Toleration, ...]
    most: int | None
    percent: int | None
    patch: Mapping[str, Any] | None

    def cap(self, total: int) -> int:
        """Return the replicas of `total` that the subset takes; UNBOUNDED without a limit."""
        if self.percent is not None:
            return -(-self.percent * total // 100)
        return UNBOUNDED if self.most is None else min(self.most, UNBOUNDED)


@dataclass(frozen=True, slots=True)
class CompiledSpread:
    """`subsets` are filled in order; `marked` ones take no new replica for a while.

    `simulates`: room is checked before a subset is chosen.
    """

    key: Key
    uid: str
    created: str
    target: Key
    generation: int
    subsets: tuple[CompiledSubset, ...]
    adaptive: bool
    critical_seconds: int
    simulates: bool
    marked: frozenset[str]
    fault: str = ""

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def age(self) -> tuple[str, str]:
        """The older of two spreads on one target divides it."""
        return (self.created, self.name)

    @property
    def epoch(self) -> tuple[str, int, frozenset[str]]:
        return (self.uid, self.generation, self.marked)

    def caps(self, total: int) -> Ints:
        """Shape (subsets,); the sum may exceed the total."""
        return np.array([each.cap(total) for each in self.subsets], dtype=np.int64)


def compile_spread(ws: WorkloadSpread, *, mark_seconds: int = MARK_SECONDS) -> CompiledSpread:
    spec, fault = checked_spec("WorkloadSpread", ws.spec, WorkloadSpreadSpec)
    before_last = max(len(spec.subsets) - 1, 0) if spec else 0
    room = max(mark_seconds - _SLACK_SECONDS, 0)
    most = room // before_last if before_last else math.inf
    strategy = spec.schedule_strategy if spec else ScheduleStrategy()
    how = strategy.adaptive or Adaptive()
    adaptive = strategy.type == StrategyType.ADAPTIVE
    seconds = how.reschedule_critical_seconds
    if adaptive and not fault and seconds is not None and seconds > most:
        where = "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"
        fault = f"{where}: {quoted(seconds)} is more than {most}, as a mark lasts {mark_seconds} s"
    adaptive = adaptive and not fault
    subsets = tuple(map(_subset, spec.subsets)) if spec and not fault else ()
    return CompiledSpread(
        key=ws.metadata.key,
        uid=ws.metadata.uid,
        created=ws.metadata.creation_timestamp,
        target=(ws.metadata.namespace, _target(ws.spec)),
        generation=ws.metadata.generation,
        subsets=subsets,
        adaptive=adaptive,
        critical_seconds=int(min(_CRITICAL_SECONDS, most)) if seconds is None else seconds,
        simulates=adaptive and not how.disable_simulation_schedule,
        marked=_marked(ws, subsets) if adaptive else frozenset(),
        fault=fault,
    )


def _target(stored: Any) -> str:
    said = stored.get("targetRef") if isinstance(stored, dict) else None
    name = said.get("name") if isinstance(said, dict) else None
    return name if isinstance(name, str) else ""


def _subset(said: Subset) -> CompiledSubset:
    most = said.max_replicas
    return CompiledSubset(
        name=said.name,
        required=said.required_node_selector_term or said.required_cluster_selector_term,
        preferred=tuple(said.preferred_node_selector_terms),
        tolerations=tuple(said.tolerations),
        most=most if isinstance(most, int) else None,
        percent=int(most.removesuffix("%")) if isinstance(most, str) else None,
        patch=None if said.patch is None else msgspec.to_builtins(said.patch),
    )


def _marked(ws: WorkloadSpread, subsets: Sequence[CompiledSubset]) -> frozenset[str]:
    """Return the marked subsets; never the last one, the refuge of all."""
    said = {each.name: each.conditions for each in ws.status.subset_statuses}
    return frozenset(
        each.name
        for each in subsets[:-1]
        if conditions.among(said.get(each.name, []), "Schedulable").get("status") == "False"
    )


class Spreads:
    def __init__(self) -> None:
        self._spreads: dict[Key, CompiledSpread] = {}
        self._of: dict[Key, list[CompiledSpread]] = {}

    def put_spread(self, spread: CompiledSpread) -> set[Key]:
        before = self._take_out(spread.key)
        self._spreads[spread.key] = spread
        there = self._of.setdefault(spread.target, [])
        there.append(spread)
        there.sort(key=_precedence)
        if before is None or before.target == spread.target:
            return {spread.target}
        return {before.target, spread.target}

    def drop_spread(self, key: Key) -> set[Key]:
        before = self._take_out(key)
        return set() if before is None else {before.target}

    def get(self, key: Key) -> CompiledSpread | None:
        return self._spreads.get(key)

    def of(self, key: Key) -> CompiledSpread | None:
        """Return the spread that divides a Workload: the oldest valid one, else a faulty one."""
        there = self._of.get(key)
        return there[0] if there else None

    def values(self) -> Collection[CompiledSpread]:
        return self._spreads.values()

    def targets(self) -> list[Key]:
        return list(self._of)

    def all_of(self, key: Key) -> Sequence[CompiledSpread]:
        return tuple(self._of.get(key, ()))

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        """Count nothing."""

    def drop(self, key: Key) -> None:
        """Count nothing."""

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        return self

    def _take_out(self, key: Key) -> CompiledSpread | None:
        before = self._spreads.pop(key, None)
        if before is not None:
            left = [each for each in self._of[before.target] if each.key != key]
            if left:
                self._of[before.target] = left
            else:
                del self._of[before.target]
        return before


def _precedence(spread: CompiledSpread) -> tuple[bool, str, str]:
    return (bool(spread.fault), *spread.age)


T = TypeVar("T", bound=np.generic)
V = TypeVar("V")


def kept(spread: CompiledSpread, snapshot: Snapshot, name: Hashable, compute: Callable[[], V]) -> V:
    """Return a value of a spread, and labels and taints of clusters, computed once."""
    # The entry holds the spread, so that no other one gets its id meanwhile.
    return snapshot.kept.fixed((id(spread), name), lambda: (spread, compute()))[1]


def subsets_of(spread: CompiledSpread, snapshot: Snapshot, total: int) -> Subsets:
    """Return the subsets for `total` replicas; `crowded` is left empty."""

    def computed() -> Subsets:
        subsets = spread.subsets
        marked = np.array([each.name in spread.marked for each in subsets], dtype=np.bool_)
        return Subsets(
            names=[each.name for each in subsets],
            inside=_stacked([inside(each, snapshot) for each in subsets], snapshot, np.bool_),
            cap=spread.caps(total),
            closed=marked,
            overflow=np.full(len(marked), not spread.simulates),
            rank=_stacked([_rank(each, snapshot) for each in subsets], snapshot, np.int64),
            crowded=np.zeros(len(snapshot), dtype=np.bool_),
            order=snapshot.by_name,
        )

    return kept(spread, snapshot, total, computed)


def inside(subset: CompiledSubset, snapshot: Snapshot) -> Mask:
    """Labels of nodes do not count: nodes that come and go would patch pods that run."""
    if subset.required is None:
        return np.ones(len(snapshot), dtype=np.bool_)
    return snapshot.matches(subset.required, own=True)


def replicas_of(placements: Mapping[str, int], snapshot: Snapshot) -> Ints:
    """Shape (n,), without clusters that are gone."""
    return np.clip(snapshot.by_row(placements), 0, UNBOUNDED)


def _rank(subset: CompiledSubset, snapshot: Snapshot) -> Ints:
    rank = np.zeros(len(snapshot), dtype=np.int64)
    for each in subset.preferred:
        rank += each.weight * snapshot.matches(each.preference, own=True)
    return rank


def _stacked(columns: Sequence[NDArray[T]], snapshot: Snapshot, kind: type[T]) -> NDArray[T]:
    return np.array(columns, dtype=kind).reshape(len(columns), len(snapshot))
