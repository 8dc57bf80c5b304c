"""The parts of a Workload's status that plugins set.

So there is no None (removed by a merge patch), no number outside JSON, and a bounded size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from controller.model.objects import PLUGIN_FIELDS
from crds.fields.shares import MOST_PLUGINS
from machinery.types.bounds import KIB

MOST_BYTES = 4 * KIB
"""Bytes of one plugin's object as JSON."""
MOST_BYTES_TOGETHER = 16 * KIB
"""Bytes of all plugins' objects on a Workload as JSON."""
MOST_DEPTH = 16
OWN = "plugins"
"""The field with the plugins' own objects."""
_INT64 = 2**63


def fields_of(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises ValueError for a field that plugins may not set."""
    for name in said:
        if name not in PLUGIN_FIELDS or name == OWN:
            known = ", ".join(sorted(PLUGIN_FIELDS.keys() - {OWN}))
            raise ValueError(f"status.{name} is no field that plugins tell, those are {known}")
    return said


class PluginStatus:
    """The plugins' objects below `status.plugins` of one Workload."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[str, Any]] = {}
        self._left = MOST_BYTES_TOGETHER

    def add(self, plugin: str, said: Mapping[str, Any]) -> None:
        """Raises TypeError or ValueError for a value that a status cannot hold."""
        value = _plain(said, MOST_DEPTH)
        if not isinstance(value, dict):
            raise TypeError(f"an object is wanted, found {type(said).__name__}")
        if not value:
            return
        size = len(msgspec.json.encode(value))
        if size > MOST_BYTES:
            raise ValueError(f"{size} bytes, {MOST_BYTES} are the most that one plugin tells")
        if size > self._left or len(self.objects) == MOST_PLUGINS:
            most = f"{MOST_BYTES_TOGETHER} bytes of {MOST_PLUGINS} plugins"
            raise ValueError(f"{size} bytes more, {most} are the most that all tell together")
        self._left -= size
        self.objects[plugin] = value


def _plain(value: Any, depth: int) -> Any:
    if not depth:
        raise ValueError(f"more than {MOST_DEPTH} levels")
    match value:
        case None | bool() | str():
            return value
        case int() if -_INT64 <= value < _INT64:
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
        case Mapping():
            if not all(isinstance(name, str) for name in value):
                raise TypeError("the names of fields are strings")
            return {n: _plain(v, depth - 1) for n, v in value.items() if v is not None}
        case list() | tuple():
            return [_plain(each, depth - 1) for each in value]
        case _:
            raise TypeError(f"{value!r:.60} is no value that a status keeps")
