"""Keeps the PlacementDecisions of a Workload: slices of at most 100 clusters, as KEP-5313 has them.

No write covers all slices. A cluster that goes on from one slice to the next is written there
before it is taken out of the other: a list that grows is written from its end, one that shrinks
from its beginning. What is left over goes last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from controller.features.publishing.items import RankedCluster, slice_name, slices
from controller.features.publishing.objects import PlacementDecision, owner_of
from controller.features.publishing.writing import Obstacle, PublishedObjects
from controller.framework.runtime.feature import Term
from controller.model.objects import MemberCluster, Workload
from crds.fields.publishing import PublishedReason
from machinery.api.resources import MEMBER_CLUSTERS, PLACEMENT_DECISIONS
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key

SWITCHED_OFF = Obstacle(
    PublishedReason.NOT_SERVED,
    "PlacementDecision: set placementDecisions: true in the controller's configuration",
)


class OwnedSlices:
    """The slices that name a Workload as their controller, by its key: fed by the informer."""

    def __init__(self) -> None:
        self._keys: defaultdict[Key, set[Key]] = defaultdict(set)

    def changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> set[Key]:
        """Take a change in; return the keys of the Workloads that it is of."""
        touched = set()
        for found, there in ((old, False), (new, True)):
            owner = owner_of(found.metadata) if found is not None else None
            if found is None or owner is None:
                continue
            touched.add(owner[0])
            held = self._keys[owner[0]]
            (held.add if there else held.discard)(found.metadata.key)
            if not held:
                del self._keys[owner[0]]
        return touched

    def owners(self) -> list[Key]:
        return list(self._keys)

    def of(self, workload: Key) -> set[Key]:
        return set(self._keys.get(workload, ()))


class PlacementDecisions:
    """The slices of a hub, for one term of leadership."""

    def __init__(self, term: Term, owned: OwnedSlices) -> None:
        self.objects = PublishedObjects(term, PLACEMENT_DECISIONS, PlacementDecision)
        self._owned = owned
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._namespace = term.namespace

    def asked(self, workload: Workload) -> bool:
        return workload.spec.publish.placement_decision

    async def bring(self, workload: Workload, clusters: Sequence[RankedCluster]) -> Obstacle | None:
        """Write what differs; return why the slices are not as the Workload asks.

        Raises TransportError and LeaseLost.
        """
        bodies = list(slices(workload, clusters, self._profile))
        grows = len(clusters) >= self._published(workload)
        for body in reversed(bodies) if grows else bodies:
            found = await self.objects.claim(workload, body)
            if not isinstance(found, PlacementDecision):
                return found
            if _differs(found, body):
                await self.objects.patch(found, body)
        await self._delete(workload, keep=len(bodies))
        return None

    async def withdraw(self, workload: Workload) -> None:
        """Delete the slices of a Workload that asks for none. Raises TransportError, LeaseLost."""
        await self._delete(workload, keep=0)

    def _profile(self, name: str) -> Key:
        """Return the ClusterProfile that a MemberCluster was made of, else the exported one."""
        cluster = self._clusters.get(("", name))
        return (cluster and cluster.profile) or (self._namespace, name)

    def _slices(self, workload: Workload) -> list[PlacementDecision]:
        found = (self.objects.of(workload, key) for key in self._owned.of(workload.metadata.key))
        return [each for each in found if each is not None]

    def _published(self, workload: Workload) -> int:
        lists = (each.decisions for each in self._slices(workload))
        return sum(len(each) for each in lists if isinstance(each, list))

    async def _delete(self, workload: Workload, *, keep: int) -> None:
        kept = {slice_name(workload.metadata.name, index) for index in range(keep)}
        over = [each for each in self._slices(workload) if each.metadata.name not in kept]
        for each in sorted(over, key=lambda found: found.metadata.name, reverse=True):
            await self.objects.delete(each)


def _differs(found: PlacementDecision, body: Mapping[str, Any]) -> bool:
    labels: Mapping[str, str] = body["metadata"]["labels"]
    return (
        found.decisions != body["decisions"]
        or found.scheduler_name != body["schedulerName"]
        or not labels.items() <= found.metadata.labels.items()
    )
