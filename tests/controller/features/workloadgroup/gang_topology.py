"""Gangs without a hub: a ledger, a world for one decision, and a plugin that does no more.

The plugin gathers, tries what `attempts_of` says, and places a gang that has its quorum. What else
Coscheduling does is left out, so that a test about domains fails for domains alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from controller.cache.placements import PlacementIndex
from controller.config import default_profile
from controller.features.workloadgroup.compiled import CompiledGroup
from controller.features.workloadgroup.ledger import Groups
from controller.features.workloadgroup.topology import Within, attempts_of
from controller.framework.events import ANYTHING
from controller.framework.gathering import (
    PLACE,
    Attempt,
    Gathering,
    GroupDecision,
    Trial,
    TrialResult,
)
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.profile import Profile
from controller.framework.status import SUCCESS, Status, unschedulable
from controller.model.unit import WorkloadInfo
from controller.scheduling.batch import decide_set
from controller.scheduling.sets import Batch
from controller.scheduling.steps import at_once
from controller.snapshot.snapshot import Snapshot
from crds.names import LABEL_GROUP
from machinery.types.metadata import Key
from tests.controller.make import NOW, info

CREATED = "2026-01-01T00:00:00Z"


def group(name: str = "batch", quorum: int = 4, **fields: Any) -> CompiledGroup:
    """A group of the namespace shop."""
    given = {"uid": f"uid-{name}", "created": CREATED, "generation": 1, **fields}
    return CompiledGroup(key=("shop", name), min_member=quorum, **given)


def member(name: str, of: str = "batch", *, cpu: str = "1", **fields: Any) -> WorkloadInfo:
    """A Workload of a group whose pods ask for that much cpu."""
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    fields.setdefault("distribution", "Divided")
    return info(name, pod=pod, labels={"app": name, LABEL_GROUP: of}, **fields)


def books(groups: Iterable[CompiledGroup], units: Iterable[WorkloadInfo]) -> Groups:
    """A ledger of these; each unit has its present shares."""
    ledger = Groups()
    for each in groups:
        ledger.put_group(each)
    for each in units:
        ledger.put(each, each.present)
    return ledger


class View:
    """As much of a world as the decision on a gang needs."""

    def __init__(self, snapshot: Snapshot, units: Sequence[WorkloadInfo], ledger: Groups) -> None:
        self._snapshot = snapshot
        self._units = {each.key: each for each in units}
        self.index = PlacementIndex([ledger])
        for each in units:
            self.index.put(each, each.present)
        self.pending_affinity: Any = None
        self.placed_affinity: Any = None

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def info(self, key: Key) -> WorkloadInfo | None:
        return self._units.get(key)


class Ganging:
    """A plugin that gathers, tries `attempts_of`, and places a gang that has its quorum."""

    name = "Coscheduling"
    ignored_during_execution = True

    def __init__(self) -> None:
        self.tried: list[Attempt] = []

    def events_to_register(self) -> Any:
        return ANYTHING

    def pre_filter(
        self, _state: CycleState, _info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        return SUCCESS

    def filter(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        attempt = state.data.get(self.name)
        told: Within | None = attempt.told if attempt is not None else None
        return NOTHING_REFUSED if told is None else FilterMask(told.outside(snapshot))

    def gathering(
        self, info: WorkloadInfo, _f: Snapshot, bound: PlacementIndex, _now: datetime
    ) -> Gathering | None:
        ledger = bound.ledger(Groups)
        key = ledger.group_of(info)
        if key is None:
            return None
        return Gathering(key=key, members=tuple(ledger.members(key)))

    def attempts(
        self,
        gathering: Gathering,
        units: Sequence[WorkloadInfo],
        snapshot: Snapshot,
        bound: PlacementIndex,
    ) -> Iterable[Attempt]:
        ledger = bound.ledger(Groups)
        found = ledger.get(gathering.key)
        assert found is not None
        for attempt in attempts_of(found, units, snapshot, ledger):
            self.tried.append(attempt)
            yield attempt

    def judge(
        self,
        gathering: Gathering,
        tried: Sequence[Trial],
        _f: Snapshot,
        bound: PlacementIndex,
        _now: datetime,
    ) -> GroupDecision:
        found = bound.ledger(Groups).get(gathering.key)
        assert found is not None
        units = sum(each.assigned for each in tried)
        if units >= found.min_member:
            return PLACE
        texts = (each.message for each in tried)
        return GroupDecision(TrialResult.REFUSE, unschedulable(self.name, *texts))

    def concluded(self, *_: Any) -> None:
        """Remembers nothing."""


def profile(plugin: Any) -> Profile:
    """The default profile with that plugin for gangs, first of all."""
    known = default_profile()
    own = [p for p in known.pre_filter if p.name != plugin.name]
    others = [p for p in known.filter if p.name != plugin.name]
    return replace(known, pre_filter=[plugin, *own], filter=[plugin, *others])


def decided(
    snapshot: Snapshot,
    found: CompiledGroup,
    units: Sequence[WorkloadInfo],
    plugin: Ganging | None = None,
) -> Batch:
    """The decisions on a gang."""
    view = View(snapshot, units, books([found], units))
    made = {"stowage": profile(plugin or Ganging())}
    return at_once(decide_set(view, units[0], made, NOW))


def placed(batch: Batch) -> Mapping[str, int]:
    """The units of all of them by cluster."""
    total: dict[str, int] = {}
    for decision in batch.decisions:
        for cluster, units in decision.placements.items():
            total[cluster] = total.get(cluster, 0) + units
    return {cluster: units for cluster, units in total.items() if units}
