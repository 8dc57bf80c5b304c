"""Keeps the ClusterDecision of a Workload: made, its labels, and then its status.

A process that dies between two of these writes leaves an object with the list of before, or one
that kstatus calls in progress; the next turn, here or elsewhere, goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controller.features.publishing.items import RankedCluster, items
from controller.features.publishing.objects import ClusterDecision
from controller.features.publishing.writing import Obstacle, PublishedObjects
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import changed
from controller.model.objects import MemberCluster, Workload
from crds.clusterdecision import DecisionCondition, DecisionReadyReason
from crds.fields.publishing import PublishedReason
from machinery.api.resources import CLUSTER_DECISIONS, MEMBER_CLUSTERS
from machinery.runtime.informer import Informer
from machinery.types import conditions

MOST_BYTES = 1_000_000
"""Of a list as JSON: etcd takes a request of 1.5 MiB."""
_READY = DecisionCondition.READY.value


class ClusterDecisions:
    """The ClusterDecisions of a hub, for one term of leadership."""

    def __init__(self, term: Term) -> None:
        self._clock = term.clock
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self.objects = PublishedObjects(term, CLUSTER_DECISIONS, ClusterDecision)

    def asked(self, workload: Workload) -> bool:
        return workload.spec.publish.cluster_decision

    async def bring(self, workload: Workload, clusters: Sequence[RankedCluster]) -> Obstacle | None:
        """Write what differs; return why the object is not as the Workload asks.

        Raises TransportError and LeaseLost.
        """
        keys = workload.spec.publish.labels
        body = {"metadata": {"name": workload.metadata.name}, "spec": {"labels": keys}}
        found = await self.objects.claim(workload, body)
        if not isinstance(found, ClusterDecision):
            return found
        if found.spec.labels != keys:
            found = await self.objects.patch(found, {"spec": {"labels": keys}})
        status, obstacle = self._status(found, clusters, keys)
        if changed(status, found.status):
            await self.objects.patch(found, {"status": status}, status=True)
        return obstacle

    async def withdraw(self, workload: Workload) -> None:
        """Delete the object of a Workload that asks for none. Raises TransportError, LeaseLost."""
        found = self.objects.of(workload, workload.metadata.key)
        if found is not None:
            await self.objects.delete(found)

    def _status(
        self, found: ClusterDecision, clusters: Sequence[RankedCluster], keys: Sequence[str]
    ) -> tuple[dict[str, Any], Obstacle | None]:
        listed, obstacle = self._fitting(clusters, keys), None
        reason = DecisionReadyReason.PUBLISHED
        message = ""
        if listed is None:
            # A list that is cut would pass for units that are gone: the old one does less harm.
            listed, reason = found.status.decisions, DecisionReadyReason.TOO_LARGE
            message = f"{len(clusters)} clusters with {len(keys)} labels each fit into no object"
            obstacle = Obstacle(PublishedReason.TOO_LARGE, f"ClusterDecision: {message}")
        before, now = found.status.conditions, self._clock.now()
        ready = conditions.renewed(
            conditions.among(before, _READY),
            type_=_READY,
            true=obstacle is None,
            reason=reason.value,
            message=message,
            now=now,
            generation=found.metadata.generation,
        )
        status = {
            "observedGeneration": found.metadata.generation,
            "decisions": listed,
            "conditions": conditions.with_progress([ready], waits=(), before=before, now=now),
        }
        return status, obstacle

    def _fitting(
        self, clusters: Sequence[RankedCluster], keys: Sequence[str]
    ) -> list[dict[str, str]] | None:
        """Return the items, of very many without reasons; None where these are too large too."""
        for with_reasons in (True, False):
            found = items(clusters, keys, self._labels, with_reasons=with_reasons)
            if len(msgspec.json.encode(found)) <= MOST_BYTES:
                return found
        return None

    def _labels(self, name: str) -> Mapping[str, str]:
        cluster = self._clusters.get(("", name))
        return {} if cluster is None else cluster.labels
