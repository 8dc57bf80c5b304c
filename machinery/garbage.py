"""Python's garbage collector, in a process that keeps many objects for long.

A complete collection walks every live object and stops the loop: 0.1 s for ten thousand small
Workloads. Its survivors are therefore frozen (`tended`). Once as many objects were frozen again,
all are collected: cycles at most double the memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_LEAST = 100_000
"""Objects to freeze before a collection of everything."""
_OLDEST = 2
"""The generation of a complete collection; an increment has another one."""
_YOUNG = 700
"""New objects before a serving process collects them."""
_LOADING = 50_000
"""New objects before a process that loads its modules collects them."""


def loading() -> None:
    """Collect rarely: modules are no garbage. A server is `tended` from then on."""
    gc.set_threshold(_LOADING)


@contextmanager
def tended(*, least: int = _LEAST) -> Iterator[None]:
    """Freeze the survivors of complete collections. Once in a process, while it serves.

    Everything is collected again once `least` objects were frozen since the last time (or as many
    as were frozen then, if more).
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
