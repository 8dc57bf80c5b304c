"""The ClusterDecision and the PlacementDecisions of a Workload.

They list the clusters with replicas, including leaving ones, which run until their successors are
ready. The most replicas have rank 1, ties by name, so a list changes only with its numbers. Objects
of other owners are never touched.

PlacementDecisions are slices of at most 100 clusters (KEP-5313), and no write covers all. A cluster
that changes slices is written to the new one first: a growing list from its end, a shrinking one
from its beginning.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from controller.framework.objectwriter import ObjectWriter
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import changed, for_good, ready_conditions
from controller.model.objects import MemberCluster, Workload
from controller.model.why import kept
from controller.planner.reasons import worded
from crds.clusterdecision import REASON_LIMIT, DecisionReadyReason
from crds.fields.publishing import PublishedReason
from crds.names import API_VERSION
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    MEMBER_CLUSTERS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
    Resource,
)
from machinery.errors import Conflict, Forbidden, NotFound, TransportError
from machinery.runtime.informer import Informer
from machinery.types.api import ClusterDecisionSpec, ClusterDecisionStatus
from machinery.types.bounds import clean
from machinery.types.metadata import Key, Meta, Object


class ClusterDecision(Object, frozen=True):
    spec: ClusterDecisionSpec = ClusterDecisionSpec()
    status: ClusterDecisionStatus = ClusterDecisionStatus()


class PlacementDecision(Object, frozen=True):
    """One slice. Malformed fields compare as changed."""

    decisions: Any = msgspec.field(default_factory=list)
    scheduler_name: Any = ""


def owner_of(meta: Meta) -> tuple[Key, str] | None:
    found = (o for o in meta.owner_references if o.controller and o.kind == WORKLOADS.kind)
    owner = next((o for o in found if o.api_version == API_VERSION), None)
    return None if owner is None else ((meta.namespace, owner.name), owner.uid)


T = TypeVar("T", bound=Object)


class Obstacle(NamedTuple):
    reason: PublishedReason
    message: str


class PublishedObjects(ObjectWriter[T]):
    """Each is owned by its Workload."""

    def __init__(self, term: Term, resource: Resource, type_: type[T]) -> None:
        super().__init__(term, resource, type_, stored=term.informer(resource))

    @property
    def served(self) -> bool:
        """Whether the watch has found the kind."""
        return self._stored.synced and not isinstance(self._stored.last_error, NotFound)

    def of(self, workload: Workload, key: Key) -> T | None:
        found = self.get(key)
        return found if found is not None and _owned(found, workload) else None

    async def claim(self, workload: Workload, body: Mapping[str, Any]) -> T | Obstacle | None:
        """Return the object that a Workload controls, created from `body` if missing.

        None if the next event of the object must be awaited.
        """
        namespace, name = key = (workload.metadata.namespace, body["metadata"]["name"])
        try:
            if self.get(key) is None:
                ours = workload.metadata.controller_ref(API_VERSION, WORKLOADS.kind)
                metadata = {**body["metadata"], "ownerReferences": [ours]}
                return await self.create({**body, "metadata": metadata}, namespace)
        except Conflict:  # it existed, unseen
            pass
        except NotFound:
            return Obstacle(PublishedReason.NOT_SERVED, f"the hub has no {self.resource.plural}")
        found = self.get(key)
        if found is None or _owned(found, workload):
            return found if found is None or not found.metadata.deleting else None
        owner = owner_of(found.metadata)
        if owner is not None and owner[0] == workload.metadata.key:
            await self.delete(found)
            return None
        said = f"the {self.resource.kind} {name} is somebody else's, and is left alone"
        return Obstacle(PublishedReason.ALREADY_EXISTS, said)


def _owned(found: Object, workload: Workload) -> bool:
    return owner_of(found.metadata) == (workload.metadata.key, workload.metadata.uid)


def refused(resource: Resource, error: TransportError) -> Obstacle | None:
    if not (for_good(error) or isinstance(error, Forbidden)):
        return None
    return Obstacle(
        PublishedReason.REFUSED, f"the hub does not take the {resource.kind}: {clean(str(error))}"
    )


SLICE = 100
"""The most clusters of one PlacementDecision, by its schema."""
DECISION_KEY = "multicluster.x-k8s.io/decision-key"
DECISION_INDEX = "multicluster.x-k8s.io/decision-index"
PLACEMENT_KEY = "multicluster.x-k8s.io/placement-key"
_LABEL = 63
_DIGEST = 10


class RankedCluster(NamedTuple):
    name: str
    replicas: int
    reason: str


def ranked(workload: Workload) -> list[RankedCluster]:
    units = dict(workload.standing)
    for cluster, share in workload.info.moving.leaving.items():
        units[cluster] = units.get(cluster, 0) + share.replicas
    reasons = _reasons(workload)
    order = sorted(units.items(), key=lambda each: (-each[1], each[0]))
    return [RankedCluster(name, n, reasons.get(name, "")) for name, n in order if n > 0]


def _reasons(workload: Workload) -> dict[str, str]:
    found = {}
    for share in kept(workload.status).reasons:
        rules = next((step.because for step in reversed(share.steps) if step.because), ())
        text = ", ".join(worded(each.rule, each.numbers, each.name) for each in rules)
        found[share.cluster] = text if len(text) <= REASON_LIMIT else f"{text[: REASON_LIMIT - 1]}…"
    return found


def items(
    clusters: Sequence[RankedCluster],
    keys: Sequence[str],
    labels: Callable[[str], Mapping[str, str]],
    *,
    with_reasons: bool = True,
) -> list[dict[str, str]]:
    """Return the items of a ClusterDecision. `labels` returns a cluster's labels by name."""
    found = []
    for rank, each in enumerate(clusters, start=1):
        item = {"clusterName": each.name, "replicas": str(each.replicas), "rank": str(rank)}
        if with_reasons:
            item["reason"] = each.reason
        known = labels(each.name) if keys else {}
        found.append(item | {f"label.{key}": known.get(key, "") for key in keys})
    return found


def slices(
    workload: Workload, clusters: Sequence[RankedCluster], profile: Callable[[str], Key]
) -> Iterator[dict[str, Any]]:
    """Yield the bodies of PlacementDecisions, one empty one without clusters.

    `clusters` is by rank. `profile` returns a MemberCluster's ClusterProfile.
    """
    name = workload.metadata.name
    for index, at in enumerate(range(0, max(len(clusters), 1), SLICE)):
        decisions = [
            {"clusterProfileRef": _reference(profile(each.name)), "reason": each.reason}
            for each in clusters[at : at + SLICE]
        ]
        yield {
            "metadata": {
                "name": slice_name(name, index),
                "labels": {
                    DECISION_KEY: label_value(name),
                    DECISION_INDEX: str(index),
                    PLACEMENT_KEY: label_value(name),
                },
            },
            "schedulerName": workload.spec.scheduler_name,
            "decisions": [{k: v for k, v in each.items() if v} for each in decisions],
        }


def _reference(profile: Key) -> dict[str, str]:
    return {"namespace": profile[0], "name": profile[1]}


def slice_name(workload: str, index: int) -> str:
    return f"{workload}-{index}"


def label_value(name: str) -> str:
    if len(name) <= _LABEL:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST // 2).hexdigest()
    return f"{name[: _LABEL - _DIGEST - 1].rstrip('-.')}-{digest}"


MOST_BYTES = 1_000_000
"""Bytes of a list as JSON. etcd takes requests of 1.5 MiB."""


class ClusterDecisions:
    def __init__(self, term: Term) -> None:
        self._clock = term.clock
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self.objects = PublishedObjects(term, CLUSTER_DECISIONS, ClusterDecision)

    def asked(self, workload: Workload) -> bool:
        return workload.spec.publish.cluster_decision

    async def bring(self, workload: Workload, clusters: Sequence[RankedCluster]) -> Obstacle | None:
        """Write what differs. Return the obstacle if the object is not as asked.

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
        found = self.objects.of(workload, workload.metadata.key)
        if found is not None:
            await self.objects.delete(found)

    def _status(
        self, found: ClusterDecision, clusters: Sequence[RankedCluster], keys: Sequence[str]
    ) -> tuple[dict[str, Any], Obstacle | None]:
        listed, obstacle = self._fitting(clusters, keys), None
        reason = DecisionReadyReason.PUBLISHED
        message = "it lists every cluster of its Workload"
        if listed is None:
            # A cut list would look like units that are gone. The old one does less harm.
            listed, reason = found.status.decisions, DecisionReadyReason.TOO_LARGE
            message = f"{len(clusters)} clusters with {len(keys)} labels each fit into no object"
            obstacle = Obstacle(PublishedReason.TOO_LARGE, f"ClusterDecision: {message}")
        now, ready = self._clock.now(), obstacle is None
        status = {
            "observedGeneration": found.metadata.generation,
            "decisions": listed,
            "conditions": ready_conditions(
                found, true=ready, reason=reason.value, message=message, now=now
            ),
        }
        return status, obstacle

    def _fitting(
        self, clusters: Sequence[RankedCluster], keys: Sequence[str]
    ) -> list[dict[str, str]] | None:
        """Without reasons if too large; None if still too large."""
        for with_reasons in (True, False):
            found = items(clusters, keys, self._labels, with_reasons=with_reasons)
            if len(msgspec.json.encode(found)) <= MOST_BYTES:
                return found
        return None

    def _labels(self, name: str) -> Mapping[str, str]:
        cluster = self._clusters.get(("", name))
        return {} if cluster is None else cluster.labels


SWITCHED_OFF = Obstacle(
    PublishedReason.NOT_SERVED,
    "PlacementDecision: set placementDecisions: true in the controller's configuration",
)


class OwnedSlices:
    """By the key of the Workload that controls them, fed by the informer."""

    def __init__(self) -> None:
        self._keys: defaultdict[Key, set[Key]] = defaultdict(set)

    def changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> set[Key]:
        """Return the keys of the affected Workloads."""
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
    def __init__(self, term: Term, owned: OwnedSlices) -> None:
        self.objects = PublishedObjects(term, PLACEMENT_DECISIONS, PlacementDecision)
        self._owned = owned
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._namespace = term.namespace

    def asked(self, workload: Workload) -> bool:
        return workload.spec.publish.placement_decision

    async def bring(self, workload: Workload, clusters: Sequence[RankedCluster]) -> Obstacle | None:
        """Write what differs. Return the obstacle if the slices are not as asked.

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
        await self._delete(workload, keep=0)

    def _profile(self, name: str) -> Key:
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
