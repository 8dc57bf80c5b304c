"""Who is decided first: the higher priority, then the older, then by name."""

from __future__ import annotations

from typing import Any

from controller.model.unit import WorkloadInfo


class PrioritySort:
    """Priority descending, creation time ascending (RFC 3339 in UTC sorts as text), name."""

    name = "PrioritySort"

    def rank(self, unit: WorkloadInfo) -> tuple[Any, ...]:
        """The sort key."""
        return (-unit.priority, unit.created, unit.key)
