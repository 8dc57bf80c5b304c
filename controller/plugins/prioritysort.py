"""The order of the queue: higher priority first, then older Workloads, then by name."""

from __future__ import annotations

from typing import Any

from controller.model.unit import WorkloadInfo


class PrioritySort:
    """Sorts by priority descending, creation time ascending (RFC 3339 in UTC), name."""

    name = "PrioritySort"

    def rank(self, info: WorkloadInfo) -> tuple[Any, ...]:
        return (-info.priority, info.created, info.key)
