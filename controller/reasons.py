"""Why a share has the size that it has: data with its numbers, a sentence for each on demand.

A `Reason` belongs to one cluster's number, an `Obstacle` to the units that have no cluster. Both
are values that tests can check against the problem; words are made of them only when somebody
reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias


class Why(Enum):
    """What made a share; the value is the sentence, with the numbers left out."""

    KEPT = "{number} stay where they are"
    WHOLE = "all {number} go to the best cluster"
    EVERYWHERE = "{number} on every matching cluster"
    PACKED = "{number} here, on as few clusters as hold them all"
    WEIGHT = "its weight's share is {number}"
    NO_WEIGHT = "its weight is 0"
    LOWER = "at its lower bound of {number}"
    GROUP_LOWER = "{name} has a lower bound of {number}, which goes before the weights"
    UPPER = "at its upper bound of {number}"
    ROOM = "it has room for {number}"
    LEARNT = "it was seen to run {number} and no more"
    DOMAIN = "domain {name} holds {number} of its {of}"
    DOMAIN_QUOTA = "domain {name} is at its quota of {number}"
    SUBSET_CAP = "subset {name} is at its cap of {number}"
    REMAINDER = "rounded up by {number}: its exact share ends in {of} hundredths"
    TIE = "as high in line as {number} more, and first in the order"

    @property
    def title(self) -> str:
        """The name in records: DomainQuota."""
        return self.name.title().replace("_", "")


_WITH_SECOND = {
    Why.WEIGHT: "its weight's share of {of} units is {number}",
    Why.LOWER: "{number} of its lower bound of {of}",
}
"""Sentences that tell the second number, where there is one."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One rule that made a share: its kind, its number in units, and what it is called, if at all.

    Args:
        kind: the rule.
        number: in units; for TIE the other clusters that stood level.
        name: the domain, subset or policy that the rule belongs to.
        of: a second number. WEIGHT: the units divided by weight among the clusters that nothing
            else stopped. LOWER: the whole bound, where only `number` of it could be served.
            REMAINDER: hundredths of a unit by which the exact share passes a whole number.
    """

    kind: Why
    number: int
    name: str = ""
    of: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The reason as JSON values."""
        return {
            "kind": self.kind.title,
            "number": self.number,
            "of": self.of,
            "name": self.name,
            "text": str(self),
        }

    def __str__(self) -> str:
        """The reason in words."""
        text = _WITH_SECOND.get(self.kind, self.kind.value) if self.of else self.kind.value
        return text.format(number=self.number, name=self.name, of=self.of)


_STOPS = {
    Why.ROOM: "clusters that could take more have room for {number} in all",
    Why.UPPER: "clusters that could take more are at their upper bounds, {number} in all",
    Why.LEARNT: "clusters that could take more were seen to run {number} in all and no more",
    Why.NO_WEIGHT: "{number} clusters have weight 0",
}


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One bound that keeps pending units out, and how many more would be placed without it alone.

    `reason` carries the bound: for ROOM, UPPER and LEARNT the sum over the clusters that stand at
    it, for NO_WEIGHT the count of those that could take some, for a group its upper bound and name.
    A `gain` of 0 means that the bound stops units which another bound would stop as well.
    """

    reason: Reason
    gain: int

    def to_dict(self) -> dict[str, Any]:
        """The obstacle as JSON values."""
        return {
            "kind": self.reason.kind.title,
            "number": self.reason.number,
            "name": self.reason.name,
            "gain": self.gain,
            "text": str(self),
        }

    def __str__(self) -> str:
        """The obstacle in words, and what would help."""
        text = _STOPS.get(self.reason.kind, self.reason.kind.value)
        told = text.format(number=self.reason.number, name=self.reason.name)
        if not self.gain:
            return f"{told}; to lift this alone would not help"
        return f"{told}; without that, {self.gain} more could be placed"


Reasons: TypeAlias = Callable[[int], tuple[Reason, ...]]
"""The reasons of a row's number; empty for a row that holds nothing."""


def no_reasons(_row: int) -> tuple[Reason, ...]:
    """Where nothing was assigned."""
    return ()


Binding: TypeAlias = Callable[[], tuple[Obstacle, ...]]
"""The bounds that keep pending units out."""


def nothing_binds() -> tuple[Obstacle, ...]:
    """Where no bounds were planned with, or nothing is pending."""
    return ()


Turns: TypeAlias = Callable[[], list[str]]
"""The domains that units went to, one after the other; the first ones, where there are many."""


def no_turns() -> list[str]:
    """Where no order of domains decided."""
    return []
