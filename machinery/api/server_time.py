"""A server's time, from the `Date` of its answers.

Between two answers it goes on by our monotonic clock. So a wall clock of ours that is set, or
drifts away, shows at once: a caller that is about to do something irreversible because of the time
checks here whether both agree, and a process whose steps all wait for moments has a `ServerClock`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from machinery.clock import Clock

AGREE_SECONDS = 30.0
"""The largest difference of two clocks that agree: a Date has whole seconds, answers take time."""
_LENGTH = 40


class ServerTime:
    """The clock of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said = ""
        self._moment: datetime | None = None
        self._heard = 0.0

    def saw(self, date: str | None) -> None:
        """Take in the header `Date` of an answer that came now; a malformed one is skipped."""
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
        """Return in words that the clocks differ; empty while they agree, or without a Date.

        Without the number, which is another one at each look.
        """
        ahead = self.ahead()
        if abs(ahead) <= AGREE_SECONDS:
            return ""
        return f"more than {AGREE_SECONDS:.0f} s {'ahead of' if ahead > 0 else 'behind'} the hub's"


class ServerClock:
    """A clock whose wall shows a server's time as soon as both do not agree.

    So a machine whose clock is wrong takes no step before its time, and its stamps are right.
    """

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
