"""ClusterProfiles as a feature: imported as MemberClusters, and exported, by the leader.

`Imports` creates a MemberCluster for each selected ClusterProfile that none stands for, under any
name because `stowage rename` changes it. A MemberCluster is never deleted, and its spec is written
once, so an edited inventory cannot redirect a token.

`Exports` writes a ClusterProfile per MemberCluster into the processes' namespace. It never touches
another manager's, and deletes its own when the MemberCluster is gone, or when the next term starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from controller.features.clusterprofile.profiles import (
    LABEL_MANAGER,
    MANAGER,
    ClusterProfile,
    exported,
    exported_status,
    flaw,
    membercluster,
    relabelled,
    trouble,
)
from controller.framework.objectwriter import ObjectWriter
from controller.framework.profile import ClusterProfilesConfiguration
from controller.framework.runtime.feature import Feature, Term
from controller.framework.statuswriter import Result, StatusWriter, for_good
from controller.model.objects import MemberCluster
from crds.membercluster import (
    ClusterProfileEventReason,
    MemberClusterCondition,
    MemberClusterEventReason,
)
from crds.names import ANNOTATION_PROFILE, DEFAULT_SCHEDULER
from machinery import logs
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.errors import AlreadyExists, Forbidden, NotFound, TransportError
from machinery.runtime.event_recorder import ObjectRef
from machinery.runtime.informer import Informer
from machinery.runtime.workqueue import WorkQueue, work
from machinery.types import conditions
from machinery.types.bounds import clean
from machinery.types.metadata import Key

LOG = logs.get(__name__)
AGAIN_SECONDS = 60.0
"""Seconds until a refused or conflicting object is retried."""
_WORKERS = 4
_UNHEALTHY = MemberClusterCondition.INVENTORY_UNHEALTHY.value


class Imports:
    def __init__(
        self,
        term: Term,
        profiles: Informer[ClusterProfile],
        standing: Callable[[Key], bool],
        configuration: ClusterProfilesConfiguration,
    ) -> None:
        self._term = term
        self._profiles = profiles
        self._standing = standing
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._configuration = configuration
        self._told: dict[Key, str] = {}
        self._queue: WorkQueue[Key] = WorkQueue(name="clusterprofileimports", clock=term.clock)

    def look(self, key: Key) -> None:
        self._queue.add(key)

    async def run(self) -> None:
        try:
            await work(self._queue, self.sync, workers=_WORKERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, key: Key) -> float | None:
        """Create one MemberCluster. Return seconds until a retry, or None.

        Raises LeaseLost, and TransportError if a retry may help.
        """
        profile = self._profiles.get(key)
        if profile is None or profile.metadata.deleting or profile.ours or self._standing(key):
            self._told.pop(key, None)
            return None
        rule = self._configuration.rule(key[0], profile.metadata.labels)
        if rule is None:
            return None
        if why := flaw(profile):
            self._tell(profile, why)
            return None
        try:
            self._term.check()
            made = membercluster(profile, rule.properties)
            answer = await self._term.client.create(MEMBER_CLUSTERS, made)
        except AlreadyExists:
            name = profile.metadata.name
            note = f"{ANNOTATION_PROFILE}: {'/'.join(key)}"
            self._tell(
                profile,
                f"there is a MemberCluster {name} that stands for another one, or for none: the "
                f"annotation `{note}` on it says that it is this one",
            )
            return AGAIN_SECONDS
        except TransportError as e:
            if not (for_good(e) or isinstance(e, Forbidden)):
                raise
            self._tell(profile, f"the hub refuses its MemberCluster: {clean(str(e))}")
            return AGAIN_SECONDS
        else:
            self._told.pop(key, None)
            self._clusters.upsert(msgspec.convert(answer, MemberCluster))
        return None

    def _tell(self, profile: ClusterProfile, why: str) -> None:
        meta = profile.metadata
        if self._told.get(meta.key) == why:
            return
        self._told[meta.key] = why
        about = ObjectRef(CLUSTER_PROFILES.api_version, CLUSTER_PROFILES.kind, *meta.key, meta.uid)
        self._term.recorder.event(
            about,
            type="Warning",
            reason=ClusterProfileEventReason.NOT_IMPORTED.value,
            note=why,
            action="Import",
        )


class Following(StatusWriter[MemberCluster]):
    """Updates MemberClusters from their ClusterProfiles.

    Without `profiles`, earlier conditions are removed.
    """

    action = "Import"

    def __init__(
        self,
        term: Term,
        profiles: Informer[ClusterProfile] | None,
        configuration: ClusterProfilesConfiguration,
    ) -> None:
        super().__init__(term, MEMBER_CLUSTERS, MemberCluster)
        self._profiles = profiles
        self._configuration = configuration

    async def prepare(self, stored: MemberCluster) -> None:
        key = self._followed(stored)
        profile = self._profile(key) if key is not None else None
        if key is None or profile is None:
            return
        rule = self._configuration.rule(key[0], profile.metadata.labels)
        if rule is None or flaw(profile):
            return
        patch = relabelled(stored, profile, rule.properties)
        if patch:
            self._check()
            meta = stored.metadata
            patch["resourceVersion"] = meta.resource_version
            answer: Any = await self._client.merge_patch(
                MEMBER_CLUSTERS, meta.name, {"metadata": patch}
            )
            self._stored.upsert(msgspec.convert(answer, MemberCluster))

    def draft(self, stored: MemberCluster) -> Result | None:
        key, said = self._followed(stored), stored.condition(_UNHEALTHY)
        if key is not None and not (self._profiles is not None and self._profiles.trusted):
            return None  # whether it is gone is unknown now
        why = trouble(key, self._profile(key)) if key is not None else None
        if why is None and said is None:
            return None
        others = [each.stored for each in stored.status.conditions if each.type != _UNHEALTHY]
        if why is not None:
            renewed = conditions.renewed(
                {} if said is None else said.stored,
                type_=_UNHEALTHY,
                true=True,
                reason=why[0].value,
                message=why[1],
                now=self._clock.now(),
                generation=stored.metadata.generation,
            )
            if said is not None and renewed == said.stored:
                return None
            others.append(renewed)
        return Result(fields={"conditions": others}, anyway=True)

    def _followed(self, stored: MemberCluster) -> Key | None:
        key = stored.profile
        return key if key is not None and self._configuration.covers(key[0]) else None

    def _profile(self, key: Key) -> ClusterProfile | None:
        return self._profiles.get(key) if self._profiles is not None else None


class Exports:
    def __init__(self, term: Term, profiles: Informer[ClusterProfile], *, export: bool) -> None:
        self._term = term
        self._profiles = profiles
        self._objects = ObjectWriter(term, CLUSTER_PROFILES, ClusterProfile, stored=profiles)
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._export = export
        self._told: dict[str, str] = {}
        self._queue: WorkQueue[str] = WorkQueue(name="clusterprofileexports", clock=term.clock)

    def look(self, name: str) -> None:
        self._queue.add(name)

    async def run(self) -> None:
        try:
            await work(self._queue, self.sync, workers=_WORKERS, log=LOG)
        finally:
            self._queue.shut_down()

    async def sync(self, name: str) -> float | None:
        """Update one ClusterProfile. Return seconds until a retry, or None.

        Raises LeaseLost, and TransportError if a retry may help.
        """
        cluster = self._clusters.get(("", name))
        try:
            with suppress(NotFound):  # deleted meanwhile, or the hub no longer has the kind
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


class ClusterProfileController:
    """For one term. `configuration` is None without that section."""

    def __init__(self, term: Term, configuration: ClusterProfilesConfiguration | None) -> None:
        self._namespace = term.namespace
        self._configured = configuration is not None
        configuration = configuration or ClusterProfilesConfiguration()
        self._clusters: Informer[MemberCluster] = term.informer(MEMBER_CLUSTERS)
        self._profiles: Informer[ClusterProfile] = Informer(
            term.client, CLUSTER_PROFILES, ClusterProfile, clock=term.clock, comes_and_goes=True
        )
        self._standing: dict[Key, set[str]] = {}
        for each in self._clusters.values():
            self._stands(None, each)
        self._profiles.add_handler(self._profile_changed)
        self._following = Following(
            term, self._profiles if self._configured else None, configuration
        )
        self._imports = Imports(term, self._profiles, self._standing_for, configuration)
        self._exports = Exports(term, self._profiles, export=configuration.export)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._following.run())
                if self._configured:
                    tasks.create_task(self._profiles.run())
                    tasks.create_task(self._begin())
                    tasks.create_task(self._imports.run())
                    tasks.create_task(self._exports.run())
        finally:
            self._profiles.discard()

    async def _begin(self) -> None:
        await self._profiles.wait_synced()
        self._following.add_all()
        for each in self._clusters.values():
            self._exports.look(each.metadata.name)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        self._stands(old, new)
        cluster = new or old
        if cluster is None:
            return
        if new is not None:
            self._following.add(new.metadata.key)
        if not self._configured:
            return
        self._exports.look(cluster.metadata.name)
        if new is None and (key := cluster.profile) is not None:
            self._imports.look(key)

    def _profile_changed(self, old: ClusterProfile | None, new: ClusterProfile | None) -> None:
        profile = new or old
        if profile is None:
            return
        key = profile.metadata.key
        self._imports.look(key)
        for name in self._standing.get(key, ()):
            self._following.add(("", name))
        if key[0] == self._namespace:
            self._exports.look(key[1])

    def _stands(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        for cluster, there in ((old, False), (new, True)):
            key = None if cluster is None else cluster.profile
            if cluster is None or key is None:
                continue
            if there:
                self._standing.setdefault(key, set()).add(cluster.metadata.name)
            else:
                self._standing.get(key, set()).discard(cluster.metadata.name)

    def _standing_for(self, key: Key) -> bool:
        return bool(self._standing.get(key))


class ClusterProfiles(Feature):
    controller: ClusterProfileController

    def __init__(self) -> None:
        self.watch(MEMBER_CLUSTERS, MemberCluster, self.cluster_changed)

    def start(self, term: Term) -> ClusterProfileController | None:
        configuration = self.handle.configuration
        section = configuration.cluster_profiles
        # Without the section the controller of the default name removes earlier conditions. A
        # controller of other names must not, because the section may be in another configuration.
        if section is None and DEFAULT_SCHEDULER not in configuration.profiles:
            return None
        return ClusterProfileController(term, section)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        self.controller.cluster_changed(old, new)
