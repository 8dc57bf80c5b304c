"""Asks a PreBind plugin, which waits for I/O, stretch by stretch.

What the plugin does between two waits holds up the whole process, so each such stretch is asked
like any other plugin, within the profile's time limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from typing import Any, NamedTuple

from controller.framework.calling.deadline import limited
from controller.framework.calling.guard import ask
from controller.framework.interface import CycleState, PreBind
from controller.framework.status import Status
from controller.model.unit import WorkloadInfo


class _Stretch(NamedTuple):
    """The end of a stretch: what the plugin waits for, its answer, or what it raised."""

    waits: Any = None
    answer: Any = None
    fault: Exception | None = None


class in_stretches(Awaitable[Status]):  # noqa: N801 - it reads as what it does
    """Awaits the plugin's answer. Raises PluginError for a stretch that took too long.

    An exception of the plugin is raised as it is: it may be a fault of the hub.
    """

    def __init__(
        self,
        plugin: PreBind,
        seconds: float,
        state: CycleState,
        unit: WorkloadInfo,
        placements: Mapping[str, int],
    ) -> None:
        self._plugin = plugin
        self._seconds = seconds
        self._begin = partial(plugin.pre_bind, state, unit, placements)

    def __await__(self) -> Generator[Any, Any, Status]:
        steps: Any = self._run(lambda: _Stretch(answer=self._begin().__await__())).answer
        go: Callable[[], Any] = partial(next, steps)
        while True:
            stretch = self._run(partial(_stretch, go))
            if stretch.fault is not None:
                raise stretch.fault
            if stretch.waits is None and stretch.answer is not _GOES_ON:
                answer: Status = stretch.answer
                return answer
            try:
                yield stretch.waits
            except BaseException as e:  # noqa: BLE001 - it is the plugin's to hear of a cancellation
                go = partial(steps.throw, e)
            else:
                go = partial(next, steps)

    def _run(self, stretch: Callable[[], _Stretch]) -> _Stretch:
        with limited(self._seconds):
            done: _Stretch = ask(self._plugin, "PreBind", lambda each: each, stretch)
            return done


_GOES_ON = object()


def _stretch(go: Callable[[], Any]) -> _Stretch:
    try:
        return _Stretch(waits=go(), answer=_GOES_ON)
    except StopIteration as e:
        return _Stretch(answer=e.value)
    except Exception as e:  # noqa: BLE001 - whoever awaits it hears of it
        return _Stretch(fault=e)
