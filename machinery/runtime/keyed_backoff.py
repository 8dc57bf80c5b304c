"""How long to leave each of many things alone that were tried in vain: longer each time in a row.

The back-off of a queue holds until somebody adds the key again, and watches do that whenever an
object changes, by our own writes too. What is kept here holds whoever asks, until it is over or
something else is tried. Nothing here waits: the caller does, or comes again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from machinery.clock import Clock
from machinery.runtime.backoff import Jitter, delay

K = TypeVar("K", bound=Hashable)


def steady() -> float:
    """In place of a jitter, for what is guarded here and asked for again after a jittered pause.

    Of two pauses that began together it is never the longer one.
    """
    return 0.0


@dataclass(slots=True)
class _Pause:
    of: object
    until: float
    tries: int = 0
    why: object = None


class Pauses(Generic[K]):
    """From `base` seconds, doubling up to `cap`."""

    def __init__(
        self, *, clock: Clock, base: float, cap: float, jitter: Jitter = random.random
    ) -> None:
        self._clock = clock
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._pauses: dict[K, _Pause] = {}

    def __len__(self) -> int:
        """How many keys are known to have been tried in vain."""
        return len(self._pauses)

    def hold(self, key: K, of: object = None, *, why: object = None) -> float:
        """`of` was tried for that key just now, in vain; seconds until it is worth another try.

        Within a pause that still runs nothing was tried: it stays as it is.
        """
        now = self._clock.monotonic()
        pause = self._pauses.get(key)
        if pause is None or pause.of != of:
            pause = self._pauses[key] = _Pause(of, now)
        if pause.until <= now:
            pause.tries += 1
            pause.why = why
            wait = delay(pause.tries, base=self._base, cap=self._cap, jitter=self._jitter)
            pause.until = now + wait
        return pause.until - now

    def left(self, key: K, of: object = None) -> float:
        """Seconds that `of` is still to be left alone for that key; 0 when it may be tried."""
        pause = self._pauses.get(key)
        if pause is None or pause.of != of:
            return 0.0
        return max(0.0, pause.until - self._clock.monotonic())

    def why(self, key: K) -> object:
        """What was given as the reason of the pause. Raises KeyError where there is none."""
        return self._pauses[key].why

    def over(self, key: K) -> None:
        """It was not in vain, or nobody wants it any more."""
        self._pauses.pop(key, None)

    def drop(self, gone: Callable[[K], bool]) -> None:
        """As `over`, for each key of which that is true."""
        for key in [key for key in self._pauses if gone(key)]:
            del self._pauses[key]
