"""Metrics of the requests to API servers: number, outcome, duration.

One meter for each client name, shared by its clients. Its series end with the last of them:
clusters come and go, and their names must not pile up.
"""

from __future__ import annotations

from prometheus_client import Counter

from machinery import metrics

REQUESTS = metrics.counter(
    "stowage_api_requests",
    "Requests to API servers by client, verb and HTTP code (0: no answer)",
    ("client", "verb", "code"),
)
SECONDS = metrics.histogram(
    "stowage_api_request_seconds", "Time until an API server's answer was read", ("client",)
)

REFUSED = metrics.counter(
    "stowage_refused_input",
    "What API servers sent and we did not take, as it exceeded a bound, by client and kind",
    ("client", "what"),
)
INPUT = ("answer", "watch", "list", "object")

NO_ANSWER = 0

_meters: dict[str, Meter] = {}


class Meter:
    """The bound children of one client's metrics. Make it by `of`, end it by `release`."""

    def __init__(self, client: str) -> None:
        self._client = client
        self.users = 0
        self._outcomes: dict[tuple[str, int], Counter] = {}
        self._observe = SECONDS.labels(client).observe
        self._refused = {what: REFUSED.labels(client, what) for what in INPUT}
        self._outcome("GET", 200)
        self._outcome("GET", NO_ANSWER)

    @classmethod
    def of(cls, client: str) -> Meter:
        meter = _meters.setdefault(client, cls(client))
        meter.users += 1
        return meter

    def count(self, verb: str, code: int) -> None:
        (self._outcomes.get((verb, code)) or self._outcome(verb, code)).inc()

    def took(self, seconds: float) -> None:
        """Observe the time of one answer, without its wait in the queue."""
        self._observe(seconds)

    def refused(self, what: str) -> None:
        self._refused[what].inc()

    def release(self) -> None:
        """Close one client of this name; with the last one its series end."""
        self.users -= 1
        if self.users:
            return
        del _meters[self._client]
        SECONDS.remove(self._client)
        for what in INPUT:
            REFUSED.remove(self._client, what)
        for verb, code in self._outcomes:
            REQUESTS.remove(self._client, verb, str(code))

    def _outcome(self, verb: str, code: int) -> Counter:
        child = REQUESTS.labels(self._client, verb, str(code))
        self._outcomes[verb, code] = child
        return child
