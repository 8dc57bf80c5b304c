"""Whether so much is being written to members that good news can wait.

A status write costs the hub, and this process, as much as the apply that it reports. In a burst of
Workloads both compete, so the applies go first; good news is reported when the burst is over, and
after `LONGEST_SECONDS` in any case.
"""

from __future__ import annotations

from collections import deque

from machinery.clock import Clock

MANY = 8
WITHIN_SECONDS = 0.5
"""MANY outcomes in this time are a burst; one Workload that is applied by hand is none."""
LONGEST_SECONDS = 5.0
"""The longest wait of a report, however long the burst lasts."""
CHECK_SECONDS = 1.0
"""Seconds between two checks whether the burst is over."""


class BurstDetector:
    """Counts the outcomes of shares; a member that hangs brings none, and delays no report."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[float] = deque(maxlen=MANY)

    def count(self) -> None:
        """Count one outcome of a share."""
        self._last.append(self._clock.monotonic())

    def active(self) -> bool:
        full = len(self._last) == MANY
        return full and self._clock.monotonic() - self._last[0] <= WITHIN_SECONDS
