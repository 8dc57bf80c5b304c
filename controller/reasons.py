"""Why a share has the size that it has: data with its numbers, a sentence for each on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Why(Enum):
    """What made a share; the value is the sentence, with the numbers left out."""

    KEPT = "{number} stay where they are"
    WHOLE = "all {number} go to the best cluster"
    EVERYWHERE = "{number} on every matching cluster"
    WEIGHT = "its weight's share is {number}"
    LOWER = "at its lower bound of {number}"
    UPPER = "at its upper bound of {number}"
    ROOM = "it has room for {number}"


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that made a share: its kind, its number in units, and what it is called, if at all.

    `name` is the domain, subset or policy that the rule belongs to.
    """

    kind: Why
    number: int
    name: str = ""

    def __str__(self) -> str:
        """The reason in words."""
        return self.kind.value.format(number=self.number, name=self.name)


Reasons: TypeAlias = Callable[[int], tuple[Reason, ...]]
"""The reasons of a row's number; empty for a row that holds nothing."""


def no_reasons(_row: int) -> tuple[Reason, ...]:
    """Where nothing was assigned."""
    return ()
