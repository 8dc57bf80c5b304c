"""A plugin of somebody else's that wants crews decided together: at least so many units, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from controller.cache.placements import Index
from controller.framework.gathering import PLACE, Attempt, Gathering, Outcome, Tried, Verdict
from controller.framework.interface import CycleState, Refused
from controller.framework.status import SUCCESS, Status, unschedulable, wait
from controller.framework.waiting import WaitingRoom
from controller.model.unit import Unit
from controller.snapshot.snapshot import Fleet
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
    room: WaitingRoom | None = None
    asked: list[str] = field(default_factory=list)
    judged: list[dict[Key, dict[str, int]]] = field(default_factory=list)
    told: list[tuple[Outcome, int]] = field(default_factory=list)
    given_back: list[Key] = field(default_factory=list)

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(("shop", name) for name in self.names)

    def _at(self, point: str) -> None:
        if self.fails_at == point:
            raise RuntimeError(f"lost at {point}")

    def use_waiting_room(self, room: WaitingRoom) -> None:
        self.room = room

    def pre_filter(self, state: CycleState, unit: Unit, _fleet: Fleet, _bound: Index) -> Status:
        if unit.key in self.keys and not self.sails and self.name not in state.data:
            return unschedulable(self.name, "goes with its crew alone")
        return SUCCESS

    def filter(self, state: CycleState, _unit: Unit, fleet: Fleet, _bound: Index) -> Refused:
        attempt = state.data.get(self.name)
        way = attempt.told if isinstance(attempt, Attempt) else ()
        mask = np.array([bool(way) and name not in way for name in fleet.names], dtype=np.bool_)
        return Refused([(mask, "off the way of the crew")])

    def reserve(self, *_: Any) -> Status:
        return SUCCESS

    def unreserve(self, _state: CycleState, unit: Unit, _placements: Any) -> None:
        self.given_back.append(unit.key)

    def gathering(
        self, unit: Unit, _fleet: Fleet, _bound: Index, _now: datetime
    ) -> Gathering | None:
        self._at("gathering")
        if unit.key not in self.keys or self.sails:
            return None
        withdrawn = {("shop", name): dict[str, int]() for name in self.emptied}
        self.asked.append(unit.name)
        return Gathering(
            key=("shop", "crew"), members=self.keys, refusal=self.refusal, withdrawn=withdrawn
        )

    def attempts(
        self, _gathering: Gathering, _units: Sequence[Unit], _fleet: Fleet, _bound: Index
    ) -> Iterable[Attempt]:
        self._at("attempts")
        order = tuple(("shop", name) for name in self.order)
        for way in self.ways:
            self._at("next")
            yield Attempt(order, way)

    def judge(
        self,
        _gathering: Gathering,
        tried: Sequence[Tried],
        _fleet: Fleet,
        _bound: Index,
        now: datetime,
    ) -> Verdict:
        self._at("judge")
        self.judged.append({each.unit.key: dict(each.placements) for each in tried})
        units = sum(each.assigned for each in tried)
        if units >= self.least:
            return PLACE
        text = f"{units} of {self.least} hands"
        if units >= self.near:
            left = self.seconds if self.until is None else (self.until - now).total_seconds()
            status = wait(self.name, text, seconds=left)
            reason = ScheduledReason.WAITING_FOR_GROUP
            return Verdict(Outcome.WAIT, replace(status, reason=reason))
        withdrawn = {("shop", name): dict[str, int]() for name in self.emptied}
        status = unschedulable(self.name, text, reason=ScheduledReason.GROUP_DENIED)
        return Verdict(Outcome.REFUSE, status, withdrawn)

    def concluded(
        self, _gathering: Gathering, verdict: Verdict, tried: Sequence[Tried], now: datetime
    ) -> None:
        self._at("concluded")
        if verdict.outcome is Outcome.WAIT and self.until is None:
            self.until = now + timedelta(seconds=self.seconds)
        self.told.append((verdict.outcome, sum(each.assigned for each in tried)))
        self.sails = self.sails or verdict.outcome is Outcome.PLACE
