"""The endpoints of policies, with the numbers of the next decision."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Any

from controller.features.workloadpolicy.compiled import Policy
from controller.features.workloadpolicy.controller import allocated
from controller.features.workloadpolicy.counts import Tally
from controller.framework.runtime.services import Book
from controller.snapshot.snapshot import Snapshot

NAMED_CLUSTERS = 100
"""Clusters of a policy in an answer, most replicas first. `holding` counts all."""


def book(counts: Tally, snapshot: Callable[[], Snapshot]) -> Book[Policy]:
    def summary(policy: Policy) -> dict[str, Any]:
        return {
            "namespace": policy.key[0],
            "name": policy.name,
            "topologyKey": policy.topology_key,
            "allocationType": "Required" if policy.required else "Preferred",
            "allocationMethod": policy.method.value,
            "workloads": counts.members(policy.key),
            "claimed": sum(counts.claimed(policy.key).values()),
            "domains": [] if policy.fault else allocated(policy, counts, snapshot()),
            "message": policy.fault,
        }

    def detail(policy: Policy) -> dict[str, Any]:
        replicas, claimed = counts.replicas_of(policy.key), counts.claimed(policy.key)
        holding = {cluster: n for cluster, n in replicas.items() if n}
        shown = nsmallest(NAMED_CLUSTERS, holding.items(), key=lambda each: (-each[1], each[0]))
        return {
            **summary(policy),
            "holding": len(holding),
            "clusters": [
                {"name": cluster, "replicas": n, "claimed": claimed.get(cluster, 0)}
                for cluster, n in shown
            ],
        }

    names = ("policies", "workload-policy")
    return Book(*names, counts.policies, counts.policy, summary, detail)
