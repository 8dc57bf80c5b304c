"""A WorkloadSpread, ready to be decided on.

A stored object may be older than the rules of admission, or written past them, so everything is
checked again. An invalid spread has a `fault` and no subsets: its target keeps its shares and gets
nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from controller.features.spec import read_spec
from controller.features.workloadspread.objects import (
    Adaptive,
    SpreadSpec,
    SubsetSpec,
    TargetRef,
    WorkloadSpread,
)
from controller.model.objects import PreferredTerm, Toleration
from controller.planner.problem import UNBOUNDED
from controller.planner.webster import Ints
from crds.workloadspread import MOST_SUBSETS, StrategyType
from machinery.api.resources import WORKLOADS, group_of
from machinery.types import conditions
from machinery.types.bounds import MOST_UNITS, quoted
from machinery.types.metadata import Key
from machinery.types.selectors import SelectorTerm, parse_label_selector

MARK_SECONDS: Final = 300
"""How long a subset whose replicas found no node takes no new one."""
MOST_WEIGHT: Final = 100
_SLACK_SECONDS: Final = 5
"""Every subset but the last may be tried in turn before the first mark is over, less this."""
_CRITICAL_SECONDS: Final = 30
_FIXED, _ADAPTIVE = StrategyType.FIXED.value, StrategyType.ADAPTIVE.value
_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)
_NAME_LIMIT: Final = 63


@dataclass(frozen=True, slots=True)
class CompiledSubset:
    """A subset of clusters, and how many replicas they take: a number, a percentage, or all.

    Without `required` every cluster is in it. `patch` is a strategic merge on the pod template.
    """

    name: str
    required: SelectorTerm | None
    preferred: tuple[PreferredTerm, ...]
    tolerations: tuple[Toleration, ...]
    most: int | None
    percent: int | None
    patch: Mapping[str, Any] | None

    def cap(self, total: int) -> int:
        """Return the replicas that the subset takes of so many; UNBOUNDED without a limit."""
        if self.percent is not None:
            return -(-self.percent * total // 100)
        return UNBOUNDED if self.most is None else min(self.most, UNBOUNDED)


@dataclass(frozen=True, slots=True)
class CompiledSpread:
    """A spread; `subsets` are in their order, the first is filled first.

    `simulates` says that room is checked before a subset is chosen; `marked` are the names of the
    subsets that take no new replica for a while.
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

    def caps(self, total: int) -> Ints:
        """Return how many of so many each takes, shape (subsets,); the sum may exceed the total."""
        return np.array([each.cap(total) for each in self.subsets], dtype=np.int64)


def compile_spread(ws: WorkloadSpread, *, mark_seconds: int = MARK_SECONDS) -> CompiledSpread:
    """Compile a stored spread; `fault` says where an invalid one is wrong."""
    spec, fault = read_spec(ws.spec, SpreadSpec)
    fault = fault or _fault(spec, mark_seconds)
    subsets = () if fault else tuple(map(_subset, spec.subsets))
    strategy = spec.schedule_strategy
    adaptive = not fault and strategy is not None and strategy.type == _ADAPTIVE
    how = (strategy.adaptive if strategy is not None and not fault else None) or Adaptive()
    most = _most_seconds(len(spec.subsets), mark_seconds)
    seconds = how.reschedule_critical_seconds
    return CompiledSpread(
        key=ws.metadata.key,
        uid=ws.metadata.uid,
        created=ws.metadata.creation_timestamp,
        target=(ws.metadata.namespace, _target(ws.spec).name),
        generation=ws.metadata.generation,
        subsets=subsets,
        adaptive=adaptive,
        critical_seconds=min(_CRITICAL_SECONDS, most) if seconds is None else seconds,
        simulates=adaptive and not how.disable_simulation_schedule,
        marked=_marked(ws, subsets) if adaptive else frozenset(),
        fault=fault,
    )


def _target(stored: Any) -> TargetRef:
    """Return the target, even of an otherwise invalid spec; without a name if it is invalid."""
    said = stored.get("targetRef") if isinstance(stored, dict) else None
    try:
        return msgspec.convert(said, TargetRef)
    except msgspec.ValidationError:
        return TargetRef()


def _subset(said: SubsetSpec) -> CompiledSubset:
    most = said.max_replicas
    percent = int(most.removesuffix("%")) if isinstance(most, str) else None
    return CompiledSubset(
        name=said.name,
        required=said.required_node_selector_term or said.required_cluster_selector_term,
        preferred=tuple(said.preferred_node_selector_terms),
        tolerations=tuple(said.tolerations),
        most=None if isinstance(most, str) else most,
        percent=percent,
        patch=said.patch,
    )


def _marked(ws: WorkloadSpread, subsets: Sequence[CompiledSubset]) -> frozenset[str]:
    """Return the subsets marked in the status; never the last one, the refuge of all."""
    said = {each.name: each.conditions for each in ws.status.subset_statuses}
    return frozenset(
        each.name
        for each in subsets[:-1]
        if conditions.among(said.get(each.name, []), "Schedulable").get("status") == "False"
    )


def _fault(spec: SpreadSpec, mark_seconds: int) -> str:
    """Return the first fault that admission would have refused; empty where there is none."""
    if wrong := _wrong_target(spec.target_ref):
        return f"spec.targetRef{wrong}"
    if wrong := _wrong_names([each.name for each in spec.subsets]):
        return f"spec.subsets: {wrong}"
    for i, each in enumerate(spec.subsets):
        if wrong := _wrong_subset(each):
            return f"spec.subsets[{i}].{wrong}"
    if wrong := _wrong_caps([each.max_replicas for each in spec.subsets]):
        return f"spec.subsets: {wrong}"
    if wrong := _wrong_strategy(spec, mark_seconds):
        return f"spec.scheduleStrategy{wrong}"
    return ""


def _wrong_target(target: TargetRef | None) -> str:
    if target is None:
        return ": name the Workload"
    if target.kind != WORKLOADS.kind or group_of(target.api_version) != WORKLOADS.group:
        found = f"{quoted(target.kind)} of {quoted(target.api_version)}"
        return f": {found} is no target; name a Workload of {WORKLOADS.api_version}"
    return "" if target.name else ".name: is missing"


def _wrong_names(names: Sequence[str]) -> str:
    if not names:
        return "name at least one"
    if len(names) > MOST_SUBSETS:
        return f"{len(names)} of them, {MOST_SUBSETS} at most"
    if wrong := [name for name in names if not 0 < len(name) <= _NAME_LIMIT]:
        return f"{quoted(wrong[0])} is no name of 1 to {_NAME_LIMIT} characters"
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"{twice} stands there twice"
    return ""


def _wrong_subset(subset: SubsetSpec) -> str:
    terms = {
        "requiredNodeSelectorTerm": subset.required_node_selector_term,
        "requiredClusterSelectorTerm": subset.required_cluster_selector_term,
    }
    for field, term in terms.items():
        if wrong := _unreadable(term):
            return f"{field}{wrong}"
    one, other = terms.values()
    if one is not None and other is not None and one != other:
        return "requiredClusterSelectorTerm: differs from requiredNodeSelectorTerm; give one"
    for i, each in enumerate(subset.preferred_node_selector_terms):
        where = f"preferredNodeSelectorTerms[{i}]"
        if not 1 <= each.weight <= MOST_WEIGHT:
            return f"{where}.weight: {quoted(each.weight)} is not from 1 to {MOST_WEIGHT}"
        if wrong := _unreadable(each.preference):
            return f"{where}.preference{wrong}"
    for i, seconds in enumerate(each.toleration_seconds for each in subset.tolerations):
        if not 0 <= (seconds or 0) <= MOST_UNITS:
            told = f"{quoted(seconds)} is not from 0 to {MOST_UNITS}"
            return f"tolerations[{i}].tolerationSeconds: {told}"
    if wrong := _wrong_most(subset.max_replicas):
        return f"maxReplicas: {wrong}"
    return ""


def _unreadable(term: SelectorTerm | None) -> str:
    known: Any = msgspec.to_builtins(term or SelectorTerm())
    try:
        parse_label_selector(known)
    except ValueError as e:
        return f".{e}"
    return ""


def _wrong_most(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        found = _PERCENT.fullmatch(value)
        if found is not None and int(found[1]) <= 100:
            return ""
        return f"{quoted(value)} is no whole percentage from 0% to 100%"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_UNITS:
        return f"{quoted(value)} is neither a number of units nor a percentage"
    return ""


def _wrong_caps(caps: Sequence[Any]) -> str:
    """Return the fault of the caps of all subsets together."""
    percents = [int(each.removesuffix("%")) for each in caps if isinstance(each, str)]
    if not percents:
        return ""
    if any(isinstance(each, int) for each in caps):
        return "maxReplicas are numbers or percentages, not both"
    total = sum(percents)
    if None in caps:
        return f"the percentages make {total}%, 100% at most" if total > 100 else ""
    return "" if total == 100 else f"the percentages make {total}%; make it 100%, or drop the last"


def _wrong_strategy(spec: SpreadSpec, mark_seconds: int) -> str:
    strategy = spec.schedule_strategy
    if strategy is None or strategy.type in ("", _FIXED):
        return ""
    if strategy.type != _ADAPTIVE:
        return f".type: {quoted(strategy.type)} is neither {_FIXED} nor {_ADAPTIVE}"
    if spec.subsets[-1].max_replicas is not None:
        return ": the last subset has a maxReplicas; Adaptive needs it without, as a refuge"
    seconds = (strategy.adaptive or Adaptive()).reschedule_critical_seconds
    most = _most_seconds(len(spec.subsets), mark_seconds)
    if seconds is None or 0 <= seconds <= most:
        return ""
    where = ".adaptive.rescheduleCriticalSeconds"
    return f"{where}: {quoted(seconds)} is not from 0 to {most}, for {len(spec.subsets)} subsets"


def _most_seconds(subsets: int, mark_seconds: int) -> int:
    """Return the most critical seconds that reach the last subset before the first mark ends."""
    return max(mark_seconds - _SLACK_SECONDS, 0) // max(subsets - 1, 1)
