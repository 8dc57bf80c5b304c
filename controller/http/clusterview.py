"""The debug endpoint's view of a cluster: the numbers that the next decision will read."""

from __future__ import annotations

from typing import Any

from controller.eventhandlers import SchedulerCache
from controller.snapshot.amounts import amounts_of, rendered


def of_cluster(cache: SchedulerCache, name: str) -> dict[str, Any] | None:
    """Return labels, room and shares of a cluster; None for one that does not exist.

    `requested` counts the replicas in flight and what is held (`reserved`), so remaining ==
    allocatable - requested.
    """
    snapshot = cache.snapshot()
    amounts = amounts_of(snapshot, name)
    if amounts is None:
        return None
    meta = snapshot.clusters[snapshot.row[name]].metadata
    return {
        "name": name,
        "labels": meta.labels,
        "generation": meta.generation,
        "allocatable": rendered(amounts.allocatable),
        "requested": rendered(amounts.requested),
        "reserved": rendered(amounts.reserved),
        "remaining": rendered(amounts.remaining),
        "shares": {"/".join(key): replicas for key, replicas in cache.shares(name).items()},
    }
