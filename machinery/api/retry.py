"""The one factory of retries: each of them stops, and waits between attempts.

Retrying a call belongs here; retrying a reconcile belongs to the work queue. Nothing else in the
code imports tenacity, so that no retry with the library's defaults (forever, at once) can appear.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from machinery.clock import Clock
from machinery.errors import ApiError

T = TypeVar("T")


async def persist(
    call: Callable[[], Awaitable[T]],
    first: Exception,
    *,
    worthwhile: Callable[[BaseException], bool],
    clock: Clock,
    attempts: int = 5,
    seconds: float = 10.0,
    delay: float = 0.1,
) -> T:
    """Repeat a call whose first attempt raised `first`, until it works or is not worthwhile.

    `attempts` counts the first one. No attempt starts later than `seconds` from now, and none
    sooner than the server's Retry-After; otherwise the waits double from `delay`, with jitter.
    Taking the first failure as an argument keeps the common case, success, free of all this.
    Raises the last failure.
    """
    failed: list[Exception] = [first]

    async def attempt() -> T:
        if failed:
            raise failed.pop()
        return await call()

    started = clock.monotonic()
    backoff = tenacity.wait_exponential_jitter(multiplier=delay, max=seconds, jitter=delay)

    def wait(state: tenacity.RetryCallState) -> float:
        return max(_asked_for(state), backoff(state))

    def stop(state: tenacity.RetryCallState) -> bool:
        late = clock.monotonic() - started + state.upcoming_sleep > seconds
        return late or state.attempt_number >= attempts

    retrying = tenacity.AsyncRetrying(
        stop=stop,
        wait=wait,
        retry=tenacity.retry_if_exception(worthwhile),
        sleep=clock.sleep,
        reraise=True,
    )
    return await retrying(attempt)


def _asked_for(state: tenacity.RetryCallState) -> float:
    fault = state.outcome.exception() if state.outcome else None
    return (fault.retry_after or 0.0) if isinstance(fault, ApiError) else 0.0
