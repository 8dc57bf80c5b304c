"""Who is decided next, and what wakes a refused Workload, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.framework.events import MEMBER_CLUSTER, WORKLOAD, Action, on
from controller.queue.scheduling_queue import (
    BATCH_SECONDS,
    LONGEST_DELAY_SECONDS,
    Rank,
    SchedulingQueue,
)
from controller.queue.unschedulable import ANY_EVENT, MANY, NO_EVENT, Awaits
from tests.controller.make import cluster, flush, info
from tests.fakeclock import FakeClock

POLICY = "WorkloadPolicy"
SHOP = ("shop", "quota")


def cluster_events(action: Action) -> Awaits:
    return Awaits.of([on(MEMBER_CLUSTER, action)])


ROOM = cluster_events(Action.ROOM)


def park(queue: SchedulingQueue, place: Rank, awaits: Awaits) -> None:
    """Refuse the Workload of that place."""
    queue.add_unschedulable(place, info(place.key[1]), awaits)


def happens(queue: SchedulingQueue, action: Action, name: str = "a") -> None:
    """Announce that to a cluster."""
    queue.announce(MEMBER_CLUSTER, ("", name), action, None, None)


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
    queue.activate(
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
    park(queue, rank("room"), ROOM)
    park(queue, rank("labels"), cluster_events(Action.LABELS | Action.ADDED))
    assert queue.unschedulable == 2

    happens(queue, Action.READY)
    flush(queue)
    assert queue.unschedulable == 2

    happens(queue, Action.ADDED)
    flush(queue)
    assert queue.unschedulable == 1


async def test_a_burst_of_changes_is_one_look() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    park(queue, rank("demo"), ANY_EVENT)
    await clock.advance(1)
    running = asyncio.create_task(queue.run())
    for change in (Action.ADDED, Action.LABELS, Action.ROOM):
        happens(queue, change)
        await clock.advance(BATCH_SECONDS / 4)
    await clock.advance(BATCH_SECONDS)
    assert await handed_out(queue) == ["demo"]
    running.cancel()


async def test_one_woken_in_vain_waits_longer_and_a_quiet_one_does_not() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    looks: list[float] = []

    async def attempt() -> None:
        while True:
            key = await queue.active.get()
            looks.append(clock.monotonic())
            park(queue, rank("demo"), ROOM)
            queue.active.done(key)

    queue.activate([rank("demo")])
    deciding = asyncio.create_task(attempt())
    for _ in range(600):  # a minute in which a capacity ticks ten times a second
        await clock.advance(0.1)
        happens(queue, Action.ROOM)
        flush(queue)
    assert 5 <= len(looks) <= 15

    await clock.advance(2 * LONGEST_DELAY_SECONDS)
    before = len(looks)
    happens(queue, Action.ROOM)
    flush(queue)
    await clock.advance(0)
    assert len(looks) == before + 1
    deciding.cancel()


@pytest.mark.proves("G7")
async def test_patience_does_not_cost_the_higher_priority_its_room() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    for _ in range(6):
        park(queue, rank("high", 10), ROOM)
    park(queue, rank("low"), ROOM)
    await clock.advance(0.5)  # enough for the one that failed once, too little for the other

    happens(queue, Action.ROOM)
    flush(queue)
    assert await handed_out(queue) == ["high", "low"]


@pytest.mark.proves("G7")
async def test_nor_does_it_while_the_higher_priority_sits_out_a_delay() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    park(queue, rank("low"), ROOM)
    await clock.advance(50)
    park(queue, rank("high", 10), cluster_events(Action.ROOM | Action.LABELS))
    happens(queue, Action.LABELS)
    flush(queue)
    assert await handed_out(queue) == [], "it was refused just now"
    happens(queue, Action.ROOM)
    flush(queue)
    assert await handed_out(queue) == ["high", "low"]


async def test_what_is_about_something_else_wakes_nobody_and_costs_no_patience() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    awaits = Awaits.of(
        [
            on(POLICY, Action.every(), about=lambda _: SHOP),
            on(WORKLOAD, Action.every(), about=lambda each: each.namespace),
        ]
    )
    park(queue, rank("demo"), awaits)
    await clock.advance(1)
    for _ in range(9):
        queue.announce(POLICY, ("shop", "other"), Action.SPEC, None, None)
        queue.announce(WORKLOAD, ("elsewhere", "quota"), Action.SHARES, None, None)
        flush(queue)
    assert await handed_out(queue) == []
    for resource, key in ((WORKLOAD, ("shop", "other")), (POLICY, SHOP)):
        queue.announce(resource, key, Action.SHARES, None, None)
        flush(queue)
        assert await handed_out(queue) == ["demo"]
        park(queue, rank("demo"), awaits)
        await clock.advance(LONGEST_DELAY_SECONDS)


async def test_a_hint_is_asked_about_the_object_before_and_after() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    asked = []

    def grew(each: Any, old: Any, new: Any) -> bool:
        asked.append((each.name, old.metadata.name, new.spec.virtual))
        return bool(new.spec.virtual)

    park(queue, rank("demo"), Awaits.of([on(MEMBER_CLUSTER, Action.SPEC, grew)]))
    await clock.advance(1)
    for virtual in (False, True):
        new = cluster("a", virtual=virtual)
        queue.announce(MEMBER_CLUSTER, ("", "a"), Action.SPEC, cluster("a"), new)
        flush(queue)
        assert await handed_out(queue) == (["demo"] if virtual else [])
    assert asked == [("demo", "a", False), ("demo", "a", True)]


@pytest.mark.parametrize("events", [1, MANY + 1])
async def test_what_no_hint_can_tell_wakes_without_asking(events: int) -> None:
    """Several things that happened to one object, and a burst of events about many."""
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    hint = on(MEMBER_CLUSTER, Action.SPEC, lambda *_: False)
    park(queue, rank("demo"), Awaits.of([hint]))
    await clock.advance(1)
    for number in range(events):
        name = f"c{number}"
        queue.announce(MEMBER_CLUSTER, ("", name), Action.SPEC, cluster(name), cluster(name))
    if events == 1:
        happens(queue, Action.SPEC, "c0")
    flush(queue)
    assert await handed_out(queue) == ["demo"]


@pytest.mark.proves("G8", "L11")
async def test_who_came_later_takes_his_place_in_the_order_all_the_same() -> None:
    """Offered, woken or come after a delay: within a namespace the plugin's order is one line."""
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.activate([rank("young", created="2026-01-03T00:00:00Z")])
    park(queue, rank("middle", created="2026-01-02T00:00:00Z"), ROOM)
    await clock.advance(1)
    happens(queue, Action.ROOM)
    flush(queue)
    queue.activate([rank("old"), rank("urgent", 5, created="2026-01-04T00:00:00Z")])
    assert await handed_out(queue) == ["urgent", "old", "middle", "young"]


@pytest.mark.proves("L11")
async def test_the_order_is_the_plugins_and_not_that_of_priorities() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    for name, priority in (("c", 9), ("a", 0), ("b", 5)):
        queue.activate([Rank((name,), ("shop", name), priority)])
    assert await handed_out(queue) == ["a", "b", "c"]


@pytest.mark.proves("L15")
async def test_a_look_without_a_reason_reaches_whoever_is_known_or_not() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.add_unschedulable(rank("resting"), info("resting"), NO_EVENT)
    await clock.advance(1)
    happens(queue, Action.every())
    flush(queue)
    assert await handed_out(queue) == [], "nothing that happens helps it"
    for name in ("resting", "unheard-of"):
        queue.requeue(rank(name))
    assert await handed_out(queue) == ["resting", "unheard-of"]


@pytest.mark.proves("G7")
async def test_nor_does_it_where_the_lower_one_only_waits_a_little_less() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    for name, priority in (("low", 0), ("middle", 5), ("high", 10)):
        park(queue, rank(name, priority), ROOM)
        await clock.advance(0.03)
    happens(queue, Action.ROOM)
    flush(queue)
    assert await handed_out(queue) == [], "the first was refused a moment ago"
    await clock.advance(0.02)
    async with asyncio.timeout(30):
        names = [(await queue.active.get())[1] for _ in range(3)]
    assert names == ["high", "middle", "low"]


async def test_an_offer_overtakes_what_was_waited_for() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    park(queue, rank("demo"), ROOM)
    queue.activate([rank("demo")])
    assert queue.unschedulable == 0
    assert await handed_out(queue) == ["demo"]


async def test_a_change_during_the_write_finds_it_waiting() -> None:
    clock = FakeClock()
    queue = SchedulingQueue(clock=clock)
    queue.activate([rank("demo")])
    key = await queue.active.get()
    park(queue, rank("demo"), cluster_events(Action.READY))  # decided; the write is under way
    await clock.advance(1)
    happens(queue, Action.READY)
    flush(queue)
    assert len(queue.active) == 1
    queue.active.done(key)
    assert await handed_out(queue) == ["demo"]


async def test_what_is_forgotten_is_not_woken() -> None:
    queue = SchedulingQueue(clock=FakeClock())
    park(queue, rank("demo"), ANY_EVENT)
    queue.forget(("shop", "demo"))
    happens(queue, Action.every())
    flush(queue)
    assert queue.unschedulable == 0
    assert await handed_out(queue) == []
