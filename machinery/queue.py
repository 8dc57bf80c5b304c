"""The work queue: which key is looked at next, and which has to wait.

Reconciling is level-triggered: a key says where to look, never what happened, so a key that is
added many times before its turn comes is handed out once. The queue promises:

- a key is never in two hands at once; added while it is in work, it comes again after `done`;
- higher priority first, first come first served within one (a stream of higher ones can hold lower
  ones up: that is what priority means);
- each key waits for one moment, the earliest that anyone asked for: an explicit `add` overtakes the
  back-off of an earlier failure, and two `add_after` keep the earlier deadline;
- nothing added before a `get` that is cancelled, or a reconcile that is, gets lost.

One loop, no threads: everything but `get` returns at once. Queues of the same name share their
metrics, so a name is one of a few (`scheduling`, `member`), never that of an object.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from machinery.backoff import Jitter, delay
from machinery.clock import Clock
from machinery.errors import Conflict, StowageError
from machinery.heap import Entry, Heap
from machinery.queuemetrics import QueueMetrics

K = TypeVar("K", bound=Hashable)


class QueueShutDown(Exception):
    """There is no next key and there never will be one."""


class WorkQueue(Generic[K]):
    """Keys to work on. `base_delay` and `max_delay` bound the back-off of `retry`, in seconds."""

    def __init__(
        self,
        *,
        name: str,
        clock: Clock,
        base_delay: float = 0.005,
        max_delay: float = 60.0,
        jitter: Jitter = random.random,
    ) -> None:
        self.name = name
        self._clock = clock
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._jitter = jitter
        self._ready: Heap[K] = Heap()  # `at` is the moment it became ready
        self._later: Heap[K] = Heap()  # `at` is its deadline
        self._in_work: dict[K, Entry[K]] = {}  # `at` is the moment it was handed out
        self._again: dict[K, int] = {}  # added while in work: the priority it comes back with
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._closed = False
        self._metrics = QueueMetrics.of(name)
        self._metrics.join(self)

    def __len__(self) -> int:
        """How many keys could be handed out now, or as soon as they are no longer in work."""
        return len(self._ready) + len(self._again)

    def add(self, key: K, *, priority: int = 0) -> None:
        """Hand `key` out as soon as its turn comes. Added twice, it keeps the higher priority."""
        if self._closed:
            return
        delayed = self._later.discard(key)
        if delayed is not None:
            priority = max(priority, delayed.priority)
        if key in self._in_work:
            self._come_again(key, priority)
        else:
            self._make_ready(key, priority)

    def add_after(self, key: K, seconds: float, *, priority: int = 0) -> None:
        """As `add`, that many seconds from now; no effect beyond priority where it comes sooner."""
        if seconds <= 0 or key in self._ready or key in self._again:
            self.add(key, priority=priority)
            return
        if self._closed:
            return
        deadline = self._clock.monotonic() + seconds
        before = self._later.get(key)
        if before is not None:
            deadline = min(deadline, before.at)
            priority = max(priority, before.priority)
        self._later.put(Entry(key, priority, deadline), rank=deadline)
        self._set_timer()

    def retry(self, key: K, *, priority: int = 0) -> None:
        """`key` failed: add it after a back-off that doubles with each failure in a row."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._metrics.retries.inc()
        wait = delay(failures, base=self._base_delay, cap=self._max_delay, jitter=self._jitter)
        self.add_after(key, wait, priority=priority)

    def forget(self, key: K) -> None:
        """The failures of `key` are forgiven: its next back-off starts small again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, now in work until `done`. Raises QueueShutDown after `shut_down`."""
        while True:
            if self._closed:
                raise QueueShutDown(self.name)
            self._promote()
            if self._ready:
                return self._hand_out()
            await self._wait()

    def priority(self, key: K) -> int:
        """The priority with which a key in work was handed out. Raises KeyError for any other."""
        return self._in_work[key].priority

    def done(self, key: K) -> None:
        """`key` is no longer in work. Raises KeyError when it was not."""
        entry = self._in_work.pop(key)
        self._metrics.work.observe(self._clock.monotonic() - entry.at)
        priority = self._again.pop(key, None)
        if priority is not None:
            self._make_ready(key, priority)

    def shut_down(self) -> None:
        """Hand out nothing more and take nothing more; keys in work may still be `done`.

        What waits is dropped: the next process finds it again by looking at the world.
        """
        self._closed = True
        self._ready.clear()
        self._later.clear()
        self._again.clear()
        self._stop_timer()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def oldest(self) -> float:
        """For how many seconds the key that is ready for longest has been waiting; 0 when none."""
        since = min((entry.at for entry in self._ready.entries()), default=None)
        return 0.0 if since is None else self._clock.monotonic() - since

    def _make_ready(self, key: K, priority: int) -> None:
        before = self._ready.get(key)
        if before is None:
            since = self._clock.monotonic()
            self._metrics.adds.inc()
        elif priority > before.priority:
            since = before.at
        else:
            return
        self._ready.put(Entry(key, priority, since), rank=-priority)
        if before is None:
            self._wake_one()

    def _come_again(self, key: K, priority: int) -> None:
        if key not in self._again:
            self._metrics.adds.inc()
        self._again[key] = max(priority, self._again.get(key, priority))

    def _promote(self) -> None:
        """Move what is due from later to now."""
        now = self._clock.monotonic()
        while (entry := self._later.first()) is not None and entry.at <= now:
            self.add(entry.key, priority=entry.priority)

    def _hand_out(self) -> K:
        entry = self._ready.pop()
        self._in_work[entry.key] = Entry(entry.key, entry.priority, self._clock.monotonic())
        return entry.key

    async def _wait(self) -> None:
        """Until something may be ready."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._set_timer()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()  # woken and cancelled in one breath: the key is someone else's
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
        """Have somebody woken at the earliest deadline; only while somebody waits for a key."""
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
        self._timer = None  # it is this task: not to be cancelled by what follows
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

    `reconcile` answers None when the key needs nothing more, or the seconds after which to look at
    it again. What it raises is logged and the key retried. Its priority stays with a key that comes
    again this way. Cancelled, every reconcile is cancelled and its key is in the queue again.
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
    """The body of a worker's loop: the next key, once. Raises QueueShutDown."""
    key = await queue.get()
    priority = queue.priority(key)
    try:
        try:
            again = await reconcile(key)
        finally:
            queue.done(key)
    except asyncio.CancelledError as e:
        if _being_cancelled():
            queue.add(key, priority=priority)
            raise
        _failed(queue, key, priority, e, log)  # something that it awaited was cancelled, not we
    except Exception as e:  # noqa: BLE001 - whatever one key raises, the others are worked on
        _failed(queue, key, priority, e, log)
    else:
        queue.forget(key)
        if again is not None:
            queue.add_after(key, again, priority=priority)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failed(
    queue: WorkQueue[K], key: K, priority: int, fault: BaseException, log: logging.Logger
) -> None:
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
    queue.retry(key, priority=priority)


def _text(key: Hashable) -> str:
    """`namespace/name` of a Key, the name alone where there is no namespace."""
    return "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)
