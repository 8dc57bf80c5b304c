"""Gangs that come, run and end, in virtual time: who starts when, by which rule.

Two worlds with the same traffic. The yard decides as the controller does (`decide_set`, the plugin,
its queue's order); the model has one number for room, so that it can take ten thousand arrivals,
and asks the same `Turns` whose turn it is. Units ask for one cpu each, so that both must start every
gang at the same moment.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import numpy as np

from controller.features.workloadgroup.compiled import CompiledGroup
from controller.features.workloadgroup.fairness import Behind, Order, Turns
from controller.framework.gathering import TrialResult
from controller.snapshot.snapshot import Snapshot
from machinery.types.metadata import Key
from tests.controller import make
from tests.controller.features.workloadgroup.ganging import NS, Yard, group, member, room

START = make.NOW


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang: when it comes, how many units it is, all of which it needs, how long it runs."""

    name: str
    at: int
    units: int
    runs: int

    @property
    def key(self) -> Key:
        return (NS, self.name)

    @property
    def created(self) -> datetime:
        return START + timedelta(seconds=self.at)


def traffic(
    number: int, *, capacity: int, every: float, large: float, seed: int = 1
) -> list[Arrival]:
    """Small gangs, and now and then one that needs from more than half to all of the fleet."""
    rng, clock, found = random.Random(seed), 0.0, []
    for i in range(number):
        clock += rng.expovariate(1 / every)
        units, runs = rng.randint(1, max(capacity // 10, 2)), rng.randint(20, 200)
        if rng.random() < large:
            units, runs = rng.randint(capacity // 2 + 1, capacity), rng.randint(100, 400)
        found.append(Arrival(f"g{i:05}", int(clock), units, runs))
    return found


class World(Protocol):
    """The world that the traffic needs; `now` in seconds."""

    def comes(self, arrival: Arrival) -> None:
        """Add the gang."""
        ...

    def ends(self, arrival: Arrival, now: int) -> None:
        """End the gang, which gives its room back."""
        ...

    def order(self, waiting: Sequence[Arrival]) -> list[Arrival]:
        """The gangs in the order in which they are tried."""
        ...

    def starts(self, arrival: Arrival, now: int) -> bool:
        """Try it."""
        ...


def run(world: World, arrivals: Sequence[Arrival]) -> dict[str, int]:
    """When each of them starts. Whenever a gang ends, all that wait are tried, as they are woken."""
    started: dict[str, int] = {}
    waiting: dict[str, Arrival] = {}
    ends: list[tuple[int, str, Arrival]] = []
    left = iter(arrivals)
    coming = next(left, None)
    while coming is not None or ends:
        now = min(([coming.at] if coming else []) + [each[0] for each in ends[:1]])
        woken: list[Arrival] = []
        while ends and ends[0][0] <= now:
            world.ends(heapq.heappop(ends)[2], now)
            woken = list(waiting.values())
        while coming is not None and coming.at <= now:
            world.comes(coming)
            waiting[coming.name] = coming
            woken.append(coming)
            coming = next(left, None)
        again = True
        while again:  # whoever starts may have kept others out
            again = False
            for each in world.order([each for each in woken if each.name in waiting]):
                if world.starts(each, now):
                    started[each.name] = now
                    del waiting[each.name]
                    heapq.heappush(ends, (now + each.runs, each.name, each))
                    again = True
            woken = list(waiting.values())
    assert not waiting, "with an empty fleet everybody starts"
    return started


# --- as the controller does it --------------------------------------------------------------------


class InYard:
    """The plugin, its books and `decide_set`, over four clusters."""

    def __init__(self, capacity: int, patience: int) -> None:
        self.yard = Yard(
            *(room(f"c{i}", str(capacity // 4)) for i in range(4)), patience_seconds=patience
        )

    def comes(self, arrival: Arrival) -> None:
        created = arrival.created.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.yard.group(group(arrival.name, arrival.units, created=created))
        made = member(arrival.name, arrival.units, of=arrival.name, cpu="1", created=created)
        self.yard.store(made)

    def ends(self, arrival: Arrival, now: int) -> None:
        del now
        self.yard.delete(arrival.name)
        self.yard.groups.drop_group(arrival.key)
        self.yard.plugin.memory.forget(arrival.key)
        self.yard.plugin.memory.cluster_changed()

    def order(self, waiting: Sequence[Arrival]) -> list[Arrival]:
        units = {each.name: self.yard.world.info(each.key) for each in waiting}
        return sorted(waiting, key=lambda each: self.yard.plugin.rank(units[each.name]))

    def starts(self, arrival: Arrival, now: int) -> bool:
        self.yard.time.at = START + timedelta(seconds=now)
        self.yard.plugin.memory.cluster_changed()  # so that nothing is denied
        found = self.yard.decide(arrival.name)[arrival.name]
        return found.assigned == arrival.units


# --- by one number --------------------------------------------------------------------------------


@dataclass
class Books:
    """The part of a ledger that `Turns` reads."""

    groups: dict[Key, CompiledGroup] = field(default_factory=dict)
    placed: dict[Key, int] = field(default_factory=dict)
    taken: dict[str, Any] = field(default_factory=dict)
    changes: int = 0

    def get(self, key: Key) -> CompiledGroup | None:
        return self.groups.get(key)

    def values(self) -> Any:
        return self.groups.values()

    def assigned(self, key: Key) -> int:
        return self.placed.get(key, 0)


class InModel:
    """Room is a number; whose turn it is `Turns` says, and the queue's order is that of the rows."""

    def __init__(self, capacity: int, patience: int, *, fifo: bool = False) -> None:
        self.capacity = capacity
        self.free = capacity
        self.patience = patience
        self.fifo = fifo
        self.books = Books()
        self.turns = Turns(lambda _: None)
        self.snapshot: Snapshot = make.snapshot(room("c", str(capacity)))
        self.failed: dict[str, datetime] = {}
        self.waits: dict[str, Arrival] = {}
        self.load = make.info().load
        self.passed: set[tuple[str, str]] = set()

    def comes(self, arrival: Arrival) -> None:
        self.books.groups[arrival.key] = CompiledGroup(
            key=arrival.key,
            uid=arrival.name,
            created=arrival.created.isoformat(),
            generation=1,
            min_member=arrival.units,
        )
        self.books.changes += 1
        self.waits[arrival.name] = arrival

    def ends(self, arrival: Arrival, now: int) -> None:
        del now
        self.free += self.books.placed.pop(arrival.key)
        del self.books.groups[arrival.key]
        self.books.changes += 1
        self._count()
        self.turns.over(arrival.key)

    def _count(self) -> None:
        """Count room as one unit of the right size."""
        used = self.capacity - self.free
        self.books.taken = {"c": {self.load: used}} if used else {}

    def order(self, waiting: Sequence[Arrival]) -> list[Arrival]:
        if self.fifo:
            return sorted(waiting, key=lambda each: (each.at, each.name))
        return sorted(
            waiting, key=lambda each: (self.failed.get(each.name, each.created), each.name)
        )

    def starts(self, arrival: Arrival, now: int) -> bool:
        if self.fifo and any(each.at < arrival.at for each in self.waits.values()):
            return False
        asked: Any = InModelAsked(self, arrival, START + timedelta(seconds=now))
        asked.behind = None if self.fifo else self.turns.behind(asked)
        fits = asked.behind is None and arrival.units <= self.free
        if fits:
            self.free -= arrival.units
            self.books.placed[arrival.key] = arrival.units
            self._count()
            self.passed.update(
                (other.name, arrival.name)
                for other in self.waits.values()
                if other.at < arrival.at and other.units > self.capacity // 2
            )
            del self.waits[arrival.name]
        else:
            self.failed[arrival.name] = asked.now
        if not self.fifo:
            self.turns.concluded(asked, TrialResult.PLACE if fits else TrialResult.REFUSE)
        return fits


class InModelAsked:
    """The part of a `GangTry` that `Turns` reads, by one number."""

    failing, tries = False, True

    def __init__(self, model: InModel, arrival: Arrival, now: datetime) -> None:
        self.model, self.arrival, self.now = model, arrival, now
        self.key = arrival.key
        self.snapshot, self.ledger, self.patience = model.snapshot, model.books, model.patience
        self.group = model.books.groups[arrival.key]
        self.behind: Behind | None = None

    @property
    def started(self) -> bool:
        return self.arrival.key in self.model.books.placed

    def fitting(self, _given: Any) -> Any:
        """It fits once all gangs have given their room back: units of one cpu over one fleet."""
        return np.array([self.arrival.units <= self.model.capacity])

    def place(self) -> Order:
        return Order(0, self.arrival.created, self.key)

    def other(self, found: CompiledGroup) -> InModelAsked:
        arrival = self.model.waits[found.key[1]]
        return InModelAsked(self.model, arrival, self.now)


# --- what is told of it ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """How the gangs fared; times in seconds, use as a share of all room until the last one ended."""

    use: float
    mean: float
    worst: int
    worst_large: int

    @staticmethod
    def of(arrivals: Sequence[Arrival], started: Mapping[str, int], capacity: int) -> Figures:
        waits = {each.name: started[each.name] - each.at for each in arrivals}
        end = max(started[each.name] + each.runs for each in arrivals)
        work = sum(each.units * each.runs for each in arrivals)
        large = [waits[each.name] for each in arrivals if each.units > capacity // 2]
        total = sum(waits.values())
        return Figures(
            work / (capacity * end), total / len(waits), max(waits.values()), max(large, default=0)
        )

    def __str__(self) -> str:
        return (
            f"use {self.use:.1%}  wait: mean {self.mean:.0f} s, worst {self.worst} s, "
            f"worst of the large {self.worst_large} s"
        )
