"""The time limit of plugin calls.

A timer ticks while plugins run. A call that sees more than `_TICKS` ticks is ended by an exception
inside it, at each tick again. A plugin that catches BaseException and goes on is not ended.

Python handles signals in the main thread, between bytecodes. Calls on other threads, inside C
functions, or with another SIGALRM handler cannot be ended; `guard` reports them as late.
"""

from __future__ import annotations

import signal
import threading

_TICKS = 10
"""Ticks within the limit of a call. One more ends it."""


class PluginCall:
    """`outer` is the call that this one is nested in."""

    __slots__ = ("outer", "ticks")

    def __init__(self, outer: PluginCall | None) -> None:
        self.outer = outer
        self.ticks = 0


class Overdue(BaseException):
    """Raised inside a slow call. Not an Exception, so plugins do not catch it."""

    def __init__(self, call: PluginCall) -> None:
        super().__init__()
        self.call = call


class _Here(threading.local):
    """`seconds` is the limit of each call; 0 for none."""

    call: PluginCall | None = None
    seconds: float = 0.0


HERE = _Here()


class limited:  # noqa: N801 - reads as the statement that it is: `with limited(seconds):`
    """Limits each plugin call in the block; 0 for no limit. No effect when nested."""

    __slots__ = ("_armed", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = 0.0 if HERE.seconds else seconds
        self._armed = False

    def __enter__(self) -> None:
        if self._seconds:
            HERE.seconds = self._seconds
            self._armed = _arm(self._seconds / _TICKS)

    def __exit__(self, *_: object) -> None:
        if self._seconds:
            HERE.seconds = 0.0
        if self._armed:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _arm(seconds: float) -> bool:
    """False if this thread or process cannot use it."""
    if threading.get_ident() != threading.main_thread().ident:
        return False
    known = signal.getsignal(signal.SIGALRM)
    if known is not _tick:
        if known is not signal.SIG_DFL:
            return False
        # The handler stays installed: without a call in progress it does nothing.
        signal.signal(signal.SIGALRM, _tick)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    return True


def _tick(_signal: int, _frame: object) -> None:
    call, overdue = HERE.call, None
    while call is not None:
        call.ticks += 1
        if call.ticks > _TICKS:
            overdue = call
        call = call.outer
    if overdue is None:
        return
    raise Overdue(overdue)
