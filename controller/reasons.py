"""Why a share has the size that it has: kinds with a number, and a sentence for each on demand."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias


class Why(Enum):
    """What made a share; the value is the sentence, with the number left out."""

    KEPT = "{} stay where they are"
    WHOLE = "all {} go to the best cluster"
    EVERYWHERE = "{} on every matching cluster"
    WEIGHT = "its weight's share is {}"
    LOWER = "at its lower bound of {}"
    UPPER = "at its upper bound of {}"
    ROOM = "it has room for {}"

    def sentence(self, number: int) -> str:
        """The reason in words."""
        return self.value.format(number)


Reason: TypeAlias = tuple[Why, int]
