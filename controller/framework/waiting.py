"""The waiting Workloads: decisions that a Permit plugin holds back, and until when.

A Permit plugin that answers `wait` is not asked again. The plugin keeps the map that it was given
(`UsesWaitingWorkloads`) and calls `allow` or `reject` when it knows; a decision without an answer
by its deadline counts as rejected. The map only keeps the answers: the scheduler, which the queue
hands the key to, writes the decision or gives back what was reserved for it. A map serves one term
of leadership. The scheduler's own view of it is `controller.binding.waiting.WaitingSets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from controller.framework.interface import CycleState, Plugin
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo
from crds.workload import ScheduledReason
from machinery.clock import Clock
from machinery.types.metadata import Key

LONGEST_WAIT_SECONDS = 900.0
"""As in kube-scheduler: a waiting decision holds room that others could use."""


class PermitAnswer(Enum):
    WAITING = "Waiting"
    ALLOWED = "Allowed"
    REJECTED = "Rejected"
    TIMED_OUT = "TimedOut"


@dataclass(slots=True)
class WaitingWorkload:
    """One waiting decision; `plugins` are those that have not allowed it yet, with deadlines.

    Deadlines are moments of the monotonic clock, in seconds. `said` are the reasons of the
    plugins that asked to wait, `reason` that of the condition where one of them has its own, and
    `objection` the message of `objector`, which rejected it.
    """

    workload: WorkloadInfo
    placements: Mapping[str, int]
    state: CycleState
    since: float
    plugins: dict[str, float] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    reason: ScheduledReason | None = None
    objector: str = ""
    objection: str = ""
    rejected: bool = False

    def answer(self, now: float) -> PermitAnswer:
        """Return the answer by that moment."""
        if self.rejected:
            return PermitAnswer.REJECTED
        if not self.plugins:
            return PermitAnswer.ALLOWED
        return PermitAnswer.TIMED_OUT if now >= self.deadline else PermitAnswer.WAITING

    @property
    def deadline(self) -> float:
        """When the first of its plugins must have answered; `since` where all have."""
        return min(self.plugins.values(), default=self.since)


class WaitingWorkloads:
    """Waiting decisions by the Workload's key; each answer has its key queued by `activate`."""

    def __init__(self, *, clock: Clock, activate: Callable[[Key], None]) -> None:
        self._clock = clock
        self._activate = activate
        self._waiting: dict[Key, WaitingWorkload] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        info: WorkloadInfo,
        placements: Mapping[str, int],
        state: CycleState,
        asked: Mapping[str, Status],
    ) -> WaitingWorkload:
        """Keep a decision until each of the plugins, named with their answers, has allowed it."""
        now = self._clock.monotonic()
        until = {
            name: now + min(max(status.seconds, 0.0), LONGEST_WAIT_SECONDS)
            for name, status in asked.items()
        }
        own = [s for s in asked.values() if s.reason is not ScheduledReason.WAITING_ON_PERMIT]
        said = tuple(text for status in own or asked.values() for text in status.reasons)
        waiting = WaitingWorkload(
            info, placements, state, now, until, said, own[0].reason if own else None
        )
        self._waiting[info.key] = waiting
        return waiting

    def put(self, waiting: WaitingWorkload) -> None:
        """Put back a decision that was taken out, with its answers and deadlines."""
        self._waiting[waiting.workload.key] = waiting

    def get(self, key: Key) -> WaitingWorkload | None:
        return self._waiting.get(key)

    def iterate(self) -> Iterator[WaitingWorkload]:
        """Iterate over a copy: answering one decision does not disturb the iteration."""
        return iter(tuple(self._waiting.values()))

    def allow(self, key: Key, plugin: str) -> None:
        """Record that the plugin allows the decision. No effect where it does not wait for that."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.plugins.pop(plugin, None) is None:
            return
        if not waiting.plugins:
            self._activate(key)

    def reject(self, key: Key, plugin: str, message: str) -> None:
        """Record that the decision must not be written; `message` becomes the condition's."""
        waiting = self._waiting.get(key)
        if waiting is not None and not waiting.rejected:
            waiting.rejected, waiting.objector, waiting.objection = True, plugin, message
            self._activate(key)

    def remove(self, key: Key) -> WaitingWorkload | None:
        """Take a decision out: it is written, or given back."""
        return self._waiting.pop(key, None)


@runtime_checkable
class UsesWaitingWorkloads(Plugin, Protocol):
    """A plugin that answers waiting decisions."""

    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        """Called when a term of leadership begins, before its first decision."""
        ...
