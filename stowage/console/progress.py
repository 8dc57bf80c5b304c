"""Progress of long work, on standard error: standard output has the result of the command.

On a terminal one line is written over. Elsewhere a new line comes only every few seconds, so that a
build log stays readable.
"""

from __future__ import annotations

import sys
from typing import TextIO

from machinery.clock import Clock, SystemClock
from machinery.types.bounds import shown

_PLAIN_SECONDS = 5.0
_TERMINAL_SECONDS = 0.1


class Progress:
    """Receives the progress of long work; this one prints nothing."""

    def say(self, text: str) -> None:
        """Print a line that stays."""

    def step(self, what: str, done: int, total: int = 0) -> None:
        """Print that so much of `what` is done; a `total` of 0 is unknown."""


class Lines(Progress):
    """Prints progress."""

    def __init__(self, *, out: TextIO | None = None, clock: Clock | None = None) -> None:
        self._out = out or sys.stderr
        self._clock = clock or SystemClock()
        self._terminal = self._out.isatty()
        self._what = ""
        self._began = self._clock.monotonic()
        self._last = -_PLAIN_SECONDS
        self._open = False
        self._finished = False

    def say(self, text: str) -> None:
        self._close()
        self._out.write(f"{shown(text)}\n")
        self._out.flush()

    def step(self, what: str, done: int, total: int = 0) -> None:
        now = self._clock.monotonic()
        if what != self._what:
            self._close()
            self._what, self._began, self._last = what, now, -_PLAIN_SECONDS
            self._finished = False
        pause = _TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS
        finished = total > 0 and done >= total
        if self._finished or (now - self._last < pause and not finished):
            return
        self._last, self._finished = now, finished
        amount = f": {_of(done, total)}" if done or total else ""
        self._write(f"{what}{amount} ({now - self._began:.0f} s)", finished=finished)

    def _write(self, text: str, *, finished: bool) -> None:
        line = shown(text)
        if self._terminal:
            self._out.write(f"\r\x1b[K{line}")
            self._open = True
            if finished:
                self._close()
        else:
            self._out.write(f"{line}\n")
        self._out.flush()

    def _close(self) -> None:
        if self._open:
            self._out.write("\n")
        self._open = False
        self._what = ""


def _of(done: int, total: int) -> str:
    return f"{done} of {total}" if total else str(done)
