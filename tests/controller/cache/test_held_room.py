"""Room that is held for somebody: it counts as units on their way do, and goes back in full."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import catalogue
from controller.cache.ledger import PlacementsByWorkload, RoomHolder
from controller.eventhandlers import SchedulerCache
from controller.http.server import cluster_view
from controller.model.unit import WorkloadInfo
from controller.plugins.defaults import PrioritySort
from controller.snapshot import inflight
from controller.snapshot.builder import Snapshot, SnapshotBuilder, narrowed, with_cluster
from controller.snapshot.inflight import Load
from controller.snapshot.snapshot import amounts_of
from machinery.types.metadata import Key
from tests.controller.berths import BERTHS, Berths, berth
from tests.controller.make import builder, cluster, info
from tests.controller.memory import Stage
from tests.examples import examples

NAMES = ("a", "b", "c")
Entries = dict[str, dict[Load, int]]


def drawn(dice: random.Random, most: int = 3) -> Entries:
    """Loads on clusters."""
    return {
        name: {
            Load.of({"cpu": 100 * dice.randint(1, 6), "pods": 1}): dice.randint(1, 4)
            for _ in range(dice.randint(0, most))
        }
        for name in NAMES
    }


def fleet_of(dice: random.Random) -> SnapshotBuilder:
    def groups() -> list[dict[str, Any]]:
        return [
            {"count": dice.randint(1, 3), "free": {"cpu": f"{dice.randint(1, 9)}", "pods": "20"}}
            for _ in range(dice.randint(1, 3))
        ]

    return builder([cluster(name, groups=groups()) for name in NAMES])


def fits(found: Snapshot, cpu: int) -> dict[str, int]:
    fitting = found.fitting({"cpu": cpu, "pods": 1})
    return dict(zip(found.names, fitting.tolist(), strict=True))


def every(found: Snapshot) -> list[dict[str, int]]:
    return [fits(found, cpu) for cpu in (100, 300, 700, 1900)]


def hold(made: SnapshotBuilder, entries: Entries, sign: int = 1) -> None:
    for name, loads in entries.items():
        for load, units in loads.items():
            made.hold(name, load, sign * units)


@pytest.mark.proves("E25")
@examples(200)
@given(st.integers(0, 2**32))
def test_what_is_held_counts_as_what_is_on_its_way(seed: int) -> None:
    dice = random.Random(seed)
    state = dice.getstate()
    one = fleet_of(dice)
    dice.setstate(state)
    other = fleet_of(dice)
    flying, held = drawn(dice), drawn(dice)
    for name, loads in flying.items():
        for load, units in loads.items():
            one.assume(name, load, units)
            other.assume(name, load, units)
    for name, loads in held.items():
        for load, units in loads.items():
            one.hold(name, load, units)
            other.assume(name, load, units)
    assert every(one.snapshot()) == every(other.snapshot())
    for resource in ("cpu", "pods"):
        assert (
            one.snapshot().coming(resource).tolist() == other.snapshot().coming(resource).tolist()
        )


@pytest.mark.proves("E28")
@pytest.mark.parametrize("pairs", [inflight.MOST_PAIRS, 0])
@examples(200)
@given(st.integers(0, 2**32))
def test_what_is_released_is_as_if_it_had_never_been_held(pairs: int, seed: int) -> None:
    """Of each load; where very many are told put together, more of them are told apart then."""
    dice, least = random.Random(seed), inflight.LEAST_HOLDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inflight, "MOST_PAIRS", pairs)
        patch.setattr("controller.snapshot.encode.LEAST_HOLDS", least if pairs else 3)
        made, own, theirs = fleet_of(dice), drawn(dice, 6), drawn(dice, 6)
        hold(made, theirs)
        without = every(made.snapshot())
        held = {name: dict(made.snapshot().held(name)) for name in NAMES}
        hold(made, own)
        found = made.snapshot()
        released = found.releasing({**own, "gone": {Load.of({"cpu": 1}): 1}})
        assert {name: dict(released.held(name)) for name in NAMES} == held
        if pairs:
            assert every(released) == without
        else:
            for one, before in zip(every(released), every(found), strict=True):
                assert all(before[name] <= one[name] for name in NAMES), "less takes no more"
        assert found.held("a") == made.snapshot().held("a"), "the fleet itself stays as it is"


def test_no_more_is_given_back_than_is_held() -> None:
    made, load, other = builder([cluster("a")]), Load.of({"cpu": 1000}), Load.of({"cpu": 7})
    made.hold("a", load, 2)
    found = made.snapshot()
    for released in (
        found.releasing({"a": {load: 99, other: 5}}),
        found.releasing({"a": {load: 1}}).releasing({"a": {load: 2}}),
    ):
        assert fits(released, 1000) == {"a": 8}
        assert len(released.holds) == 0
    assert fits(found.releasing({"a": {load: -5}}), 1000) == {"a": 6}, "and nothing is taken"


def test_every_copy_of_a_fleet_keeps_what_is_held() -> None:
    made, load = builder([cluster(name) for name in NAMES]), Load.of({"cpu": 1000})
    made.hold("b", load, 3)
    found = made.snapshot()
    expected = {"a": 8, "b": 5, "c": 8}
    assert fits(found, 1000) == expected
    assert fits(found.assuming(load, {"b": 1}), 1000) == {**expected, "b": 4}
    assert fits(narrowed(found, ["b", "c"]), 1000) == {"b": 5, "c": 8}
    assert fits(narrowed(found, ["b", "c"]).releasing({"b": {load: 3}}), 1000)["b"] == 8
    roomier = cluster("b", groups=[{"count": 2, "free": {"cpu": "8", "pods": "9"}}])
    assert fits(with_cluster(found, roomier), 1000)["b"] == 13
    made.remove("a")
    made.upsert(cluster("d"))
    assert fits(made.snapshot(), 1000) == {"b": 5, "c": 8, "d": 8}
    made.remove("b")
    made.snapshot()
    made.upsert(cluster("b"))
    assert fits(made.snapshot(), 1000)["b"] == 5, "it stands, should the cluster come back"
    made.hold("b", load, -3)
    assert fits(made.snapshot(), 1000)["b"] == 8


def test_a_fleet_where_nothing_is_held_looks_at_nothing() -> None:
    made = builder([cluster("a")])
    made.assume("a", Load.of({"cpu": 1}), 1)
    found = made.snapshot()
    assert found._loads() is found.flights
    made.assume("a", Load.of({"cpu": 1}), 1)
    assert made.snapshot().holds is found.holds


@pytest.mark.proves("E7", "E25")
def test_reserved_used_and_free_are_what_there_is() -> None:
    made = builder([cluster("a")])
    made.assume("a", Load.of({"cpu": 500, "pods": 1}), 3)
    made.hold("a", Load.of({"cpu": 1000, "pods": 1}), 2)
    made.hold("a", Load.of({"cpu": 250}), 1)
    found = amounts_of(made.snapshot(), "a")
    assert found is not None
    assert found.reserved == {"cpu": 2250, "pods": 2}
    for resource, there in found.allocatable.items():
        used = found.requested.get(resource, 0) - found.reserved.get(resource, 0)
        free = found.remaining[resource]
        assert found.reserved.get(resource, 0) + used + free == there


class Moorings:
    """Holds a whole berth wherever one is."""

    def __init__(self) -> None:
        self.room: RoomHolder | None = None
        self._held: dict[Key, dict[str, tuple[Load, int]]] = {}

    def keep(self, room: RoomHolder) -> None:
        self.room = room

    def put(self, info: WorkloadInfo, placements: Mapping[str, int]) -> None:
        if info.booked:
            self._hold(info.key, {c: (info.load, n) for c, n in placements.items()})

    def drop(self, key: Key) -> None:
        self._hold(key, {})

    def overlay(self, placed: PlacementsByWorkload) -> Self:
        return self

    def _hold(self, key: Key, after: dict[str, tuple[Load, int]]) -> None:
        assert self.room is not None
        before = self._held.pop(key, {})
        for name, (load, units) in before.items():
            self.room.hold(name, load, -units)
        for name, (load, units) in after.items():
            self.room.hold(name, load, units)
        for name in before.keys() - after.keys():
            self.room.freed(name)
        if after:
            self._held[key] = after


class Broken(Moorings):
    """Fails whenever it is asked."""

    def keep(self, room: RoomHolder) -> None:
        raise RuntimeError("no room for me")


def test_a_ledger_that_takes_no_room_harms_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    sound = Moorings()
    world = SchedulerCache(
        ["stowage"], sort=PrioritySort(), reviewed=lambda _: True, ledgers=[Broken(), sound]
    )
    assert "no room for me" in caplog.text
    world.cluster_changed(None, cluster("a"))
    assert sound.room is not None
    sound.room.hold("a", Load.of({"cpu": 1000}), 1)
    assert fits(world.snapshot(), 1000) == {"a": 7}
    world.assume(info("demo"), {"a": 2})
    assert fits(world.snapshot(), 1000)["a"] < 7, "and the books go on"


@pytest.mark.proves("E25")
async def test_the_room_of_a_booked_kind_is_the_ledgers_and_goes_back_with_it() -> None:
    stage = Stage("one", cpu="4")
    features = [*catalogue.features(), Berths(booked=True, ledgers=(Moorings(),))]
    async with stage.leading(features=features) as controller:
        stage.hub.put(BERTHS, berth("north", cpu="4"))
        await stage.until(lambda: stage.hub.read(BERTHS, "north").get("status", {}).get("quay"))
        told = cluster_view(controller.cache, "one")
        assert told is not None
        assert told["reserved"] == {"cpu": "4", "pods": "1"}
        assert told["remaining"]["cpu"] == "0", "counted once"
        stage.workload("demo", replicas=1)
        await stage.until(lambda: stage.says("demo")[1] == "InsufficientCapacity")
        stage.hub.remove(BERTHS, "north")
        await stage.until(lambda: stage.placed("demo") == {"one": 1})
        told = cluster_view(controller.cache, "one")
        assert told is not None
        assert told["reserved"] == {}
