"""What a Workload that waits says of the clusters stays true though nothing helps it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from controller.framework.events import MEMBER_CLUSTER, Action, on
from controller.queue.scheduling_queue import (
    BURST_SECONDS,
    LONGEST_DELAY_SECONDS,
    PAUSE_SECONDS,
    ROUND_SECONDS,
    MessageRefresher,
    Rank,
    SchedulingQueue,
)
from controller.queue.unschedulable import Awaits
from machinery.api.resources import MEMBER_CLUSTERS
from tests.controller.make import cluster, flush, info
from tests.controller.memory import Stage
from tests.fakeclock import FakeClock

SOON = BURST_SECONDS + 1.0
ROOM = Awaits.of([on(MEMBER_CLUSTER, Action.ROOM)])
CORDON = {"spec": {"unschedulable": True}}


def rank(name: str) -> Rank:
    return Rank((name,), ("shop", name), 0)


class Bench:
    """A queue whose Workloads are always refused; `looks` are who was decided, and when."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue = SchedulingQueue(clock=self.clock)
        self.looks: list[tuple[str, float]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def happens(self, action: Action) -> None:
        """Announce that to a cluster, with both versions of it."""
        self.queue.announce(MEMBER_CLUSTER, ("", "a"), action, cluster("a"), cluster("a"))

    async def refuse(self) -> None:
        """Decide who comes, for ever."""
        while True:
            key = await self.queue.active.get()
            await self.gate.wait()
            self.looks.append((key[1], self.clock.monotonic()))
            attempt = not self.queue.refreshing(key)
            self.queue.add_unschedulable(rank(key[1]), info(key[1]), ROOM, attempt=attempt)
            self.queue.message_written(key)
            self.queue.active.done(key)

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[None]:
        """With these decided once, long enough ago."""
        renewal = MessageRefresher(self.queue, clock=self.clock)
        tasks = [asyncio.create_task(each) for each in (self.queue.run(), renewal.run())]
        tasks.append(asyncio.create_task(self.refuse()))
        self.queue.activate(rank(name) for name in names)
        while len(self.looks) < len(names):
            await self.clock.advance(0.1)
        await self.clock.advance(2 * LONGEST_DELAY_SECONDS)
        assert [name for name, _ in self.looks] == list(names)
        self.looks.clear()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


@pytest.mark.proves("C25")
async def test_what_helps_nobody_has_the_reason_looked_at_once_a_round() -> None:
    bench = Bench()
    async with bench.running("demo"):
        for _ in range(100):  # of ten events a second
            bench.happens(Action.TAINTS)
            await bench.clock.advance(0.1)
        assert bench.queue.unschedulable == 1
        assert len(bench.looks) <= 2
        await bench.clock.advance(2 * ROUND_SECONDS)
        assert 2 <= len(bench.looks) <= 3
        await bench.clock.advance(100)
        assert len(bench.looks) <= 3, "nothing happened any more"


async def test_the_look_for_a_reason_costs_no_patience() -> None:
    bench = Bench()
    async with bench.running("demo"):
        for _ in range(5):
            bench.happens(Action.TAINTS)
            await bench.clock.advance(ROUND_SECONDS)
        assert len(bench.looks) == 5
        bench.happens(Action.TAINTS)
        await bench.clock.advance(SOON)
        before = bench.clock.monotonic()
        bench.happens(Action.ROOM)
        await bench.clock.advance(0.1)
        assert bench.looks[6:] == [("demo", pytest.approx(before, abs=0.1))]


async def test_nor_does_it_end_the_patience_that_there_is() -> None:
    bench = Bench()
    queue, clock, demo = bench.queue, bench.clock, ("shop", "demo")
    for _ in range(6):  # in vain, again and again
        queue.add_unschedulable(rank("demo"), info("demo"), ROOM)
    queue.message_written(demo)
    bench.happens(Action.TAINTS)
    flush(queue)
    queue.refresh(demo)
    assert await queue.active.get() == demo
    queue.add_unschedulable(rank("demo"), info("demo"), ROOM, attempt=not queue.refreshing(demo))
    queue.active.done(demo)
    bench.happens(Action.ROOM)
    flush(queue)
    coming = asyncio.create_task(queue.active.get())
    await clock.advance(3.0)
    assert not coming.done()
    await clock.advance(0.3)
    assert coming.done()
    assert await coming == demo


async def test_it_comes_behind_everybody_else() -> None:
    bench = Bench()
    async with bench.running("demo"):
        bench.gate.clear()
        bench.queue.activate([rank("first"), rank("second")])
        bench.happens(Action.TAINTS)
        await bench.clock.advance(ROUND_SECONDS)
        assert len(bench.queue.active) == 1, "the second one, and nobody else"
        bench.queue.activate([rank("third")])
        bench.gate.set()
        await bench.clock.advance(SOON)
        assert [name for name, _ in bench.looks] == ["first", "second", "third", "demo"]


async def test_whom_the_same_news_will_wake_waits_for_those_woken_with_it() -> None:
    bench = Bench()
    async with bench.running("demo"):
        bench.happens(Action.ROOM)
        assert bench.queue.message_outdated(("shop", "demo"), bench.queue.event_seq)
        bench.queue.refresh(("shop", "demo"))
        assert not bench.queue.active


async def test_many_are_looked_at_one_by_one_and_each_of_them() -> None:
    bench = Bench()
    names = [f"w{number:04}" for number in range(400)]
    async with bench.running(*names):
        bench.happens(Action.WORSE)
        await bench.clock.advance(BURST_SECONDS + 5)
        assert 50 <= len(bench.looks) <= 5 / PAUSE_SECONDS + 1
        await bench.clock.advance(400 * PAUSE_SECONDS)
        assert Counter(name for name, _ in bench.looks) == Counter(names)


@pytest.mark.proves("C25")
async def test_the_reason_counts_the_clusters_as_they_are_and_a_restart_writes_nothing() -> None:
    stage = Stage("a", "b", "c", cpu="1")
    stage.hub.edit(MEMBER_CLUSTERS, "a", CORDON)

    def says(text: str) -> bool:
        return stage.says("demo")[2] == text

    async with stage.leading():
        stage.workload("demo", cpu="2")
        await stage.until(lambda: says("0/3 clusters: 2 insufficient cpu, 1 unschedulable"))
        written = len(stage.hub.writes("/demo/status"))
        await stage.until(lambda: stage.hub.events("FailedScheduling"))
        events = len(stage.hub.writes("/events"))

        stage.hub.edit(MEMBER_CLUSTERS, "b", CORDON)
        text = "0/3 clusters: 2 unschedulable, 1 insufficient cpu"
        await stage.until(lambda: says(text), seconds=SOON)
        await stage.calm(2 * ROUND_SECONDS)
        assert len(stage.hub.writes("/events")) == events, "that it waits is known"
        stage.cluster("d", cpu="1")
        text = "0/4 clusters: 2 insufficient cpu, 2 unschedulable"
        await stage.until(lambda: says(text), seconds=ROUND_SECONDS + SOON)
        stage.hub.remove(MEMBER_CLUSTERS, "a")
        text = "0/3 clusters: 2 insufficient cpu, 1 unschedulable"
        await stage.until(lambda: says(text), seconds=ROUND_SECONDS + SOON)
        await stage.calm(3 * ROUND_SECONDS)
        assert len(stage.hub.writes("/demo/status")) == written + 3
        stage.hub.edit(MEMBER_CLUSTERS, "b", {"metadata": {"annotations": {"note": "none"}}})
        await stage.calm(3 * ROUND_SECONDS)
        assert len(stage.hub.writes("/demo/status")) == written + 3, "the words are the same"
    async with stage.leading(identity="two"):
        await stage.calm(3 * ROUND_SECONDS)
        assert len(stage.hub.writes("/demo/status")) == written + 3
