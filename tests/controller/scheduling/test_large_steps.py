"""What concerns every Workload at once is done in steps: everything else has its turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from controller.eventhandlers import LOOK_STEP, SchedulerCache, known
from controller.model.objects import ClusterShare, Workload
from controller.plugins.defaults import PrioritySort
from controller.queue.scheduling_queue import STEP, SchedulingQueue
from controller.snapshot.builder import SnapshotBuilder
from tests.controller.cache.test_unseen_room import versioned
from tests.controller.make import REQUIRED, ZONE, beside, cluster, flush, given_up, info, workload
from tests.controller.scheduling.test_long_sets import View, passes, ring
from tests.fakeclock import FakeClock

MANY = 3 * STEP + 7
pytestmark = pytest.mark.proves("L7")
__all__ = ["passes"]


class Scene:
    """A world of two clusters; `most` is the largest number that came into the queue in a step."""

    def __init__(self, placed: bool) -> None:
        self.clock = FakeClock()
        self.queue = SchedulingQueue(clock=self.clock)
        self.world = SchedulerCache({"stowage"}, sort=PrioritySort(), reviewed=lambda _: True)
        self.clusters = [cluster(name) for name in ("a", "b")]
        for each in self.clusters:
            self.world.cluster_changed(None, each)
        present = {"a": 2} if placed else None
        self.workloads = [known(workload(f"w{n}", present=present)) for n in range(MANY)]
        for each in self.workloads:
            self.world.workload_changed(None, each)
        self.most = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look into the queue at each turn of the loop."""

        async def look() -> None:
            before = len(self.queue.active)
            while True:
                await asyncio.sleep(0)
                now = len(self.queue.active)
                self.most, before = max(self.most, now - before), now

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()


@pytest.mark.long
async def test_a_term_begins_with_all_that_are_not_settled_step_by_step() -> None:
    scene = Scene(placed=False)
    scene.world.lead(scene.queue)
    assert not len(scene.queue.active)
    with scene.watched():
        await asyncio.sleep(0)
        await scene.world.begin(scene.queue, scene.workloads)
        assert len(scene.queue.active) == MANY
    assert 0 < scene.most <= LOOK_STEP


@pytest.mark.long
async def test_all_who_lose_a_cluster_are_offered_step_by_step() -> None:
    scene = Scene(placed=True)
    scene.world.lead(scene.queue)
    running = asyncio.create_task(scene.queue.run())
    with scene.watched():
        await asyncio.sleep(0)
        scene.world.cluster_changed(scene.clusters[0], given_up(scene.clusters[0]))
        assert len(scene.queue.active) == STEP
        await scene.clock.advance(1)
        assert len(scene.queue.active) == MANY
    running.cancel()
    assert scene.most <= STEP


@pytest.mark.long
async def test_who_is_gone_by_his_step_is_not_offered() -> None:
    scene = Scene(placed=True)
    scene.world.lead(scene.queue)
    scene.world.cluster_changed(scene.clusters[0], given_up(scene.clusters[0]))
    gone = scene.workloads[: MANY - STEP]
    for each in gone:
        scene.world.workload_changed(each, None)
    flush(scene.queue)
    offered = set()
    while len(scene.queue.active):
        key = await scene.queue.active.get()
        scene.queue.active.done(key)
        offered.add(key)
    left = {each.metadata.key for each in scene.workloads[MANY - STEP :]}
    assert left <= offered
    assert len(offered) < STEP + len(left)


def test_a_cluster_that_comes_back_is_taken_in_without_a_look_at_those_who_hold_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(placed=True)
    world, (first, *_), gone = scene.world, scene.clusters, scene.workloads[:7]
    before = world.snapshot().coming("cpu")[world.snapshot().row["a"]]
    world.cluster_changed(first, given_up(first))
    assert "a" not in world.snapshot().row
    for each in gone:
        world.workload_changed(each, None)
    looks: list[str] = []
    monkeypatch.setattr(SnapshotBuilder, "assume", lambda _, name, *__: looks.append(name))
    world.cluster_changed(None, first)
    assert looks == []
    after = world.snapshot().coming("cpu")[world.snapshot().row["a"]]
    assert (before, after) == (MANY * 1000, (MANY - len(gone)) * 1000)


def test_those_who_were_heard_of_while_it_was_away_are_not_counted_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(placed=True)
    world, first = scene.world, versioned(scene.clusters[0], 10)
    running = [versioned(each, 20) for each in map(running_on_a, scene.workloads)]
    world.cluster_changed(scene.clusters[0], first)
    for each in running:
        world.workload_changed(None, each)
    assert world.snapshot().coming("cpu").sum() == 0
    world.cluster_changed(first, None)
    for each in running:
        world.workload_changed(each, versioned(each, 30))
    looks: list[str] = []
    monkeypatch.setattr(SnapshotBuilder, "assume", lambda _, name, *__: looks.append(name))
    world.cluster_changed(None, first)
    assert looks == []
    assert world.snapshot().coming("cpu").sum() == 0


def running_on_a(placed: Workload) -> Workload:
    """The Workload, all of whose units that cluster counts."""
    shares = [ClusterShare("a", replicas=2, scheduled=2, capacity_version=10)]
    status = msgspec.structs.replace(placed.status, clusters=shares)
    return msgspec.structs.replace(placed, status=status)


@pytest.mark.long
def test_the_last_look_at_a_set_in_a_world_that_does_not_rest_decides_each_of_it_once(
    passes: list[int],
) -> None:
    """It is one step, as nothing may come between it and the write."""
    units = ring(50, key=ZONE)
    view = View(["1"] * 100, units)

    def heartbeat(number: int) -> None:
        passes.append(0)
        view.resize("m2", str(90 + number % 2))

    batch, _ = view.decide(units[0], between=heartbeat)
    assert all(each.scheduled for each in batch.decisions)
    assert len(units) <= passes[-1] <= len(units) + 1


@pytest.mark.long
def test_the_last_look_at_a_large_set_takes_steps_while_its_clusters_rest(
    passes: list[int],
) -> None:
    units = ring(50, key=ZONE)
    view = View(["1", "1", "90", *["1"] * 97], units)

    def heartbeat(number: int) -> None:
        passes.append(0)
        view.resize("m3", str(1 + number % 2))

    batch, _ = view.decide(units[0], between=heartbeat)
    assert all(each.scheduled and "m3" not in each.placements for each in batch.decisions)
    assert max(passes) <= 2
    assert sum(passes) >= 3 * len(units)


@pytest.mark.long
@pytest.mark.parametrize("size", [3, 18])
@pytest.mark.parametrize("what", ["room", "repelled", "gone"])
def test_what_comes_between_the_last_steps_of_a_set_is_seen(what: str, size: int) -> None:
    units = ring(size)
    against = {REQUIRED: [beside(units[2].name)]}
    foe = info("foe", workloadAntiAffinity=against)

    def decided(at: int) -> tuple[set[str], int]:
        view = View(["99", "90", "1"], units)

        def between(number: int) -> None:
            view.resize("m2", str(1 + number % 2))
            if number == at and what == "room":
                view.resize("m0", "1")
            elif number == at and what == "gone":
                view.builder.remove("m0")
            elif number == at:
                view.index.put(foe, {"m0": 1})

        batch, steps = view.decide(units[0], between=between)
        return {name for each in batch.decisions for name in each.placements}, steps

    found, last = decided(-1)
    assert found == {"m0"}
    for at in range(max(1, last - 20), last + 1, 3):
        assert decided(at)[0] == {"m1"}
