"""Decisions that a Permit plugin holds back, and until when.

A plugin that answers `wait` later calls `allow` or `reject` on this map (`UsesWaitingWorkloads`).
The map only keeps answers and queues the key; the scheduler acts on them
(`controller.binding.waiting.WaitingSets`).
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
"""As in kube-scheduler, because a waiting decision occupies room."""


class PermitAnswer(Enum):
    WAITING = "Waiting"
    ALLOWED = "Allowed"
    REJECTED = "Rejected"
    TIMED_OUT = "TimedOut"


@dataclass(slots=True)
class WaitingWorkload:
    """One waiting decision. Moments are seconds of the monotonic clock.

    `plugins` have not allowed it yet, with deadlines. `said` are the reasons of those that wait,
    `reason` the condition's if a plugin has one. `objection` is the message of `objector`.
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
        if self.rejected:
            return PermitAnswer.REJECTED
        if not self.plugins:
            return PermitAnswer.ALLOWED
        return PermitAnswer.TIMED_OUT if now >= self.deadline else PermitAnswer.WAITING

    @property
    def deadline(self) -> float:
        """The first deadline; `since` if all plugins have answered."""
        return min(self.plugins.values(), default=self.since)


class WaitingWorkloads:
    """By Workload key. `activate` queues the key at each answer."""

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
        """Keep a decision until each plugin of `asked` has allowed it."""
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
        self._waiting[waiting.workload.key] = waiting

    def get(self, key: Key) -> WaitingWorkload | None:
        return self._waiting.get(key)

    def iterate(self) -> Iterator[WaitingWorkload]:
        return iter(tuple(self._waiting.values()))

    def allow(self, key: Key, plugin: str) -> None:
        """No effect if the decision does not wait for the plugin."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.plugins.pop(plugin, None) is None:
            return
        if not waiting.plugins:
            self._activate(key)

    def reject(self, key: Key, plugin: str, message: str) -> None:
        """Record that the decision must not be written. `message` becomes the condition's."""
        waiting = self._waiting.get(key)
        if waiting is not None and not waiting.rejected:
            waiting.rejected, waiting.objector, waiting.objection = True, plugin, message
            self._activate(key)

    def remove(self, key: Key) -> WaitingWorkload | None:
        return self._waiting.pop(key, None)


@runtime_checkable
class UsesWaitingWorkloads(Plugin, Protocol):
    def use_waiting_workloads(self, waiting: WaitingWorkloads) -> None:
        """Called when a term begins, before its first decision."""
        ...
