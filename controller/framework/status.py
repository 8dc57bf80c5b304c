"""The answer of a plugin without a fault: a value, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from crds.workload import ScheduledReason


class Code(Enum):
    """The outcomes, with kube-scheduler's names."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    ERROR = "Error"
    """A fault of the plugin, in a pass that ends with it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plugin refuses a cluster or a whole Workload.

    Args:
        text: for people; code never parses it.
        code: the plugin's own word for the reason.
        args: the names in `text`.
        reached: only an exhausted quota causes it.
        short: only insufficient room causes it.
    """

    plugin: str
    text: str
    code: str = ""
    args: tuple[str, ...] = ()
    reached: bool = False
    short: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """The answer of a plugin.

    `reason` is that of the condition, `seconds` the time-out of WAIT; `detail` and `args` are
    `code` and `args` of the `refusal`.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    reason: ScheduledReason = ScheduledReason.FAILED_TO_SCHEDULE
    seconds: float = 0.0
    detail: str = ""
    args: tuple[str, ...] = ()

    @property
    def refusal(self) -> Refusal:
        return Refusal(self.plugin, "; ".join(self.reasons), self.detail, self.args)

    @property
    def ok(self) -> bool:
        return self.code in (Code.SUCCESS, Code.SKIP)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(
    plugin: str,
    *reasons: str,
    reason: ScheduledReason = ScheduledReason.FAILED_TO_SCHEDULE,
    detail: str = "",
    args: tuple[str, ...] = (),
) -> Status:
    """Return a refusal that an event may lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin, reason, detail=detail, args=args)


def wait(plugin: str, *reasons: str, seconds: float) -> Status:
    """Return Permit's answer to wait. The decision expires after `seconds`."""
    return Status(Code.WAIT, reasons, plugin, ScheduledReason.WAITING_ON_PERMIT, seconds)
