"""Since when a term has seen replicas wait for a node of their cluster.

A status that a term has just read may be old: the hub was set back, or nobody could write to it. So
the patience with waiting replicas begins with the first look at the earliest; a term never makes it
shorter, and a new one begins it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

import msgspec

from controller.model.objects import Workload
from controller.model.unit import WorkloadInfo
from machinery.types.metadata import Key


class SeenWaits:
    """By Workload and cluster. `now` is the wall clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[Key, Mapping[str, datetime]] = {}

    def of(self, workload: Workload) -> Workload:
        info: WorkloadInfo | None = workload.info
        if info is None:
            return workload
        waits = {*info.waits, *(name for name, each in info.shown.items() if each.since)}
        if not waits:
            self._since.pop(info.key, None)
            return workload
        # To the second, as statuses have it.
        before, now = self._since.get(info.key, {}), self._now().replace(microsecond=0)
        self._since[info.key] = seen = {name: before.get(name, now) for name in waits}
        shown = {
            name: replace(each, since=max(each.since, seen[name])) if each.since else each
            for name, each in info.shown.items()
        }
        later = {name: max(since, seen[name]) for name, since in info.waits.items()}
        return msgspec.structs.replace(workload, info=replace(info, shown=shown, waits=later))

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def clear(self) -> None:
        self._since.clear()
