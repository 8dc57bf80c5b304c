"""What time it is on a server, as the `Date` of its answers tells it.

Between two answers it goes on by our monotonic clock. So a wall clock of ours that is set, or
drifts away, shows at once: whoever is about to do what cannot be taken back because of the time
asks here whether both agree.
"""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime

from machinery.clock import Clock

AGREE_SECONDS = 30.0
"""Two clocks that differ by no more agree: a Date has whole seconds, and answers take time."""
_LENGTH = 40


class ServerTime:
    """The clock of one server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said = ""
        self._moment: datetime | None = None
        self._heard = 0.0

    def saw(self, date: str | None) -> None:
        """The header `Date` of an answer that came now; what is none is left out."""
        if not date or date == self._said or len(date) > _LENGTH:
            return
        try:
            moment = parsedate_to_datetime(date)
        except ValueError:
            return
        if moment.tzinfo is not None:
            self._said, self._moment, self._heard = date, moment, self._clock.monotonic()

    def ahead(self) -> float:
        """By how many seconds our clock is ahead of the server's; 0.0 while nothing was heard."""
        if self._moment is None:
            return 0.0
        passed = self._clock.monotonic() - self._heard
        return (self._clock.now() - self._moment).total_seconds() - passed

    def difference(self) -> str:
        """In words that both differ; empty while they agree, or nothing was heard.

        Without the number, which is another one at each look.
        """
        ahead = self.ahead()
        if abs(ahead) <= AGREE_SECONDS:
            return ""
        return f"more than {AGREE_SECONDS:.0f} s {'ahead of' if ahead > 0 else 'behind'} the hub's"
