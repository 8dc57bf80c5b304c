"""The delay before another attempt: one formula for the queue, the informers and the lease.

Pure: the caller counts the failures and does the waiting, so it needs neither clock nor task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Jitter: TypeAlias = Callable[[], float]
"""Returns a number in [0, 1); `random.random`, or a constant in a test."""

_DOUBLINGS = 60  # past every cap in use, and far from the overflow of a float


def delay(failures: int, *, base: float, cap: float, jitter: Jitter) -> float:
    """Return the seconds to wait after that many failures in a row (1 or more): at most `cap`.

    The delay doubles from `base`, and is jittered between half of that and the whole, so that
    callers that failed together do not come back together.
    """
    whole = min(base * 2.0 ** min(failures - 1, _DOUBLINGS), cap)
    return whole * (0.5 + jitter() / 2)
