"""Publishing as a feature: decisions of Workloads with spec.publish.

A turn updates the ClusterDecision and PlacementDecisions, then the condition Published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from controller.features.publishing.decisions import (
    SWITCHED_OFF,
    ClusterDecision,
    ClusterDecisions,
    Obstacle,
    OwnedSlices,
    PlacementDecision,
    PlacementDecisions,
    RankedCluster,
    owner_of,
    ranked,
    refused,
)
from controller.framework.runtime.feature import Feature, Term
from controller.framework.runtime.handle import Handle
from controller.framework.statuswriter import Result, StatusWriter
from controller.model.objects import NOWHERE, MemberCluster, Workload
from crds.fields.publishing import PublishedReason
from crds.workload import WorkloadCondition
from machinery.api.resources import (
    CLUSTER_DECISIONS,
    MEMBER_CLUSTERS,
    PLACEMENT_DECISIONS,
    WORKLOADS,
)
from machinery.errors import Conflict, TransportError
from machinery.runtime.informer import Informer
from machinery.tasks import Gradually
from machinery.types import conditions
from machinery.types.metadata import Key

AGAIN_SECONDS = 60.0
"""Seconds between retries of refused writes."""
SERVED_SECONDS = 1.0
"""Seconds between checks whether the hub has the kinds. No request is made."""
_PUBLISHED = WorkloadCondition.PUBLISHED.value
_DONE = "its clusters are published"


class PublishingController(StatusWriter[Workload]):
    action = "Publishing"

    def __init__(self, term: Term, *, handle: Handle, owned: OwnedSlices) -> None:
        super().__init__(term, WORKLOADS, Workload)
        self._schedulers = handle.configuration.profiles.keys()
        self._owned = owned
        self._lists: Informer[Any] = term.informer(CLUSTER_DECISIONS)
        self._kinds: list[ClusterDecisions | PlacementDecisions] = [ClusterDecisions(term)]
        self._switched_off = not handle.configuration.placement_decisions
        if not self._switched_off:
            self._kinds.append(PlacementDecisions(term, owned))
        self._obstacles: dict[Key, Obstacle] = {}
        self._telling = Gradually(self.add)

    def resync(self, stored: Workload) -> None:
        if publishes(stored):
            self.add(stored.metadata.key)

    def cluster_changed(self, name: str, telling: Collection[Key]) -> None:
        self._telling.add(name, telling)

    def forget(self, key: Key) -> None:
        super().forget(key)
        self._obstacles.pop(key, None)

    async def run(self) -> None:
        """First withdraw what no Workload asks for any more."""
        owners = (owner_of(each.metadata) for each in self._lists.values())
        for key in {*(each[0] for each in owners if each is not None), *self._owned.owners()}:
            self.add(key)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._await_kinds())
            tasks.create_task(self._telling.run())

    async def _await_kinds(self) -> None:
        served = [each.objects.served for each in self._kinds]
        while True:
            await self._clock.sleep(SERVED_SECONDS)
            before, served = served, [each.objects.served for each in self._kinds]
            if any(now and not was for was, now in zip(before, served, strict=True)):
                self.add_all()

    async def prepare(self, stored: Workload) -> None:
        key = stored.metadata.key
        if stored.metadata.deleting or stored.spec.scheduler_name not in self._schedulers:
            self.forget(key)
            return
        obstacle = await self._publish(stored)
        if obstacle is None:
            self.forget(key)
        else:
            self._obstacles[key] = obstacle

    async def _publish(self, stored: Workload) -> Obstacle | None:
        for kind in self._kinds:
            if not kind.asked(stored):
                await kind.withdraw(stored)
        # Before the first decision nothing is published: an empty list would be a decision.
        if not (stored.status.observed.controller or stored.standing):
            return None
        clusters = ranked(stored) if publishes(stored) else []
        # Other tools delete what an empty list takes from them. It is published only if nothing
        # should run. While units wait for a place, the last list stays.
        if not clusters and stored.status.desired:
            return None
        asked = [kind for kind in self._kinds if kind.asked(stored)]
        found = [await _bring(kind, stored, clusters) for kind in asked]
        if stored.spec.publish.placement_decision and self._switched_off:
            found.append(SWITCHED_OFF)
        return next((obstacle for obstacle in found if obstacle is not None), None)

    def draft(self, stored: Workload) -> Result | None:
        if stored.metadata.deleting or stored.spec.scheduler_name not in self._schedulers:
            return None
        obstacle = self._obstacles.get(stored.metadata.key)
        told = self._conditions(stored, obstacle)
        again = obstacle is not None and obstacle.reason is PublishedReason.REFUSED
        return Result(
            fields=told or None,
            anyway=True,  # compared above
            requeue_after=AGAIN_SECONDS if again else None,
        )

    def _conditions(self, stored: Workload, obstacle: Obstacle | None) -> Mapping[str, Any]:
        listed = stored.status.conditions
        old = conditions.among(listed, _PUBLISHED)
        others = [each for each in listed if each.get("type") != _PUBLISHED]
        if not publishes(stored):
            return {"conditions": others} if old else {}
        if obstacle is None and not old:
            return {}
        renewed = conditions.renewed(
            old,
            type_=_PUBLISHED,
            true=obstacle is None,
            reason=(PublishedReason.PUBLISHED if obstacle is None else obstacle.reason).value,
            message=_DONE if obstacle is None else obstacle.message,
            now=self._clock.now(),
            generation=stored.metadata.generation,
        )
        return {} if renewed == old else {"conditions": [*others, renewed]}


def publishes(workload: Workload) -> bool:
    asked = workload.spec.publish
    return asked is not NOWHERE and (asked.cluster_decision or asked.placement_decision)


async def _bring(
    kind: ClusterDecisions | PlacementDecisions,
    stored: Workload,
    clusters: Sequence[RankedCluster],
) -> Obstacle | None:
    if not kind.objects.served:
        plural = kind.objects.resource.plural
        told = f"the hub has no {plural}: install their definition"
        return Obstacle(PublishedReason.NOT_SERVED, told)
    try:
        return await kind.bring(stored, clusters)
    except Conflict:
        raise
    except TransportError as e:
        obstacle = refused(kind.objects.resource, e)
        if obstacle is None:
            raise
        return obstacle


class Publishing(Feature):
    controller: PublishingController

    def __init__(self) -> None:
        self._owned = OwnedSlices()
        self._naming: set[Key] = set()
        """Workloads that publish labels or ClusterProfiles of their clusters."""
        self.watch(WORKLOADS, Workload, self.workload_changed)
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)
        self.watch(CLUSTER_DECISIONS, ClusterDecision, self.decision_changed)

    def attach(self, handle: Handle) -> None:
        super().attach(handle)
        if handle.configuration.placement_decisions:
            self.watch(PLACEMENT_DECISIONS, PlacementDecision, self.slice_changed)

    def start(self, term: Term) -> PublishingController:
        return PublishingController(term, handle=self.handle, owned=self._owned)

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        if known is None:
            return
        key = known.metadata.key
        tells = new is not None and publishes(new)
        asked = known.spec.publish
        naming = tells and (bool(asked.labels) or asked.placement_decision)
        (self._naming.add if naming else self._naming.discard)(key)
        if new is None:
            self.controller.forget(key)
        elif (tells or (old is not None and publishes(old))) and _read(old) != _read(new):
            self.controller.add(key)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        known = new or old
        if known is not None and _named(old) != _named(new):
            self.controller.cluster_changed(known.metadata.name, self._naming)

    def decision_changed(self, old: ClusterDecision | None, new: ClusterDecision | None) -> None:
        known = new or old
        if known is not None:
            self.controller.add(known.metadata.key)

    def slice_changed(self, old: PlacementDecision | None, new: PlacementDecision | None) -> None:
        for key in self._owned.changed(old, new):
            self.controller.add(key)
        known = new or old
        if known is not None:
            # If it has another owner, the Workload that needs the name may wait.
            namespace, name = known.metadata.key
            self.controller.add((namespace, name.rpartition("-")[0]))


def _named(cluster: MemberCluster | None) -> tuple[Any, ...] | None:
    return (cluster.labels, cluster.profile) if cluster is not None else None


def _read(workload: Workload | None) -> tuple[Any, ...] | None:
    if workload is None:
        return None
    status = workload.status
    return (
        workload.metadata.uid,
        workload.metadata.generation,
        workload.metadata.deleting,
        workload.standing,
        workload.info.moving.leaving,
        status.why,
        status.observed,
    )
