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
class Refusal:
    """Why a cluster, or a Workload as a whole, is refused, and the plugin that refuses it.

    `text` is for people, and nothing is read off it. `code` and `args` say the same to the plugin:
    one word of its own, and the names that the text has. `reached` when only a quota stands in the
    way, `short` when only room does.
    """

    plugin: str
    text: str
    code: str = ""
    args: tuple[str, ...] = ()
    reached: bool = False
    short: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it in words, the plugin, and the reason for the condition.

    `seconds` is the time-out that goes with the code WAIT; `detail` and `args` are `code` and
    `args` of the `refusal`.
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
        """True when the pass goes on."""
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
    """Return Permit's answer for not yet. After so many seconds the decision is void."""
    return Status(Code.WAIT, reasons, plugin, ScheduledReason.WAITING_ON_PERMIT, seconds)
