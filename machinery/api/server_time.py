"""A server's time, from the `Date` of its answers, carried on by our monotonic clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from machinery.clock import Clock

AGREE_SECONDS = 30.0
"""The largest difference in seconds of two clocks that agree."""
_LENGTH = 40


class ServerTime:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said = ""
        self._moment: datetime | None = None
        self._heard = 0.0

    def saw(self, date: str | None) -> None:
        """Record the header `Date` of an answer that came now; a malformed one is skipped."""
        if not date or date == self._said or len(date) > _LENGTH:
            return
        try:
            moment = parsedate_to_datetime(date)
        except ValueError:
            return
        if moment.tzinfo is not None:
            self._said, self._moment, self._heard = date, moment, self._clock.monotonic()

    def ahead(self) -> float:
        """Return the seconds by which our clock is ahead of the server's; 0.0 without a Date."""
        if self._moment is None:
            return 0.0
        passed = self._clock.monotonic() - self._heard
        return (self._clock.now() - self._moment).total_seconds() - passed

    def difference(self) -> str:
        """Return a text if the clocks differ; empty while they agree, or without a Date."""
        ahead = self.ahead()
        if abs(ahead) <= AGREE_SECONDS:
            return ""
        return f"more than {AGREE_SECONDS:.0f} s {'ahead of' if ahead > 0 else 'behind'} the hub's"


class ServerClock:
    def __init__(self, clock: Clock, server: ServerTime) -> None:
        self._clock = clock
        self._server = server

    def now(self) -> datetime:
        ahead = self._server.ahead()
        agree = abs(ahead) <= AGREE_SECONDS
        return self._clock.now() - timedelta(seconds=0.0 if agree else ahead)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
