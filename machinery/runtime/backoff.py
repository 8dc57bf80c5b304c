"""The delay before another attempt, and a back-off for each of many keys."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from machinery.clock import Clock

K = TypeVar("K", bound=Hashable)
Jitter: TypeAlias = Callable[[], float]
"""Return a number in [0, 1); `random.random`, or a constant in a test."""

_DOUBLINGS = 60  # past every cap in use, and far from the overflow of a float


def delay(failures: int, *, base: float, cap: float, jitter: Jitter) -> float:
    """Return the seconds to wait after `failures` (1 or more) in a row, at most `cap`.

    The delay doubles from `base`. Jitter draws it from the upper half.
    """
    whole = min(base * 2.0 ** min(failures - 1, _DOUBLINGS), cap)
    return whole * (0.5 + jitter() / 2)


def steady() -> float:
    """Return 0.0, for pauses that never outlast a jittered one of the same start."""
    return 0.0


@dataclass(slots=True)
class _Failure:
    of: object
    until: float
    tries: int = 0
    reason: object = None


class KeyedBackoff(Generic[K]):
    def __init__(
        self, *, clock: Clock, base: float, cap: float, jitter: Jitter = random.random
    ) -> None:
        self._clock = clock
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._pending: dict[K, _Failure] = {}

    def __contains__(self, key: K) -> bool:
        """Whether it failed, and was not reset since."""
        return key in self._pending

    def failed(self, key: K, of: object = None, *, reason: object = None) -> float:
        """Record that `of` failed for the key; return seconds until the next attempt."""
        now = self._clock.monotonic()
        pause = self._pending.get(key)
        if pause is None or pause.of != of:
            pause = self._pending[key] = _Failure(of, now)
        if pause.until <= now:
            pause.tries += 1
            pause.reason = reason
            wait = delay(pause.tries, base=self._base, cap=self._cap, jitter=self._jitter)
            pause.until = now + wait
        return pause.until - now

    def remaining(self, key: K, of: object = None) -> float:
        """Return seconds until `of` may be attempted for the key; 0 when it may be now."""
        pause = self._pending.get(key)
        if pause is None or pause.of != of:
            return 0.0
        return max(0.0, pause.until - self._clock.monotonic())

    def reason(self, key: K) -> object:
        """Raises KeyError without a pause."""
        return self._pending[key].reason

    def reset(self, key: K) -> None:
        self._pending.pop(key, None)

    def reset_where(self, gone: Callable[[K], bool]) -> None:
        for key in [key for key in self._pending if gone(key)]:
            del self._pending[key]
