"""`ask` calls a plugin within a time limit and turns each fault into a `PluginError`.

A timer ticks while plugins run. A call that sees more than `_TICKS` ticks is ended by an exception
inside it, at each tick again. A plugin that catches BaseException and goes on is not ended.

Python handles signals in the main thread, between bytecodes. Calls on other threads, inside C
functions, or with another SIGALRM handler cannot be ended; `ask` reports them as late.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, ParamSpec, TypeVar

from controller.framework.calling.answers import Unusable
from controller.framework.interface import Plugin
from controller.framework.status import Code, Status
from crds.workload import ScheduledReason
from machinery import logs, metrics
from machinery.clock import stopwatch
from machinery.errors import StowageError
from machinery.tracing import WITHIN, called

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


P = ParamSpec("P")
T = TypeVar("T")

LOG = logs.get(__name__)
RESTS_SECONDS = 30.0
"""Seconds for which `ask_aside` skips a plugin after a time-out."""
_TEXT_LIMIT = 400

ERRORS = metrics.counter(
    "stowage_plugin_errors",
    "Plugins that raised, gave no usable answer, or took too long",
    ("plugin", "point"),
)


def at_zero(names: Mapping[str, Sequence[str]]) -> None:
    for point, plugins in names.items():
        for plugin in plugins:
            ERRORS.labels(plugin, f"{point[0].upper()}{point[1:]}")


class PluginError(StowageError):
    """A plugin failed. The message has its name, the extension point and the fault."""

    def __init__(self, plugin: str, point: str, text: str) -> None:
        super().__init__(f"plugin {plugin} failed at {point}: {text[:_TEXT_LIMIT]}")
        self.plugin = plugin
        self.point = point

    @property
    def status(self) -> Status:
        return Status(Code.ERROR, (str(self),), self.plugin, ScheduledReason.PLUGIN_ERROR)


class Resting(PluginError):
    """The plugin was skipped after a time-out, which was counted and logged."""


def failed(plugin: Plugin, point: str, text: str) -> PluginError:
    ERRORS.labels(plugin.name, point).inc()
    return PluginError(plugin.name, point, text)


def ask(
    plugin: Plugin,
    point: str,
    usable: Callable[[Any], T],
    method: Callable[P, object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Return the answer of a plugin's method, checked by `usable`. Raises PluginError."""
    # A tick may raise at any bytecode while the call is in `HERE`. Each branch therefore restores
    # `HERE` first. Python handles no signal between the two.
    outer = HERE.call
    call, began = PluginCall(outer), stopwatch()
    try:
        HERE.call = call
        answer = usable(method(*args, **kwargs))
    except Overdue as e:
        HERE.call = outer
        if e.call is not call:
            raise
        raise failed(plugin, point, _in_vain(e)) from e
    except PluginError:
        HERE.call = outer
        raise
    except Unusable as e:
        HERE.call = outer
        raise failed(plugin, point, str(e)) from e
    except Exception as e:
        HERE.call = outer
        raise failed(plugin, point, words(e)) from e
    finally:
        HERE.call = outer
        if WITHIN.get() is not None:  # here, because most calls are not traced
            called(point, plugin.name, began)
    if HERE.seconds and stopwatch() - began > HERE.seconds:
        _late(plugin, point, stopwatch() - began)
    return answer


_resting: dict[tuple[str, str], float] = {}
"""Until when a plugin is skipped at a point; stopwatch."""


def ask_aside(
    plugin: Plugin,
    point: str,
    usable: Callable[[Any], T],
    method: Callable[P, object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Like `ask`, for calls on very many Workloads in a row.

    Raises Resting for a while after a time-out: ten thousand of them would stop the process.
    """
    place = (plugin.name, point)
    if place in _resting and stopwatch() < _resting[place]:
        raise Resting(*place, f"not asked for {RESTS_SECONDS:.0f} s, as it gave no answer")
    try:
        return ask(plugin, point, usable, method, *args, **kwargs)
    except PluginError as e:
        if isinstance(e.__cause__, Overdue):
            _resting[place] = stopwatch() + RESTS_SECONDS
        raise


def words(fault: Exception) -> str:
    text = str(fault)
    return f"{type(fault).__name__}{': ' + text if text else ''}{_place(fault, -1)}"


def _in_vain(fault: Overdue) -> str:
    return f"no answer within {HERE.seconds * 1000:.0f} ms{_place(fault, -2)}"


def _place(fault: BaseException, frame: int) -> str:
    # The last frame of an Overdue is that of the signal handler.
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if f.filename != __file__]
    if len(frames) < -frame:
        return ""
    return f" ({PurePath(frames[frame].filename).name}:{frames[frame].lineno})"


def _late(plugin: Plugin, point: str, seconds: float) -> None:
    """Count and log a late answer. It is used, because the call could not be ended."""
    ERRORS.labels(plugin.name, point).inc()
    LOG.warning("plugin %s took %.1f s at %s", plugin.name, seconds, point)
