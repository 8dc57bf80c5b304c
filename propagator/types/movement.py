"""The budgets of a move. Pure.

`maxSurge` and `maxUnavailable` are units or whole percents of those wanted. With a `maxSurge` of 0
each unit runs at most once.
"""

from __future__ import annotations

from dataclasses import dataclass

from crds.fields.movement import MOST_READY_SECONDS
from crds.fields.shares import BlockedReason
from machinery.types import api
from machinery.types.budget import amount


@dataclass(frozen=True, slots=True)
class Blocked:
    reason: BlockedReason
    message: str


class Movement(api.Movement, frozen=True):
    @property
    def ready_seconds(self) -> int:
        """Within the schema's bounds."""
        return min(max(self.min_ready_seconds, 0), MOST_READY_SECONDS)

    def at_most_once(self, *, otherwise: bool) -> bool:
        """`otherwise` is what the kind does without a number."""
        if self.max_surge is None:
            return otherwise
        return units_of(self.max_surge, 100) == 0

    def unavailable(self, wanted: int, *, at_most_once: bool) -> int:
        """Return the ready units below `wanted` which a move may cause; one if none could move."""
        least = int(at_most_once)
        if self.max_unavailable is None:
            return least
        return max(units_of(self.max_unavailable, wanted), least)


def units_of(budget: int | str, wanted: int) -> int:
    """Percents are rounded down; 0 if malformed."""
    try:
        return amount(budget, wanted, up=False)
    except ValueError:
        return 0
