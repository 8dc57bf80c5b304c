"""Whose turn it is between namespaces: by counts of what was handed out, not by the clock."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery.clock import SystemClock
from machinery.runtime.fair_queue import LEAST_SECONDS, TURN_SECONDS, Flows, namespace_of
from machinery.runtime.heap import HeapEntry
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.metadata import Key
from tests.fakeclock import FakeClock

LONG = 20 * TURN_SECONDS


def flows(seats: int | None = None) -> Flows[Key]:
    return Flows(flow=namespace_of, seats=seats)


def fill(line: Flows[Key], namespace: str, keys: int, *, priority: int = 0) -> None:
    for number in range(keys):
        line.put(HeapEntry((namespace, f"w{number:05}"), priority, 0.0))


def served(line: Flows[Key], turns: int, *, seconds: dict[str, float] | None = None) -> list[str]:
    """The namespaces of the next keys, each worked on before the next one is taken."""
    names = []
    for _ in range(turns):
        entry = line.take()
        if entry is None:
            break
        names.append(entry.key[0])
        line.done(entry.key, (seconds or {}).get(entry.key[0], LEAST_SECONDS))
    return names


@pytest.mark.proves("S2")
def test_the_only_key_of_a_namespace_is_next_however_many_another_has() -> None:
    line = flows()
    fill(line, "noisy", 1000)
    served(line, 100)
    line.put(HeapEntry(("quiet", "demo"), 0, 0.0))
    assert "quiet" in served(line, 2)


@pytest.mark.proves("S2")
def test_edited_in_a_loop_a_namespace_gets_its_share_of_the_time_and_no_more() -> None:
    line = flows()
    fill(line, "noisy", 1000)
    fill(line, "quiet", 1000)
    names = served(line, 200, seconds={"noisy": 0.05, "quiet": 0.005})
    counts = Counter(names)
    assert 8 <= counts["quiet"] / counts["noisy"] <= 12, "as much time, not as many keys"


@pytest.mark.proves("S2")
def test_who_was_idle_has_saved_nothing_up() -> None:
    line = flows()
    fill(line, "early", 1000)
    served(line, 500)
    fill(line, "late", 1000)
    counts = Counter(served(line, 100))
    assert counts["late"] <= 52


@pytest.mark.proves("S2")
def test_an_idle_moment_does_not_wipe_out_what_was_had_beyond_the_share() -> None:
    line = flows()
    fill(line, "other", 50)
    line.put(HeapEntry(("greedy", "w"), 100, 0.0))
    assert served(line, 1, seconds={"greedy": LONG}) == ["greedy"]
    line.put(HeapEntry(("greedy", "w"), 100, 0.0))
    names = served(line, 51)
    assert names.index("greedy") == 50, "all others are served before it comes again"


@pytest.mark.proves("G7")
def test_priority_decides_among_those_that_come_together() -> None:
    line = flows()
    fill(line, "a", 3)
    fill(line, "b", 3, priority=10)
    fill(line, "c", 3, priority=5)
    assert served(line, 9) == ["b"] * 3 + ["c"] * 3 + ["a"] * 3


@pytest.mark.proves("G7", "S2")
def test_but_not_beyond_a_turn_so_that_nobody_starves_by_it() -> None:
    line = flows()
    fill(line, "important", 1000, priority=1000)
    fill(line, "humble", 10)
    turn = int(TURN_SECONDS / LEAST_SECONDS)
    names = served(line, turn + 30)
    assert set(names[: turn - 1]) == {"important"}
    assert names[turn - 1 :].count("humble") >= 10, "from then on they alternate"


@pytest.mark.proves("G7")
def test_within_a_namespace_priority_always_goes_first() -> None:
    line = flows()
    fill(line, "a", 2)
    line.put(HeapEntry(("a", "urgent"), 7, 0.0))
    entry = line.take()
    assert entry is not None
    assert entry.key == ("a", "urgent")
    line.put(HeapEntry(("a", "w00001"), 3, 0.0))  # it became more important
    second = line.take()
    assert second is not None
    assert second.key == ("a", "w00001")


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from([0.001, 0.1, LONG])),
        min_size=1,
        max_size=60,
    ),
    st.sampled_from([None, 1, 2, 8]),
)
def test_all_that_is_put_is_handed_out_once(
    puts: Iterable[tuple[str, int, float]], seats: int | None
) -> None:
    line = flows(seats)
    seconds: dict[Key, float] = {}
    for number, (namespace, priority, took) in enumerate(puts):
        key = (namespace, f"w{number}")
        seconds[key] = took
        line.put(HeapEntry(key, priority, 0.0))
    assert len(line) == len(seconds)
    given: list[Key] = []
    under_way: list[Key] = []
    while len(line) or under_way:
        entry = line.take()
        if entry is not None:
            given.append(entry.key)
            under_way.append(entry.key)
        else:
            assert under_way, "somebody may always go"
            key = under_way.pop(0)
            line.done(key, seconds[key])
    assert sorted(given) == sorted(seconds)
    assert not line._flows, "nothing is remembered of an empty line"


def test_what_is_remembered_is_bounded_by_what_waits() -> None:
    line = flows()
    fill(line, "steady", 10_000)
    for number in range(5000):
        line.put(HeapEntry((f"ns-{number}", "w"), 5, 0.0))
        served(line, 2)
    assert len(line._flows) < 1000


@pytest.mark.proves("S2", "S3")
async def test_syncs_that_hang_leave_workers_for_other_namespaces() -> None:
    queue: WorkQueue[Key] = WorkQueue(
        name="hanging", clock=SystemClock(), flow=namespace_of, seats=16
    )
    hanging = asyncio.Event()
    at_work: Counter[str] = Counter()
    done: Counter[str] = Counter()

    async def sync(key: Key) -> None:
        at_work[key[0]] += 1
        if key[0] != "honest":
            await hanging.wait()
        done[key[0]] += 1

    async def reached(told: Counter[str], expected: dict[str, int]) -> None:
        async with asyncio.timeout(60):
            while told != expected:  # noqa: ASYNC110 - counts tell of no change
                await asyncio.sleep(0.001)

    workers = asyncio.create_task(work(queue, sync, workers=16, log=logging.getLogger()))
    for number in range(1000):
        queue.add(("one", f"w{number}"))
    await reached(at_work, {"one": 8})
    for number in range(1000):
        queue.add(("two", f"w{number}"))
    await reached(at_work, {"one": 8, "two": 4})
    for number in range(20):
        queue.add(("honest", f"w{number}"))
    await reached(done, {"honest": 20})
    assert at_work == {"one": 8, "two": 4, "honest": 20}, "nobody got more meanwhile"
    hanging.set()
    await reached(done, {"honest": 20, "one": 1000, "two": 1000})
    workers.cancel()
    await asyncio.gather(workers, return_exceptions=True)
    assert not len(queue)


async def test_what_is_due_together_is_moved_in_steps() -> None:
    clock = FakeClock()
    queue: WorkQueue[Key] = WorkQueue(name="burst", clock=clock, flow=namespace_of)
    for number in range(5000):
        queue.add_after((f"ns-{number % 7}", f"w{number}"), 10)
    await clock.advance(11)
    queue._promote()
    assert 0 < len(queue) < 1000
    keys = set()
    for _ in range(5000):
        key = await queue.get()
        queue.done(key)
        keys.add(key)
    assert len(keys) == 5000
