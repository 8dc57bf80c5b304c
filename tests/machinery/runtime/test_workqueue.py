"""Which key comes next, which has to wait, and that none is lost or handed out twice."""

from __future__ import annotations

import asyncio
import logging

import pytest

from machinery import metrics
from machinery.clock import SystemClock
from machinery.errors import ConfigurationError, Conflict, Unreachable
from machinery.runtime.workqueue import QueueShutDown, WorkQueue, work, work_once
from tests.alive import Names
from tests.fakeclock import FakeClock, settle

log = logging.getLogger("test.queue")


def full() -> float:
    """Jitter that leaves the whole delay."""
    return 1.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> WorkQueue[str]:
    return WorkQueue(name="test", clock=clock, base_delay=1.0, max_delay=60.0, jitter=full)


async def drain(queue: WorkQueue[str]) -> list[str]:
    """Everything that is ready, each key worked on in no time."""
    keys = []
    while len(queue):
        key = await queue.get()
        queue.done(key)
        keys.append(key)
    return keys


def sample(name: str, queue: str = "test") -> float:
    value = metrics.REGISTRY.get_sample_value(name, {"queue": queue})
    assert value is not None, name
    return value


async def test_first_come_first_served(queue):
    for key in "cab":
        queue.add(key)
    assert await drain(queue) == ["c", "a", "b"]


@pytest.mark.proves("G7")
async def test_higher_priority_goes_first(queue):
    queue.add("early", priority=1)
    queue.add("urgent", priority=100)
    queue.add("late", priority=1)
    queue.add("idle", priority=-5)
    assert await drain(queue) == ["urgent", "early", "late", "idle"]


async def test_what_is_withdrawn_is_handed_out_when_it_is_added_again(queue, clock):
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 5)
    taken = queue.withdraw("ac")
    assert [entry.key for entry in taken] == ["a", "c"]
    queue.add("c")
    await clock.advance(10)
    assert await drain(queue) == ["b", "c"]


async def test_what_is_put_back_comes_when_it_would_have_come(queue, clock):
    queue.add("a", priority=3)
    queue.add_after("b", 5, priority=2)
    queue.add("c", priority=1)
    queue.put_back(queue.withdraw("abcd"))
    assert await drain(queue) == ["a", "c"]
    await clock.advance(4)
    assert await drain(queue) == []
    await clock.advance(1)
    queue.add("d")
    assert await drain(queue) == ["b", "d"]


async def test_added_twice_is_handed_out_once_with_the_higher_priority(queue):
    queue.add("a")
    queue.add("b", priority=1)
    queue.add("a", priority=2)
    queue.add("b", priority=0)
    assert await drain(queue) == ["a", "b"]


async def test_never_in_two_hands_and_not_forgotten(queue):
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a", priority=7)
    other = asyncio.create_task(queue.get())
    await settle()
    assert not other.done()
    queue.done("a")
    assert await other == "a"
    assert queue.priority("a") == 7


async def test_done_without_get_fails_loudly(queue):
    queue.add("a")
    with pytest.raises(KeyError):
        queue.done("a")


async def test_a_delayed_key_comes_at_its_time(queue, clock):
    queue.add_after("a", 10)
    getting = asyncio.create_task(queue.get())
    await clock.advance(9.9)
    assert not getting.done()
    await clock.advance(0.1)
    assert await getting == "a"


async def test_the_earlier_deadline_is_kept(queue, clock):
    queue.add_after("a", 10)
    queue.add_after("a", 5, priority=3)
    queue.add_after("a", 20)
    getting = asyncio.create_task(queue.get())
    await clock.advance(5)
    assert await getting == "a"
    assert queue.priority("a") == 3
    queue.done("a")
    again = asyncio.create_task(queue.get())
    await clock.advance(100)
    assert not again.done()
    again.cancel()


async def test_a_waiting_worker_hears_of_an_earlier_deadline(queue, clock):
    queue.add_after("late", 10)
    getting = asyncio.create_task(queue.get())
    await settle()
    queue.add_after("early", 5)
    await clock.advance(5)
    assert await getting == "early"


async def test_back_off_doubles_and_is_forgiven(queue, clock):
    waits = []
    for _ in range(8):
        queue.retry("a")
        started = clock.monotonic()
        getting = asyncio.create_task(queue.get())
        while not getting.done():
            await clock.advance(1)
        waits.append(clock.monotonic() - started)
        queue.done("a")
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    queue.forget("a")
    queue.retry("a")
    getting = asyncio.create_task(queue.get())
    await clock.advance(1)
    assert getting.done()


async def test_back_off_is_bounded_after_a_thousand_failures(queue, clock):
    for _ in range(1001):
        queue.retry("a")
        await clock.advance(0)
    getting = asyncio.create_task(queue.get())
    await clock.advance(60)
    assert await getting == "a"


async def test_back_off_is_spread(clock):
    spread = []
    for share in (0.0, 0.5):
        queue: WorkQueue[str] = WorkQueue(
            name="test", clock=clock, base_delay=8, jitter=lambda share=share: share
        )
        queue.retry("a")
        started = clock.monotonic()
        getting = asyncio.create_task(queue.get())
        while not getting.done():
            await clock.advance(1)
        spread.append(clock.monotonic() - started)
    assert spread == [4, 6]


async def test_an_explicit_add_does_not_wait_for_the_back_off(queue, clock):
    for _ in range(6):
        queue.retry("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    getting = asyncio.create_task(queue.get())
    await clock.advance(1000)
    assert not getting.done()  # the back-off is over with: one look was asked for, one was had
    getting.cancel()


async def test_a_retry_does_not_delay_a_key_added_while_in_work(queue):
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.done("a")
    queue.retry("a")
    assert await drain(queue) == ["a"]


async def test_due_while_in_work_comes_again_after_done(queue, clock):
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    other = asyncio.create_task(queue.get())
    await clock.advance(6)
    assert not other.done()
    queue.done("a")
    assert await other == "a"


async def test_a_wakened_getter_that_is_cancelled_passes_the_key_on(queue):
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_every_due_key_wakes_a_worker_of_its_own(queue, clock):
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    for key in "abc":
        queue.add_after(key, 5)
    await clock.advance(5)
    assert sorted([await getter for getter in getters]) == ["a", "b", "c"]


async def test_nobody_waiting_means_no_timer(queue, clock):
    queue.add_after("a", 5)
    getting = asyncio.create_task(queue.get())
    await settle()
    assert clock.sleeping == 1
    getting.cancel()
    await settle()
    assert clock.sleeping == 0


async def test_memory_is_bounded_by_the_keys_alive(queue, clock):
    names = Names()
    for _ in range(1_000):
        queue.add_after(names.give("a"), 3600)
        queue.add(names.give("a"))
        queue.done(await queue.get())
    assert names.kept() < 200


async def test_shut_down_ends_getters_and_takes_nothing_more(queue):
    getting = asyncio.create_task(queue.get())
    await settle()
    queue.shut_down()
    with pytest.raises(QueueShutDown):
        await getting
    queue.add("a")
    queue.add_after("b", 0)
    queue.retry("c")
    assert len(queue) == 0
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_a_key_in_work_may_be_done_after_shut_down(queue):
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.shut_down()
    queue.done("a")
    assert len(queue) == 0


async def test_metrics_are_there_at_zero(clock):
    quiet: WorkQueue[str] = WorkQueue(name="quiet", clock=clock)
    for name in ("depth", "oldest_seconds", "adds_total", "retries_total", "work_seconds_count"):
        assert sample(f"stowage_queue_{name}", "quiet") == 0
    assert len(quiet) == 0


async def test_metrics_say_what_happened(clock):
    queue: WorkQueue[str] = WorkQueue(name="seen", clock=clock, jitter=full)
    other: WorkQueue[str] = WorkQueue(name="seen", clock=clock)
    queue.add("a")
    queue.add("a")
    await clock.advance(3)
    other.add("b")
    assert sample("stowage_queue_depth", "seen") == 2
    assert sample("stowage_queue_oldest_seconds", "seen") == 3
    await queue.get()
    await clock.advance(2)
    queue.done("a")
    queue.retry("a")
    assert sample("stowage_queue_depth", "seen") == 1
    assert sample("stowage_queue_adds_total", "seen") == 2
    assert sample("stowage_queue_retries_total", "seen") == 1
    assert sample("stowage_queue_work_seconds_sum", "seen") == 2
    del other
    assert sample("stowage_queue_depth", "seen") == 0


async def test_success_forgives_and_a_number_asks_for_another_look(queue, clock):
    answers = {"a": [Unreachable("no route"), 30.0, None]}

    async def reconcile(key: str) -> float | None:
        answer = answers[key].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue.add("a", priority=4)
    await work_once(queue, reconcile, log=log)
    await clock.advance(1)
    await work_once(queue, reconcile, log=log)
    assert queue._failures == {}
    await clock.advance(30)
    assert await queue.get() == "a"
    assert queue.priority("a") == 4  # a retry and a later look keep their rank
    queue.done("a")


async def test_whatever_is_raised_is_logged_with_the_key_and_retried(clock, caplog):
    queue: WorkQueue[tuple[str, str]] = WorkQueue(name="test", clock=clock, jitter=full)

    async def reconcile(key: tuple[str, str]) -> None:
        raise {"a": Unreachable("no route"), "b": ZeroDivisionError("oh")}[key[1]]

    queue.add(("ns", "a"))
    queue.add(("", "b"))
    with caplog.at_level(logging.DEBUG, log.name):
        await work_once(queue, reconcile, log=log)
        await work_once(queue, reconcile, log=log)
    foreseen, bug = caplog.records
    assert (foreseen.levelname, foreseen.object, foreseen.exc_info) == ("WARNING", "ns/a", None)
    assert (bug.levelname, bug.object) == ("ERROR", "b")
    assert bug.exc_info[0] is ZeroDivisionError
    await clock.advance(1)
    assert await queue.get() == ("ns", "a")


async def test_a_conflict_is_everyday(clock, caplog):
    queue: WorkQueue[str] = WorkQueue(name="test", clock=clock)

    async def reconcile(_: str) -> None:
        raise Conflict(code=409, reason="Conflict", message="somebody wrote first")

    queue.add("a")
    with caplog.at_level(logging.INFO, log.name):
        await work_once(queue, reconcile, log=log)
    assert caplog.records == []


async def test_at_most_so_many_at_once(queue):
    running, most, gate = 0, 0, asyncio.Event()

    async def reconcile(_: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    for key in "abcdef":
        queue.add(key)
    working = asyncio.create_task(work(queue, reconcile, workers=3, log=log))
    await settle()
    assert running == 3
    gate.set()
    await settle()
    assert (running, most, len(queue)) == (0, 3, 0)
    queue.shut_down()
    await working


async def test_shut_down_lets_what_is_under_way_finish(queue):
    gate, finished = asyncio.Event(), []

    async def reconcile(key: str) -> None:
        await gate.wait()
        finished.append(key)

    queue.add("a")
    working = asyncio.create_task(work(queue, reconcile, workers=2, log=log))
    await settle()
    queue.shut_down()
    gate.set()
    await working
    assert finished == ["a"]


async def test_cancelled_work_gives_its_keys_back(queue):
    async def reconcile(_: str) -> None:
        await asyncio.Event().wait()

    queue.add("a", priority=2)
    working = asyncio.create_task(work(queue, reconcile, workers=2, log=log))
    await settle()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await queue.get() == "a"
    assert queue.priority("a") == 2


async def test_a_cancelled_part_of_a_reconcile_does_not_cost_a_worker(queue, clock):
    seen = []

    async def reconcile(key: str) -> None:
        seen.append(key)
        if key == "a" and seen.count("a") == 1:
            part = asyncio.create_task(asyncio.sleep(60))
            part.cancel()
            await part

    queue.add("a")
    queue.add("b")
    working = asyncio.create_task(work(queue, reconcile, workers=1, log=log))
    await clock.advance(1)
    assert seen == ["a", "b", "a"]
    queue.shut_down()
    await working


async def test_keys_that_fail_without_awaiting_anything_starve_nobody():
    queue: WorkQueue[str] = WorkQueue(name="busy", clock=SystemClock(), base_delay=0.0)

    quiet = logging.getLogger("test.queue.quiet")
    quiet.disabled = True

    async def fail(key: str) -> float | None:
        queue.add(key)
        raise ConfigurationError("at once")

    working = asyncio.create_task(work(queue, fail, workers=4, log=quiet))
    for name in "abcdefgh":
        queue.add(name)
    for _ in range(100):  # it ends, as the loop has turns for others
        await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
