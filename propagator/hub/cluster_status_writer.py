"""Writes the propagator's fields of MemberCluster.status, its labels and its events on Ready.

It writes changes only, at most once a second for each cluster. A write is a merge patch with the
version that was read, because the controller writes the status too: it lands on that version or
fails, so it may repeat the controller's conditions. Failed writes are retried with back-off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from crds.membercluster import MemberClusterEventReason
from crds.names import API_VERSION
from machinery import logs
from machinery.api.client import ApiClient
from machinery.api.resources import MEMBER_CLUSTERS
from machinery.clock import Clock
from machinery.runtime.event_recorder import EventRecorder, ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.store import number
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.merge_patch import merging
from propagator.hub.cluster_status import labels_of, ready_condition, status_of
from propagator.members.health import Contact
from propagator.members.registry import MemberRegistry
from propagator.types.cluster import MemberCluster

LOG = logs.get(__name__)

PERIOD = 1.0
"""Seconds between two computations for one member, which are costly even without a write."""
_WORKERS = 8


class ClusterStatusWriter:
    def __init__(
        self,
        hub: ApiClient,
        *,
        clusters: Informer[MemberCluster],
        registry: MemberRegistry,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._clusters = clusters
        self._registry = registry
        self._recorder = recorder
        self._clock = clock
        self._queue: WorkQueue[str] = WorkQueue(name="clusterstatus", clock=clock)
        self._due: dict[str, float] = {}
        registry.on_facts(self._queue.add)
        clusters.add_handler(self._cluster_changed)

    async def run(self) -> None:
        await work(self._queue, self._publish, workers=_WORKERS, log=LOG)

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self._queue.add(new.name)
        elif old is not None:
            self._due.pop(old.name, None)

    async def _publish(self, name: str) -> float | None:
        cluster = self._clusters.get(("", name))
        session = self._registry.get(name)
        if cluster is None or session is None or session.verdict is None:
            return None
        if session.contact is Contact.CONNECTING:
            return None  # the last status stands; the session's verdict queues the key again
        now = self._clock.monotonic()
        if self._due.get(name, now) > now:
            return self._due[name] - now
        self._due[name] = now + PERIOD
        link = session.link
        if link is not None and link.tenants is not None:
            reported = cluster.status.get("namespaces") or {}
            link.tenants.recall(reported.get("refused") or ())
        status = status_of(cluster, session, session.verdict, now=self._clock.now())
        # No await between these and the status: pods and capacity must agree.
        placed = link.pod_index.placed() if link is not None and link.counted else None
        labels = labels_of(cluster, status)
        # Labels before the status: an observer that sees the cluster ready can select it.
        if labels:
            cluster = await self._label(cluster, labels)
        if changed := merging(cluster.status, status):
            cluster = await self._patch(cluster, changed)
        if link is not None and placed is not None:
            link.published(placed, number(cluster.metadata.resource_version))
        return None

    async def _label(self, cluster: MemberCluster, labels: Mapping[str, str]) -> MemberCluster:
        metadata = {"resourceVersion": cluster.metadata.resource_version, "labels": labels}
        answer = await self._hub.merge_patch(MEMBER_CLUSTERS, cluster.name, {"metadata": metadata})
        return self._held(answer)

    async def _patch(self, cluster: MemberCluster, changed: Mapping[str, Any]) -> MemberCluster:
        metadata = {"resourceVersion": cluster.metadata.resource_version}
        patch = {"metadata": metadata, "status": changed}
        answer = await self._hub.merge_patch(
            MEMBER_CLUSTERS, cluster.name, patch, subresource="status"
        )
        if "conditions" in changed:
            self._tell(cluster, ready_condition(changed))
        return self._held(answer)

    def _held(self, answer: Mapping[str, Any]) -> MemberCluster:
        cluster = msgspec.convert(answer, MemberCluster)
        self._clusters.upsert(cluster)
        return cluster

    def _tell(self, cluster: MemberCluster, now: Mapping[str, Any]) -> None:
        before = ready_condition(cluster.status)
        if (before.get("status"), before.get("reason")) == (now["status"], now["reason"]):
            return
        connected = now["status"] == "True"
        reason = MemberClusterEventReason.CONNECTED
        if not connected:
            reason = MemberClusterEventReason.DISCONNECTED
        self._recorder.event(
            ObjectRef(API_VERSION, MEMBER_CLUSTERS.kind, "", cluster.name, cluster.metadata.uid),
            type="Normal" if connected else "Warning",
            reason=reason.value,
            note=now["message"] if connected else f"{now['reason']}: {now['message']}",
            action="Probe",
        )
