"""The endpoints of reservations: the reserved room by cluster, the part in use, and its users.

The numbers are those of the next decision: a decision that is being written counts.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Any

from controller.features.reservation.compiled import Reserved
from controller.features.reservation.ledger import ReservationLedger
from controller.framework.runtime.services import Book
from controller.snapshot.amounts import rendered

NAMED_OWNERS = NAMED_CLUSTERS = 100
"""Of one reservation; `owners` is the number of all."""


def book(ledger: Callable[[], ReservationLedger]) -> Book[Reserved]:
    """Return the endpoints, which answer from the ledger at the time of the request."""

    def told(reserved: Reserved) -> dict[str, Any]:
        return _told(ledger(), reserved)

    return Book(
        *("reservations", "reservation"),
        objects=lambda: ledger().values(),
        find=lambda key: ledger().get(key),
        summary=told,
        detail=told,
    )


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
