"""A token bucket for requests that can wait: a few at once, and then so many a second."""

from __future__ import annotations

from machinery.clock import Clock


class TokenBucket:
    """`burst` tokens at the beginning, `per_second` more with time, never more than `burst`."""

    def __init__(self, *, burst: int, per_second: float, clock: Clock) -> None:
        if burst < 1 or per_second <= 0:
            raise ValueError("a bucket without tokens lets nothing through, ever")
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Wait for a token and use it. For one caller at a time."""
        self._refill()
        if self._tokens < 1:
            await self._clock.sleep((1 - self._tokens) / self._per_second)
            self._refill()
        self._tokens -= 1

    def _refill(self) -> None:
        now = self._clock.monotonic()
        earned = (now - self._at) * self._per_second
        self._tokens, self._at = min(self._burst, self._tokens + earned), now
