"""The time limit of a plugin call: a call that takes longer is ended where that can be done.

While plugins are asked, and only then, an interval timer ticks (`limited`). Each call counts the
ticks that it sees, and a call that has seen too many is ended by an exception raised inside of it.
Ticks and not a clock: a process that was stopped for a minute, or was not given the processor, has
seen one tick, and none of its plugins is to blame.

Python handles a signal between two of its own steps, in the main thread. So a call is not ended on
another thread, nor inside a C function that does not return, nor in a process where other code uses
SIGALRM. There the clock says afterwards that it was late (`guard`).
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

_TICKS = 10
"""Ticks in the time that a call may take; one more ends it."""


class PluginCall:
    """A plugin that is being asked; `outer` is the call that asks it, if a plugin does."""

    __slots__ = ("outer", "ticks", "traced")

    def __init__(self, outer: PluginCall | None) -> None:
        self.outer = outer
        self.ticks = 0
        self.traced: tuple[Any] | None = None
        """The trace function from before `_insist`, in a tuple; None where that was not needed."""

    @property
    def under_way(self) -> bool:
        """Whether the call is still in progress, on this thread."""
        call = HERE.call
        while call is not None and call is not self:
            call = call.outer
        return call is self

    def over(self) -> None:
        """Restore the trace function from before `_insist`."""
        if self.traced is not None:
            sys.settrace(*self.traced)


class Overdue(BaseException):
    """Raised inside a call that takes too long. No `except Exception` of a plugin catches it."""

    def __init__(self, call: PluginCall) -> None:
        super().__init__()
        self.call = call


class _Here(threading.local):
    """The state of this thread. `seconds` is the limit of each call, 0 where there is none."""

    call: PluginCall | None = None
    seconds: float = 0.0


HERE = _Here()


class limited:  # noqa: N801 - reads as the statement that it is: `with limited(seconds):`
    """Limits each plugin call inside to so many seconds; 0 for no limit.

    Inside of another one it changes nothing.
    """

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
    """Start the timer; return whether it ticks."""
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


def _tick(_signal: int, frame: FrameType | None) -> None:
    """Count the tick for each call in progress; end the outermost one that has seen too many."""
    call, overdue = HERE.call, None
    while call is not None:
        call.ticks += 1
        if call.ticks > _TICKS:
            overdue = call
        call = call.outer
    if overdue is None:
        return
    fault = Overdue(overdue)
    if overdue.ticks > _TICKS + 1:
        _insist(overdue, frame)
    raise fault


def _insist(call: PluginCall, frame: FrameType | None) -> None:
    """End a call that has caught its Overdue: the next line that it runs raises another one.

    That is the first line of its `except` or `finally`, from which the same `try` does not save it.
    """

    def ending(_frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line" and call.under_way:
            raise Overdue(call)
        return ending

    if call.traced is None:
        call.traced = (sys.gettrace(),)
    while frame is not None and frame.f_globals.get("__name__") not in _OURS:
        frame.f_trace = ending
        frame = frame.f_back
    sys.settrace(ending)


_OURS = frozenset({__name__, f"{__package__}.guard"})
"""The modules that ask: frames above them are the plugin's, or called by it."""
