"""The endpoints of policies: the replicas of each domain, their clusters, and claims of others.

The numbers are those of the next decision: a decision that is being written counts, and so do
claims of schedulers in other processes. The list is answered page by page, as lists of Kubernetes
are, and without the clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from typing import Any

from controller.features.workloadpolicy.compiled import Policy
from controller.features.workloadpolicy.counts import Tally
from controller.features.workloadpolicy.status import allocated
from controller.framework.runtime.services import Route, failure, page
from controller.snapshot.snapshot import Snapshot
from machinery.http_messages import Request, Response

NAMED_CLUSTERS = 100
"""Of one policy, those with the most replicas first; `holding` is the number of all."""


class PolicyHandlers:
    """Answers from `counts` and the current snapshot at the time of the request."""

    def __init__(self, counts: Tally, snapshot: Callable[[], Snapshot]) -> None:
        self._counts = counts
        self._snapshot = snapshot

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/policies", self._page),
            Route("GET", "/policies/:namespace/:name", self._one),
        )

    async def _page(self, request: Request) -> Mapping[str, Any]:
        return page(request, "policies", self._counts.policies(), self._summary)

    async def _one(self, request: Request) -> Mapping[str, Any] | Response:
        namespace, name = request.params["namespace"], request.params["name"]
        policy = self._counts.policy((namespace, name))
        if policy is None:
            return failure(404, f"cannot find workload-policy {namespace}/{name}")
        replicas, claimed = self._counts.replicas_of(policy.key), self._counts.claimed(policy.key)
        holding = {cluster: n for cluster, n in replicas.items() if n}
        shown = nsmallest(NAMED_CLUSTERS, holding.items(), key=lambda each: (-each[1], each[0]))
        return {
            **self._summary(policy),
            "holding": len(holding),
            "clusters": [
                {"name": cluster, "replicas": n, "claimed": claimed.get(cluster, 0)}
                for cluster, n in shown
            ],
        }

    def _summary(self, policy: Policy) -> dict[str, Any]:
        """Return a policy as JSON values, without its clusters."""
        return {
            "namespace": policy.key[0],
            "name": policy.name,
            "topologyKey": policy.topology_key,
            "allocationType": "Required" if policy.required else "Preferred",
            "allocationMethod": policy.method.value,
            "workloads": self._counts.members(policy.key),
            "claimed": sum(self._counts.claimed(policy.key).values()),
            "domains": [] if policy.fault else allocated(policy, self._counts, self._snapshot()),
            "message": policy.fault,
        }
