"""Whether so much is being written to members that what is told of it can wait.

A status write costs the hub, and us, as much as the apply that it tells of. In a burst of Workloads
both compete, so the applies go first; what has gone well is told when the burst is over, and after
`LONGEST_SECONDS` in any case.
"""

from __future__ import annotations

from collections import deque

from machinery.clock import Clock

MANY = 8
WITHIN_SECONDS = 0.5
"""So many outcomes in that time are a rush; one Workload that is applied by hand is none."""
LONGEST_SECONDS = 5.0
"""Nothing waits for longer, however long the rush lasts."""
LOOK_SECONDS = 1.0
"""Between two looks whether it is over."""


class Rush:
    """Told of each outcome of a share; a member that hangs brings none, and holds nobody up."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[float] = deque(maxlen=MANY)

    def count(self) -> None:
        """Something was written to a member, or refused there."""
        self._last.append(self._clock.monotonic())

    def on(self) -> bool:
        """Whether it lasts."""
        full = len(self._last) == MANY
        return full and self._clock.monotonic() - self._last[0] <= WITHIN_SECONDS
