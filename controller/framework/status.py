"""What a plugin answers when nothing is wrong with the plugin: a value, never an exception."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """The outcomes, as kube-scheduler names them."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it in words, and who said so."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """True when the pass goes on."""
        return self.code in (Code.SUCCESS, Code.SKIP)


SUCCESS = Status()


def unschedulable(plugin: str, *reasons: str) -> Status:
    """A refusal that a change in the world may lift."""
    return Status(Code.UNSCHEDULABLE, reasons, plugin)
