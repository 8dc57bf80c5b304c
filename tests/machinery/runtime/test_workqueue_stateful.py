"""The queue against a model that knows only sets: nothing lost, nothing doubled, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from machinery.runtime.fair_queue import one_flow
from machinery.runtime.heap import HeapEntry
from machinery.runtime.workqueue import WorkQueue
from tests.examples import examples
from tests.fakeclock import FakeClock

keys = st.sampled_from("abcd")
priorities = st.integers(0, 2)
seconds = st.sampled_from([0.5, 1.0, 3.0, 10.0])


class QueueMachine(RuleBasedStateMachine):
    """`wanted` maps each key that somebody still wants looked at to (moment, priority)."""

    flow: Callable[[str], str] = staticmethod(one_flow)
    seats: int | None = None

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue(
            name="model",
            clock=self.clock,
            base_delay=1.0,
            max_delay=8.0,
            jitter=lambda: 1.0,
            flow=self.flow,
            seats=self.seats,
        )
        self.wanted: dict[str, tuple[float, int]] = {}
        self.in_work: set[str] = set()
        self.failures: dict[str, int] = {}
        self.getters: list[asyncio.Task[str]] = []
        self.withdrawn: list[HeapEntry[str]] = []

    def teardown(self):
        self.runner.close()

    def want(self, key: str, wait: float, priority: int) -> None:
        moment = self.clock.monotonic() + wait
        known = self.wanted.get(key)
        if known is None:
            self.wanted[key] = (moment, priority)
        else:
            self.wanted[key] = (min(moment, known[0]), max(priority, known[1]))

    @rule(key=keys, priority=priorities)
    def add(self, key, priority):
        self.queue.add(key, priority=priority)
        self.want(key, 0, priority)
        self.run()

    @rule(key=keys, wait=seconds, priority=priorities)
    def add_after(self, key, wait, priority):
        self.in_loop(lambda: self.queue.add_after(key, wait, priority=priority))
        self.want(key, wait, priority)
        self.run()

    @rule(key=keys, priority=priorities)
    def retry(self, key, priority):
        self.in_loop(lambda: self.queue.retry(key, priority=priority))
        count = self.failures[key] = self.failures.get(key, 0) + 1
        self.want(key, min(2.0 ** (count - 1), 8.0), priority)
        self.run()

    @rule(key=keys)
    def forget(self, key):
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(some=st.sets(keys))
    def withdraw(self, some):
        self.in_loop(lambda: self.withdrawn.extend(self.queue.withdraw(some)))
        now = self.clock.monotonic()
        for key in some & self.wanted.keys():
            if key not in self.in_work or self.wanted[key][0] > now:
                del self.wanted[key]
        self.run()

    @rule()
    def put_back(self):
        entries, self.withdrawn = self.withdrawn, []
        self.in_loop(lambda: self.queue.put_back(entries))
        for entry in entries:
            self.want(entry.key, max(entry.at - self.clock.monotonic(), 0), entry.priority)
        self.run()

    @rule()
    def get(self):
        self.getters.append(self.runner.get_loop().create_task(self.queue.get()))
        self.run()

    @precondition(lambda self: self.getters)
    @rule(data=st.data())
    def give_up(self, data):
        getter = self.getters.pop(data.draw(st.integers(0, len(self.getters) - 1)))
        getter.cancel()
        self.run()

    @precondition(lambda self: self.getters)
    @rule(data=st.data(), key=keys)
    def give_up_in_the_same_breath_as_an_add(self, data, key):
        getter = self.getters.pop(data.draw(st.integers(0, len(self.getters) - 1)))
        self.queue.add(key)
        self.want(key, 0, 0)
        getter.cancel()
        self.run()

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.in_work)))
        self.in_work.remove(key)
        self.queue.done(key)
        self.run()

    @rule(wait=seconds)
    def time_passes(self, wait):
        self.run(wait)

    @invariant()
    def the_length_is_what_is_due(self):
        self.in_loop(self.queue._promote)
        now = self.clock.monotonic()
        assert len(self.queue) == sum(moment <= now for moment, _ in self.wanted.values())

    @invariant()
    def nobody_waits_while_there_is_work(self):
        if self.getters:
            assert not {key for key in self.due() if self.may(key)}

    def may(self, key: str) -> bool:
        """Whether there is a seat for it."""
        if self.seats is None:
            return True
        at_work = [self.flow(other) for other in self.in_work]
        return at_work.count(self.flow(key)) < self.seats - len(at_work)

    def due(self) -> set[str]:
        now = self.clock.monotonic()
        return {key for key, (moment, _) in self.wanted.items() if moment <= now} - self.in_work

    def in_loop(self, call) -> None:
        async def wrapped() -> None:
            call()

        self.runner.run(wrapped())

    def run(self, wait: float = 0.0) -> None:
        """Let the getters take what is due, moment by moment, and check what each was given."""

        async def pass_time() -> None:
            end = self.clock.monotonic() + wait
            moments = sorted({m for m, _ in self.wanted.values()} | {end})
            for moment in moments:
                if self.clock.monotonic() <= moment <= end:
                    await self.clock.advance(moment - self.clock.monotonic())
                    self.collect()
            await self.clock.advance(0)
            self.collect()

        self.runner.run(pass_time())

    def collect(self) -> None:
        given = [getter.result() for getter in self.getters if getter.done()]
        self.getters = [getter for getter in self.getters if not getter.done()]
        assert len(set(given)) == len(given), "one key in two hands"
        for key in given:
            assert key not in self.in_work, "a key in work was handed out"
            assert key in self.wanted, "nobody wanted it"
            assert self.wanted[key][0] <= self.clock.monotonic(), "too early"
        left = {key: self.wanted[key][1] for key in self.due() - set(given)}
        for key in given:
            above = [p for k, p in left.items() if self.flow(k) == self.flow(key)]
            assert self.queue.priority(key) >= max(above, default=-1), "a higher one passed over"
        for key in given:
            assert self.queue.priority(key) == self.wanted.pop(key)[1]
            self.in_work.add(key)


class FlowMachine(QueueMachine):
    """Two namespaces, of two keys each, and few seats: nothing of it may lose or double a key."""

    flow = staticmethod(lambda key: "ab" if key in "ab" else "cd")
    seats = 3


class SeatMachine(FlowMachine):
    """As many flows as keys."""

    flow = staticmethod(lambda key: key)
    seats = 2


TestFlowMachine = FlowMachine.TestCase
TestFlowMachine.settings = examples(60, stateful_step_count=40)
TestSeatMachine = SeatMachine.TestCase
TestSeatMachine.settings = examples(60, stateful_step_count=40)
TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = examples(60, stateful_step_count=40)
