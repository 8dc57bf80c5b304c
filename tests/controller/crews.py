"""A plugin of somebody else's that wants crews decided together: at least so many units, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.gathering import (
    PLACE,
    Attempt,
    Gathering,
    GroupDecision,
    Trial,
    TrialResult,
)
from controller.framework.interface import CycleState, FilterMask
from controller.framework.status import SUCCESS, Status, unschedulable, wait
from controller.framework.waiting import WaitingWorkloads
from controller.model.unit import WorkloadInfo
from controller.snapshot.snapshot import Snapshot
from crds.workload import ScheduledReason
from machinery.types.metadata import Key


@dataclass
class Crew:
    """These Workloads of the namespace shop are one crew, as long as it does not sail.

    `least` are the units that it needs, `near` those with which it waits. `ways` are tried one
    after the other: the clusters that each may use, all where there are none.
    """

    names: Sequence[str]
    least: int
    near: int = 10**6
    ways: Sequence[Sequence[str]] = ((),)
    order: Sequence[str] = ()
    seconds: float = 60.0
    refusal: Status | None = None
    emptied: Sequence[str] = ()
    sails: bool = False
    until: datetime | None = None
    fails_at: str = ""
    name: str = "Crew"
    ignored_during_execution: bool = True
    room: WaitingWorkloads | None = None
    asked: list[str] = field(default_factory=list)
    judged: list[dict[Key, dict[str, int]]] = field(default_factory=list)
    told: list[tuple[TrialResult, int]] = field(default_factory=list)
    given_back: list[Key] = field(default_factory=list)

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(("shop", name) for name in self.names)

    def _at(self, point: str) -> None:
        if self.fails_at == point:
            raise RuntimeError(f"lost at {point}")

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        self.room = waiting

    def pre_filter(
        self, state: CycleState, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex
    ) -> Status:
        if info.key in self.keys and not self.sails and self.name not in state.data:
            return unschedulable(self.name, "goes with its crew alone")
        return SUCCESS

    def filter(
        self, state: CycleState, _info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        attempt = state.data.get(self.name)
        way = attempt.told if isinstance(attempt, Attempt) else ()
        mask = np.array([bool(way) and name not in way for name in snapshot.names], dtype=np.bool_)
        return FilterMask([(mask, "off the way of the crew")])

    def reserve(self, *_: Any) -> Status:
        return SUCCESS

    def unreserve(self, _state: CycleState, info: WorkloadInfo, _placements: Any) -> None:
        self.given_back.append(info.key)

    def gathering(
        self, info: WorkloadInfo, _snapshot: Snapshot, _bound: PlacementIndex, _now: datetime
    ) -> Gathering | None:
        self._at("gathering")
        if info.key not in self.keys or self.sails:
            return None
        withdrawn = {("shop", name): dict[str, int]() for name in self.emptied}
        self.asked.append(info.name)
        return Gathering(
            key=("shop", "crew"), members=self.keys, refusal=self.refusal, withdrawn=withdrawn
        )

    def attempts(
        self,
        _gathering: Gathering,
        _units: Sequence[WorkloadInfo],
        _snapshot: Snapshot,
        _bound: PlacementIndex,
    ) -> Iterable[Attempt]:
        self._at("attempts")
        order = tuple(("shop", name) for name in self.order)
        for way in self.ways:
            self._at("next")
            yield Attempt(order, way)

    def judge(
        self,
        _gathering: Gathering,
        tried: Sequence[Trial],
        _snapshot: Snapshot,
        _bound: PlacementIndex,
        now: datetime,
    ) -> GroupDecision:
        self._at("judge")
        self.judged.append({each.workload.key: dict(each.placements) for each in tried})
        units = sum(each.assigned for each in tried)
        if units >= self.least:
            return PLACE
        text = f"{units} of {self.least} hands"
        if units >= self.near:
            left = self.seconds if self.until is None else (self.until - now).total_seconds()
            status = wait(self.name, text, seconds=left)
            reason = ScheduledReason.WAITING_FOR_GROUP
            return GroupDecision(TrialResult.WAIT, replace(status, reason=reason))
        withdrawn = {("shop", name): dict[str, int]() for name in self.emptied}
        status = unschedulable(self.name, text, reason=ScheduledReason.GROUP_DENIED)
        return GroupDecision(TrialResult.REFUSE, status, withdrawn)

    def concluded(
        self, _gathering: Gathering, verdict: GroupDecision, tried: Sequence[Trial], now: datetime
    ) -> None:
        self._at("concluded")
        if verdict.outcome is TrialResult.WAIT and self.until is None:
            self.until = now + timedelta(seconds=self.seconds)
        self.told.append((verdict.outcome, sum(each.assigned for each in tried)))
        self.sails = self.sails or verdict.outcome is TrialResult.PLACE
