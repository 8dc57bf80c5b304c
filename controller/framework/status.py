"""What a plugin answers when nothing is wrong with the plugin: a value, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from crds.workload import ScheduledReason


class Code(Enum):
    """The outcomes, as kube-scheduler names them."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    ERROR = "Error"
    """A fault of the plugin, told as a value where a pass ends with it."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it in words, who said so, and the reason for the condition.

    `seconds` is the time-out that goes with the code WAIT.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    reason: ScheduledReason = ScheduledReason.FAILED_TO_SCHEDULE
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True when the pass goes on."""
        return self.code in (Code.SUCCESS, Code.SKIP)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(
    plugin: str, *reasons: str, reason: ScheduledReason = ScheduledReason.FAILED_TO_SCHEDULE
) -> Status:
    """A refusal that a change in the world may lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin, reason)


def wait(plugin: str, *reasons: str, seconds: float) -> Status:
    """Permit's answer: not yet. After so many seconds without an answer the decision is void."""
    return Status(Code.WAIT, reasons, plugin, ScheduledReason.WAITING_ON_PERMIT, seconds)
