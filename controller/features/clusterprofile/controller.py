"""Imports and exports of ClusterProfiles while this instance leads.

The informer of ClusterProfiles is the feature's own, so that no decision waits for an inventory. A
hub without the kind is asked again now and then; once it has it, everything is looked at.
"""

from __future__ import annotations

import asyncio

from controller.features.clusterprofile.exporting import Exports
from controller.features.clusterprofile.importing import Following, Imports
from controller.features.clusterprofile.profiles import ClusterProfile
from controller.framework.runtime.feature import Term
from controller.model.clusterprofiles import ClusterProfilesConfiguration
from controller.model.objects import MemberCluster
from machinery.api.resources import CLUSTER_PROFILES, MEMBER_CLUSTERS
from machinery.runtime.informer import Informer
from machinery.types.metadata import Key


class ClusterProfileController:
    """Made for one term of leadership. `configuration` is None without that section."""

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
        """Import and export until cancelled."""
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
        """Look at every MemberCluster once it is known which ClusterProfiles there are."""
        await self._profiles.wait_synced()
        self._following.add_all()
        for each in self._clusters.values():
            self._exports.look(each.metadata.name)

    def cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Handle an informer's event."""
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
        """Record which MemberClusters stand for which ClusterProfile."""
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
