"""Python's garbage collector, in a process that keeps many objects for long.

A complete collection looks at every live object, and the loop stands still meanwhile: a tenth of a
second for ten thousand small Workloads. Nearly all objects are freed when nothing refers to them
any more, which needs no collection; only cycles do. So the objects that a complete collection
leaves are set aside, and the next one looks at those that came since (`tended`).

A cycle that ends after it was set aside is found once as many objects have been set aside again as
there were: then a collection looks at everything. So cycles never more than double the memory, and
the long look is as rare as the process is large.

Python 3.14.0 to 3.14.4 have a collector that works in increments: none of the collections that
begin by themselves looks at everything, so that nothing has to be set aside after one. The oldest
generation is 2 in all releases.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_LEAST = 100_000
"""Objects to set aside before everything is looked at again, which takes 50 ms or less for them."""
_OLDEST = 2
"""The generation of a complete collection; an increment has another one."""
_YOUNG = 700
"""New objects before a process that serves looks at them, so that each look is short."""
_LOADING = 50_000
"""New objects before a process that still loads its modules looks at them."""


def loading() -> None:
    """Collect rarely: modules are no garbage, and looks at them take a fifth of a start.

    A command goes on like this to its end. What serves for long is `tended` from then on.
    """
    gc.set_threshold(_LOADING)


@contextmanager
def tended(*, least: int = _LEAST) -> Iterator[None]:
    """Set aside what complete collections leave. Once in a process, for as long as it serves.

    Young objects are looked at often meanwhile, also after `loading`.

    Args:
        least: everything is looked at again once this many objects were set aside since the last
            time (or as many as there were then, if that is more).
    """
    aside = _Aside(least)
    before = gc.get_threshold()
    gc.callbacks.append(aside)
    gc.collect()  # modules and constants
    gc.set_threshold(_YOUNG)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(aside)
        gc.unfreeze()


class _Aside:
    """The number of objects set aside: all at the last long look, and since then."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._all = 0
        self._since = 0
        self._long = False

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._long = self._since > max(self._all, self._least)
            if self._long:
                gc.unfreeze()
            return
        left = len(gc.get_objects(generation=_OLDEST))
        if self._long:
            self._all, self._since = left, 0
        else:
            self._since += left
        gc.freeze()
