"""Metrics of the work queues: their depth, age and work, and how often keys are retried.

Depth and age are read from the queues on demand, so that they cannot drift; the queues are held
weakly, so that a dropped one (a member's session ends) leaves by itself.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

from machinery import metrics

_QUEUE = ("queue",)
_depth = metrics.gauge("stowage_queue_depth", "Keys that wait for a worker", _QUEUE)
_oldest = metrics.gauge(
    "stowage_queue_oldest_seconds", "Seconds that the key ready for longest has waited", _QUEUE
)
_adds = metrics.counter("stowage_queue_adds", "Keys added, those already waiting aside", _QUEUE)
_retries = metrics.counter("stowage_queue_retries", "Keys added again after a failure", _QUEUE)
_work = metrics.histogram("stowage_queue_work_seconds", "Seconds that a key was in work", _QUEUE)

_by_name: dict[str, QueueMetrics] = {}


class Measured(Protocol):
    """The part of a queue that is measured."""

    def __len__(self) -> int:
        """The number of keys that wait for a worker."""
        ...

    def oldest(self) -> float:
        """Return the seconds that the longest ready key has waited."""
        ...


class QueueMetrics:
    """The metrics of all queues of one name. Make it by `of`."""

    def __init__(self, name: str) -> None:
        self.adds = _adds.labels(name)
        self.retries = _retries.labels(name)
        self.work = _work.labels(name)
        self._queues: WeakSet[Measured] = WeakSet()
        _depth.labels(name).set_function(self._total_depth)
        _oldest.labels(name).set_function(self._greatest_age)

    @classmethod
    def of(cls, name: str) -> QueueMetrics:
        """Return the metrics for queues of that name, which exist at zero from now on."""
        known = _by_name.get(name)
        if known is None:
            known = _by_name[name] = cls(name)
        return known

    def join(self, queue: Measured) -> None:
        """Count that queue in for as long as it lives."""
        self._queues.add(queue)

    def _total_depth(self) -> float:
        return sum(len(queue) for queue in self._queues)

    def _greatest_age(self) -> float:
        return max((queue.oldest() for queue in self._queues), default=0.0)
