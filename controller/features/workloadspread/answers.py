"""The endpoints of spreads: the replicas and the cap of each subset, and which spread divides.

The numbers are those of the next decision: quota that is being taken counts. The list is answered
page by page, as lists of Kubernetes are, and without the subsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from controller.features.workloadspread.compiled import CompiledSpread
from controller.features.workloadspread.ledger import Spreads
from controller.framework.runtime.services import Route, failure, page
from machinery.http_messages import Request, Response


class SpreadStatusReader(Protocol):
    """The controller of the spreads, as far as the endpoints read it."""

    def subsets(self, spread: CompiledSpread) -> Sequence[Mapping[str, Any]]:
        """Return the subsets' statuses as of now."""
        ...


class SpreadHandlers:
    """Answers from `spreads` and the controller of this term at the time of the request."""

    def __init__(self, spreads: Spreads, reader: Callable[[], SpreadStatusReader | None]) -> None:
        self._spreads = spreads
        self._reader = reader

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/spreads", self._page),
            Route("GET", "/spreads/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        return page(request, "spreads", self._spreads.values(), self._summary)

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        namespace, name = request.params["namespace"], request.params["name"]
        spread, reader = self._spreads.get((namespace, name)), self._reader()
        if spread is None:
            return failure(404, f"cannot find workload-spread {namespace}/{name}")
        held = () if reader is None or spread.fault else reader.subsets(spread)
        return {**self._summary(spread), "subsets": [_subset(spread, each) for each in held]}

    def _summary(self, spread: CompiledSpread) -> dict[str, Any]:
        """Return a spread as JSON values, without its subsets."""
        holder = self._spreads.of(spread.target)
        return {
            "namespace": spread.key[0],
            "name": spread.name,
            "workload": spread.target[1],
            "strategy": "Adaptive" if spread.adaptive else "Fixed",
            "divides": holder is not None and holder.key == spread.key and not spread.fault,
            "marked": sorted(spread.marked),
            "message": spread.fault,
        }


def _subset(spread: CompiledSpread, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subset as JSON values; `missing` is -1 where nothing limits it."""
    return {
        "name": held["name"],
        "replicas": held["replicas"],
        "missing": held["missingReplicas"],
        "marked": held["name"] in spread.marked,
        "creating": held["creatingPods"],
        "deleting": held["deletingPods"],
        "stuck": held["stuckPods"],
        "deletionCost": held["deletionCost"],
    }
