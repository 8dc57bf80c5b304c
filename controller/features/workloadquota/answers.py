"""The endpoints of quotas, with the numbers of the next decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.cache.placements import PlacementIndex
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import CompiledQuota, rendered
from controller.features.workloadquota.usage import Usage
from controller.framework.runtime.services import Book


def book(index: Callable[[], PlacementIndex]) -> Book[CompiledQuota]:
    def told(quota: CompiledQuota) -> dict[str, Any]:
        reserved = index().ledger(ReservationLedger)
        used = index().ledger(Usage).used(quota.key[0], reserved).amounts
        return {
            "namespace": quota.key[0],
            "name": quota.key[1],
            "hard": {name: rendered(name, n) for name, n in quota.hard.items()},
            "used": {name: rendered(name, used.get(name, 0)) for name in quota.hard},
            **({"fault": quota.fault} if quota.fault else {}),
        }

    return Book(
        *("quotas", "workloadquota"),
        objects=lambda: index().ledger(Usage).every(),
        find=lambda key: index().ledger(Usage).quota(key),
        summary=told,
        detail=told,
    )
