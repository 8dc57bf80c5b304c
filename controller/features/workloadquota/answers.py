"""The endpoints of quotas: the amounts that a namespace may take over all clusters, and takes.

The numbers are those of the next decision: a decision that is being written counts, and so do
claims of other schedulers. The list is answered page by page, as lists of Kubernetes are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.cache.placements import PlacementIndex
from controller.features.reservation.ledger import ReservationLedger
from controller.features.workloadquota.compiled import CompiledQuota, rendered
from controller.features.workloadquota.usage import Usage
from controller.framework.runtime.services import Route, failure, page
from machinery.http_messages import Request, Response


class QuotaHandlers:
    """Answers from the current placements index at the time of the request."""

    def __init__(self, index: Callable[[], PlacementIndex]) -> None:
        self._index = index

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/quotas", self._page),
            Route("GET", "/quotas/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        index = self._index()
        quotas = index.ledger(Usage).every()
        return page(request, "quotas", quotas, lambda each: _told(index, each))

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        namespace, name = request.params["namespace"], request.params["name"]
        index = self._index()
        quota = index.ledger(Usage).quota((namespace, name))
        if quota is None:
            return failure(404, f"cannot find workloadquota {namespace}/{name}")
        return _told(index, quota)


def _told(index: PlacementIndex, quota: CompiledQuota) -> dict[str, Any]:
    used = index.ledger(Usage).used(quota.key[0], index.ledger(ReservationLedger)).amounts
    return {
        "namespace": quota.key[0],
        "name": quota.key[1],
        "hard": {name: rendered(name, n) for name, n in quota.hard.items()},
        "used": {name: rendered(name, used.get(name, 0)) for name in quota.hard},
        **({"fault": quota.fault} if quota.fault else {}),
    }
