"""Each MemberCluster as a ClusterProfile in the namespace of our processes.

A ClusterProfile there that names another manager is never touched. One of ours whose MemberCluster
is gone is deleted, at the next start of a term if nobody led meanwhile.
"""

from __future__ import annotations

from contextlib import suppress

from controller.features.clusterprofile.profiles import (
    LABEL_MANAGER,
    MANAGER,
    ClusterProfile,
    exported,
    exported_status,
)
from controller.framework.objectwriter import ObjectWriter
from controller.framework.runtime.feature import Term
from controller.framework.statuswriter import for_good
from controller.model.objects import MemberCluster
from crds.membercluster import MemberClusterEventReason
from machinery import logs
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.errors import Forbidden, NotFound, TransportError
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types.bounds import clean

LOG = logs.get(__name__)
AGAIN_SECONDS = 60.0
"""Seconds until a ClusterProfile that the hub refuses is tried again."""
_WORKERS = 4


class Exports:
    """The ClusterProfiles of our MemberClusters, for one term of leadership."""

    def __init__(self, term: Term, profiles: Informer[ClusterProfile], *, export: bool) -> None:
        self._term = term
        self._profiles = profiles
        self._objects = ObjectWriter(term, CLUSTER_PROFILES, ClusterProfile, stored=profiles)
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._export = export
        self._told: dict[str, str] = {}
        self._queue: WorkQueue[str] = WorkQueue(name="clusterprofileexports", clock=term.clock)

    def look(self, name: str) -> None:
        """Queue a MemberCluster that changed or is gone, or whose ClusterProfile did."""
        self._queue.add(name)

    async def run(self) -> None:
        """Write ClusterProfiles until cancelled."""
        try:
            await work(self._queue, self.sync, workers=_WORKERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, name: str) -> float | None:
        """Bring one ClusterProfile up to date; return the seconds until the next try, or None.

        Raises TransportError where trying again may help, and LeaseLost.
        """
        cluster = self._clusters.get(("", name))
        try:
            with suppress(NotFound):  # it went meanwhile, or the hub has no such kind any more
                await self._bring(name, cluster)
        except TransportError as e:
            if not (for_good(e) or isinstance(e, Forbidden)):
                raise
            self._tell(cluster, f"the hub refuses its ClusterProfile: {clean(str(e))}")
            return AGAIN_SECONDS
        return None

    async def _bring(self, name: str, cluster: MemberCluster | None) -> None:
        if not self._profiles.synced:
            return  # all are queued once they are listed
        held = self._objects.get((self._term.namespace, name))
        wanted = self._export and cluster is not None and not cluster.metadata.deleting
        if held is not None and not held.ours:
            if wanted:
                self._tell(cluster, f"the ClusterProfile {name} is another manager's")
        elif not wanted:
            self._told.pop(name, None)
            if held is not None:
                await self._objects.delete(held)
        elif cluster is not None:
            self._told.pop(name, None)
            held = held or await self._objects.create(exported(cluster), self._term.namespace)
            await self._write(held, cluster)

    async def _write(self, held: ClusterProfile, cluster: MemberCluster) -> None:
        if held.metadata.labels.get(LABEL_MANAGER) != MANAGER:
            labelled = {"metadata": {"labels": {LABEL_MANAGER: MANAGER}}}
            held = await self._objects.patch(held, labelled)
        said = held.status if isinstance(held.status, dict) else {}
        status = exported_status(cluster)
        changed = {field: value for field, value in status.items() if said.get(field) != value}
        if changed:
            await self._objects.patch(held, {"status": changed}, status=True)

    def _tell(self, cluster: MemberCluster | None, why: str) -> None:
        if cluster is None or self._told.get(cluster.metadata.name) == why:
            return
        meta = cluster.metadata
        self._told[meta.name] = why
        self._term.recorder.event(
            ObjectRef(MEMBER_CLUSTERS.api_version, MEMBER_CLUSTERS.kind, "", meta.name, meta.uid),
            type="Warning",
            reason=MemberClusterEventReason.NOT_EXPORTED.value,
            note=why,
            action="Export",
        )
