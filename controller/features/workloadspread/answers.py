"""The endpoints of spreads: what each subset holds, its cap, what is under way, and who has a say.

The numbers are those of the next decision: quota that is being taken counts. Very many spreads are
answered page by page, as lists of Kubernetes are, and without their subsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from controller.features.workloadspread.compiled import CompiledSpread
from controller.features.workloadspread.ledger import Spreads
from controller.framework.runtime.services import Route, failure, page
from machinery.http_messages import Request, Response


class SpreadStatusReader(Protocol):
    """The books of the spreads, as far as they are told."""

    def subsets(self, spread: CompiledSpread) -> Sequence[Mapping[str, Any]]:
        """What the subsets hold at this moment, as its status would say it."""
        ...


class SpreadHandlers:
    """What `spreads` and the books of this term know at that moment, for who asks."""

    def __init__(self, spreads: Spreads, books: Callable[[], SpreadStatusReader | None]) -> None:
        self._spreads = spreads
        self._books = books

    def routes(self) -> Sequence[Route]:
        """All of them."""
        return (
            Route("GET", "/spreads", self._page),
            Route("GET", "/spreads/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        return page(request, "spreads", self._spreads.values(), self._summary)

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        namespace, name = request.params["namespace"], request.params["name"]
        spread, books = self._spreads.get((namespace, name)), self._books()
        if spread is None:
            return failure(404, f"cannot find workload-spread {namespace}/{name}")
        held = () if books is None or spread.fault else books.subsets(spread)
        return {**self._summary(spread), "subsets": [_subset(spread, each) for each in held]}

    def _summary(self, spread: CompiledSpread) -> dict[str, Any]:
        """A spread as JSON values, but for its subsets."""
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
    """A subset; `missing` is -1 where nothing limits it."""
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
