"""A WorkloadSpread, ready to be decided on.

An invalid spread has a `fault` and no subsets: its target keeps its shares and gets nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from controller.features.spec import checked_spec
from controller.planner.problem import UNBOUNDED
from controller.planner.webster import Ints
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
    """A subset of clusters, and how many replicas they take: a number, a percentage, or all.

    Without `required` every cluster is in it. `patch` is a strategic merge on the pod template.
    """

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
    """A spread; `subsets` are in their order, the first is filled first.

    `simulates`: room is checked before a subset is chosen; `marked` are the names of the subsets
    that take no new replica for a while.
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
        """Return the sort key by age: the older of two spreads on one target divides it."""
        return (self.created, self.name)

    @property
    def epoch(self) -> tuple[str, int, frozenset[str]]:
        return (self.uid, self.generation, self.marked)

    def caps(self, total: int) -> Ints:
        """Return how many of `total` each takes, shape (subsets,); the sum may exceed the total."""
        return np.array([each.cap(total) for each in self.subsets], dtype=np.int64)


def compile_spread(ws: WorkloadSpread, *, mark_seconds: int = MARK_SECONDS) -> CompiledSpread:
    spec, fault = checked_spec("WorkloadSpread", ws.spec, WorkloadSpreadSpec)
    most = _most_seconds(len(spec.subsets) if spec else 0, mark_seconds)
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
        critical_seconds=min(_CRITICAL_SECONDS, most) if seconds is None else seconds,
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
    """Return the subsets marked in the status; never the last one, the refuge of all."""
    said = {each.name: each.conditions for each in ws.status.subset_statuses}
    return frozenset(
        each.name
        for each in subsets[:-1]
        if conditions.among(said.get(each.name, []), "Schedulable").get("status") == "False"
    )


def _most_seconds(subsets: int, mark_seconds: int) -> int:
    return max(mark_seconds - _SLACK_SECONDS, 0) // max(subsets - 1, 1)
