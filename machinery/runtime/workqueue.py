"""The work queue of a level-triggered controller: which key is reconciled next, and which waits.

- A key is never handed out twice at once. Added while in work, it is queued again after `done`.
- Within a flow keys go by rank; without rank by priority, then first come first served. Flows share
  the work fairly (`machinery.runtime.fair_queue`).
- Each key has one deadline, the earliest requested: `add` overrides the back-off of a failure.
- A cancelled `get` or reconcile loses no key.

One loop, no threads: everything but `get` returns at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakSet

from machinery import metrics
from machinery.clock import Clock
from machinery.errors import Conflict, StowageError
from machinery.runtime.backoff import Jitter, delay
from machinery.runtime.fair_queue import Flows, one_flow
from machinery.runtime.heap import Heap, HeapEntry

K = TypeVar("K", bound=Hashable)
Rank: TypeAlias = tuple[Any, ...]
_STEP = 500
"""Keys moved in one step."""


_QUEUE = ("queue",)
_depth = metrics.gauge("stowage_queue_depth", "Keys that wait for a worker", _QUEUE)
_oldest = metrics.gauge(
    "stowage_queue_oldest_seconds", "Seconds that the key ready for longest has waited", _QUEUE
)
_adds = metrics.counter("stowage_queue_adds", "Keys added, those already waiting aside", _QUEUE)
_retries = metrics.counter("stowage_queue_retries", "Keys added again after a failure", _QUEUE)
_work = metrics.histogram("stowage_queue_work_seconds", "Seconds that a key was in work", _QUEUE)


class QueueShutDown(Exception):
    """The queue was shut down: there will be no next key."""


class WorkQueue(Generic[K]):
    """Keys to reconcile. `base_delay` and `max_delay` bound the back-off of `retry`, in seconds.

    `flow` names the flow of a key, which gets a fair share of the work. If work may hang, `seats`
    is the number of workers, of which no flow gets all.
    """

    def __init__(
        self,
        *,
        name: str,
        clock: Clock,
        base_delay: float = 0.005,
        max_delay: float = 60.0,
        jitter: Jitter = random.random,
        flow: Callable[[K], str] = one_flow,
        seats: int | None = None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._jitter = jitter
        self._ready: Flows[K] = Flows(flow=flow, seats=seats)  # `at`: when it became ready
        self._later: Heap[K] = Heap()  # `at` is its deadline
        self._in_work: dict[K, HeapEntry[K]] = {}  # `at` is the moment it was handed out
        self._dirty: dict[K, HeapEntry[K]] = {}  # added while in work: their place after `done`
        self._waited: dict[K, float] = {}  # of keys in work
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._closed = False
        self._metrics = QueueMetrics.of(name)
        self._metrics.join(self)

    def __len__(self) -> int:
        """The number of keys that are ready, or will be as soon as their work is done."""
        return len(self._ready) + len(self._dirty)

    def add(self, key: K, *, priority: int = 0, rank: Rank = ()) -> None:
        """Hand out `key` as soon as its turn comes.

        `rank` is its place within its flow, smaller first; in one flow all keys have a rank, or
        none. Added twice, a key keeps the higher priority and the better rank.
        """
        if self._closed:
            return
        entry = HeapEntry(key, priority, self._clock.monotonic(), rank)
        delayed = self._later.discard(key)
        if delayed is not None:
            entry = replace(_better(entry, delayed), at=entry.at)
        if key in self._in_work:
            self._mark_dirty(entry)
        else:
            self._make_ready(entry)

    def add_after(self, key: K, seconds: float, *, priority: int = 0, rank: Rank = ()) -> None:
        if seconds <= 0 or self._ready.get(key) or key in self._dirty:
            self.add(key, priority=priority, rank=rank)
            return
        if self._closed:
            return
        entry = HeapEntry(key, priority, self._clock.monotonic() + seconds, rank)
        before = self._later.get(key)
        if before is not None:
            entry = replace(_better(entry, before), at=min(entry.at, before.at))
        self._later.put(entry, rank=(entry.at,))
        self._set_timer()

    def retry(self, key: K, *, priority: int = 0, rank: Rank = ()) -> None:
        """Add a failed key after a back-off that doubles with each failure in a row."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._metrics.retries.inc()
        wait = delay(failures, base=self._base_delay, cap=self._max_delay, jitter=self._jitter)
        self.add_after(key, wait, priority=priority, rank=rank)

    def add_patiently(self, key: K, *, priority: int = 0, rank: Rank = ()) -> None:
        wait, failures = 0.0, self._failures.get(key, 0)
        if failures:
            wait = delay(failures, base=self._base_delay, cap=self._max_delay, jitter=self._jitter)
        self.add_after(key, wait, priority=priority, rank=rank)

    def withdraw(self, keys: Iterable[K]) -> list[HeapEntry[K]]:
        """Take these keys out and return their entries, for `put_back`. Keys in work stay."""
        found = (self._later.discard(key) or self._ready.discard(key) for key in keys)
        return [entry for entry in found if entry is not None]

    def put_back(self, entries: Iterable[HeapEntry[K]]) -> None:
        for entry in entries:
            wait = entry.at - self._clock.monotonic()
            self.add_after(entry.key, wait, priority=entry.priority, rank=entry.rank)

    def forget(self, key: K) -> None:
        """Forget the failures of `key`: its next back-off starts small again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key, in work until `done`. Raises QueueShutDown after `shut_down`."""
        while True:
            if self._closed:
                raise QueueShutDown(self.name)
            self._promote()
            entry = self._ready.take()
            if entry is not None:
                return self._hand_out(entry)
            await self._wait()

    def handed_out(self, key: K) -> bool:
        return key in self._in_work

    def priority(self, key: K) -> int:
        """Return the priority of a key in work. Raises KeyError for any other."""
        return self._in_work[key].priority

    def rank(self, key: K) -> Rank:
        return self._in_work[key].rank

    def waited(self, key: K) -> float:
        """Return the seconds for which a key in work was ready. Raises KeyError for any other."""
        return self._waited[key]

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def done(self, key: K) -> None:
        """End the work on `key`. Raises KeyError when it is not in work."""
        entry = self._in_work.pop(key)
        del self._waited[key]
        took = self._clock.monotonic() - entry.at
        self._metrics.work.observe(took)
        self._ready.done(key, took)
        dirty = self._dirty.pop(key, None)
        if dirty is not None:
            self._make_ready(replace(dirty, at=self._clock.monotonic()))
        elif self._ready:
            self._wake_one()  # a seat is free now

    def shut_down(self) -> None:
        """Drop waiting keys and accept none; keys in work may still be `done`."""
        self._closed = True
        self._ready.clear()
        self._later.clear()
        self._dirty.clear()
        self._stop_timer()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def oldest(self) -> float:
        """Return seconds; 0 when none is ready."""
        since = min((entry.at for entry in self._ready.entries()), default=None)
        return 0.0 if since is None else self._clock.monotonic() - since

    def _make_ready(self, entry: HeapEntry[K]) -> None:
        before = self._ready.get(entry.key)
        if before is None:
            self._metrics.adds.inc()
            self._ready.put(entry)
            self._wake_one()
        elif (better := _better(entry, before)) is not before:
            self._ready.put(better)

    def _mark_dirty(self, entry: HeapEntry[K]) -> None:
        before = self._dirty.get(entry.key)
        if before is None:
            self._metrics.adds.inc()
        self._dirty[entry.key] = entry if before is None else _better(entry, before)

    def _promote(self) -> None:
        now = self._clock.monotonic()
        for _ in range(_STEP):
            entry = self._later.first()
            if entry is None or entry.at > now:
                return
            self.add(entry.key, priority=entry.priority, rank=entry.rank)

    def _hand_out(self, entry: HeapEntry[K]) -> K:
        now = self._clock.monotonic()
        self._in_work[entry.key], self._waited[entry.key] = replace(entry, at=now), now - entry.at
        if self._ready:
            self._wake_one()  # one more free seat may be enough for several flows
        return entry.key

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._set_timer()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # woken and cancelled at once: pass the wake on, or it is lost
            raise
        finally:
            with suppress(ValueError):
                self._waiters.remove(waiter)
            if not self._waiters:
                self._stop_timer()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _set_timer(self) -> None:
        first = self._later.first()
        if first is None or not self._waiters:
            return
        if self._timer is None or self._timer_at != first.at:
            self._stop_timer()
            self._timer = asyncio.create_task(self._wake_at(first.at))
            self._timer_at = first.at

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _wake_at(self, deadline: float) -> None:
        await self._clock.sleep(deadline - self._clock.monotonic())
        self._timer = None  # this task, which `_set_timer` must not cancel
        self._promote()
        self._set_timer()


async def work(
    queue: WorkQueue[K],
    reconcile: Callable[[K], Awaitable[float | None]],
    *,
    workers: int,
    log: logging.Logger,
) -> None:
    """Reconcile keys, at most `workers` at once, until cancelled or until the queue is shut down.

    `reconcile` returns None, or the seconds after which to requeue the key. A fault is logged and
    the key retried. A requeued key keeps its priority. On cancellation every reconcile is cancelled
    and its key is queued again.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_worker(queue, reconcile, log))


async def _worker(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]], log: logging.Logger
) -> None:
    with suppress(QueueShutDown):
        while True:
            await work_once(queue, reconcile, log=log)
            await asyncio.sleep(0)  # a reconcile that awaits nothing must not keep timers waiting


async def work_once(
    queue: WorkQueue[K], reconcile: Callable[[K], Awaitable[float | None]], *, log: logging.Logger
) -> None:
    """Reconcile the next key: the body of a worker's loop. Raises QueueShutDown."""
    key = await queue.get()
    priority, rank = queue.priority(key), queue.rank(key)
    try:
        try:
            requeue_after = await reconcile(key)
        finally:
            queue.done(key)
    except asyncio.CancelledError as e:
        if _being_cancelled():
            queue.add(key, priority=priority, rank=rank)
            raise
        _say(queue, key, e, log)  # an awaited task was cancelled, not this one
        queue.retry(key, priority=priority, rank=rank)
    except Exception as e:  # noqa: BLE001 - a fault of one key must not stop the others
        _say(queue, key, e, log)
        queue.retry(key, priority=priority, rank=rank)
    else:
        queue.forget(key)
        if requeue_after is not None:
            queue.add_after(key, requeue_after, priority=priority, rank=rank)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _better(new: HeapEntry[K], old: HeapEntry[K]) -> HeapEntry[K]:
    priority = max(new.priority, old.priority)
    rank = min((entry.rank for entry in (new, old) if entry.rank), default=())
    if (priority, rank) == (old.priority, old.rank):
        return old
    return replace(old, priority=priority, rank=rank)


def _say(queue: WorkQueue[K], key: K, fault: BaseException, log: logging.Logger) -> None:
    level = logging.DEBUG if isinstance(fault, Conflict) else logging.WARNING
    foreseen = isinstance(fault, StowageError)
    log.log(
        level if foreseen else logging.ERROR,
        "%s failed, will be tried again: %s",
        queue.name,
        str(fault) or type(fault).__name__,
        extra={"object": _text(key)},
        exc_info=None if foreseen else fault,
    )


def _text(key: Hashable) -> str:
    return "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)


class QueueMetrics:
    """Make it by `of`."""

    def __init__(self, name: str) -> None:
        self.adds = _adds.labels(name)
        self.retries = _retries.labels(name)
        self.work = _work.labels(name)
        self._queues: WeakSet[WorkQueue[Any]] = WeakSet()
        _depth.labels(name).set_function(self._total_depth)
        _oldest.labels(name).set_function(self._greatest_age)

    @classmethod
    def of(cls, name: str) -> QueueMetrics:
        known = _by_name.get(name)
        if known is None:
            known = _by_name[name] = cls(name)
        return known

    def join(self, queue: WorkQueue[Any]) -> None:
        self._queues.add(queue)

    def _total_depth(self) -> float:
        return sum(len(queue) for queue in self._queues)

    def _greatest_age(self) -> float:
        return max((queue.oldest() for queue in self._queues), default=0.0)


_by_name: dict[str, QueueMetrics] = {}
