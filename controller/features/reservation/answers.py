"""The endpoints of reservations: the reserved room by cluster, the part in use, and its users.

The numbers are those of the next decision: a decision that is being written counts. The list is
answered page by page, as lists of Kubernetes are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from controller.features.reservation.compiled import Reserved
from controller.features.reservation.ledger import ReservationLedger
from controller.framework.runtime.services import Route, failure, page
from controller.snapshot.amounts import rendered
from machinery.http_messages import Request, Response

NAMED_OWNERS = NAMED_CLUSTERS = 100
"""Of one reservation; `owners` is the number of all."""


class ReservationHandlers:
    """Answers from the ledger that `ledger` returns at the time of the request."""

    def __init__(self, ledger: Callable[[], ReservationLedger]) -> None:
        self._ledger = ledger

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/reservations", self._page),
            Route("GET", "/reservations/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        ledger = self._ledger()
        return page(request, "reservations", ledger.values(), lambda each: _told(ledger, each))

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        namespace, name = request.params["namespace"], request.params["name"]
        ledger = self._ledger()
        reserved = ledger.get((namespace, name))
        if reserved is None:
            return failure(404, f"cannot find reservation {namespace}/{name}")
        return _told(ledger, reserved)


def _told(ledger: ReservationLedger, reserved: Reserved) -> dict[str, Any]:
    key, users = reserved.key, ledger.uses(reserved.key)
    named = nsmallest(NAMED_OWNERS, users)
    clusters = sorted(ledger.reserved(key).items())
    return {
        "namespace": reserved.namespace,
        "name": reserved.name,
        "phase": reserved.phase,
        "clusters": [_there(ledger, reserved, *each) for each in clusters[:NAMED_CLUSTERS]],
        "owners": len(users),
        "currentOwners": [
            {"namespace": each[0], "name": each[1], "clusters": dict(users[each])} for each in named
        ],
    }


def _there(
    ledger: ReservationLedger, reserved: Reserved, cluster: str, replicas: int
) -> dict[str, Any]:
    """Return the reserved room on a cluster.

    Requests of owners beyond the reserved amounts are not counted as allocated.
    """
    held = {resource: n * replicas for resource, n in reserved.request.items()}
    taken = ledger.taken(reserved.key, cluster)
    return {
        "name": cluster,
        "replicas": replicas,
        "reserved": rendered(held),
        "allocated": rendered({r: min(n, taken.get(r, 0)) for r, n in held.items()}),
        "unused": rendered(ledger.unused(reserved.key, cluster)),
    }
