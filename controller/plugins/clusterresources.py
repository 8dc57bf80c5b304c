"""Room: how many replicas a cluster can hold, and how much of the cluster stays free afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.cache.placements import PlacementIndex
from controller.framework.events import MEMBER_CLUSTER, Action, EventHint, on
from controller.framework.interface import NOTHING_REFUSED, CycleState, FilterMask
from controller.framework.room import (
    Variant,
    by_variant,
    needed,
    resources_of,
    room,
    room_of,
    variants_of,
)
from controller.framework.runtime.arguments import NoArgs
from controller.framework.runtime.handle import Handle
from controller.framework.runtime.services import Route, as_json, failure
from controller.model.unit import WorkloadInfo
from controller.snapshot.amounts import amounts_of, rendered
from controller.snapshot.columns import Ints
from controller.snapshot.saturating import CEILING, plus
from controller.snapshot.snapshot import Snapshot
from machinery.http_messages import Request, Response
from machinery.types import hostports

NAME = "ClusterResources"
MEASURED = ("cpu", "memory")
"""The resources whose free share is scored."""


class ClusterResources:
    """Refuses clusters without room for the replicas of a Workload, and prefers emptier ones.

    Room is the number of replicas that fit into the free node groups, less those decided but not
    yet counted there, plus the ones of this Workload that are placed there. Single and Duplicated
    need room for all replicas on a cluster, Divided for one. Virtual clusters, and kinds without
    replicas, are not checked.
    """

    name = NAME
    ignored_during_execution = True

    def __init__(self, _args: NoArgs, handle: Handle) -> None:
        self._handle = handle

    def routes(self) -> Sequence[Route]:
        return (Route("GET", "/available/:name", self._available),)

    async def _available(self, request: Request) -> Response:
        """Answer with the `remaining` of `/apis/v1/clusters/:name` as `available`."""
        name = request.params["name"]
        amounts = amounts_of(self._handle.snapshot(), name)
        if amounts is None:
            return failure(404, f"cannot find node {name}")
        return as_json(200, {"name": name, "available": rendered(amounts.remaining)})

    def events_to_register(self) -> Sequence[EventHint]:
        """Return the events that may bring room: a new cluster, freed room, an edited spec."""
        return (on(MEMBER_CLUSTER, Action.ADDED | Action.ROOM | Action.SPEC),)

    def filter(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> FilterMask:
        """Return the clusters with too little room, by the resources that are lacking."""
        need = needed(info)
        full = room_of(state, info, snapshot) < need
        if not full.any():
            return NOTHING_REFUSED
        lacking = {
            resource: room(info, snapshot, only=resource, variants=variants_of(state)) < need
            for resource in resources_of(state, info)
        }
        reasons = [(mask, _lack(resource)) for resource, mask in lacking.items()]
        return FilterMask((), short=[*reasons, (full, "insufficient room")])

    def score(
        self, state: CycleState, info: WorkloadInfo, snapshot: Snapshot, _bound: PlacementIndex
    ) -> Ints:
        """Return the percentage that stays free after placing, averaged over cpu and memory."""
        return by_variant(
            variants_of(state), info, snapshot, lambda of: self._free(of, needed(info), snapshot)
        )

    def _free(self, of: WorkloadInfo | Variant, replicas: int, snapshot: Snapshot) -> Ints:
        asked = [min(of.request.get(resource, 0) * replicas, CEILING) for resource in MEASURED]

        def compute(rows: Ints | None) -> Ints:
            there = slice(None) if rows is None else rows
            total = nothing = np.zeros(len(snapshot), dtype=np.int64)[there]
            for resource, amount in zip(MEASURED, asked, strict=True):
                known = (snapshot.allocatable.get(resource), snapshot.requested.get(resource))
                offered, held = (nothing if each is None else each[there] for each in known)
                taken = plus(held, snapshot.coming(resource, rows))
                left: Ints = np.maximum(offered - plus(taken, amount), 0)
                # Exact, because an offered amount is at most MOST_AMOUNT.
                total = total + 100 * left // np.maximum(offered, 1)
            return np.minimum(total // len(MEASURED), 100)

        return snapshot.kept.column((NAME, *asked), compute)


def _lack(resource: str) -> str:
    """Return, for example, `insufficient cpu` or `no free host port 8080/TCP`."""
    few = "insufficient" if hostports.code(resource) is None else "no free"
    return f"{few} {hostports.words(resource)}"
