"""An index of Workloads that require others: those that one of them could wait for.

Found by one label pair that a selector demands, so that a decision costs what its own terms ask
for, however many Workloads wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key
from machinery.types.selectors import LabelSelector

_Place: TypeAlias = tuple[str, str, tuple[str, str] | None]
"""Scheduler name, namespace, and a label pair; None for all of the namespace."""


class PendingAffinity:
    """Workloads by scheduler name, namespace and label."""

    def __init__(self, units: Iterable[WorkloadInfo] = ()) -> None:
        self._all: dict[Key, WorkloadInfo] = {}
        self._places: dict[_Place, dict[Key, None]] = {}
        for unit in units:
            self.put(unit)

    def put(self, unit: WorkloadInfo) -> None:
        before = self._all.get(unit.key)
        if before is not None and (before.labels, before.scheduler_name) != (
            unit.labels,
            unit.scheduler_name,
        ):
            self.drop(unit.key)
        self._all[unit.key] = unit
        for place in _places(unit):
            self._places.setdefault(place, {})[unit.key] = None

    def drop(self, key: Key) -> None:
        """Forget a Workload. An unknown key is no fault."""
        unit = self._all.pop(key, None)
        for place in _places(unit) if unit is not None else ():
            members = self._places[place]
            del members[key]
            if not members:
                del self._places[place]

    def selected(self, by: WorkloadInfo, selector: LabelSelector) -> Iterator[WorkloadInfo]:
        """Return the Workloads of `by`'s scheduler and namespace that the selector picks."""
        pair = min(selector.match_labels.items(), default=None)
        keys = self._places.get((by.scheduler_name, by.namespace, pair), {})
        found = (self._all[key] for key in keys)
        return (unit for unit in found if selector.matches(unit.labels))


def _places(unit: WorkloadInfo) -> Iterator[_Place]:
    yield (unit.scheduler_name, unit.namespace, None)
    for pair in unit.labels.items():
        yield (unit.scheduler_name, unit.namespace, pair)
