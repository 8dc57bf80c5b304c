"""Who is decided next, and what wakes a refused Workload, on a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from controller.queue import LONGEST_DELAY_SECONDS, SETTLE_SECONDS, Change, Rank, SchedulingQueue
from tests.fakeclock import FakeClock


def rank(name: str, priority: int = 0, created: str = "2026-01-01T00:00:00Z") -> Rank:
    key = ("shop", name)
    return Rank((-priority, created, key), key, priority)


async def handed_out(queue: SchedulingQueue) -> list[str]:
    """The names that can be worked on now, in order."""
    names = []
    while len(queue.active):
        key = await queue.active.get()
        queue.active.done(key)
        names.append(key[1])
    return names


@pytest.mark.proves("G7")
async def test_offered_together_they_come_in_the_order_of_the_sort() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    queue.offer(
        [
            rank("young", created="2026-01-02T00:00:00Z"),
            rank("b"),
            rank("a"),
            rank("urgent", 5, created="2026-01-03T00:00:00Z"),
        ]
    )
    assert await handed_out(queue) == ["urgent", "a", "b", "young"]


async def test_only_the_awaited_change_wakes() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    queue.park(rank("room"), Change.CLUSTER_ROOM, ())
    queue.park(rank("labels"), Change.CLUSTER_LABELS | Change.CLUSTER_ADDED, ())
    assert queue.parked == 2

    queue.announce(Change.CLUSTER_READY)
    queue.flush()
    assert queue.parked == 2

    queue.announce(Change.CLUSTER_ADDED)
    queue.flush()
    assert queue.parked == 1


async def test_a_burst_of_changes_is_one_look() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.park(rank("demo"), Change.any(), ())
    await clock.advance(1)
    running = asyncio.create_task(queue.run())
    for change in (Change.CLUSTER_ADDED, Change.CLUSTER_LABELS, Change.CLUSTER_ROOM):
        queue.announce(change)
        await clock.advance(SETTLE_SECONDS / 4)
    await clock.advance(SETTLE_SECONDS)
    assert await handed_out(queue) == ["demo"]
    running.cancel()


async def test_one_woken_in_vain_waits_longer_and_a_quiet_one_does_not() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    looks: list[float] = []

    async def in_vain() -> None:
        while True:
            key = await queue.active.get()
            looks.append(clock.monotonic())
            queue.park(rank("demo"), Change.CLUSTER_ROOM, ())
            queue.active.done(key)

    queue.offer([rank("demo")])
    deciding = asyncio.create_task(in_vain())
    for _ in range(600):  # a minute in which a capacity ticks ten times a second
        await clock.advance(0.1)
        queue.announce(Change.CLUSTER_ROOM)
        queue.flush()
    assert 5 <= len(looks) <= 15

    await clock.advance(2 * LONGEST_DELAY_SECONDS)
    before = len(looks)
    queue.announce(Change.CLUSTER_ROOM)
    queue.flush()
    await clock.advance(0)
    assert len(looks) == before + 1
    deciding.cancel()


@pytest.mark.proves("G7")
async def test_patience_does_not_cost_the_higher_priority_its_room() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    for _ in range(6):
        queue.park(rank("high", 10), Change.CLUSTER_ROOM, ())
    queue.park(rank("low"), Change.CLUSTER_ROOM, ())
    await clock.advance(0.5)  # enough for the one that failed once, too little for the other

    queue.announce(Change.CLUSTER_ROOM)
    queue.flush()
    assert await handed_out(queue) == ["high", "low"]


@pytest.mark.proves("G7")
async def test_nor_does_it_while_the_higher_priority_sits_out_a_delay() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.park(rank("low"), Change.CLUSTER_ROOM, ())
    await clock.advance(50)
    queue.park(rank("high", 10), Change.CLUSTER_ROOM | Change.CLUSTER_LABELS, ())
    queue.announce(Change.CLUSTER_LABELS)
    queue.flush()
    assert await handed_out(queue) == [], "it was refused just now"
    queue.announce(Change.CLUSTER_ROOM)
    queue.flush()
    assert await handed_out(queue) == ["high", "low"]


async def test_what_is_about_something_else_wakes_nobody_and_costs_no_patience() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.park(rank("demo"), Change.POLICIES | Change.WORKLOADS, ("shop", ("shop", "quota")))
    await clock.advance(1)
    for _ in range(9):
        queue.announce(Change.POLICIES, {("shop", "other")})
        queue.announce(Change.WORKLOADS, {"elsewhere"})
        queue.flush()
    assert await handed_out(queue) == []
    for change, topic in ((Change.WORKLOADS, "shop"), (Change.POLICIES, ("shop", "quota"))):
        queue.announce(change, {"elsewhere", topic})
        queue.flush()
        assert await handed_out(queue) == ["demo"]


@pytest.mark.proves("G7")
async def test_nor_does_it_where_the_lower_one_only_waits_a_little_less() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    for name, priority in (("low", 0), ("middle", 5), ("high", 10)):
        queue.park(rank(name, priority), Change.CLUSTER_ROOM, ())
        await clock.advance(0.03)
    queue.announce(Change.CLUSTER_ROOM)
    queue.flush()
    assert await handed_out(queue) == [], "the first was refused a moment ago"
    await clock.advance(0.02)
    async with asyncio.timeout(1):
        names = [(await queue.active.get())[1] for _ in range(3)]
    assert names == ["high", "middle", "low"]


async def test_an_offer_overtakes_what_was_waited_for() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    queue.park(rank("demo"), Change.CLUSTER_ROOM, ())
    queue.offer([rank("demo")])
    assert queue.parked == 0
    assert await handed_out(queue) == ["demo"]


async def test_a_change_during_the_write_finds_it_waiting() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.offer([rank("demo")])
    key = await queue.active.get()
    queue.park(rank("demo"), Change.CLUSTER_READY, ())  # decided; the write is under way
    await clock.advance(1)
    queue.announce(Change.CLUSTER_READY)
    queue.flush()
    assert len(queue.active) == 1
    queue.active.done(key)
    assert await handed_out(queue) == ["demo"]


async def test_what_is_forgotten_is_not_woken() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    queue.park(rank("demo"), Change.any(), ())
    queue.forget(("shop", "demo"))
    queue.announce(Change.any())
    queue.flush()
    assert queue.parked == 0
    assert await handed_out(queue) == []
