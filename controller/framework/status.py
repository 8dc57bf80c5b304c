"""The answer of a plugin without a fault: a value, never an exception."""

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
    """A fault of the plugin, as a value where a pass ends with it."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it in words, the plugin, and the reason for the condition.

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
    """Return a refusal that an event may lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin, reason)


def wait(plugin: str, *reasons: str, seconds: float) -> Status:
    """Return Permit's answer for not yet. After so many seconds the decision is void."""
    return Status(Code.WAIT, reasons, plugin, ScheduledReason.WAITING_ON_PERMIT, seconds)
